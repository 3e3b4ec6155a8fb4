"""Algorithms decide and never send; participants answer and never show rows."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import InputError, IntarsiaError, LocalAlgorithmError, ProtocolError, TooFewRowsError
from intarsia.participant import Participant
from intarsia.protocol import (
    Assign,
    Centres,
    Columns,
    DensityMessage,
    Describe,
    Description,
    Failure,
    Gaussians,
    Label,
    Labelled,
    LocalSummary,
    Refine,
    Refinement,
    Summarize,
    encode,
)
from intarsia.runtime.contract import AbsentError, Runtime
from intarsia.runtime.drive import drive, exception_of
from intarsia.runtime.in_process import InProcessRuntime, WireRuntime
from intarsia.tables.frame import read_table

ALGORITHMS = [
    FederatedAlgorithm(n_clusters=2, seed=0),
    FederatedAlgorithm(n_clusters=2, seed=0, scale="standard"),
    OneShotAlgorithm(n_clusters=2, seed=0, bounding_boxes=True, force="sampled"),
    OneShotAlgorithm(n_clusters=None, seed=0, scale="standard", force="sampled"),
]


def columns_of_two():
    rng = np.random.default_rng(0)
    who = {"a": "xy", "b": "yz"}
    return {name: {c: rng.normal(size=30) + 9 * (np.arange(30) % 2) for c in columns} for name, columns in who.items()}


def participants(canary=None):
    tables = columns_of_two()
    if canary is not None:
        for columns in tables.values():
            columns["y"][3] = canary
    return [Participant(read_table(columns, name)) for name, columns in tables.items()]


class Tapped(WireRuntime):
    """Keeps the bytes of all replies."""

    def __init__(self, participants):
        super().__init__(participants)
        self.replies = []

    def exchange(self, requests, on_reply=None):
        replies = super().exchange(requests, on_reply)
        self.replies += [encode(reply) for reply in replies.values()]
        return replies


@pytest.mark.parametrize("algorithm", ALGORITHMS[:2])
def test_no_cell_leaves_a_participant(algorithm):
    canary = 9.123456789
    runtime = Tapped(participants(canary))
    drive(algorithm, runtime)
    assert runtime.replies
    assert not any(np.float64(canary).tobytes() in raw for raw in runtime.replies)


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


def test_a_failure_becomes_the_exception_it_names_and_never_a_foreign_one():
    assert type(exception_of(Failure(error="TooFewRowsError", message="m"))) is TooFewRowsError
    for name in ("SystemExit", "quote", "IntarsiaWarning", "__doc__"):
        assert type(exception_of(Failure(error=name, message="m"))) is LocalAlgorithmError


def test_without_a_quorum_nobody_is_asked_after_a_failure():
    asked = []

    class Failing(InProcessRuntime):
        def _ask(self, name, request):
            asked.append(name)
            return Failure(error="InputError", message="no")

    with pytest.raises(InputError, match="participant 'a': no"):
        drive(ALGORITHMS[0], Failing(participants()))
    assert asked == ["a"]


class Liar(Runtime):
    """Answers everything rightly but one kind of reply, which it replaces."""

    def __init__(self, kind, change):
        self.runtime, self.kind, self.change = InProcessRuntime(participants()), kind, change

    def participants(self):
        return self.runtime.participants()

    def exchange(self, requests, on_reply=None):
        replies = self.runtime.exchange(requests)
        if isinstance(replies["b"], self.kind):
            replies["b"] = self.change(replies["b"])
        return {name: reply for name, reply in replies.items() if reply is not None}


def changed(reply, **fields):
    return type(reply)(**{f: fields.get(f, getattr(reply, f)) for f in reply.__struct_fields__})


def rerefined(reply, **fields):
    return changed(reply, refined=tuple(changed(one, **fields) for one in reply.refined))


LIES = {
    "silence": (Description, lambda r: None),
    "another kind": (
        Description,
        lambda r: Refinement(refined=()),
    ),
    "no features": (Description, lambda r: changed(r, features=())),
    "a feature twice": (Description, lambda r: changed(r, features=("y", "y"))),
    "other features": (LocalSummary, lambda r: changed(r, features=("y", "w"))),
    "wrong shape": (LocalSummary, lambda r: changed(r, values=r.values[:, :1])),
    "sizes in two dimensions": (LocalSummary, lambda r: changed(r, sizes=np.ones((2, 2), dtype=int))),
    "not a number": (LocalSummary, lambda r: changed(r, values=r.values * np.nan)),
    "negative counts": (LocalSummary, lambda r: changed(r, counts=-r.counts)),
    "infinite counts": (LocalSummary, lambda r: changed(r, counts=r.counts * np.inf)),
    "empty clusters": (LocalSummary, lambda r: changed(r, sizes=r.sizes * 0)),
    "refined to nothing": (Refinement, lambda r: rerefined(r, values=r.refined[0].values * np.nan)),
    "refined sizes": (Refinement, lambda r: rerefined(r, sizes=r.refined[0].sizes - 1000)),
    "refined shape": (Refinement, lambda r: rerefined(r, counts=r.refined[0].counts[:1])),
    "an endless misfit": (Refinement, lambda r: rerefined(r, misfit=float("inf"))),
    "a negative misfit": (Refinement, lambda r: rerefined(r, misfit=-1.0)),
    "one answer too many": (Refinement, lambda r: changed(r, refined=r.refined * 2)),
    "no answer": (Refinement, lambda r: changed(r, refined=())),
    "a clarity beyond measure": (LocalSummary, lambda r: changed(r, clarity=float("nan"))),
    "no rows": (Description, lambda r: changed(r, n_rows=-5)),
    "half a row": (LocalSummary, lambda r: changed(r, counts=r.counts / 7)),
    "sizes that do not fit": (Labelled, lambda r: changed(r, sizes=np.ones(7, dtype=int))),
    "no spread": (Labelled, lambda r: changed(r, counts=None)),
    "negative squares": (Labelled, lambda r: changed(r, squares=r.squares - 1e9)),
    "a spread of the wrong shape": (Labelled, lambda r: changed(r, squares=r.squares[:, :1])),
    "half a cell": (Labelled, lambda r: changed(r, counts=r.counts + 0.5)),
    "negative sizes": (Labelled, lambda r: changed(r, sizes=r.sizes - 1000)),
    "failure": (LocalSummary, lambda r: Failure(error="InputError", message="no")),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_malformed_reply_is_refused_by_name(lie):
    kind, change = LIES[lie]
    with pytest.raises(IntarsiaError) as error:
        drive(FederatedAlgorithm(n_clusters=2, seed=0), Liar(kind, change))
    if lie != "failure":
        assert isinstance(error.value, AbsentError if lie == "silence" else ProtocolError)
        assert "'b'" in str(error.value)


ONE_SHOT_LIES = {
    "too few densities": lambda r: changed(r, densities=r.densities[:1]),
    "a covariance of the wrong shape": lambda r: with_density(r, gaussian(covariance=np.ones(5))),
    "an infinite covariance": lambda r: with_density(r, gaussian(covariance=np.full(2, np.inf))),
    "no symmetry": lambda r: with_density(r, gaussian(covariance=np.array([[1.0, 0.5], [0.0, 1.0]]))),
    "factors of other features": lambda r: with_density(r, gaussian(covariance=np.ones(2), factors=np.ones((3, 1)))),
    "a negative rest": lambda r: with_density(r, gaussian(covariance=-np.ones(2), factors=np.ones((2, 1)))),
    "infinite factors": lambda r: with_density(r, gaussian(covariance=np.ones(2), factors=np.full((2, 1), np.nan))),
    "no shares": lambda r: with_density(r, dirichlet(np.zeros(2), 1.0)),
    "shares of nothing": lambda r: with_density(r, dirichlet(np.ones(2), 0.0)),
    "half of the outcomes": lambda r: with_density(r, coded(share=[0.5, 0.25])),
    "columns twice": lambda r: with_density(r, coded(columns=[0, 0])),
    "outcomes that are no numbers": lambda r: with_density(r, coded(outcome=np.nan)),
    "a fidelity of the wrong shape": lambda r: changed(r, fidelity=np.ones((1, 3))),
    "a box of the wrong shape": lambda r: changed(r, low=r.low[:, :1]),
    "moments that do not fit": lambda r: changed(r, moments=changed_moments(r)),
    "a negative variance": lambda r: with_density(r, gaussian(covariance=-np.ones(2))),
    "a box that is none": lambda r: changed(r, low=r.high + 1.0),
    "an infinite box": lambda r: changed(r, high=r.high * np.inf),
    "levels without a feature": lambda r: changed(r, levels={"sex": ("f", "m")}),
    "more filled cells than rows": lambda r: changed(r, filled=r.filled + 1000),
    "no rows": lambda r: changed(r, n_rows=0),
    "far too large": lambda r: changed(r, values=r.values + 1e300),
    "features out of order": lambda r: changed(r, features=r.features[::-1]),
    "more rows in clusters than in all": lambda r: changed(r, n_rows=1),
    "half a row": lambda r: changed(r, sizes=r.sizes * 0.5),
    "nothing filled": lambda r: changed(r, filled=r.filled * 0),
    "a composition": lambda r: with_density(r, dirichlet(np.ones(2), 1.0)),
    "codes": lambda r: with_density(r, coded()),
    "columns in a square": lambda r: with_density(r, coded(columns=[[0], [1]])),
    "no densities": lambda r: changed(r, densities=None),
}


def with_density(reply, density):
    return changed(reply, densities=(density,) * len(reply.densities))


def gaussian(**parts):
    return DensityMessage("gaussian", parts)


def dirichlet(alpha, total):
    return DensityMessage("dirichlet", {"alpha": alpha, "total": np.array(total)})


def coded(columns=(0, 1), share=(0.5, 0.5), outcome=1.0):
    parts = {
        "columns": np.array(columns),
        "widths": np.array([2]),
        "lengths": np.array([2]),
        "outcomes": np.array([0.0, 0.0, outcome, 1.0]),
        "probabilities": np.array(share),
    }
    return DensityMessage("discrete", parts)


def changed_moments(reply):
    from intarsia.protocol import Moments

    return Moments(count=np.ones(9), mean=np.ones(9), m2=np.ones(9))


@pytest.mark.parametrize("lie", ONE_SHOT_LIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_malformed_density_is_refused_by_name(lie):
    with pytest.raises(ProtocolError, match="'b'"):
        drive(
            OneShotAlgorithm(n_clusters=2, bounding_boxes=True, force="sampled"), Liar(LocalSummary, ONE_SHOT_LIES[lie])
        )


@pytest.mark.parametrize("scale", ["minmax", "robust"])
@pytest.mark.parametrize("kind", [Description, LocalSummary])
def test_moments_without_what_the_units_need_are_refused(scale, kind):
    algorithm = FederatedAlgorithm if kind is Description else OneShotAlgorithm
    bare = lambda r: changed(r, moments=r.moments and changed(r.moments, low=None, high=None, quantiles=None))
    half = lambda r: changed(r, moments=r.moments and changed(r.moments, low=np.zeros(0), high=None))
    for lie in (bare, half):
        with pytest.raises(ProtocolError, match="'b'"):
            drive(algorithm(n_clusters=2, seed=0, scale=scale), Liar(kind, lie))


def test_a_number_of_clusters_is_chosen_from_gaussians_only():
    with pytest.raises(ProtocolError, match="'b'.*densities must be gaussian_diagonal"):
        drive(FederatedAlgorithm(n_clusters=None), Liar(LocalSummary, lambda r: with_density(r, coded())))


def test_moments_that_only_some_send_are_refused():
    with pytest.raises(ProtocolError, match="'b'.*moments are missing"):
        drive(
            FederatedAlgorithm(n_clusters=2, seed=0, scale="standard"),
            Liar(Description, lambda r: changed(r, moments=None)),
        )


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


def test_an_algorithm_can_be_answered_by_hand():
    """No runtime at all: start, read the questions, write the answers."""
    algorithm = FederatedAlgorithm(n_clusters=1, max_rounds=0)
    step = algorithm.start(["a", "b"])
    assert {name: type(request) for name, request in step.requests.items()} == {"a": Describe, "b": Describe}
    step = algorithm.advance(
        step.state, {"a": Description(features=("x",), n_rows=2), "b": Description(features=("x",), n_rows=2)}
    )
    summary = {"features": ("x",), "sizes": np.array([2]), "n_rows": 2, "filled": np.array([2])}
    step = algorithm.advance(
        step.state,
        {
            "a": LocalSummary(values=np.array([[1.0]]), counts=np.array([[2.0]]), **summary),
            "b": LocalSummary(values=np.array([[4.0]]), counts=np.array([[1.0]]), **summary),
        },
    )
    assert step.requests["a"].centres.values.tolist() == [[2.0]]


def test_result_is_the_same_as_through_the_estimator():
    people = participants()
    drive(FederatedAlgorithm(n_clusters=2, seed=0), InProcessRuntime(people))
    result = intarsia.cluster(columns_of_two(), 2, random_state=0)
    for person in people:
        np.testing.assert_array_equal(result.labels[person.name], person.labels)


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
    assert encode(first) == encode(again)
    assert dense.densities is not None
    assert len(calls) == 1
    participant.handle(Summarize(**{**ask, "seed": 1}))
    assert len(calls) == 2
