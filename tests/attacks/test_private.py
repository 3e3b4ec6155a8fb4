"""Two rounds around a known row, one subtracted from the other: a private participant does not tell whether it is there.

The same attack computes every row if there is no noise.
"""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.participant.private import PrivateParticipant
from intarsia.privacy.budget import Account
from intarsia.privacy.noise import OpenDPNoise
from intarsia.protocol import AskSums, Failure
from intarsia.tables.open import open_table
from tests.private.neighbours import NoNoise

pytest.importorskip("opendp")
D, N_ROWS, N_TARGETS = 4, 300, 100
PRIVACY = DifferentialPrivacy(1, bounds={f"x{j}": (-2, 2) for j in range(D)})  # declared units are those of the table
NEAR = 1e-7


def upper_side(participant, cut, n):
    """The number of rows beyond a cut through the first column, and the sums of their values."""
    centres = np.zeros((2, D))
    centres[:, 0] = cut - 0.1, cut + 0.1
    known = np.ones((2, D), dtype=bool)
    reply = participant.handle(AskSums(round=n, centres=centres, known=known, scales=np.ones(D), radius=1e6))
    assert not isinstance(reply, Failure), participant.last_error
    return reply.counts[1], reply.sums[1] + reply.counts[1] * centres[1]


def subtracted(rows, row, noise):
    """What two rounds, just before and just behind a known row, differ by."""
    account = Account.of(PRIVACY, 2)
    account.noise = noise
    table = open_table({f"x{j}": rows[:, j] for j in range(D)}, "a").hold(declared=PRIVACY)
    participant = PrivateParticipant(table, PRIVACY, account)
    with_row, without = (upper_side(participant, row[0] + side, n) for n, side in enumerate((-NEAR, NEAR)))
    return with_row[0] - without[0], with_row[1] - without[1]


def attacked(noise):
    """How many of the rows are computed, and the share of right answers to "is this row in the table?"."""
    drawn = np.random.default_rng(0).uniform(-1.5, 1.5, size=(N_ROWS + N_TARGETS, D))
    rows, members, others = drawn[:N_ROWS], drawn[:N_TARGETS], drawn[N_ROWS:]
    computed = right = 0
    for is_member, targets in ((True, members), (False, others)):
        for row in targets:
            count, values = subtracted(rows, row, noise)
            right += (count > 0.5) == is_member
            computed += is_member and bool((np.abs(values - row) < 0.01).all())
    return computed, right / (2 * N_TARGETS)


def test_without_noise_every_row_is_computed():
    assert attacked(NoNoise()) == (N_TARGETS, 1.0)


def test_with_noise_no_row_is_computed_and_guesses_are_hardly_better_than_chance():
    computed, right = attacked(OpenDPNoise())
    assert computed == 0
    assert right < 0.7  # 5 standard deviations above the best guess within this budget
