"""Studies to report on."""

import warnings
from functools import cache

import numpy as np

import intarsia
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import extent_of
from intarsia.core.features import FeatureSpace
from intarsia.estimators.result import ClusteringResult
from intarsia.protocol import tag_of
from intarsia.protocol.catalogue import paths_of, replies, requests
from intarsia.results.outcome import (
    Aggregation,
    Coverage,
    Exchange,
    GlobalModel,
    LocalCluster,
    Outcome,
    RoundInfo,
    RunRecord,
    Sent,
)

LONG = "a very long name of two hundred letters " * 5
RIGHT_TO_LEFT = "مستشفى القلب"
EMOJI = "🏥 clinic 👩‍⚕️"
SCRIPT = "<script>window.broken=1</script>"
HOSTILE = (SCRIPT, LONG, RIGHT_TO_LEFT, EMOJI)
HOSTILE_COLUMNS = (
    '"><img src=x onerror=window.broken=1>',
    "{{ 7*7 }} {% raw %}",
    "%{x} %{customdata[0]}",
    "<a href='javascript:window.broken=1'>b</a>",
    "</script><script>window.broken=1</script>",
    "2024-01-01",
    "1e3",
    "&lt;b&gt;",
)


def blobs(names, columns, n_clusters, rows, seed=0, missing=0.0):
    """Clear clusters; everybody has the first column and some of the others."""
    rng = np.random.default_rng(seed)
    centres = 8.0 * rng.normal(size=(n_clusters, len(columns)))
    tables = {}
    for i, name in enumerate(names):
        which = rng.permutation(np.arange(rows) % n_clusters)
        cells = centres[which] + rng.normal(size=(rows, len(columns)))
        cells[:, 1:][rng.random((rows, len(columns) - 1)) < missing] = np.nan
        own = [k for k in range(len(columns)) if k == 0 or (k + i) % 4]
        tables[name] = {columns[k]: cells[:, k] for k in own}
    return tables


@cache
def hostile_study():
    """Names that would break out of a page that is careless."""
    tables = blobs(HOSTILE, HOSTILE_COLUMNS, 3, 60)
    for twin in ("Systolic_blood_pressure_at_admission_mmHg_first", "systolic_blood_pressure_at_admission_mmHg_first"):
        tables[LONG if twin[0] == "S" else EMOJI][twin] = tables[LONG][HOSTILE_COLUMNS[0]]  # a long note
    tables[SCRIPT]["<b>kind</b>"] = np.array(["<i>x</i>", "y"])[np.arange(60) % 2].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return intarsia.cluster(tables, 3, random_state=0)


@cache
def hospitals(n_clusters=2, **settings):
    """Results are never changed, so that one of each is enough."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return intarsia.cluster(
            intarsia.datasets.load_heart_disease("pandas").tables, n_clusters, random_state=0, **settings
        )


@cache
def large_study(n=30, k=50, d=600, seed=0):
    """30 participants, 600 features, 50 clusters: as a coordinator knows them, without the time that finding them takes."""
    rng = np.random.default_rng(seed)
    names = tuple(f"site {i:02d}" for i in range(n))
    features = tuple(f"feature {m:03d}" for m in range(d))
    centres = rng.normal(size=(k, d)) * 3
    masks = rng.random((n, d)) < 0.6
    masks[:, 0] = True
    owner, group = np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
    sizes = rng.integers(8, 200, size=n * k)
    seen = masks[owner]
    local = MaskedCentroids.of(
        np.where(seen, centres[group] + rng.normal(size=seen.shape) / 5, 0.0),
        np.where(seen, sizes[:, None], 0).astype(float),
    )
    merged = merge(local, group, k)
    model = GlobalModel(
        FeatureSpace(features), merged, extent_of(local.values, local.seen), np.zeros(d), np.ones(d), "euclidean",
        variances=np.ones((k, d)), cells=merged.counts,
    )  # fmt: skip
    margins = np.where(np.arange(n * k) % 97 == 0, 0.01, 0.8)
    clusters = tuple(
        LocalCluster(names[i], int(g), int(s), int(g), float(m))
        for i, g, s, m in zip(owner, group, sizes, margins, strict=True)
    )
    by_participant = {name: sizes[owner == i] for i, name in enumerate(names)}
    rows = np.array([by_participant[name].sum() for name in names])
    outcome = Outcome(
        model=model,
        participants=names,
        masks=masks,
        local_centroids=local,
        local_clusters=clusters,
        aggregation=Aggregation("search", 1.0, 1.2, 0.2, 5),
        sizes=by_participant,
        rounds=tuple(RoundInfo(r, 0.5**r, tuple(map(int, merged.counts[:, 0])), 1.0) for r in range(1, 9)),
        coverage=Coverage(rows, np.where(masks, rows[:, None], 0)),
    )
    sent = tuple(
        Sent(name, tag_of(kind), field, 1, 0, d * k, 8 * d * k, 8)
        for name in names
        for kind in requests() + replies()
        for field in paths_of(kind)
    )
    exchanges = tuple(
        Exchange(phase, *({name: float(i) for i, name in enumerate(names)} for _ in range(3)))
        for phase in ("describe", "summarize", *["refine"] * 8, "label")
    )
    run = RunRecord(
        "federated", {"n_clusters": k}, 0, {"intarsia": "0"}, "2026-01-01T00:00:00+00:00", 60.0, exchanges, sent
    )
    return ClusteringResult({}, {}, features, outcome, run, {name: name for name in names})


@cache
def wide_study():
    """Four clusters with long names of columns and means of seven digits."""
    tables = {
        hospital: {
            column if column == "age" else f"{column}_of_a_patient_as_measured": 1e4 * values
            for column, values in table.items()
        }
        for hospital, table in intarsia.datasets.load_heart_disease().tables.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return intarsia.cluster(tables, 4, random_state=0)
