"""Requests that no coordinator sends: a private participant refuses them, or answers as it would without one row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import ProtocolError
from intarsia.privacy.budget import Account
from intarsia.protocol import AskSums, Failure, NoisySums, Sketched, decode_request, encode, tag_of
from intarsia.tables.open import open_table
from tests.hostile import Hostile
from tests.private.neighbours import NoNoise, Recording, Replaying, requests

pytest.importorskip("opendp")
PRIVACY = DifferentialPrivacy(4, bounds={"x": (0, 1), "y": (0, 1)}, levels={"sex": ["f", "m"]})
N_ROWS = 12
ANY_ARRAY = arrays.arrays(st.sampled_from(["f8", "i8", "?"]), arrays.array_shapes(min_dims=0, max_dims=3, max_side=3))
ANY_NUMBER = st.one_of(st.floats(), st.integers(-(2**63), 2**63 - 1))


def neighbours():
    """Two participants whose tables differ by one row, with budgets that never end."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.random(N_ROWS), "y": rng.random(N_ROWS), "sex": ["f", "m", None, "other"] * 3}
    both = []
    for kind, n in ((Recording, N_ROWS), (Replaying, N_ROWS - 1)):
        table = open_table({name: cells[:n] for name, cells in rows.items()}, "a").hold(declared=PRIVACY)
        both.append(kind(table, PRIVACY, Account(1.0, 3, 1e9, noise=NoNoise())))
    both[1].expected = both[0].asked
    return both


@pytest.mark.parametrize("seed", range(3))
def test_hostile_requests_do_not_tell_one_row(seed):
    hostile, answered = Hostile([seed, 5]), set()
    first, second = neighbours()
    levels = {"sex": PRIVACY.levels["sex"]}
    honest = [encode(request) for request in requests(np.random.default_rng(seed), 4, levels, N_ROWS)]
    for _ in range(1000):
        raw = hostile.message(hostile.pick(honest), honest)
        try:
            request = decode_request(raw)
        except ProtocolError:
            continue
        replies = [one.handle(request) for one in (first, second)]
        assert encode(replies[0]) == encode(replies[1]), (request, first.last_error, second.last_error)
        if not isinstance(replies[0], Failure):
            answered.add(tag_of(request))
    assert answered == {tag_of(kind) for kind in Recording.handlers}
    assert max(second.ratios) <= 1


@given(centres=ANY_ARRAY, known=ANY_ARRAY, scales=ANY_ARRAY, radius=ANY_NUMBER, n=st.integers(-1, 4))
def test_a_round_is_checked_whatever_its_arrays_are(centres, known, scales, radius, n):
    _checked(AskSums(round=n, centres=centres, known=known, scales=scales, radius=radius))


@given(sums=ANY_ARRAY, counts=ANY_ARRAY, numbers=st.tuples(ANY_NUMBER, ANY_NUMBER, ANY_NUMBER))
def test_noisy_sums_are_checked_whatever_their_arrays_are(sums, counts, numbers):
    _checked(NoisySums(sums=sums, counts=counts, deviation=numbers[0], deviation_of_counts=numbers[1], rho=numbers[2]))


@given(
    names=st.lists(st.text(max_size=3), max_size=3),
    parts=st.tuples(ANY_ARRAY, ANY_ARRAY, ANY_ARRAY),
    numbers=st.tuples(ANY_NUMBER, ANY_NUMBER, ANY_NUMBER),
)
def test_a_sketch_is_checked_whatever_its_arrays_are(names, parts, numbers):
    weights, centroids, covariance = parts
    n_rows, radius, rho = numbers
    _checked(
        Sketched(
            features=tuple(names), n_rows=n_rows, weights=weights, centroids=centroids, covariance=covariance,
            radius=radius, rho=rho,
        )
    )  # fmt: skip


def _checked(message):
    """A message passes, with finite numbers only, or is refused as a ProtocolError."""
    try:
        message.check()
    except ProtocolError:
        return
    values = [getattr(message, name) for name in message.__struct_fields__]
    assert all(np.isfinite(value).all() for value in values if isinstance(value, np.ndarray | float | int))
