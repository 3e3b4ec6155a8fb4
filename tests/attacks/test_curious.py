"""A curious participant of two recovers the other's counts, sums and rows from the centroids that it is sent."""

from __future__ import annotations

import numpy as np

from intarsia import ReleasePolicy
from tests.attacks.blind import blind
from tests.attacks.curious import restricted, sums_of_other
from tests.attacks.listening import listen
from tests.attacks.studies import Study


def two(seed, n_rows=300):
    rng, tables = np.random.default_rng([seed, 11]), {}
    centres = rng.normal(size=(3, 6))
    for name, columns in (("a", range(5)), ("b", range(1, 6))):
        X = 0.8 * centres[rng.integers(3, size=n_rows)] + rng.normal(size=(n_rows, 6))
        tables[name] = {f"x{j}": X[:, j] for j in columns}
    return Study(tables, 3, {"n_rivals": 0, "refinement": "plain"})


def rows_of_other(policy):
    found = 0
    for seed in (1, 2, 5):
        own, other = listen(two(seed), policy, seed).values()
        names = [name for name in own.rows.names if name in other.rows.names]
        told = sums_of_other(own, [own.rows.names.index(name) for name in names], 300)
        found += len(blind(told, restricted(other.rows, names), 2).rows)
    return found


def test_a_participant_of_two_subtracts_its_own_part():
    assert rows_of_other(None) >= 3
    assert rows_of_other(ReleasePolicy()) == 0
