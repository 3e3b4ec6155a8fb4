"""Whether a row is in a private table cannot be told better than the budget says, and could be with half of the noise.

Thresholds are fixed, and numbers of runs so large that each test fails by chance with a probability below 1e-6 (exact
binomials, for a row that moves every answer by its norm).
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from intarsia.privacy.noise import rho_of
from intarsia.protocol import AskSketch, AskSums
from tests.attacks.canary import DELTA, EPSILON, audited, scores, scores_of_question
from tests.core.private.questions import KINDS, question, rows_of

pytest.importorskip("opendp")
ROUND = AskSums(round=0, centres=np.array([[-1.0]]), known=np.ones((1, 1), dtype=bool), scales=np.ones(1), radius=1.0)
REPLIES = {"sketch": AskSketch(n_clusters=1), "round": ROUND}


def judge(audit, how):
    sys.stdout.write(f"noise {how}: {audit}\n")
    assert (audit.proven > audit.claimed) == (how == "half"), audit


@pytest.mark.parametrize("how", ["whole", "half"])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "round" else pytest.mark.attack) for kind in KINDS]
)
def test_answers_to_one_question(kind, how):
    asked, rows = question(kind, 1), rows_of(np.linspace(-0.5, 0.5, 20)[:, None])
    without, with_row = scores_of_question(asked, rows, rows_of([[-2.0]]), how, rho_of(EPSILON, DELTA), 10_000)
    judge(audited(without, with_row, EPSILON), how)


@pytest.mark.parametrize("name", REPLIES)
def test_a_row_moves_the_answers_behind_a_reply_as_far_as_is_claimed_and_no_farther(name):
    *_, claimed, distance = scores(REPLIES[name], "whole", 20)
    most = np.sqrt(2 * rho_of(claimed, DELTA))
    assert 0.9 * most < distance <= most * (1 + 1e-9)


@pytest.mark.attack
@pytest.mark.parametrize("how", ["whole", "half"])
@pytest.mark.parametrize("name", REPLIES)
def test_all_answers_behind_a_reply(name, how):
    without, with_row, claimed, _ = scores(REPLIES[name], how, 4000)
    judge(audited(without, with_row, claimed), how)
