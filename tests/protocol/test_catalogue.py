"""What left and what came, field by field, taken from the messages themselves."""

import numpy as np
import pytest

import intarsia
from intarsia.core.densities import family_of, fit_densities
from intarsia.protocol import (
    Assign,
    DensityMessage,
    Description,
    Labelled,
    LocalSummary,
    Moments,
    Refined,
    Refinement,
)
from intarsia.protocol.catalogue import Field, differences, fields_of, rows_behind
from intarsia.protocol.densities import packed
from tests.core.densities.fitting import clustered


def _summary(**more):
    return LocalSummary(
        features=("age", "chol"),
        n_rows=12,
        filled=np.array([12, 9]),
        values=np.array([[1.0, 2.0], [3.0, 0.0]]),
        counts=np.array([[7.0, 4.0], [5.0, 0.0]]),
        sizes=np.array([7, 5]),
        **more,
    )


def test_every_field_is_counted_and_what_is_not_there_is_withheld():
    held = {
        h.path: h
        for h in fields_of(
            _summary(
                densities=(
                    DensityMessage("gaussian", {"covariance": np.ones(2)}),
                    DensityMessage("gaussian", {"covariance": np.ones(1)}),
                )
            )
        )
    }
    assert held["values"] == Field("values", 4, 32)
    assert held["features"] == Field("features", 2, 7)
    assert held["moments"] == Field("moments", None, 0)
    assert held["low"].entries is None
    assert "protocol" not in held
    several = [
        h.entries
        for h in fields_of(_summary(densities=(DensityMessage("gaussian", {"covariance": np.ones(2)}),) * 2))
        if h.path.startswith("dens")
    ]
    assert several == [2, 2]


def test_levels_count_their_column_and_themselves():
    description = Description(features=("age",), n_rows=3, levels={"sex": ("f", "m")})
    assert Field("levels", 3, 5) in list(fields_of(description))


def test_rows_behind_are_the_fewest_that_any_entry_has():
    behind = rows_behind(_summary())
    assert (behind["values"], behind["counts"], behind["sizes"], behind["filled"]) == (4, 4, 5, 12)
    assert "low" not in behind  # it was not sent
    moments = Moments(np.array([9.0, 3.0]), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))
    behind = rows_behind(Description(features=("a", "b"), n_rows=9, moments=moments))
    assert (behind["moments.mean"], behind["moments.low"], behind["n_rows"]) == (3, 1, 9)
    refined = Refined(np.zeros((2, 1)), np.array([[0.0], [6.0]]), np.array([0, 8]), 1.0)
    assert rows_behind(Refinement(refined=(refined,))) == {
        "refined.values": 6,
        "refined.counts": 6,
        "refined.sizes": 8,
    }
    labelled = Labelled(sizes=np.array([2, 0]), counts=np.array([[1.0, 2.0], [0.0, 0.0]]), squares=np.zeros((2, 2)))
    assert rows_behind(labelled) == {"sizes": 2, "counts": 1, "squares": 1}
    assert "densities.gaussian.covariance" in rows_behind(
        _summary(densities=(DensityMessage("gaussian", {"covariance": np.ones(2)}),))
    )


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_a_result_remembers_what_was_exchanged(method, tmp_path):
    rng = np.random.default_rng(0)
    centre = np.repeat([0.0, 9.0], 30)[:, None]
    rows = centre + rng.normal(size=(60, 3))
    tables = {"a": {"x": rows[::2, 0], "y": rows[::2, 1]}, "b": {"y": rows[1::2, 1], "z": rows[1::2, 2]}}
    result = intarsia.cluster(tables, 2, method=method, random_state=7)
    run = result.run
    assert run is not None
    assert (run.method, run.seed, run.settings["n_clusters"]) == (method, 7, 2)
    assert {e.phase for e in run.exchanges} >= {"summarize"}
    assert all(set(e.seconds) == set(e.bytes_in) == set(e.bytes_out) == {"a", "b"} for e in run.exchanges)
    by = {(s.participant, s.message, s.field): s for s in run.sent}
    values = by["a", "reply.summary", "values"]
    assert (values.times, values.entries) == (1, 2 * 2)
    assert values.fewest_rows == 15
    # what the fields hold is what the messages hold, but for their frames
    for name in "ab":
        out = sum(e.bytes_out[name] for e in run.exchanges)
        content = sum(s.n_bytes for s in run.sent if s.participant == name and s.message.startswith("reply"))
        assert 0 < content < out
    result.save(tmp_path / "s.intarsia")
    assert intarsia.load(tmp_path / "s.intarsia").run == run


def test_no_label_and_no_row_is_in_any_field():
    """Labels of a participant are as many as its rows: no field may have an entry per row."""
    rng = np.random.default_rng(1)
    rows = np.repeat([0.0, 9.0], 500)[:, None] + rng.normal(size=(1000, 2))
    for method in ("federated", "one_shot"):
        result = intarsia.cluster({"a": {"x": rows[:, 0]}, "b": {"x": rows[:, 1]}}, 2, method=method, random_state=0)
        assert max(s.entries for s in result.run.sent if s.message.startswith("reply")) < 1000


def test_the_rarest_outcome_counts_for_a_table_of_probabilities():
    [codes] = fit_densities(clustered(np.array([[1.0]] * 9 + [[2.0]]), np.ones((10, 1), dtype=bool)), "discrete")
    density = packed(codes, family_of("discrete"))
    assert rows_behind(_summary(densities=(density, density)))["densities.discrete.outcomes"] == 1


def test_sums_that_can_be_subtracted():
    def refinement(*counts):
        return Refinement(refined=(Refined(np.zeros((2, 1)), np.array(counts)[:, None], np.array([9, 9]), 1.0),))

    assert differences(refinement(9.0, 12.0), None) is None
    assert differences(refinement(9.0, 12.0), refinement(9.0, 12.0)) is None
    assert differences(refinement(9.0, 12.0), refinement(11.0, 9.0)) == 2
    assert differences(_summary(), None) is None
    noisy = LocalSummary(
        features=("x",), n_rows=14, filled=np.array([14]), values=np.ones((1, 1)), counts=np.full((1, 1), 11.0),
        sizes=np.array([11]),
    )  # fmt: skip
    assert differences(noisy, None) == 3


def test_settings_are_plain():
    from sklearn.cluster import KMeans

    model = intarsia.FederatedClustering(
        2, local={"a": KMeans(2)}, max_rounds=0, metric="euclidean", random_state=np.int64(3)
    )
    run = model.fit_result({"a": {"x": [0.0, 0.1, 5.0, 5.1]}, "b": {"x": [0.0, 0.2, 5.0, 5.2]}}).run
    assert run.settings["local"] == {"a": "KMeans(n_clusters=2)"}
    assert type(run.settings["random_state"]) is int


def test_settings_hold_no_data_and_no_addresses():
    rows = np.array([[0.125, 1.0], [8.0, 9.0]])
    from sklearn.cluster import KMeans

    from intarsia.estimators.recording import plain

    assert plain(KMeans(2, init=rows, n_init=1)) == "KMeans(init=array of shape (2, 2), n_clusters=2, n_init=1)"
    assert plain(lambda x: x) == "<lambda>"
    assert plain([1, 2.5, np.True_]) == [1, 2.5, True]
    assert plain(list(range(100))) == "100 values"


def test_a_clock_that_is_set_back_costs_nothing(monkeypatch, tmp_path):
    import time

    ticks = iter(range(10**6, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(ticks)))
    result = intarsia.cluster({"a": {"x": [0.0, 1, 8, 9]}, "b": {"x": [0.0, 1, 8, 9]}}, 2, random_state=0)
    assert result.run.seconds >= 0
    result.save(tmp_path / "s.intarsia")


def test_names_with_halves_of_characters_are_refused():
    from intarsia.exceptions import InputError

    for tables in ({"a": {"y\ud800": [1.0, 2.0]}}, {"a\ud800": {"y": [1.0, 2.0]}}, {"a": {"y": ["\ud800", "b"]}}):
        with pytest.raises(InputError, match="not valid UTF-8"):
            intarsia.cluster(tables, 1)


def test_the_groups_that_a_participant_is_told_are_counted():
    assert [h.path for h in fields_of(Assign(groups=np.array([0, 1]), n_groups=2))] == ["groups", "n_groups"]
