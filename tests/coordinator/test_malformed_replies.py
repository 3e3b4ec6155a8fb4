"""Algorithms refuse replies that cannot be right, and name the participant."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import IntarsiaError, ProtocolError
from intarsia.protocol import (
    DensityMessage,
    Describe,
    Description,
    Failure,
    Labelled,
    LocalSummary,
    Refinement,
)
from intarsia.runtime.contract import AbsentError, Runtime
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from tests.two import participants


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
    "a silhouette of two": (LocalSummary, lambda r: changed(r, tried=np.full((3, 7), 2.0))),
    "a table of another shape": (LocalSummary, lambda r: changed(r, tried=np.zeros((3, 6)))),
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
