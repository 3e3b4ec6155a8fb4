"""Densities in messages: a kind and named arrays, whose meaning the family of the density knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from intarsia.core.densities import Density, Family, families
from intarsia.core.types import FloatArray
from intarsia.exceptions import ProtocolError
from intarsia.protocol.facts import ALLOW_DISCRETE, Fact
from intarsia.protocol.wire import Array, Part

_MOST_ROWS = 2**53  # counts are exact up to here


class DensityMessage(Part, frozen=True):
    """The density of a local cluster: the name of its family, and the arrays that the family's ``to_parts`` returned."""

    kind: str
    parts: dict[str, Array]

    def __post_init__(self) -> None:
        """Raise a ProtocolError if the family is unknown, or does not have these parts."""
        family = families().get(self.kind)
        if family is None:
            raise ProtocolError("a density of an unknown kind")
        if not set(family.parts) - family.optional <= set(self.parts) <= set(family.parts):
            raise ProtocolError(f"a density of the kind {family.name!r} with unknown or missing parts")

    @classmethod
    def facts(cls) -> Mapping[str, Fact]:
        """Return the fact of each part of each family, as ``gaussian.covariance``."""
        return {
            f"{family.name}.{part}": Fact(meaning, allowed_by=ALLOW_DISCRETE if family.tells_of_single_rows else None)
            for family in families().values()
            for part, meaning in family.parts.items()
        }

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the array of each part."""
        return ((f"{self.kind}.{name}", part) for name, part in self.parts.items())

    @property
    def family(self) -> Family:
        """The family of the density."""
        return families()[self.kind]


def packed(density: Density, family: Family) -> DensityMessage:
    """Return the message that describes a density of this family."""
    return DensityMessage(family.name, family.to_parts(density))


def unpacked(message: DensityMessage, mean: FloatArray) -> Density:
    """Return the density of a cluster with this centroid; :func:`problem_of` must not have found a problem."""
    return message.family.from_parts(message.parts, mean)


def problem_of(message: DensityMessage, n_features: int) -> str | None:
    """Return what is wrong with a density over so many features that came in a message, None if nothing is."""
    for part in message.parts.values():
        if part.dtype.kind not in "fi" or not np.isfinite(part).all():
            return f"a {message.kind} density with numbers that are not finite"
    return message.family.problem(message.parts, n_features)


def fewest_rows(densities: Sequence[DensityMessage], sizes: Array, counts: Array) -> dict[str, int]:
    """Return the smallest number of rows behind each part of the densities of clusters with these sizes and counts.

    Nothing is checked yet: a size that is not one counts as a single row.
    """
    valid = counts[(counts > 0) & (counts < _MOST_ROWS)] if counts.dtype.kind in "fi" else np.zeros(0)
    fewest_values = int(valid.min()) if valid.size else 0
    rows: dict[str, int] = {}
    for message, size in zip(densities, sizes.ravel().tolist(), strict=False):
        n_rows = int(size) if 0 < size < _MOST_ROWS else 1
        n = message.family.fewest_rows(message.parts, n_rows, fewest_values)
        for path, _ in message.fields():
            rows[path] = min(n, rows.get(path, n))
    return rows
