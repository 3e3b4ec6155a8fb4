"""Totals of a table, and replies that contradict them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.coordinator.consistency import Totals, amounts_of_round, amounts_of_sums
from intarsia.protocol import Centres, Refined
from intarsia.results.doubts import CONTRADICTIONS, contradictory


def totals_of(rows):
    observed = ~np.isnan(rows)
    mean = np.nanmean(rows, axis=0)
    return Totals(observed.sum(axis=0).astype(float), mean, np.nansum(np.square(rows - mean), axis=0))


def sums_of(rows, labels, k):
    counts = np.array([(~np.isnan(rows[labels == a])).sum(axis=0) for a in range(k)], dtype=float)
    sums = np.array([np.nansum(rows[labels == a], axis=0) for a in range(k)])
    return sums / np.maximum(counts, 1.0), counts


def one_round(rows, centres):
    """A Lloyd step as an honest participant reports it."""
    distance = np.nansum(np.square(rows[:, None] - centres), axis=2)
    labels = distance.argmin(axis=1)
    values, counts = sums_of(rows, labels, len(centres))
    sizes = np.bincount(labels, minlength=len(centres))
    low, high = centres.min(axis=0), centres.max(axis=0)
    sent = Centres(values=centres, known=np.ones(centres.shape, dtype=bool), low=low, high=high)
    return sent, Refined(values=values, counts=counts, sizes=sizes, misfit=float(distance.min(axis=1).sum()))


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(-3, 8))
def test_no_clustering_contradicts_the_totals_of_its_rows(seed, with_missing, power):
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(60, 4)) + 10.0 * rng.normal(size=4)) * 10.0**power
    if with_missing:
        rows[rng.random(rows.shape) < 0.2] = np.nan
        rows[0] = 1.0
    totals, k = totals_of(rows), int(rng.integers(1, 6))
    labels = rng.integers(-1, k, size=len(rows))  # −1: in no cluster
    assert not contradictory(amounts_of_sums(totals, *sums_of(rows, labels, k)))
    sets = [one_round(rows, rows[rng.choice(len(rows), k, replace=False)]) for _ in range(3)]
    sent, refined = zip(*[each for each in sets if not np.isnan(each[0].values).any()] or [sets[0]], strict=True)
    amounts = amounts_of_round(totals, sent, refined, "manhattan" if np.isnan(sent[0].values).any() else "euclidean")
    assert not contradictory({kind: amount for kind, amount in amounts.items() if kind != "order"})


def honest_and_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 3)) + 6.0 * (np.arange(90) % 3)[:, None]
    return rows, totals_of(rows), *one_round(rows, np.array([[0.5] * 3, [5.0] * 3, [13.0] * 3]))


def replaced(part, **changes):
    return Refined(**{name: getattr(part, name) for name in ("values", "counts", "sizes", "misfit")} | changes)


@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        ("values", lambda part: {"counts": part.counts * 2.0, "sizes": part.sizes * 2}),
        ("means", lambda part: {"values": part.values + 3.0}),
        ("spread", lambda part: {"values": part.values.mean(axis=0) + 2.0 * (part.values - part.values.mean(axis=0))}),
        ("order", lambda part: {"values": part.values[[1, 2, 0]], "counts": part.counts[[1, 2, 0]]}),
        ("low misfit", lambda _: {"misfit": 0.0}),
        ("high misfit", lambda part: {"misfit": 30.0 * part.misfit}),
    ],
)
def test_a_lie_is_recognised_by_what_it_breaks(kind, lie):
    _, totals, sent, part = honest_and_rows()
    assert not contradictory(amounts_of_round(totals, [sent], [part], "euclidean"))
    assert kind in contradictory(amounts_of_round(totals, [sent], [replaced(part, **lie(part))], "euclidean"))


def test_a_misfit_that_favours_one_set_is_recognised_also_without_deviations():
    rows, totals, *_ = honest_and_rows()
    totals = totals._replace(squares=np.full(3, np.nan))
    sets = [one_round(rows, np.array([[0.5] * 3, [4.0 + shift] * 3, [13.0] * 3])) for shift in (0.0, 0.3, 1.0)]
    sent, refined = map(list, zip(*sets, strict=True))
    assert not contradictory(amounts_of_round(totals, sent, refined, "euclidean"))
    refined[1] = replaced(refined[1], misfit=0.7 * refined[1].misfit)
    assert "misfit" in contradictory(amounts_of_round(totals, sent, refined, "euclidean"))


def test_words_of_every_contradiction_can_be_filled_in():
    assert all(kind.words.format(3.0) for kind in CONTRADICTIONS.values())
