"""Charts of the profiles of clusters, and of their sizes at each participant."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.report.charts.base import (
    MOST_FEATURES,
    PALE_TO_DEEP,
    Chart,
    Rows,
    axis,
    bars,
    colour_of,
    figure,
    full,
    heat,
    largest,
    of_cluster,
    only,
    stacked,
    titled,
)
from intarsia.report.data import ReportData
from intarsia.report.words import rounded
from intarsia.results.outcome import LONGEST_NAME

MOST_STACKED = 10  # clusters as colours; beyond it they are columns of a heat map
AROUND_THE_MEAN = [[0, "#1b7837"], [0.5, "#f2f2f2"], [1, "#762a83"]]  # no cluster has these colours


def profiles(data: ReportData) -> Chart:
    """Return the chart of means by feature and cluster."""
    p, k = data.profiles, len(data.clusters)
    shown = range(min(len(p.features), MOST_FEATURES))
    values = [[p.standardised[c][m] for c in range(k)] for m in shown]
    hover = [[_profile_text(data, c, m) for c in range(k)] for m in shown]
    reach = max((abs(v) for row in values for v in row if v is not None), default=0.0) or 1.0
    coloured = heat(values, hover, scale=AROUND_THE_MEAN, bar="off the mean,<br>in deviations", zmin=-reach, zmax=reach)
    ticks = [of_cluster(data, c) if k <= MOST_STACKED else str(c) for c in range(k)]
    drawn = figure(
        [coloured],
        130 + 20 * len(shown),
        xaxis=axis([], tickvals=list(range(k)), ticktext=ticks, side="top"),
        yaxis=axis([p.features[m] for m in shown], autorange="reversed"),
    )
    noisy = ("error of the mean from noise",) if p.errors else ()
    kinds = ("mean", *noisy, "off the mean, in deviations", "deviation", "values", "measured by")
    head = ("feature", *(f"{cluster.called}: {kind}" for cluster in data.clusters for kind in kinds))
    return Chart(
        "profiles",
        "Profiles",
        "Difference of each cluster's mean from the mean of all rows, in standard deviations; hover for original units, "
        "spread and number of values. Blank where there are no values, or too few."
        + only(len(shown), len(p.features), "features that differ most"),
        drawn,
        Rows(head, tuple((name, *_profile_row(data, m)) for m, name in enumerate(p.features))),
    )


def _profile_row(data: ReportData, m: int) -> Iterator[str | int]:
    p = data.profiles
    for c in range(len(data.clusters)):
        yield rounded(p.means[c][m], p.overall[m])
        if p.errors:
            yield rounded(p.errors[c][m], p.overall[m])
        yield from (
            _off(p.standardised[c][m]),
            rounded(p.deviations[c][m], p.overall[m]),
        )
        yield from (p.cells[c][m], p.participants[c][m])


def _profile_text(data: ReportData, c: int, m: int) -> str:
    p = data.profiles
    head = f"{full(p.features[m])}<br>{of_cluster(data, c, LONGEST_NAME)}: "
    if p.means[c][m] is None:
        return head + ("too few values to be shown" if p.cells[c][m] else "not measured")
    spread = "" if p.deviations[c][m] is None else f" ± {rounded(p.deviations[c][m], p.overall[m])}"
    error = ""
    if p.errors:
        known = p.errors[c][m] is not None
        error = (
            f"<br>± {rounded(p.errors[c][m], p.overall[m])} from noise" if known else "<br>error from noise not known"
        )
    return (
        f"{head}{rounded(p.means[c][m], p.overall[m])}{spread}{error}"
        f"<br>{_off(p.standardised[c][m])} deviations off the mean of all rows"
        f"<br>{p.cells[c][m]:,} values, {p.participants[c][m]} participants"
    )


def _off(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def sizes(data: ReportData) -> Chart:
    """Return the chart of clusters at each participant: bars, or a heat map for many clusters."""
    names, k = [participant.name for participant in data.participants], len(data.clusters)
    who = largest(data.participants)
    totals = [max(sum(cluster.rows_of[i] for cluster in data.clusters), 1) for i in range(len(names))]
    share = [[100 * n / t for n, t in zip(cluster.rows_of, totals, strict=True)] for cluster in data.clusters]
    hover = [
        [
            f"{full(name)}<br>{of_cluster(data, c, LONGEST_NAME)}: {n:,} rows, {s:.1f} %"
            for name, n, s in zip(names, cluster.rows_of, own, strict=True)
        ]
        for c, (cluster, own) in enumerate(zip(data.clusters, share, strict=True))
    ]
    if k <= MOST_STACKED:
        some = [names[i] for i in who]
        traces = [
            bars(some, [share[c][i] for i in who], [hover[c][i] for i in who], of_cluster(data, c), colour_of(c))
            for c in range(k)
        ]
        drawn = stacked(traces, some, titled("share of a participant's rows, %", range=[0, 100.5], dtick=20))
    else:
        by_participant = [[own[i] for own in share] for i in who]
        words = [[own[i] for own in hover] for i in who]
        drawn = figure(
            [heat(by_participant, words, scale=PALE_TO_DEEP, bar="share, %", zmax=max(map(max, share)))],
            130 + 20 * len(who),
            xaxis=axis([str(c) for c in range(k)], title={"text": "cluster"}),
            yaxis=axis([names[i] for i in who], autorange="reversed"),
        )
    rows = tuple(
        (p.name, p.rows, *(f"{c.rows_of[i]:,} ({share[c.number][i]:.1f} %)" for c in data.clusters))
        for i, p in enumerate(data.participants)
    )
    return Chart(
        "sizes",
        "Clusters at each participant",
        "The share of each participant's rows in each cluster." + only(len(who), len(names), "largest participants"),
        drawn,
        Rows(("participant", "rows", *(cluster.called for cluster in data.clusters)), rows),
    )
