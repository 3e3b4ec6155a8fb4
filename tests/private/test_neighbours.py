"""One row more or less changes what a private participant tells through noisy sums only, and these by their norm at most."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

from tests.private.neighbours import HOW, compare

pytest.importorskip("opendp")


def compared(tmp_path, how, n_pairs, seed):
    rng, ratios = np.random.default_rng([seed, HOW.index(how)]), list[Fraction]()
    for k in range(n_pairs):
        folder = tmp_path / str(k)
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pandas, about cells of different types
            ratios += compare(rng, folder, how)
    assert len(ratios) >= 4 * n_pairs
    assert max(ratios) <= 1
    assert max(ratios) > Fraction(98, 100)  # some rows change as much as they can


@pytest.mark.parametrize(("how", "n_pairs"), list(zip(HOW, (70, 60, 35, 20, 15), strict=True)))
def test_one_row_reaches_replies_through_bounded_sums_only(tmp_path, how, n_pairs):
    compared(tmp_path, how, n_pairs, seed=0)


@pytest.mark.attack
@pytest.mark.parametrize("how", HOW)
def test_one_row_in_a_thousand_pairs_of_tables(tmp_path, how):
    compared(tmp_path, how, 1000, seed=1)
