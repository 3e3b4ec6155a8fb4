"""Synthetic tables, drawn from the noisy sketches of participants: free to look at as often as one likes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intarsia.core.features import indicators
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.private.sketch import Sketch
from intarsia.core.private.synthetic import synthetic_rows
from intarsia.core.randomness import stream
from intarsia.protocol import Sketched
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table

MOST_ROWS = 2000  # of a synthetic table, on average
FEWEST_ROWS = 50


def numbers_of_rows(sketches: Mapping[str, Sketched]) -> dict[str, int]:
    """Return how many rows the synthetic table of each participant has: in proportion to the noisy numbers of rows."""
    total = sum(sketch.n_rows for sketch in sketches.values())
    share = min(1.0, MOST_ROWS * len(sketches) / total)
    return {name: max(FEWEST_ROWS, round(share * sketch.n_rows)) for name, sketch in sketches.items()}


def columns_of(
    privacy: DifferentialPrivacy, features: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the columns of numbers, and the levels of each column of categories, that these features are made of."""
    present = set(features)
    levels = {name: tuple(each) for name, each in privacy.levels.items() if set(indicators({name: each})) <= present}
    return tuple(sorted(present - set(indicators(levels)))), levels


def synthetic_table(owner: str, sketch: Sketched, privacy: DifferentialPrivacy, n_rows: int, seed: int) -> Table:
    """Return rows drawn from a sketch, in original units; of each category the level with the largest indicator."""
    rng = stream(seed, owner, "synthetic table")
    part = Sketch(
        sketch.n_rows, sketch.weights / sketch.weights.sum(), sketch.centroids, sketch.covariance, sketch.radius
    )
    rows = synthetic_rows(part, n_rows, rng)
    numbers, levels = columns_of(privacy, sketch.features)
    units = privacy.units_of([*numbers, *levels])
    at = {name: k for k, name in enumerate(sketch.features)}
    values = (rows * units.scale + units.shift)[:, [at[name] for name in numbers]]
    categories = {}
    for name, each in levels.items():
        places = [at[indicator] for indicator in indicators({name: each})]
        categories[name] = Category(each, rows[:, places].argmax(axis=1))
    return Table(owner, numbers, tuple(sorted((*numbers, *levels))), values, ~np.isnan(values), categories)
