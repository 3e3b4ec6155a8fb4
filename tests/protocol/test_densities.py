"""Densities in messages: what was packed is unpacked, and anything else is refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from intarsia.core.densities import family_of, fit_densities
from intarsia.exceptions import ProtocolError
from intarsia.protocol import DensityMessage, LocalSummary, decode_reply, encode
from intarsia.protocol.densities import fewest_rows, packed, problem_of, unpacked
from tests.core.densities.fitting import clustered
from tests.hostile import array

NAMES = ("gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal", "dirichlet", "discrete")


def fitted(name, d=4):
    rng = np.random.default_rng(0)
    rows = {
        "dirichlet": rng.dirichlet(np.arange(1.0, d + 1.0), size=90),
        "discrete": rng.integers(3, size=(90, d)).astype(float),
    }.get(name, rng.normal(size=(90, d)) + rng.normal(size=(90, 1)))
    return fit_densities(clustered(rows, np.ones(rows.shape, dtype=bool)), name)[0]


def summary(density, d=4):
    return LocalSummary(
        features=tuple("abcdefgh"[:d]),
        n_rows=90,
        filled=np.full(d, 90),
        values=np.zeros((1, d)),
        counts=np.full((1, d), 90.0),
        sizes=np.array([90]),
        densities=(density,),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_density_survives_the_wire(name):
    density = fitted(name)
    [message] = decode_reply(encode(summary(packed(density, family_of(name))))).densities
    assert problem_of(message, 4) is None
    again = unpacked(message, density.mean)
    assert type(again) is type(density)
    np.testing.assert_array_equal(again.mean, density.mean)
    np.testing.assert_array_equal(again.variances, density.variances)


@pytest.mark.parametrize("name", NAMES)
def test_a_density_takes_few_bytes_beside_its_numbers(name):
    message = packed(fitted(name), family_of(name))
    content = sum(part.nbytes for part in message.parts.values())
    names = sum(len(part) for part in message.parts)
    beside = len(encode(summary(message))) - len(encode(msgspec.structs.replace(summary(message), densities=())))
    assert beside - content - names <= 24 + 24 * len(message.parts)


def with_density(**changes):
    """The bytes of a summary whose density was changed behind the back of its class."""
    tree = msgspec.msgpack.decode(encode(summary(packed(fitted("gaussian_diagonal"), family_of("gaussian")))))
    [density] = tree["densities"]
    tree["densities"] = [density | changes]
    return msgspec.msgpack.encode(tree)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "poisson"},
        {"kind": "gaussian_diagonal"},
        {"kind": "dirichlet"},
        {"kind": 1},
        {"parts": {}},
        {"parts": {"covariance": array(np.ones(4)), "mean": array(np.ones(4))}},
        {"parts": {"factors": array(np.ones((4, 1)))}},
        {"parts": {"covariance": 1.0}},
        {"parts": {"covariance": [1.0, 1.0]}},
        {"parts": {"covariance": None}},
        {"parts": {1: array(np.ones(4))}},
        {"more": 1},
    ],
)
def test_unknown_kinds_and_parts_are_refused_when_a_message_is_decoded(changes):
    assert decode_reply(with_density()).densities
    with pytest.raises(ProtocolError):
        decode_reply(with_density(**changes))


INT, NAN = np.array([1]), float("nan")
FLAT = {
    "columns": np.array([0, 1]),
    "widths": np.array([1, 1]),
    "lengths": np.array([2, 1]),
    "outcomes": np.array([0.0, 1.0, 5.0]),
    "probabilities": np.array([0.25, 0.75, 1.0]),
}
WRONG = {
    "shape": ("gaussian", {"covariance": np.ones(3)}),
    "square": ("gaussian", {"covariance": np.ones((2, 3))}),
    "number": ("gaussian", {"covariance": np.array(1.0)}),
    "infinite": ("gaussian", {"covariance": np.array([1.0, np.inf])}),
    "no number": ("gaussian", {"covariance": np.array([1.0, NAN])}),
    "whole numbers": ("gaussian", {"covariance": np.array([1, 1])}),
    "truth values": ("gaussian", {"covariance": np.array([True, True])}),
    "negative variance": ("gaussian", {"covariance": -np.ones(2)}),
    "negative variance in a matrix": ("gaussian", {"covariance": np.diag([1.0, -1.0])}),
    "no symmetry": ("gaussian", {"covariance": np.array([[1.0, 0.5], [0.0, 1.0]])}),
    "too large": ("gaussian", {"covariance": np.full(2, 1e300)}),
    "too many factors": ("gaussian", {"covariance": np.ones(2), "factors": np.ones((2, 3))}),
    "factors of other features": ("gaussian", {"covariance": np.ones(2), "factors": np.ones((3, 1))}),
    "factors of a matrix": ("gaussian", {"covariance": np.eye(2), "factors": np.ones((2, 1))}),
    "flat factors": ("gaussian", {"covariance": np.ones(2), "factors": np.ones(2)}),
    "negative diagonal": ("gaussian", {"covariance": -np.ones(2), "factors": np.ones((2, 1))}),
    "large factors": ("gaussian", {"covariance": np.ones(2), "factors": np.full((2, 1), 1e200)}),
    "alpha of one part": ("dirichlet", {"alpha": np.ones(1), "total": np.array(1.0)}),
    "alpha of nothing": ("dirichlet", {"alpha": np.zeros(2), "total": np.array(1.0)}),
    "negative alpha": ("dirichlet", {"alpha": np.array([-1.0, 2.0]), "total": np.array(1.0)}),
    "huge alpha": ("dirichlet", {"alpha": np.array([1e12, 2.0]), "total": np.array(1.0)}),
    "no total": ("dirichlet", {"alpha": np.ones(2), "total": np.array(0.0)}),
    "several totals": ("dirichlet", {"alpha": np.ones(2), "total": np.ones(2)}),
    "whole total": ("dirichlet", {"alpha": np.ones(2), "total": np.array(1)}),
    "infinite total": ("dirichlet", {"alpha": np.ones(2), "total": np.array(np.inf)}),
    "other columns": ("discrete", FLAT | {"columns": np.array([0, 2])}),
    "a column twice": ("discrete", FLAT | {"columns": np.array([0, 0])}),
    "half a column": ("discrete", FLAT | {"columns": np.array([0.0, 1.0])}),
    "no width": ("discrete", FLAT | {"widths": np.array([2, 0])}),
    "huge width": ("discrete", FLAT | {"widths": np.array([2**62, 2**62])}),
    "huge length": ("discrete", FLAT | {"lengths": np.array([2**62, 1])}),
    "more blocks than widths": ("discrete", FLAT | {"lengths": np.array([1, 1, 1])}),
    "an outcome more": ("discrete", FLAT | {"outcomes": np.zeros(4)}),
    "a probability more": ("discrete", FLAT | {"probabilities": np.array([0.25, 0.25, 0.5, 1.0])}),
    "outcomes in a square": ("discrete", FLAT | {"outcomes": np.zeros((3, 1))}),
    "negative probability": ("discrete", FLAT | {"probabilities": np.array([-0.5, 1.5, 1.0])}),
    "half of the outcomes": ("discrete", FLAT | {"probabilities": np.array([0.25, 0.25, 1.0])}),
    "large outcome": ("discrete", FLAT | {"outcomes": np.array([0.0, 1e200, 5.0])}),
    "no outcome": ("discrete", FLAT | {"outcomes": np.array([0.0, NAN, 5.0])}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_parts_that_describe_no_density_are_refused(wrong):
    kind, parts = WRONG[wrong]
    assert problem_of(DensityMessage("discrete", FLAT), 2) is None
    problem = problem_of(DensityMessage(kind, parts), 2)
    assert problem
    with pytest.raises(ProtocolError):
        summary(DensityMessage(kind, parts), d=2).check()


@pytest.mark.parametrize("wrong", WRONG)
def test_rows_behind_a_density_are_counted_before_anybody_checked_it(wrong):
    kind, parts = WRONG[wrong]
    message = DensityMessage(kind, parts)
    for sizes in (np.array([7]), np.array([np.nan]), np.array([2**63 - 1]), np.array([[True]]), np.array(-1)):
        rows = fewest_rows((message,), sizes, np.array([[np.nan, 5.0]]))
        assert set(rows) == {f"{kind}.{part}" for part in parts}
        assert all(0 <= n <= 2**53 for n in rows.values())
