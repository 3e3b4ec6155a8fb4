"""What ``intarsia demo`` shows: heart patients of four hospitals clustered, and compared with their diagnosis."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from sklearn.cluster import KMeans
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from intarsia.core.types import FloatArray, IntArray
from intarsia.datasets.hospitals import COLUMNS, DESCRIPTIONS, HeartDisease
from intarsia.estimators import ClusteringResult
from intarsia.results.metrics import clustering_accuracy

SEED = 0
ABSENT, COMPLETE = 0.5, 0.995  # share of patients with a value


class Score(NamedTuple):
    """One method, whether rows leave their hospital for it, and how well it agrees with the diagnosis."""

    method: str
    rows_moved: str
    accuracy: float
    adjusted_rand: float


def show(hospitals: HeartDisease, federated: ClusteringResult, one_shot: ClusteringResult, *, wide: bool) -> list[Any]:
    """Return what the demo shows, from top to bottom; on a narrow terminal without the descriptions of columns."""
    return [
        Panel(
            Text.assemble(
                ("Four hospitals, one clustering. ", "bold"),
                "UCI Heart Disease: 920 patients and 13 measurements, which only Cleveland has all of; no patient is in two "
                "hospitals. No row leaves its hospital. What does: column names, and for each column and each cluster "
                "count, mean and spread.",
            ),
            box=box.ROUNDED,
        ),
        who_sees_what(hospitals.tables, wide=wide),
        profiles(hospitals, federated, wide=wide),
        sizes(hospitals, federated),
        comparison(hospitals, federated, one_shot),
        Text(
            "Data: Heart Disease, UCI Machine Learning Repository, DOI 10.24432/C52P4X, CC BY 4.0. A. Janosi (Budapest), "
            "W. Steinbrunn (Zurich), M. Pfisterer (Basel), R. Detrano (Long Beach and Cleveland).",
            style="dim",
        ),
    ]


def who_sees_what(tables: Mapping[str, Any], *, wide: bool) -> Table:
    """One line per measurement: ● complete, ◐ with missing values, blank where the hospital does not have it."""
    caption = "share of patients with a value; blank: filled for fewer than half of them, so not used"
    view = _table("Who sees what", caption if wide else "patients with a value; blank: not used")
    view.add_column("measurement")
    for name in tables:
        view.add_column(f"{name}\n{len(tables[name]['age'])} patients", justify="center")
    for column in COLUMNS:
        shares = [float(np.mean(~np.isnan(t[column]))) if column in t else 0.0 for t in tables.values()]
        cells = [_share(share) for share in shares]
        view.add_row(_measurement(column, wide=wide), *cells)
    return view


def _measurement(name: str, *, wide: bool) -> Text:
    return Text.assemble((f"{name:9s}", "bold"), (DESCRIPTIONS[name] if wide else "", "dim"))


def _share(share: float) -> Text:
    if share < ABSENT:
        return Text("")
    return Text("●", "green") if share >= COMPLETE else Text.assemble(("◐ ", "yellow"), f"{share:.0%}")


def profiles(hospitals: HeartDisease, result: ClusteringResult, *, wide: bool) -> Table:
    """Every cluster over all columns, in original units, columns that separate most first."""
    diseased = share_diseased(hospitals, result)
    spread = result.outcome.model.scale[result.outcome.model.space.index(result.feature_names)]
    difference = (result.centroids.max(axis=0) - result.centroids.min(axis=0)) / spread
    title = f"The {result.n_clusters} clusters, over all 13 columns"
    caption = f"means in original units; {len(result.rounds)} rounds; largest difference first"
    view = _table(title, caption if wide else "means, original units")
    view.add_column("measurement", no_wrap=True)
    for k in range(result.n_clusters):
        rows = sum(int(size[k]) for size in result.sizes.values())
        view.add_column(Text(f"cluster {k}\n{rows} patients\n{diseased[k]:.0%} diseased"), justify="right")
    view.add_column("difference in\nstd. deviations", justify="left")
    view.add_column("measured by", justify="left", style="dim")
    for column in np.argsort(-difference):
        name = result.feature_names[column]
        owners = [hospital for hospital, table in hospitals.tables.items() if name in table]
        bar = Text("█" * round(difference[column] * (8 if wide else 6)) or "▏", "cyan").append(
            f" {difference[column]:.2f}", "default"
        )
        values = [f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}" for value in result.centroids[:, column]]
        missing = [hospital for hospital in hospitals.tables if hospital not in owners]
        who = "all four" if not missing else f"not {missing[0]}" if len(missing) == 1 else ", ".join(owners)
        view.add_row(_measurement(name, wide=wide), *values, bar, who)
    return view


def sizes(hospitals: HeartDisease, result: ClusteringResult) -> Table:
    """Patients per hospital and cluster, and how many of them are diseased."""
    view = _table("Sizes per hospital", "patients, share of them diseased")
    view.add_column("hospital", min_width=30)
    for k in range(result.n_clusters):
        view.add_column(f"cluster {k}", justify="right")
    for name, labels in result.labels.items():
        truth = hospitals.diagnosis[str(name)]
        cells = [f"{np.sum(labels == k):d}   {_percent(truth[labels == k])}" for k in range(result.n_clusters)]
        view.add_row(str(name), *cells)
    return view


def _percent(truth: IntArray) -> str:
    return f"{truth.mean():4.0%}" if len(truth) else "   –"


def comparison(hospitals: HeartDisease, federated: ClusteringResult, one_shot: ClusteringResult) -> Group:
    """Agreement of both algorithms and of other methods with the diagnosis."""
    view = _table("Agreement with the diagnosis that no clustering saw", "2 clusters each")
    for heading in ("method", "rows leave", "accuracy", "adjusted Rand"):
        view.add_column(heading, justify="left" if heading in {"method", "rows leave"} else "right")
    for score in scores(hospitals, federated, one_shot):
        style = "bold" if score.method.startswith("Intarsia, fed") else ""
        view.add_row(score.method, score.rows_moved, f"{score.accuracy:.1%}", f"{score.adjusted_rand:.2f}", style=style)
    note = Text(
        "Each hospital on its own is flattered: its clusters are matched with the diagnosis hospital by hospital, and "
        "nothing says which cluster of one is which of another.",
        style="dim",
    )
    return Group(view, note)


def scores(hospitals: HeartDisease, federated: ClusteringResult, one_shot: ClusteringResult) -> list[Score]:
    """Return the agreement of every method with the diagnosis."""
    truth = np.concatenate(list(hospitals.diagnosis.values()))
    pooled = _pooled(hospitals.tables)
    everywhere = [k for k, name in enumerate(COLUMNS) if all(name in table for table in hospitals.tables.values())]
    alone = [_alone(hospitals, name) for name in hospitals.tables]
    patients = np.array([len(labels) for labels in hospitals.diagnosis.values()])
    return [
        _score("Intarsia, federated (Algorithm 1)", "no", truth, np.concatenate(list(federated.labels.values()))),
        _score("Intarsia, one-shot (Algorithm 2)", "no", truth, np.concatenate(list(one_shot.labels.values()))),
        _score("pool all rows, impute by mean, k-means", "yes", truth, _kmeans(SimpleImputer().fit_transform(pooled))),
        _score(
            "pool all rows, impute by 5 neighbours, k-means", "yes", truth, _kmeans(KNNImputer().fit_transform(pooled))
        ),
        _score(
            f"pool the {len(everywhere)} columns that all have, k-means",
            "yes",
            truth,
            _kmeans(SimpleImputer().fit_transform(pooled[:, everywhere])),
        ),
        Score(
            "each hospital on its own, k-means",
            "no",
            float(np.average([a.accuracy for a in alone], weights=patients)),
            float(np.average([a.adjusted_rand for a in alone], weights=patients)),
        ),
    ]


def _pooled(tables: Mapping[str, Any]) -> FloatArray:
    """All rows in one matrix, standardised; NaN where a hospital did not measure."""
    parts = [
        np.column_stack([table.get(name, np.full(len(table["age"]), np.nan)) for name in COLUMNS])
        for table in tables.values()
    ]
    return np.asarray(StandardScaler().fit_transform(np.concatenate(parts)))


def _alone(hospitals: HeartDisease, name: str) -> Score:
    rows = StandardScaler().fit_transform(np.column_stack(list(hospitals.tables[name].values())))
    return _score(name, "no", hospitals.diagnosis[name], _kmeans(SimpleImputer().fit_transform(rows)))


def _kmeans(rows: FloatArray) -> IntArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(KMeans(2, n_init=10, random_state=SEED).fit_predict(rows))


def _score(method: str, rows_moved: str, truth: IntArray, labels: IntArray) -> Score:
    return Score(method, rows_moved, clustering_accuracy(truth, labels), float(adjusted_rand_score(truth, labels)))


def share_diseased(hospitals: HeartDisease, result: ClusteringResult) -> list[float]:
    """Return the share of patients with the diagnosis, by cluster."""
    truth = np.concatenate([hospitals.diagnosis[str(name)] for name in result.labels])
    labels = np.concatenate(list(result.labels.values()))
    return [float(truth[labels == k].mean()) for k in range(result.n_clusters)]


def _table(title: str, caption: str) -> Table:
    heading = Text.assemble((title, "bold"), (f"   {caption}", "dim"))
    return Table(title=heading, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
