"""Sentences of the report: the headline and the methods paragraph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor, log10
from typing import Any

from intarsia.coordinator.settings import BY_LOCAL, OneShotSettings
from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.core.grouping.linkages import FORCE, OF_MOMENTS, WORDS
from intarsia.exceptions import SettingError, quote
from intarsia.report.data import Cluster, Column, Participant
from intarsia.report.influence import weighted
from intarsia.results.assumptions import AssumptionReport
from intarsia.results.outcome import Aggregation, Outcome, RunRecord, called
from intarsia.results.profiles import Separation

FEW_ROWS = 5  # behind a number that leaves a participant, or that the page shows
NEARLY_A_TIE = 0.1  # of the confidence in the grouping
STRONG = 3  # features in the headline
_TITLE = 50  # characters
_FEW = 6  # clusters whose sizes are listed

REFERENCES = (
    "A. Maritan, L. Schenato. Distributed clustering in partially overlapping feature spaces. Preprint.",
    "S. Lloyd. Least squares quantization in PCM. IEEE Transactions on Information Theory 28 (1982) 129-137.",
    "P. J. Rousseeuw. Silhouettes: a graphical aid to the interpretation and validation of cluster analysis. "  # noqa: ISC004
    "Journal of Computational and Applied Mathematics 20 (1987) 53-65.",
    "F. Pedregosa et al. Scikit-learn: machine learning in Python. JMLR 12 (2011) 2825-2830.",
)

OF_PRIVACY = "C. L. Canonne, G. Kamath, T. Steinke. The discrete Gaussian for differential privacy. NeurIPS 2020."
"""The reference that a private study adds."""
OF_SUMS = "K. Bonawitz et al. Practical secure aggregation for privacy-preserving machine learning. CCS 2017."
"""The reference that a study with secure sums adds."""


def references_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the references of a methods paragraph."""
    private = () if outcome.privacy is None else (OF_PRIVACY,)
    return (*REFERENCES, *private, *(() if outcome.secure is None else (OF_SUMS,)))


def counted(n: int, noun: str) -> str:
    """1 row, 2 rows."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def title_of(participants: Sequence[Participant]) -> str:
    """Return the default title of a report."""
    names = [participant.name for participant in participants]
    named = listed(names) if sum(map(len, names)) <= _TITLE else counted(len(names), "table")
    return f"One clustering of {named}"


def headline_of(
    participants: Sequence[Participant],
    columns: Sequence[Column],
    clusters: Sequence[Cluster],
    outcome: Outcome,
    assumptions: AssumptionReport,
    run: RunRecord,
) -> tuple[str, str, str]:
    """Return three sentences: what was clustered, how the clusters differ, and how certain the result is."""
    return (
        _what(participants, columns, clusters, outcome),
        _how_they_differ(clusters),
        _how_sure(outcome, assumptions, run),
    )


def _what(
    participants: Sequence[Participant], columns: Sequence[Column], clusters: Sequence[Cluster], outcome: Outcome
) -> str:
    rows = sum(participant.rows for participant in participants)
    common = sum(column.owners == len(participants) for column in columns)
    shared = f", {common or 'none'} of them common to all" if len(participants) > 1 and common < len(columns) else ""
    sizes = [cluster.rows for cluster in clusters]
    several = f"{min(sizes):,} to {max(sizes):,}" if len(sizes) > _FEW else listed([f"{n:,}" for n in sizes])
    of = f" of {several} rows" if len(clusters) > 1 else ""
    left = rows - sum(cluster.rows for cluster in clusters)
    noise = f"; {left:,} are noise" if left > 0 else ""
    article = "The"
    if outcome.privacy is not None:  # all numbers of rows are noisy, and need not add up
        noise, of, article = "", of.replace(" of ", " of about ", 1), "About"
    return (
        f"{article} {counted(rows, 'row')} of {counted(len(participants), 'participant')}, described by "
        f"{counted(len(columns), 'column')}{shared}, fall into {counted(len(clusters), 'cluster')}{of}{noise}."
    )


def _how_they_differ(clusters: Sequence[Cluster]) -> str:
    if len(clusters) == 1:
        return "There is one cluster."
    found: dict[str, Separation] = {}
    for entry in sorted((e for cluster in clusters for e in cluster.separating), key=lambda e: -abs(e.difference)):
        found.setdefault(entry.feature, entry)
    strongest = list(found.values())
    if not strongest:
        return "No feature has enough values in more than one cluster to say how they differ."
    first, *rest = strongest[:STRONG]
    others = f", followed by {listed([entry.feature for entry in rest])}" if rest else ""
    apart = abs(first.mean - first.mean_of_others)
    return (
        f"They differ most in {first.feature} (around {rounded(first.mean, apart)} in {called(first.cluster, first.name)}, "
        f"{rounded(first.mean_of_others, apart)} in the others){others}."
    )


def rounded(value: float | None, spread: float) -> str:
    """Return a number with the digits that matter if values differ by ``spread``.

    >>> rounded(4e-06, 0.5), rounded(245.31, 40.0), rounded(-1234567.0, 250000.0)
    ('0.000', '245.3', '-1234567')
    """
    if value is None:
        return ""
    if not 1e-6 < spread < 1e12:
        return f"{value:.4g}"
    digits = max(0, 2 - floor(log10(spread)))
    return f"{value + 0.0:.{digits}f}" if round(value, digits) else f"{0.0:.{digits}f}"


def _how_sure(outcome: Outcome, assumptions: AssumptionReport, run: RunRecord) -> str:
    n, doubtful = len(outcome.local_clusters), len(assumptions.doubtful)
    if len(outcome.participants) == 1:
        return "There is one participant, so that this is an ordinary clustering without matching."
    if len(outcome.model.centroids) == 1:
        return "With one cluster there was nothing to match."
    by = "by their densities" if run.method == "one_shot" else "by their averages"
    rows = "the rows" if outcome.privacy is None else "synthetic rows"
    how = f" and, where these hardly differed, by how well they fit {rows}" if outcome.aggregation.overruled else ""
    clear = f"all {n:,} local clusters clearly belong to one cluster"
    if doubtful:
        clear = f"{n - doubtful:,} of {n:,} clearly belong to one cluster, {doubtful:,} fit another nearly as well"
    tie = not outcome.aggregation.overruled and outcome.aggregation.confidence < NEARLY_A_TIE
    but = ", but another grouping is nearly as good" if tie and not doubtful else ""
    return f"Local clusters of the participants were matched {by}{how}; {clear}{but}."


def _who_joined(run: RunRecord) -> Iterator[str]:
    """Say who joined the finished model, and on which day."""
    for day in dict.fromkeys(started[:10] for started in run.joined.values()):
        names = [name for name, started in run.joined.items() if started[:10] == day]
        they = "its" if len(names) == 1 else "their"
        yield (
            f"On {day} {quote(names)} joined the finished clustering: centroids and labels of all others stayed, and {they} "
            "other columns entered with the means of the nearest rows."
        )


def methods_of(outcome: Outcome, participants: Sequence[Participant], columns: Sequence[Column], run: RunRecord) -> str:
    """Return a methods paragraph for a paper; numbers in brackets refer to ``REFERENCES``."""
    return " ".join(_methods(outcome, participants, columns, run))


def _methods(
    outcome: Outcome, participants: Sequence[Participant], columns: Sequence[Column], run: RunRecord
) -> Iterator[str]:
    rows, several = sum(participant.rows for participant in participants), len(participants) > 1
    version = f" {run.versions['intarsia']}" if "intarsia" in run.versions else ""
    jointly = " jointly" if several else ""
    about = "" if outcome.privacy is None else "about "
    moved = ", without moving a row" if several else ""
    union = (
        f"a union of {counted(len(columns), 'column')} were" if several else f"{counted(len(columns), 'column')} was"
    )
    yield (
        f"{'Tables' if several else 'The table'} of {counted(len(participants), 'participant')} with "
        f"{about}{counted(rows, 'row')} and {union} clustered{jointly} with Intarsia{version}{moved}."
    )
    settings = run.settings
    yield from _how_grouped(outcome, run, settings) if outcome.privacy is None else _how_private(outcome, run, settings)
    if outcome.secure is not None:
        what = "Sums of rounds" if outcome.privacy is not None else "Units, sums of rounds and sizes"
        number = len(references_of(outcome))
        yield f"{what} were computed by secure aggregation [{number}], so that the coordinator learned totals of them only."
    k = len(outcome.model.centroids)
    if outcome.found is not None or outcome.silhouettes:
        yield f"The number of clusters, {k}, was chosen from participants' own numbers and silhouettes over summaries [3]."
    else:
        yield f"The number of clusters was set to {k}."
    yield _UNITS[outcome.model.units]
    if outcome.model.levels:
        yield f"Categories ({quote(sorted(outcome.model.levels))}) entered as one indicator per level, divided by √2."
    if outcome.model.metric != "euclidean":
        metric = outcome.model.metric if isinstance(outcome.model.metric, str) else "own"
        yield f"Distances were {metric}."
    yield from weighted(settings)
    if any(participant.filled < 1 for participant in participants):
        missing = settings.get("missing", "observed")
        yield _MISSING.get(
            missing if isinstance(missing, str) else "", "Missing values were treated as each participant chose."
        )
    yield labelled_by(outcome, run)
    yield from _who_joined(run)
    software = ", ".join(f"{name} {run.versions[name]}" for name in ("numpy", "scikit-learn") if name in run.versions)
    yield f"Random seed {run.seed}{'; ' + software if software else ''}."


def labelled_by(outcome: Outcome, run: RunRecord) -> str:
    """Return in words what gave rows their labels; a record without the setting was made by the paper's rule."""
    if outcome.model.weights is not None:
        return "Rows belong to the likeliest of Gaussians with independent features that the clusters make."
    if run.method == "one_shot" and run.settings.get("labels", BY_LOCAL) == BY_LOCAL:
        return "Rows belong to the cluster that their local cluster was joined to."
    return "Rows belong to the nearest global centroid, over the features that they have."


_UNITS = {
    None: "Features entered in their own units.",
    "standard": "Features were divided by their standard deviation over all participants.",
    "minmax": "Features were divided by their range over all participants.",
    "robust": "Features were divided by their interquartile range over all participants.",
}
_MISSING = {
    "observed": "Missing values were left out of comparisons; no value was imputed.",
    "impute": "Local algorithms saw column means in place of missing values; summaries contain observed values only.",
    "drop": "Local algorithms saw complete rows only; every row was labelled by its observed values.",
}


def grouped_by(aggregation: Aggregation) -> str:
    """Return the aggregation method in words; of ``"paper"`` the branch that was taken, and why."""
    if aggregation.method == "previous":
        return "the nearest clusters of the previous model"
    method = AGGREGATIONS.get(aggregation.grouped_by)
    words = aggregation.grouped_by if method is None else method.words
    if aggregation.branch is None:
        return words
    if aggregation.branch == "method_a":
        return f"{words}, because Assumption 1 held"
    held = "Assumptions 2 and 3 held and Assumption 1 did not"
    return (
        f"{words}, because {held if aggregation.is_supported else 'neither Assumption 1 nor Assumptions 2 and 3 held'}"
    )


def _how_grouped(outcome: Outcome, run: RunRecord, settings: Mapping[str, Any]) -> Iterator[str]:
    local = settings.get("local")
    with_what = "with k-means [2, 4]"
    if local is not None:
        with_what = (
            f"with {'; '.join(f'{n}: {e}' for n, e in local.items()) if isinstance(local, Mapping) else local} [4]"
        )
    by = grouped_by(outcome.aggregation)
    if run.method == "one_shot":
        density = str(settings.get("density", "gaussian")).replace("_", ", ")
        if density in {
            "gaussian, full",
            "gaussian, low, rank",
        }:  # rules and missing values allow less, which nobody tells
            density = density.replace("low, rank", "low rank") + " where rows and release rules allow it"
        fitted = "shrunk" if settings.get("shrink", True) else "of maximum likelihood, not shrunk"
        fitted = f"; variances and correlations {fitted}" if density.startswith("gaussian") else ""
        yield (
            f"Each participant clustered its rows {with_what} and summarised every local cluster by its mean, size and "
            f"density ({density}{fitted}); local clusters were joined by {_linkage(outcome, settings)}, over the features "
            f"that both see (Algorithm 2 of [1]), by {by}."
        )
        return
    more = " (and variances, to choose the number of clusters)" if outcome.found is not None else ""
    kinds = {r.kind for r in outcome.rounds}
    crosswise = ", in which each participant's rows are judged by what the others say" if "crosswise" in kinds else ""
    rounds = (
        f", and refined together in {counted(len(outcome.rounds), 'federated round')}{crosswise}"
        if outcome.rounds
        else ", without federated rounds"
    )
    yield (
        f"Each participant clustered its rows {with_what} and sent centroids and counts{more}; centroids were grouped by "
        f"rescaled distances over the features that both see, by {by}{rounds} (Algorithm 1 of [1])."
    )


def _how_private(outcome: Outcome, run: RunRecord, settings: Mapping[str, Any]) -> Iterator[str]:
    """What a private study does instead: sketches, synthetic tables, noisy rounds."""
    account = outcome.privacy
    if account is None:
        return
    rows = "one row" if account.rows_per_person == 1 else f"{account.rows_per_person} rows of one person"
    yield (
        f"Each participant's replies are differentially private (epsilon {account.most:.3g}, delta {account.delta:g}, "
        f"neighbouring tables differ in {rows}): integer sums over rows, with values clipped to declared bounds and missing "
        "values in their middle, plus discrete Gaussian noise [5]."
    )
    by = grouped_by(outcome.aggregation)
    if run.method == "one_shot":
        yield (
            "Synthetic tables drawn from these sums were clustered, and their local clusters joined by "
            f"{_linkage(outcome, settings)}, over the features that both see (Algorithm 2 of [1]), by {by}."
        )
        return
    rounds = len({each.exchange for each in account.spent}) - 1
    moved = f"; then {counted(rounds, 'noisy round')} moved the centroids" if rounds else ""
    yield (
        "Synthetic tables drawn from these sums were clustered with k-means [2, 4], and their centroids grouped by rescaled "
        f"distances over the features that both see, by {by}, and refined (Algorithm 1 of [1]){moved}."
    )


def _linkage(outcome: Outcome, settings: Mapping[str, Any]) -> str:
    """Return what joined local clusters in the one-shot method; a record without a setting was made with its default."""
    names = ("linkage", "force", "exponent", "softening", "density", "n_proxies")
    recorded = {name: settings[name] for name in names if name in settings}
    try:
        return _linkage_of(OneShotSettings(**recorded, metric=outcome.model.metric))
    except (SettingError, KeyError, TypeError, ValueError):  # of another version, or a density that is not registered
        return "the force of attraction between densities"


def _linkage_of(used: OneShotSettings) -> str:
    least, most = used.bounds_of_proxies
    points = f"{most}" if least == most else f"{least} to {most}"
    if used.linkage in OF_MOMENTS:
        return WORDS[used.linkage]
    if used.linkage != FORCE:
        return f"{WORDS[used.linkage]}, {points} drawn from each density"
    how = "exact between Gaussians" if used.has_exact_forces else f"sampled with {points} points of each density"
    law = f"exponent {used.exponent:g}, softening {used.softening:g}"
    return f"the force of attraction between densities ({how}; {law})"
