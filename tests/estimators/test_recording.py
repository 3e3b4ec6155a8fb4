"""The record of a run: what was exchanged, with which settings, and for how long."""

import numpy as np
import pytest

import intarsia
from intarsia.estimators import recording


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


def test_progress_goes_to_standard_error_if_asked_for_and_is_no_setting_of_the_record(capsys, monkeypatch):
    tables = {name: {"x": [0.0, 0.1, 9.0, 9.1] * 5} for name in "ab"}
    plain = intarsia.cluster(tables, 2, random_state=0)
    intarsia.cluster(tables, 2, random_state=0, verbose=1)
    assert capsys.readouterr().err == ""  # it takes no time
    monkeypatch.setattr(recording, "SILENT", 0.0)
    told = intarsia.cluster(tables, 2, random_state=0, verbose=1)
    lines = capsys.readouterr().err.splitlines()
    assert "who has what: asking a, b" in lines[0]
    assert len(lines) == len(plain.run.exchanges)
    assert {name: each.tolist() for name, each in told.labels.items()} == {
        name: each.tolist() for name, each in plain.labels.items()
    }
    assert told.run.settings == plain.run.settings
