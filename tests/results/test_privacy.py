from __future__ import annotations

import math

import numpy as np
import pytest

from intarsia.core.private.conversion import epsilon_of_rho, surest_guess
from intarsia.results.privacy import PrivacyAccount, Spent


def account(**changes):
    spent = (Spent("a", "sketch", 0.02), Spent("b", "sketch", 0.01), Spent("a", "round 1", 0.0044))
    return PrivacyAccount(**{"epsilon": 1.0, "delta": 1e-6, "rows_per_person": 1, "spent": spent} | changes)


@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
@pytest.mark.parametrize("rho", [1e-5, 0.0244, 0.5, 12.0])
def test_the_epsilon_that_is_shown_is_that_of_opendp(rho, delta):
    noise = pytest.importorskip("intarsia.privacy.noise")
    pytest.importorskip("opendp")
    assert epsilon_of_rho(rho, delta) == pytest.approx(noise.epsilon_of(rho, delta), rel=1e-6)


def test_nothing_spent_means_nothing_learned():
    assert epsilon_of_rho(0.0, 1e-6) == 0.0
    assert surest_guess(0.0) == 0.5


def test_spending_adds_up_as_rho_and_by_less_as_epsilon():
    several = account()
    assert several.rho == pytest.approx({"a": 0.0244, "b": 0.01})
    alone = [epsilon_of_rho(each.rho, 1e-6) for each in several.spent if each.participant == "a"]
    assert max(alone) < several.epsilons["a"] == several.most < sum(alone)


def test_the_meaning_of_epsilon_one_by_hand():
    assert round(100 / (1 + math.exp(-1))) == 73
    text = account().meaning
    assert "one row" in text
    assert "factor of 2.72" in text
    assert "at most 73 % sure" in text
    assert "up to 3 rows of one person" in account(rows_per_person=3).meaning


def test_it_reads_well():
    assert "  a: epsilon 1 (rho 0.0244); alone: sketch 0.9" in str(account())
    assert repr(account()) == "<PrivacyAccount: epsilon 1 of 1, delta 1e-06, 2 participants>"


def test_errors_that_are_not_known_are_nan():
    assert np.isnan(account().error_matrix(2, 3)).all()
    matrix = account(errors=((1.0, None), (0.5, 2.0))).error_matrix(2, 2)
    assert matrix[1].tolist() == [0.5, 2.0]
    assert np.isnan(matrix[0, 1])
