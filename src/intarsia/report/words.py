"""Sentences: the headline, what each field of each message means, and a methods paragraph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor, log10
from typing import Any

from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.exceptions import quote
from intarsia.report.data import Cluster, Column, Party
from intarsia.results.assumptions import AssumptionReport
from intarsia.results.outcome import Outcome, RunRecord
from intarsia.results.profiles import Separation

FEW_ROWS = 5  # behind a number that leaves a participant, or that the page shows
NEARLY_A_TIE = 0.1  # of the confidence in the grouping
STRONG = 3  # features in the headline
_TITLE = 50  # letters
_FEW = 6  # clusters whose sizes are told one by one

REFERENCES = (
    "A. Maritan, L. Schenato. Distributed clustering in partially overlapping feature spaces. Preprint.",
    "S. Lloyd. Least squares quantization in PCM. IEEE Transactions on Information Theory 28 (1982) 129-137.",
    "P. J. Rousseeuw. Silhouettes: a graphical aid to the interpretation and validation of cluster analysis. "  # noqa: ISC004
    "Journal of Computational and Applied Mathematics 20 (1987) 53-65.",
    "F. Pedregosa et al. Scikit-learn: machine learning in Python. JMLR 12 (2011) 2825-2830.",
)

MESSAGES = {
    "query.describe": "which columns do you have?",
    "query.summarize": "cluster your rows, and describe the clusters",
    "query.refine": "start from these centroids, and say where yours move",
    "query.label": "label your rows by these centroids; keep the labels",
    "query.assign": "label your rows by the groups of your local clusters; keep the labels",
    "reply.description": "which columns there are",
    "reply.summary": "local clusters, described",
    "reply.refinement": "where the centroids moved",
    "reply.labelled": "how many rows went where",
    "reply.failure": "something went wrong",
}
KEPT_BACK = {
    "columns": "columns with too few filled cells, left out",
    "levels": "levels that too few rows have, taken for empty cells",
    "clusters": "clusters with too few rows, merged or kept back",
    "entries": "entries of centroids that too few cells stand behind, hidden",
}
_COLUMNS = {
    "columns": "how to lay out rows; None: as they are",
    "columns.shift": "what common units subtract from each feature",
    "columns.scale": "what common units divide each feature by",
    "columns.levels": "all levels that anybody has of this participant's columns of categories",
}
_MOMENTS = {
    "moments": "statistics of each column, for common units",
    "moments.count": "filled cells of each column",
    "moments.mean": "mean of each column",
    "moments.m2": "sum of squared deviations of each column",
    "moments.low": "smallest cell of each column (for minmax units)",
    "moments.high": "largest cell of each column (for minmax units)",
    "moments.quantiles": "19 quantiles of each column (for robust units)",
}
_CENTRES = {
    "values": "the global centroids, over this participant's features",
    "known": "which entries of the centroids are known",
    "low": "smallest entry of all local centroids, by feature",
    "high": "largest entry of all local centroids, by feature",
}
_SUPPRESSED = "how much the participant's own rules held back"
MEANINGS: dict[str, dict[str, str]] = {
    "query.describe": {"scale": "which statistics common units need"},
    "query.summarize": {
        "seed": "for everything random",
        "n_clusters": "number of global clusters",
        "n_local_clusters": "number of local clusters, where it is fixed",
        "max_local_clusters": "most local clusters to look for",
        "scale": "units to cluster in",
        "density": "which kind of density to fit",
        "bounding_boxes": "whether boxes are wanted",
        "n_proxies": "points to compare a density with its rows by; 0: do not",
        **_COLUMNS,
    },
    "query.refine": {
        "seed": "for everything random",
        "round": "number of the round",
        "min_points": "rows below which a centroid is ignored",
        "max_iter": "most local iterations",
        **{f"rivals.{name}": meaning for name, meaning in _CENTRES.items()},
        **_COLUMNS,
    },
    "query.label": {
        **{f"centres.{name}": meaning for name, meaning in _CENTRES.items()},
        "gaussians": "clusters as Gaussians, where labels go by the likeliest",
        "gaussians.means": "their means",
        "gaussians.variances": "their variances",
        "gaussians.seen": "which entries are known",
        "gaussians.weights": "the clusters' shares of the rows",
        "gaussians.overall": "the mean of all rows",
        "gaussians.width": "the variance of all rows",
        **_COLUMNS,
    },
    "query.assign": {
        "groups": "the global cluster of each of this participant's local clusters",
        "n_groups": "number of global clusters",
    },
    "reply.description": {
        "suppressed": _SUPPRESSED,
        "features": "names of the columns of numbers",
        "n_rows": "number of rows",
        "levels": "names of the columns of categories, and of their levels",
        **_MOMENTS,
    },
    "reply.summary": {
        "suppressed": _SUPPRESSED,
        "features": "names of the features",
        "n_rows": "number of rows",
        "filled": "filled cells of each feature",
        "values": "centroid of each local cluster: means over its rows",
        "counts": "filled cells behind each entry of a centroid",
        "sizes": "rows in each local cluster",
        "levels": "names of the columns of categories, and of their levels",
        "clarity": "how clearly the local clusters are apart (mean silhouette of the least clear)",
        "densities": "the shape of each local cluster",
        "densities.covariance": "variances, or covariances, of each local cluster",
        "densities.diagonal": "variances of each local cluster that are no feature's alone",
        "densities.factors": "main directions of each local cluster",
        "densities.alpha": "parameters of a Dirichlet distribution for each local cluster",
        "densities.total": "what shares add up to",
        "densities.blocks": "tables of probabilities of each local cluster",
        "densities.blocks.columns": "columns that are drawn together",
        "densities.blocks.outcomes": "values that occur, or levels",
        "densities.blocks.probabilities": "how often each occurs in a local cluster",
        "fidelity": "how close points of each density are to the rows",
        "low": "smallest cell of each local cluster (bounding box)",
        "high": "largest cell of each local cluster (bounding box)",
        **_MOMENTS,
    },
    "reply.refinement": {
        "suppressed": _SUPPRESSED,
        "refined.values": "centroids after local iterations: means over rows",
        "refined.counts": "filled cells behind each entry",
        "refined.sizes": "rows behind each centroid",
        "refined.misfit": "sum of squared distances of all rows to the nearest centroid that was sent",
    },
    "reply.labelled": {
        "suppressed": _SUPPRESSED,
        "sizes": "rows in each global cluster",
        "counts": "filled cells of each global cluster and feature",
        "squares": "sum of squared deviations of these cells from the centroid",
    },
    "reply.failure": {
        "suppressed": _SUPPRESSED,
        "error": "kind of the failure",
        "message": "what went wrong, without data",
    },
}


def meaning_of(message: str, field: str) -> str:
    """What a field of a message means, in words."""
    return MEANINGS.get(message, {}).get(field, "")


def counted(n: int, noun: str) -> str:
    """1 row, 2 rows."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def title_of(parties: Sequence[Party]) -> str:
    """What a report is called if nobody says."""
    names = [party.name for party in parties]
    named = listed(names) if sum(map(len, names)) <= _TITLE else counted(len(names), "table")
    return f"One clustering of {named}"


def headline_of(
    parties: Sequence[Party],
    columns: Sequence[Column],
    clusters: Sequence[Cluster],
    outcome: Outcome,
    assumptions: AssumptionReport,
    run: RunRecord | None,
) -> tuple[str, str, str]:
    """What was clustered, what tells the clusters apart, and how sure it is."""
    return _what(parties, columns, clusters), _how_they_differ(clusters), _how_sure(outcome, assumptions, run)


def _what(parties: Sequence[Party], columns: Sequence[Column], clusters: Sequence[Cluster]) -> str:
    rows = sum(party.rows for party in parties)
    common = sum(column.owners == len(parties) for column in columns)
    shared = f", {common or 'none'} of them common to all" if len(parties) > 1 and common < len(columns) else ""
    sizes = [cluster.rows for cluster in clusters]
    several = f"{min(sizes):,} to {max(sizes):,}" if len(sizes) > _FEW else listed([f"{n:,}" for n in sizes])
    of = f" of {several} rows" if len(clusters) > 1 else ""
    left = rows - sum(cluster.rows for cluster in clusters)
    noise = f"; {left:,} belong to none" if left > 0 else ""
    return (
        f"The {counted(rows, 'row')} of {counted(len(parties), 'participant')}, described by "
        f"{counted(len(columns), 'column')}{shared}, fall into {counted(len(clusters), 'cluster')}{of}{noise}."
    )


def _how_they_differ(clusters: Sequence[Cluster]) -> str:
    if len(clusters) == 1:
        return "No split into several clusters was asked for, or found."
    found: dict[str, Separation] = {}
    for entry in sorted((e for cluster in clusters for e in cluster.separating), key=lambda e: -abs(e.difference)):
        found.setdefault(entry.feature, entry)
    strongest = list(found.values())
    if not strongest:
        return "No feature was measured well enough in more than one cluster to say how they differ."
    first, *rest = strongest[:STRONG]
    others = f", followed by {listed([entry.feature for entry in rest])}" if rest else ""
    apart = abs(first.mean - first.mean_of_others)
    return (
        f"They differ most in {first.feature} (around {rounded(first.mean, apart)} in cluster {first.cluster}, "
        f"{rounded(first.mean_of_others, apart)} in the others){others}."
    )


def rounded(value: float | None, spread: float) -> str:
    """A number with as many digits as matter where things differ by ``spread``.

    >>> rounded(4e-06, 0.5), rounded(245.31, 40.0), rounded(-1234567.0, 250000.0)
    ('0.000', '245.3', '-1234567')
    """
    if value is None:
        return ""
    if not 1e-6 < spread < 1e12:
        return f"{value:.4g}"
    digits = max(0, 2 - floor(log10(spread)))
    return f"{value + 0.0:.{digits}f}" if round(value, digits) else f"{0.0:.{digits}f}"


def _how_sure(outcome: Outcome, assumptions: AssumptionReport, run: RunRecord | None) -> str:
    n, doubtful = len(outcome.local_clusters), len(assumptions.doubtful)
    if len(outcome.participants) == 1:
        return "There is one participant, so that this is an ordinary clustering: nothing had to be matched."
    if len(outcome.model.centroids) == 1:
        return "With one cluster there was nothing to match."
    by = "by their densities" if run is not None and run.method == "one_shot" else "by their averages"
    how = " and, where these hardly told, by what fits the rows" if outcome.aggregation.overruled else ""
    clear = f"all {n:,} local clusters have a clear place"
    if doubtful:
        clear = f"{n - doubtful:,} of {n:,} have a clear place, {doubtful:,} would fit another cluster nearly as well"
    tie = not outcome.aggregation.overruled and outcome.aggregation.confidence < NEARLY_A_TIE
    but = ", but another way to match them all would be nearly as good" if tie and not doubtful else ""
    return f"Each participant's own clusters were matched with the others' {by}{how}; {clear}{but}."


def methods_of(outcome: Outcome, parties: Sequence[Party], columns: Sequence[Column], run: RunRecord | None) -> str:
    """A paragraph for a paper; numbers in brackets point to ``REFERENCES``."""
    return " ".join(_methods(outcome, parties, columns, run))


def _methods(
    outcome: Outcome, parties: Sequence[Party], columns: Sequence[Column], run: RunRecord | None
) -> Iterator[str]:
    rows, several = sum(party.rows for party in parties), len(parties) > 1
    version = f" {run.versions['intarsia']}" if run is not None and "intarsia" in run.versions else ""
    jointly = " jointly" if several else ""
    moved = ", without moving a row" if several else ""
    yield (
        f"{'Tables' if several else 'The table'} of {counted(len(parties), 'participant')} with {counted(rows, 'row')} and "
        f"{'a union of ' if several else ''}{counted(len(columns), 'column')} {'were' if several else 'was'} "
        f"clustered{jointly} with Intarsia{version}{moved}."
    )
    settings = {} if run is None else run.settings
    yield from _how_grouped(outcome, run, settings)
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
    if any(party.filled is not None and party.filled < 1 for party in parties):
        missing = settings.get("missing", "observed")
        yield _MISSING.get(
            missing if isinstance(missing, str) else "", "Empty cells were treated as each participant chose."
        )
    if outcome.model.weights is not None:
        yield "Rows belong to the likeliest of Gaussians with independent features that the clusters make."
    if run is not None:
        software = ", ".join(
            f"{name} {run.versions[name]}" for name in ("numpy", "scikit-learn") if name in run.versions
        )
        yield f"Random seed {run.seed}{'; ' + software if software else ''}."


_UNITS = {
    None: "Features entered in their own units.",
    "standard": "Features were divided by their standard deviation over all participants.",
    "minmax": "Features were divided by their range over all participants.",
    "robust": "Features were divided by their interquartile range over all participants.",
}
_MISSING = {
    "observed": "Empty cells were left out of comparisons; none was imputed.",
    "impute": "Local algorithms were shown the column's mean in the place of an empty cell; summaries are of filled cells.",
    "drop": "Local algorithms were shown rows without empty cells only; every row was labelled by the cells that it has.",
}


def _how_grouped(outcome: Outcome, run: RunRecord | None, settings: Mapping[str, Any]) -> Iterator[str]:
    local = settings.get("local")
    with_what = "with k-means [2, 4]"
    if local is not None:
        with_what = (
            f"with {'; '.join(f'{n}: {e}' for n, e in local.items()) if isinstance(local, Mapping) else local} [4]"
        )
    method = AGGREGATIONS.get(outcome.aggregation.method)
    by = outcome.aggregation.method if method is None else method.words
    if run is None and not outcome.rounds:  # a file from before runs were kept
        yield f"Each participant clustered its rows and sent summaries; local clusters were grouped by {by} [1]."
        return
    if run is not None and run.method == "one_shot":
        density = str(settings.get("density", "gaussian")).replace("_", ", ")
        yield (
            f"Each participant clustered its rows {with_what} and summarised every local cluster by its mean, size and "
            f"density ({density}); local clusters were joined by the force of attraction between densities over the "
            f"features that both see (Algorithm 2 of [1]), by {by}."
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
