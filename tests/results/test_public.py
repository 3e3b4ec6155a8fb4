"""A public model says nothing of a single participant, and answers as the full one does."""

from __future__ import annotations

import struct
from dataclasses import fields, replace
from hashlib import sha256

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.exceptions import ModelFileError, SettingError
from intarsia.results import model_file
from intarsia.results.outcome import Outcome, RoundInfo
from intarsia.results.public import PublicStudy, hidden, public_from
from intarsia.results.repeat import Repeat
from tests.strategies import FEW

SEEDS = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.UnknownLevelsWarning")  # hidden levels are such
NAMES = ("Ospedale San Canario", "Klinik Kanarienvogel", "Clinique du Serin")


def tables_of(seed=0, n=80):
    """Three participants, three clusters; every column has two holders or three, and every cluster all of them."""
    rng = np.random.default_rng(seed)
    truth = np.tile(np.arange(3), (3, n // 3 + 1))[:, :n]
    rows = (8 * rng.normal(size=(3, 4)))[truth] + rng.normal(size=(3, n, 4))
    columns = (["x", "y", "z"], ["y", "z", "w"], ["w", "x", "y"])
    tables = {}
    for i, (name, own) in enumerate(zip(NAMES, columns, strict=True)):
        tables[name] = pd.DataFrame(rows[i][:, ["xyzw".index(c) for c in own]], columns=own)
        tables[name]["kind"] = np.array(["red", "green", "blue"])[np.where(rng.random(n) < 0.3, 2 - truth[i], truth[i])]
        tables[name].iloc[::7, 0] = np.nan
    return tables


@pytest.fixture(scope="module")
def tables():
    return tables_of()


@pytest.fixture(scope="module", params=["federated", "one_shot", "mixture", "manhattan"])
def result(request, tables):
    options = {"federated": {}, "one_shot": {"method": "one_shot"}, "mixture": {"model": "mixture"}}
    chosen = options.get(request.param, {"metric": "manhattan"})
    return intarsia.cluster(tables, 3, scale="standard", random_state=0, **chosen)


def saved(result, folder, **options):
    path = folder / "public.intarsia"
    result.save(path, public=True, **options)
    return path


def nameless(separations):
    return tuple(replace(entry, participants=()) for entry in separations)


def assert_same_answers(full, public, table):
    assert np.array_equal(full.predict(table), public.predict(table))
    if full.global_model.tails is not None:
        for share in (0.5, 0.9, 0.99):
            assert np.array_equal(full.predict(table, none_beyond=share), public.predict(table, none_beyond=share))
    assert np.array_equal(full.predict_proba(table), public.predict_proba(table))
    assert np.array_equal(full.predict_margin(table), public.predict_margin(table))
    assert np.array_equal(full.score(table), public.score(table), equal_nan=True)
    for mine, theirs in zip(full.impute(table), public.impute(table), strict=True):
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_a_public_model_answers_as_the_study_to_the_last_bit(result, tables, tmp_path):
    public = intarsia.load(saved(result, tmp_path))
    assert isinstance(public, intarsia.PublicModel)
    assert public.n_hidden == (result.counts == 0).sum()
    for table in (*tables.values(), {"x": [0.0, np.nan]}, {"kind": ["green", "violet", None]}):
        assert_same_answers(result, public, table)
    assert nameless(result.explain()) == public.explain()
    assert len(public.explain()) > 0
    assert np.array_equal(result.centroids, public.centroids)
    assert public.levels == result.levels
    assert np.array_equal(public.total_sizes, result.total_sizes)
    assert "240 rows" in str(public)


def any_study(seed):
    """A full study with any centroids, counts, range, spread and units, and one random table with some of its columns."""
    rng = np.random.default_rng(seed)
    return any_model(rng), any_table(rng)


def any_model(rng):
    base = FULL["study"]
    model = base.outcome.model
    k, d = model.centroids.values.shape
    counts = rng.integers(5, 400, size=(k, d)) * (rng.random((k, d)) > rng.choice([0, 0.3]))
    size = 10.0 ** rng.integers(-6, 7)
    shares = base.outcome.model.space.mask([name for name in base.feature_names if "=" in name])
    counts[:, shares] += 300 * (counts[:, shares] > 0)
    values = np.where(shares, rng.uniform(0.2, 0.8, size=(k, d)) / np.sqrt(2), size * rng.normal(size=(k, d)))
    low = size * rng.normal(size=d)
    width = np.where(rng.random(d) > rng.choice([0, 0.2]), size * rng.random(d), 0.0)
    sizes = rng.integers(5, 500, size=(3, k))
    changed = replace(
        model,
        centroids=MaskedCentroids.of(np.round(values, rng.choice([1, 12])), counts),
        extent=Extent(low, low + width),
        shift=np.where(shares, 0.0, size * rng.normal(size=d)),
        scale=np.where(shares, np.sqrt(2), 10.0 ** rng.integers(-3, 4) * (0.1 + rng.random(d))),
        variances=np.square(size * rng.normal(size=(k, d))) * (counts > 0),
        cells=np.where(counts > 0, rng.integers(5, 400, size=(k, d)), 0.0).astype(float),
        metric=str(rng.choice(["euclidean", "manhattan"])),
        weights=None if rng.random() < 0.5 else sizes.sum(axis=0) / sizes.sum(),
    )
    return replace(base, outcome=replace(base.outcome, model=changed, sizes=dict(zip(NAMES, sizes, strict=True))))


def any_table(rng):
    names = ["w", "x", "y", "z", "kind"]
    chosen = [name for name in names if rng.random() < 0.6] or ["y"]
    n = int(rng.integers(1, 12))
    table = {
        name: np.where(rng.random(n) < 0.2, np.nan, 10.0 ** rng.integers(-6, 7) * rng.normal(size=n))
        for name in names[:-1]
    }
    table["kind"] = rng.choice(["red", "green", "blue", "violet"], size=n)
    return pd.DataFrame({name: table[name] for name in chosen})


FULL: dict[str, intarsia.ClusteringResult] = {}


@pytest.fixture(scope="module", autouse=True)
def _full(tables):
    FULL["study"] = intarsia.cluster(tables, 3, scale="standard", random_state=0)


@given(seed=SEEDS)
def test_any_file_and_its_public_copy_answer_the_same_on_any_table(seed):
    """1,000 studies and tables with the profile "thorough"."""
    full, table = any_study(seed)
    public = intarsia.PublicModel(
        model_file.public_from_bytes(
            model_file.public_to_bytes(public_from(full.outcome, full.feature_names, 5)), "public"
        )
    )
    assert_same_answers(full, public, table)
    assert nameless(full.explain()) == public.explain()


@given(seed=SEEDS, fewest=st.integers(20, 150))
@FEW
def test_with_hidden_entries_it_answers_as_the_full_model_without_them(seed, fewest):
    full, table = any_study(seed)
    public = full.public(fewest=fewest)
    model, sizes, _ = hidden(full.outcome, fewest)
    none = dict.fromkeys(NAMES, np.zeros(3, dtype=int))
    without = replace(full, outcome=replace(full.outcome, model=model, sizes=none | {NAMES[0]: sizes}))
    counts = full.outcome.model.centroids.counts
    assert not model.centroids.seen[counts < fewest].any()
    assert np.array_equal(public.total_sizes, sizes)
    if model.centroids.seen.any():
        assert_same_answers(without, public, table)


OF_THE_MODEL = {
    "features", "names_in_order", "levels", "units", "shift", "scale", "metric", "values", "known", "width", "sizes",
    "weights", "squares", "overall", "overall_width", "typical", "rest", "within", "tails", "names",
}  # fmt: skip
OF_THE_FILE = {"written_by", "fewest", "min_holders", "errors", "privacy"}
BY_PARTICIPANT = {field.name for field in fields(Outcome)} - {"model", "sizes", "privacy", "secure"}


def test_every_field_of_the_file_is_of_the_model_of_all_participants_together():
    assert set(PublicStudy.__struct_fields__) == OF_THE_MODEL | OF_THE_FILE
    assert {"participants", "local_centroids", "local_clusters", "coverage", "doubts"} <= BY_PARTICIPANT


def test_no_byte_follows_from_anything_but_the_model_and_the_total_sizes(result):
    """Whatever else the coordinator knows is exchanged for something else, field by field: the file stays the same."""
    outcome, names = result.outcome, result.feature_names
    expected = model_file.public_to_bytes(public_from(outcome, names))
    others = {name: f"participant {k}" for k, name in enumerate(outcome.participants)}
    rng = np.random.default_rng(1)
    moved = np.zeros_like(outcome.sizes[NAMES[0]])
    moved[:] = rng.integers(1, 10, size=moved.shape)
    sizes = dict(outcome.sizes)
    sizes[NAMES[0]], sizes[NAMES[1]] = sizes[NAMES[0]] - moved, sizes[NAMES[1]] + moved  # the same rows in all
    clusters = outcome.local_clusters
    changes = {
        "participants": tuple(others.values()),
        "masks": ~outcome.masks,
        "local_centroids": MaskedCentroids.of(outcome.local_centroids.values + 1.0, outcome.local_centroids.counts * 2),
        "local_clusters": tuple(
            replace(c, participant=others[c.participant], size=c.size + 1, margin=0.5) for c in clusters
        ),
        "aggregation": replace(outcome.aggregation, confidence=0.123, loss=9.0),
        "coverage": replace(outcome.coverage, rows=outcome.coverage.rows + 7, filled=outcome.coverage.filled + 3),
        "clarity": dict.fromkeys(others.values(), 0.25),
        "sizes": sizes,
        "rounds": (RoundInfo(1, 0.5, (1, 2, 3)),),
        "converged": not outcome.converged,
        "strain": dict.fromkeys(NAMES, 3.0),
        "doubts": {NAMES[0]: {"means": 1.0}},
        "remarks": (f"{NAMES[0]!r} was late",),
        "leaves": (*clusters, *clusters),
        "merge_tree": None,
        "silhouettes": {2: 0.5},
        "found": 7,
        "fidelity": rng.random((len(clusters), 4)),
        "choices": (),
        "stability": None,
        "odd_columns": None,
        "row_weights": {NAMES[0]: 2.0},
        "repeat": Repeat((), ((3, 1), (2, 4))),
    }
    assert set(changes) == BY_PARTICIPANT | {"sizes"}
    for name, value in changes.items():
        assert model_file.public_to_bytes(public_from(replace(outcome, **{name: value}), names)) == expected, name


def test_neither_a_name_nor_a_size_nor_a_local_centroid_is_in_the_file(result, tmp_path):
    raw = saved(result, tmp_path).read_bytes()
    content = model_file.public_from_bytes(raw, "public")
    full = tmp_path / "full.intarsia"
    result.save(full)
    for name in NAMES:  # no compression: bytes are searched as they are
        assert name.encode() in full.read_bytes()
        assert name.encode() not in raw
    local = result.outcome.local_centroids
    # shares of levels are left out: 0 and 1 are in any study, and above a share of 0 the width is the largest share
    measured = result.global_model.space.index(["w", "x", "y", "z"])
    secrets = local.values[:, measured][local.counts[:, measured] > 0]
    texts = {field: getattr(content, field) for field in content.__struct_fields__}
    numbers = np.concatenate([np.ravel(v) for v in texts.values() if isinstance(v, np.ndarray) and v.dtype.kind == "f"])
    assert not np.isin(secrets, numbers).any()
    assert not np.isin(np.array(result.outcome.model.extent)[:, measured], numbers).any()
    parts = {int(size) for sizes in result.sizes.values() for size in sizes} | {c.size for c in result.local_clusters}
    assert not parts & set(content.sizes.tolist())
    for rows in tables_of().values():
        assert len(rows) not in content.sizes


def test_columns_of_one_participant_are_hidden_if_two_must_hold_them(tables, tmp_path):
    alone = {name: table.copy() for name, table in tables.items()}
    alone[NAMES[2]]["secret"] = np.arange(80.0) * 3.7 + 1000
    result = intarsia.cluster(alone, 3, scale="standard", random_state=0)
    assert np.isfinite(result.public().centroids[:, result.feature_names.index("secret")]).all()
    public = intarsia.load(saved(result, tmp_path, min_holders=2))
    at, position = result.feature_names.index("secret"), result.global_model.space.index(["secret"])[0]
    assert np.isnan(public.centroids[:, at]).all()
    assert (public.global_model.shift[position], public.global_model.scale[position]) == (0.0, 1.0)
    assert public.global_model.extent.width[position] == 0.0
    assert public.predict({"secret": [1000.0]}).tolist() == [-1]
    assert not any(entry.feature == "secret" for entry in public.explain())
    assert public.min_holders == 2


def test_entries_of_few_rows_and_names_of_rare_levels_are_hidden(tables):
    few = {name: table.copy() for name, table in tables.items()}
    few[NAMES[0]].loc[[3, 4], "kind"] = "mauve with dots"
    few[NAMES[1]].loc[few[NAMES[1]].index >= 3, "w"] = np.nan
    few[NAMES[2]].loc[few[NAMES[2]].index >= 1, "w"] = np.nan
    result = intarsia.cluster(few, 3, scale="standard", random_state=0)
    assert "mauve with dots" in result.levels["kind"]
    public = result.public()
    assert "mauve with dots" not in str(public.levels) + str(public.feature_names)
    assert public.levels["kind"].count("(hidden 1)") == 1
    assert np.isnan(public.centroids[:, result.feature_names.index("w")]).all()
    assert public.n_hidden == 6
    assert result.public(fewest=1).n_hidden == (result.counts == 0).sum()
    assert public.predict({"kind": ["mauve with dots", "(hidden 1)"]}).shape == (2,)


def with_a_row_far_away(row):
    rng = np.random.default_rng(0)
    clouds = [np.r_[rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + 6] for _ in range(2)]
    values = [np.r_[clouds[0], [row]], clouds[1]]
    return {name: {f"x{j}": x[:, j] for j in range(3)} for name, x in zip("ab", values, strict=True)}


@pytest.mark.parametrize("settings", [{"scale": None}, {"scale": None, "method": "one_shot"}])
def test_a_hidden_cluster_of_one_row_cannot_be_read_from_the_width_of_columns(settings):
    row, other = [40.1, 41.1, -37.7], [60.0, -80.0, 90.0]
    first, second = (
        intarsia.cluster(with_a_row_far_away(far), 3, random_state=0, **settings).public() for far in (row, other)
    )
    assert first.total_sizes.tolist() == second.total_sizes.tolist() == [120, 120, 0]
    model = first.global_model
    shown = model.values[~np.isnan(model.values).any(axis=1)]
    width = model.extent.width * model.scale
    for end in (shown.min(axis=0) + width, shown.max(axis=0) - width):
        assert (np.abs(end - row) > 20).all()
    np.testing.assert_allclose(model.extent.width, second.global_model.extent.width)
    table = {f"x{j}": np.r_[np.zeros(5), np.full(5, 6.0), row[j]] for j in range(3)}
    labels = first.predict(table, none_beyond=0.99)
    assert labels[-1] == -1
    assert len(set(labels[:5])) == len(set(labels[5:10])) == 1


def test_a_participant_without_values_in_a_cluster_is_no_holder_of_its_entry():
    rng = np.random.default_rng(0)
    tables = {}
    for name, n_missing in (("a", 0), ("b", 100), ("c", 10)):
        x = np.r_[rng.normal(size=(120, 3)), rng.normal(size=(100, 3)) + 5]
        x[len(x) - n_missing :, 2] = np.nan
        tables[name] = {f"x{j}": x[:, j] for j in range(3)}
    alone = intarsia.cluster({name: tables[name] for name in "ab"}, 2, random_state=0)
    assert not np.isnan(alone.centroids).any()
    assert np.isnan(alone.public(min_holders=2).centroids).tolist() == [[False, False, False], [False, False, True]]
    both = intarsia.cluster(tables, 2, random_state=0).public(min_holders=2)
    assert not np.isnan(both.centroids).any()


def test_few_ordinary_rows_are_none_of_the_clusters_where_entries_are_hidden(tables):
    alone = {name: table.assign(**{f"own {name}": np.arange(len(table)) % 7.0}) for name, table in tables.items()}
    result = intarsia.cluster(alone, 3, scale="standard", random_state=0)
    public = result.public(min_holders=2)
    assert public.n_hidden == 9
    shares = [np.mean(labels < 0) for labels in public.predict(tables, none_beyond=0.99).values()]
    assert max(shares) <= 0.03


def test_what_cannot_be_shown_is_refused_in_words(tables):
    cosine = intarsia.cluster(tables, 3, metric="cosine", random_state=0)
    with pytest.raises(SettingError, match="smallest and the largest local centroids"):
        cosine.public()
    extremes = intarsia.cluster(tables, 3, scale="minmax", random_state=0)
    with pytest.raises(SettingError, match="values of single rows"):
        extremes.public()
    assert extremes.public(fewest=1).units == "minmax"
    with pytest.raises(SettingError, match="labels"):
        extremes.save("nowhere", public=True, labels=True)
    for wrong in ({"fewest": 0}, {"min_holders": 0}, {"fewest": 2.5}):
        with pytest.raises(SettingError):
            cosine.public(**wrong)


@pytest.fixture(scope="module")
def raw(tables):
    result = intarsia.cluster(tables, 3, scale="standard", random_state=0)
    return model_file.public_to_bytes(public_from(result.outcome, result.feature_names))


LIES = {
    "a wrong shape": {"values": lambda s: s.values[:, :1]},
    "not finite": {"values": lambda s: s.values * np.inf},
    "no number": {"overall": lambda s: s.overall * np.nan},
    "a scale of nothing": {"scale": lambda s: s.scale * 0},
    "a negative width": {"width": lambda s: -s.width - 1},
    "negative sizes": {"sizes": lambda s: -s.sizes},
    "sizes of no dimension": {"sizes": lambda s: np.array(3)},
    "variances of nothing": {"squares": lambda s: s.squares * 0},
    "an endless typical variance": {"typical": lambda s: float("inf")},
    "a feature twice": {"features": lambda s: (s.features[0],) * len(s.features)},
    "other names": {"names_in_order": lambda s: s.features[:1]},
    "a blank name": {"features": lambda s: (" ", *s.features[1:]), "names_in_order": lambda s: (" ", *s.features[1:])},
    "levels of no feature": {"levels": lambda s: {"colour": ("red",)}},
    "a metric of theirs": {"metric": lambda s: "os.system"},
    "units of theirs": {"units": lambda s: "yards"},
    "known by numbers": {"known": lambda s: s.known.astype(float)},
    "others where nothing is known": {"known": lambda s: ~s.known},
    "weights of nothing": {"weights": lambda s: np.zeros(3)},
    "errors below nothing": {"errors": lambda s: -np.ones(s.values.shape)},
    "no clusters": {"sizes": lambda s: s.sizes[:0]},
    "distances below nothing": {"tails": lambda s: -s.tails},
    "distances that are no numbers": {"tails": lambda s: s.tails * np.nan},
    "an endless story": {"privacy": lambda s: "x" * 200_000},
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_public_file_with_a_right_checksum_and_wrong_content_is_refused(lie, raw):
    stored = model_file.public_from_bytes(raw, "public")
    changed = msgspec.structs.replace(stored, **{field: make(stored) for field, make in LIES[lie].items()})
    with pytest.raises(ModelFileError, match="cannot be shared"):
        model_file.public_to_bytes(changed)
    content = model_file._ENCODER.encode(changed)
    with pytest.raises(ModelFileError, match="is invalid"):
        model_file.public_from_bytes(with_header(content), "public")


def with_header(content):
    return model_file.PUBLIC_MAGIC + struct.pack(">H", model_file.PUBLIC_VERSION) + sha256(content).digest() + content


@given(data=st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_bytes_lead_to_anything_but_a_model_or_our_error(data, raw):
    body = bytearray(raw[model_file.HEADER :])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        public = intarsia.PublicModel(model_file.public_from_bytes(with_header(bytes(body)), "public"))
    except ModelFileError:
        return
    assert isinstance(str(public), str)
    public.predict({public.feature_names[0]: [0.0]} if not public.levels else {"y": [0.0]})
    public.explain()


def test_a_public_file_is_no_study_and_says_so(raw, tmp_path):
    path = tmp_path / "public.intarsia"
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match="is a public model"):
        model_file.load(path)
    path.write_bytes(raw[:-3])
    with pytest.raises(ModelFileError, match="damaged"):
        intarsia.load(path)
    path.write_bytes(raw[:8] + b"\0\7" + raw[10:])
    with pytest.raises(ModelFileError, match="format version 7"):
        intarsia.load(path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        intarsia.load(tmp_path / "nothing")


def test_a_private_study_says_what_its_model_promises(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.repeat([0.0, 8.0], 200)[:, None] + rng.normal(size=(2, 400, 1))
    declared = intarsia.DifferentialPrivacy(epsilon=20, bounds={"x": (-5, 15)})
    tables = {name: pd.DataFrame({"x": part[:, 0]}) for name, part in zip(NAMES, rows, strict=False)}
    result = intarsia.cluster(tables, 2, privacy=declared, random_state=0)
    public = intarsia.load(saved(result, tmp_path))
    assert "changes the probability" in public.privacy
    assert nameless(result.explain()) == public.explain()
    assert "about" in str(public)
    assert_same_answers(result, public, tables[NAMES[0]])
    assert result.public().privacy == public.privacy
    assert not any(name in public.privacy for name in NAMES)
