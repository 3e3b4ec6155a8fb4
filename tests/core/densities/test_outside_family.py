"""A family of densities from outside the package: one class, registered, works in every place that deals with densities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia.coordinator import OneShotAlgorithm
from intarsia.core.densities import Family, density_names, families, register, unregister
from intarsia.core.densities.gaussian import Gaussian
from intarsia.participant import Participant
from intarsia.protocol.catalogue import fields_of, rows_behind
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime, WireRuntime
from intarsia.tables.frame import read_table


class Isotropic(Family):
    """Gaussians with the same variance in every direction."""

    name, densities = "isotropic", ("isotropic",)
    parts = {"variance": "the variance of each local cluster in every direction"}  # noqa: RUF012
    has_exact_force = True

    def fit(self, clusters, density, *, shrink=True):
        offset, released = clusters.rows.offset, clusters.released
        squares = np.zeros(len(clusters.sizes))
        for part in clusters.released_parts():
            k = part.cluster
            own = released.seen[k]
            apart = part.cells - (released.values[k] - offset)[own][:, None]
            squares[k] += np.square(apart if part.observed is None else apart * part.observed).sum()
        variances = squares / released.counts.sum(axis=1)
        return [
            Gaussian(values[own], np.full(own.sum(), variance))
            for values, own, variance in zip(released.values, released.seen, variances, strict=True)
        ]

    def to_parts(self, density):
        return {"variance": np.array(density.covariance[0])}

    def from_parts(self, parts, mean):
        return Gaussian(mean, np.full(len(mean), float(parts["variance"])))

    def problem(self, parts, n_features):
        good = parts["variance"].shape == () and 0 <= float(parts["variance"]) < 1e200
        return None if good else "a variance that is not a positive number"


@pytest.fixture(autouse=True)
def _registered():
    register(Isotropic())
    yield
    if "isotropic" in families():
        unregister("isotropic")


def tables():
    rng = np.random.default_rng(0)
    truth = {name: np.repeat([0, 1, 2], 40) for name in "abc"}
    columns = {"a": "xy", "b": "yz", "c": "xyz"}
    centres = {"x": [0, 8, 0], "y": [0, 0, 9], "z": [5, 0, 0]}
    return truth, {
        name: {c: np.array(centres[c], dtype=float)[truth[name]] + rng.normal(size=120) for c in columns[name]}
        for name in truth
    }


@pytest.mark.parametrize("release", [None, intarsia.ReleasePolicy()], ids=["open", "policy"])
@pytest.mark.parametrize("force", ["exact", "sampled"])
def test_a_study_with_a_density_from_outside(release, force, tmp_path):
    truth, data = tables()
    settings = {"density": "isotropic", "method": "one_shot", "force": force, "fidelity": True, "random_state": 0}
    result = intarsia.cluster(data, 3, release=release, **settings)
    for name, labels in result.labels.items():
        assert adjusted_rand_score(truth[name], labels) > 0.95
    sent = {s.field for s in result.run.sent}
    assert "densities.isotropic.variance" in sent
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the variance of each local cluster in every direction" in page


def test_the_same_answer_over_wire_bytes():
    _, data = tables()
    outcomes = []
    for runtime in (InProcessRuntime, WireRuntime):
        participants = [Participant(read_table(columns, name)) for name, columns in data.items()]
        outcomes.append(
            drive(OneShotAlgorithm(n_clusters=3, density="isotropic", scale="standard"), runtime(participants))
        )
    one, other = (outcome.model.centroids for outcome in outcomes)
    np.testing.assert_array_equal(one.values, other.values)


def test_what_leaves_is_counted_like_any_density():
    _, data = tables()
    participant = Participant(read_table(data["a"], "a"))
    reply = participant.handle(OneShotAlgorithm(n_clusters=3, density="isotropic").start(["a"]).requests["a"])
    assert [field.entries for field in fields_of(reply) if field.path == "densities.isotropic.variance"] == [1, 1, 1]
    assert rows_behind(reply)["densities.isotropic.variance"] == reply.sizes.min()


def test_the_name_is_known_only_while_it_is_registered():
    assert "isotropic" in density_names()
    unregister("isotropic")
    with pytest.raises(intarsia.exceptions.SettingError, match="density must be one of"):
        intarsia.cluster(tables()[1], 3, method="one_shot", density="isotropic")
