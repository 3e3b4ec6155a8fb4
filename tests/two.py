"""Two small participants with one column in common, for tests that need no more."""

from __future__ import annotations

import numpy as np

from intarsia.participant import Participant
from intarsia.tables.frame import read_table


def columns_of_two():
    rng = np.random.default_rng(0)
    who = {"a": "xy", "b": "yz"}
    return {name: {c: rng.normal(size=30) + 9 * (np.arange(30) % 2) for c in columns} for name, columns in who.items()}


def participants(canary=None):
    tables = columns_of_two()
    if canary is not None:
        for columns in tables.values():
            columns["y"][3] = canary
    return [Participant(read_table(columns, name)) for name, columns in tables.items()]
