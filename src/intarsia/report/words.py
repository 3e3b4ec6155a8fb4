"""Sentences: the headline, what each field of each message means, and a methods paragraph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intarsia.assumptions import AssumptionReport
from intarsia.exceptions import quote
from intarsia.profiles import Separation
from intarsia.report.data import Cluster, Column, Party
from intarsia.results import Outcome, RunRecord

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
    "reply.failure": {"error": "kind of the failure", "message": "what went wrong, without data"},
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
) -> tuple[str, str, str]:
    """What was clustered, what tells the clusters apart, and how sure it is."""
    return _what(parties, columns, clusters), _how_they_differ(clusters), _how_sure(outcome, assumptions)


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
        return "No feature was measured in more than one cluster, so that it cannot be said how they differ."
    first, *rest = strongest[:STRONG]
    others = f", followed by {listed([entry.feature for entry in rest])}" if rest else ""
    return (
        f"They differ most in {first.feature} (cluster {first.cluster} averages {first.mean:.3g}, the others "
        f"{first.mean_of_others:.3g}){others}."
    )


def _how_sure(outcome: Outcome, assumptions: AssumptionReport) -> str:
    n, doubtful = len(outcome.local_clusters), len(assumptions.doubtful)
    if len(outcome.participants) == 1:
        return "There is one participant, so that this is an ordinary clustering: nothing had to be matched."
    if len(outcome.model.centroids) == 1:
        return "With one cluster there was nothing to match."
    how = " and, where these hardly told, by what fits the rows" if outcome.aggregation.overruled else ""
    clear = f"all {n:,} matches are clear"
    if doubtful:
        clear = f"{n - doubtful:,} of {n:,} matches are clear, {doubtful:,} would fit another cluster nearly as well"
    return f"Each participant's own clusters were matched with the others' by their averages{how}; {clear}."


def methods_of(outcome: Outcome, parties: Sequence[Party], columns: Sequence[Column], run: RunRecord | None) -> str:
    """A paragraph for a paper; numbers in brackets point to ``REFERENCES``."""
    return " ".join(_methods(outcome, parties, columns, run))


def _methods(
    outcome: Outcome, parties: Sequence[Party], columns: Sequence[Column], run: RunRecord | None
) -> Iterator[str]:
    rows = sum(party.rows for party in parties)
    version = f" {run.versions['intarsia']}" if run is not None and "intarsia" in run.versions else ""
    yield (
        f"Tables of {counted(len(parties), 'participant')} with {counted(rows, 'row')} and a union of "
        f"{counted(len(columns), 'column')} were clustered jointly with Intarsia{version}, without moving a row."
    )
    if run is not None and run.method == "one_shot":
        yield (
            "Each participant clustered its rows (k-means [2, 4] unless stated otherwise) and summarised every local "
            "cluster by its mean, size and density; local clusters were joined by the force of attraction between densities "
            "over the features that both see (Algorithm 2 of [1])."
        )
    else:
        yield (
            "Each participant clustered its rows (k-means [2, 4] unless stated otherwise) and sent centroids and counts; "
            "centroids were grouped by rescaled distances over the features that both see, and refined together in "
            f"{counted(len(outcome.rounds), 'federated round')} (Algorithm 1 of [1])."
        )
    k = len(outcome.model.centroids)
    if outcome.found is not None or outcome.silhouettes:
        yield f"The number of clusters, {k}, was chosen from participants' own numbers and silhouettes over summaries [3]."
    else:
        yield f"The number of clusters was set to {k}."
    units = {
        None: "Features entered in their own units.",
        "standard": "Features were divided by their standard deviation over all participants.",
        "minmax": "Features were divided by their range over all participants.",
        "robust": "Features were divided by their interquartile range over all participants.",
    }
    yield units[outcome.model.units]
    if outcome.model.levels:
        yield f"Categories ({quote(sorted(outcome.model.levels))}) entered as one indicator per level."
    if any(party.filled is not None and party.filled < 1 for party in parties):
        yield "Empty cells were left out of comparisons; none was imputed into a summary."
    if run is not None:
        software = ", ".join(
            f"{name} {run.versions[name]}" for name in ("numpy", "scikit-learn") if name in run.versions
        )
        yield f"Random seed {run.seed}{'; ' + software if software else ''}."
