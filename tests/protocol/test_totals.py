"""Replies as vectors of whole numbers: the sum of the vectors is the sum of the replies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from intarsia.core.units import pool
from intarsia.exceptions import ProtocolError
from intarsia.protocol import Labelled, Moments, Refined
from intarsia.protocol.secure import LABELS, ROUND, UNITS, Layout
from intarsia.protocol.totals import (
    labels_vector,
    length,
    moments_vector,
    round_vector,
    total_labels,
    total_moments,
    total_rounds,
)

FEATURES = ("a", "b", "c")
PLACES = [np.array([0, 1]), np.array([1, -1, 2]), np.array([0, 1, 2])]  # −1: a column that stays at home


def layout(what, k=2, n_sets=1):
    return Layout(what=what, features=FEATURES, n_sets=n_sets, n_clusters=k, units=np.array([1.0, 0.01, 100.0]))


@given(st.integers(0, 10**6), st.floats(1e-20, 1e20))
def test_moments_of_all_are_those_of_the_pooled_columns(seed, far):
    rng = np.random.default_rng(seed)
    parts, total = [], 0
    for places in PLACES:
        n = len(places)
        count = rng.integers(0, 50, size=n).astype(float)
        moments = Moments(
            count=count,
            mean=np.where(count, far * rng.normal(size=n), 0.0),
            m2=np.where(count, rng.random(n), 0.0) * far**2,
        )
        total = total + moments_vector(moments, places, layout(UNITS))
        parts.append((places[places >= 0], moments.only(places >= 0), places >= 0))
    assert len(total) == length(layout(UNITS))
    found = total_moments(total, layout(UNITS))
    told = [(at, Moments(count=m.count[own], mean=m.mean[own], m2=m.m2[own])) for at, m, own in parts]
    expected = pool(told, len(FEATURES))
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12 * far)
    np.testing.assert_allclose(found.m2, expected.m2, rtol=1e-9, atol=1e-9 * far**2)


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_rounds_add_up_set_by_set(seed, n_sets):
    rng = np.random.default_rng(seed)
    sent, k = [rng.normal(size=(2, 3)) for _ in range(n_sets)], 2
    sums, counts, sizes, misfits, total = (
        np.zeros((n_sets, k, 3)),
        np.zeros((n_sets, k, 3)),
        np.zeros((n_sets, k)),
        [0.0] * n_sets,
        0,
    )
    for places in PLACES:
        told, refined, centres = places >= 0, [], []
        for s in range(n_sets):
            n = rng.integers(0, 9, size=(k, len(places))).astype(float)
            part = Refined(
                values=rng.normal(size=n.shape), counts=n, sizes=rng.integers(9, 20, size=k), misfit=float(rng.random())
            )
            own = np.zeros(n.shape)
            own[:, told] = sent[s][:, places[told]]
            sums[s][:, places[told]] += ((part.values - own) * n)[:, told]
            counts[s][:, places[told]] += n[:, told]
            sizes[s] += part.sizes
            misfits[s] += part.misfit
            refined.append(part)
            centres.append(own)
        total = total + round_vector(refined, centres, places, layout(ROUND, k, n_sets), 3)
    assert len(total) == length(layout(ROUND, k, n_sets))
    for s, found in enumerate(total_rounds(total, layout(ROUND, k, n_sets))):
        np.testing.assert_allclose(found.away, sums[s], atol=1e-5)
        np.testing.assert_array_equal(found.counts, counts[s])
        np.testing.assert_array_equal(found.sizes, sizes[s])
        assert found.misfit == pytest.approx(misfits[s], rel=1e-12)


def test_a_layout_that_would_fill_the_memory_is_refused_before_anything_is_made():
    names = tuple(f"f{m:05}" for m in range(10_000))
    fits = Layout(what=ROUND, features=names, n_sets=8, n_clusters=100, units=np.ones(len(names)))
    fits.check()
    with pytest.raises(ProtocolError, match="entries together"):
        replace(fits, n_clusters=1000).check()


def test_labels_add_up_and_totals_that_cannot_be_are_refused():
    one = Labelled(
        sizes=np.array([3, 4]), counts=np.array([[3.0, 2.0], [4.0, 0.0]]), squares=np.array([[1.5, 0.02], [2.0, 0.0]])
    )
    vector = labels_vector(one, PLACES[0], layout(LABELS), 3)
    found = total_labels(vector + vector, layout(LABELS))
    assert found.sizes.tolist() == [6, 8]
    assert found.counts.tolist() == [[6, 4, 0], [8, 0, 0]]
    np.testing.assert_allclose(found.squares, [[3.0, 0.04, 0], [4.0, 0, 0]], rtol=1e-3)
    with pytest.raises(ProtocolError, match="the sums of one of them are wrong"):
        total_labels(-vector, layout(LABELS))
    with pytest.raises(ProtocolError, match="the sums of one of them are wrong"):
        list(total_rounds(np.full(length(layout(ROUND)), -1), layout(ROUND)))
