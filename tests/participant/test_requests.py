"""Participants answer requests that make sense, refuse all others, and never show rows."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.participant import Participant
from intarsia.protocol import (
    Assign,
    Centres,
    Columns,
    Failure,
    Gaussians,
    Label,
    Refine,
    Refinement,
    Summarize,
    encode,
)
from intarsia.tables.frame import read_table
from tests.two import participants


def test_a_participant_answers_only_requests():
    (participant, _) = participants()
    reply = participant.handle("rows, please")
    assert isinstance(reply, Failure)
    assert reply.error == "ProtocolError"


def test_groups_before_clusters_are_refused():
    (participant, _) = participants()
    reply = participant.handle(Assign(groups=np.array([0]), n_groups=1))
    assert isinstance(reply, Failure)
    assert "'a': groups need local clusters" in reply.message


def centres(values, known=None, low=(-50.0, -50.0), high=(50.0, 50.0)):
    values = np.array(values, dtype=float)
    known = np.ones(values.shape, dtype=bool) if known is None else np.array(known)
    return Centres(values=values, known=known, low=np.array(low), high=np.array(high))


def gaussians(**changes):
    square = np.ones((2, 2))
    parts = {"means": square, "variances": square, "seen": square > 0, "weights": np.full(2, 0.5)}
    return Gaussians(**(parts | {"overall": np.zeros(2), "width": np.ones(2)} | changes))


GOOD = centres([[0.0, 0.0], [9.0, 9.0]])
ABSURD = {
    "no centres": Label(centres=centres(np.ones((0, 2)))),
    "another number of features": Label(centres=centres([[0.0, 0.0, 0.0]])),
    "not a number": Label(centres=centres([[np.nan, 0.0]])),
    "infinite extent": Label(centres=centres([[0.0, 0.0]], high=(np.inf, 1.0))),
    "units for single rows": Label(centres=GOOD, columns=Columns(shift=np.zeros((30, 1)), scale=np.ones((30, 1)))),
    "no scale": Label(centres=GOOD, columns=Columns(shift=np.zeros(2), scale=np.zeros(2))),
    "a scale that is not a number": Label(centres=GOOD, columns=Columns(shift=np.zeros(2), scale=np.full(2, np.nan))),
    "levels of columns that it does not have": Label(
        centres=GOOD, columns=Columns(shift=np.zeros(2), scale=np.ones(2), levels={"sex": ("f", "m")})
    ),
    "Gaussians of other features": Label(centres=GOOD, gaussians=gaussians(means=np.zeros((2, 3)))),
    "Gaussians without width": Label(centres=GOOD, gaussians=gaussians(variances=np.zeros((2, 2)))),
    "Gaussians without weight": Label(centres=GOOD, gaussians=gaussians(weights=np.array([1.0, 0.0]))),
    "Gaussians that are nowhere": Label(centres=GOOD, gaussians=gaussians(overall=np.array([np.nan, 0.0]))),
    "groups that do not exist": Assign(groups=np.array([-7, -7]), n_groups=2),
    "groups beyond the last": Assign(groups=np.array([1, 0]), n_groups=1),
    "half a group": Assign(groups=np.array([0.5, 0.5]), n_groups=2),
    "a billion groups": Assign(groups=np.array([0, 1]), n_groups=10**9),
}


@pytest.mark.parametrize("request_name", ABSURD)
def test_an_absurd_request_is_refused_and_leaves_no_trace(request_name):
    (participant, _) = participants()
    participant.handle(Summarize(seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=2))
    participant.handle(Label(centres=GOOD))
    before = participant.labels.copy()
    reply = participant.handle(ABSURD[request_name])
    assert isinstance(reply, Failure)
    assert reply.error == "ProtocolError"
    np.testing.assert_array_equal(participant.labels, before)


def one(rows):
    return Participant(read_table({"x": [r[0] for r in rows], "y": [r[1] for r in rows]}, "a"))


def refine(participant, where, **settings):
    settings = {"seed": 0, "round": 1, "min_points": 1, "max_iter": 1, **settings}
    reply = participant.handle(Refine(rivals=(where,), **settings))
    return reply.refined[0] if isinstance(reply, Refinement) else reply


def test_a_centroid_with_fewer_rows_than_min_points_is_ignored():
    participant = one([(0, 0), (1, 1), (2, 0), (9, 9)])
    assert refine(participant, GOOD, min_points=1).sizes.tolist() == [3, 1]
    assert refine(participant, GOOD, min_points=2).sizes.tolist() == [4, 0]


def test_a_hidden_feature_starts_from_the_rows_that_chose_the_centroid():
    # y of the second centroid is unknown; its rows have y = 40, and starting there they stay with it
    participant = one([(0, 0), (1, 1), (8, 40), (9, 40)])
    where = centres([[0.0, 0.0], [9.0, 0.0]], known=[[True, True], [True, False]])
    reply = refine(participant, where)
    assert reply.sizes.tolist() == [2, 2]
    assert reply.values.tolist() == [[0.5, 0.5], [8.5, 40.0]]


def test_refined_centroids_come_back_in_the_order_of_the_global_ones():
    class Backwards:
        """Numbers its clusters the other way round."""

        def __init__(self, n_clusters=2, init=None):
            self.n_clusters, self.init = n_clusters, init

        def get_params(self, deep=True):
            return {"n_clusters": self.n_clusters, "init": self.init}

        def set_params(self, **params):
            vars(self).update(params)
            return self

        def fit_predict(self, X):
            gaps = np.linalg.norm(X[:, None] - np.asarray(self.init)[None], axis=2)
            return len(self.init) - 1 - gaps.argmin(axis=1)

        def __sklearn_clone__(self):
            return Backwards(self.n_clusters, self.init)

    table = read_table({"x": [0.0, 1.0, 9.0], "y": [0.0, 1.0, 9.0]}, "a")
    reply = refine(Participant(table, Backwards()), GOOD)
    assert reply.values.tolist() == [[0.5, 0.5], [9.0, 9.0]]
    assert reply.sizes.tolist() == [2, 1]


def test_participants_compare_by_the_metric_of_the_study():
    # Euclidean: (0, 0) is nearer; Manhattan: (4, 4) costs 8, (0, 7) costs 7
    rows, where = [(0.0, 0.0)], centres([[4.0, 4.0], [0.0, 7.0]])
    table = read_table({"x": [rows[0][0]], "y": [rows[0][1]]}, "a")
    labels = []
    for metric in ("euclidean", "manhattan"):
        participant = Participant(table, metric=metric)
        participant.handle(Label(centres=where))
        labels.append(int(participant.labels[0]))
    assert labels == [0, 1]


def test_more_sets_of_centroids_than_agreed_are_refused():
    participant = one([(0, 0), (1, 1), (9, 9)])
    for rivals in ((), (GOOD,) * 9):
        reply = participant.handle(Refine(seed=0, round=1, rivals=rivals, min_points=1, max_iter=1))
        assert isinstance(reply, Failure)
        assert reply.error == "ProtocolError"


def test_misfit_is_the_sum_of_squared_distances_to_the_nearest():
    reply = refine(one([(0, 0), (1, 1), (9, 7)]), GOOD)
    where = GOOD.values
    rows = np.array([(0, 0), (1, 1), (9, 7)])
    expected = np.square(rows[:, None] - where[None]).sum(axis=2).min(axis=1).sum()
    assert reply.misfit == pytest.approx(expected)


def test_a_participant_asked_twice_clusters_once_and_answers_the_same():
    calls = []

    class Counting:
        def fit_predict(self, rows):
            calls.append(len(rows))
            return np.arange(len(rows)) % 2

        def get_params(self, deep=True):
            return {}

    participant = Participant(read_table({"x": [0.0, 1.0, 8.0, 9.0]}, "a"), Counting())
    ask = {"seed": 0, "n_clusters": 2, "n_local_clusters": None, "max_local_clusters": 2}
    first, again = (participant.handle(Summarize(**ask)) for _ in range(2))
    dense = participant.handle(Summarize(**ask, density="gaussian"))
    participant.handle(Summarize(**ask, density="gaussian", shrink=False))
    assert encode(first) == encode(again)
    assert dense.densities is not None
    assert len(calls) == 1
    participant.handle(Summarize(**{**ask, "seed": 1}))
    assert len(calls) == 2
