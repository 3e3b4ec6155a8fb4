"""The audit of a participant over all that it ever told of its table.

Before sums over clusters leave, the audit changes the labels behind them so that every *atom*, the rows that no told
labelling divides, keeps at least the minimum number of rows (:mod:`intarsia.core.atoms`). A few rows are then counted with
another cluster than their own; nothing tells that, and nothing is refused. Columns with missing values have atoms of their
own, which consist of observed values and are divided by the told labels of rows. All that is computed from told labels
(means, counts, squares, variances) is a function of sums over whole atoms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from hashlib import blake2b

import numpy as np

from intarsia.core.atoms import Labelling, Partition, Told, atom_means, split
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.types import BoolArray, IntArray
from intarsia.privacy.record import ROWS, Atoms, Record
from intarsia.tables.fingerprints import Fingerprints, fingerprints_of
from intarsia.tables.in_memory import HeldRows, HeldTable


class Audit:
    """The atoms of one table, and how new labels divide them.

    ``given`` is the table as its owner gave it, by which the record recognises its rows; ``fewest`` the smallest number of
    rows of an atom. With ``fewest=1`` the audit changes nothing.
    """

    def __init__(self, table: HeldTable, given: HeldTable, fewest: int, record: Record | None = None) -> None:
        self._table, self._given, self.fewest, self._record = table, given, fewest, record
        self._order: IntArray | None = getattr(table, "order", None)
        self._atoms: Atoms | None = None
        self._now: Fingerprints | None = None
        self._token: bytes | None = None
        self.n_moved = 0  # rows that the last labelling was told for under another label than their own

    @property
    def is_active(self) -> bool:
        """Whether labels may change."""
        return self.fewest > 1

    def begin(self) -> None:
        """Read the record, or start one; raise a ReleaseError if the table is not the recorded one."""
        if not self.is_active or self._atoms is not None:
            return
        fresh = self._fresh()
        if self._record is not None:
            self._now = fingerprints_of(self._given)
            with self._record.locked():
                fresh = self._record.read(self._now, fresh, self.fewest)
                self._token = self._record.write(self._now, fresh)
        self._atoms = fresh

    def secret(self) -> tuple[int, ...]:
        """Return a number that only somebody who has all rows knows, for random numbers that a coordinator must not know."""
        return (int(fingerprints_of(self._given).rows.sum(dtype=np.uint64)),) if self.is_active else ()

    def check(self) -> None:
        """Raise a ReleaseError if the table is not the recorded one, an OutputError if there can be no record."""
        if self.is_active and self._record is not None:
            with self._record.locked():
                self._record.read(fingerprints_of(self._given), self._fresh(), self.fewest)

    def tell(
        self, rows: HeldRows, labels: IntArray, levels: Mapping[str, Sequence[str]], whole: Labelling | None = None
    ) -> Told:
        """Return the labels to tell sums over, and record them.

        ``levels`` are those of the columns of categories in ``rows``; ``whole`` labels atoms by their means, by default
        they are labelled as most of their rows.
        """
        if not self.is_active:
            return Told(labels)
        record, own = self._record, self._in_given_order(labels)
        with nullcontext() if record is None else record.locked():
            atoms = self._current()
            of_rows = split(atoms.by_key[ROWS], own, self.fewest)
            if whole is not None:
                numbers = {key: each.atoms for key, each in atoms.by_key.items()}
                numbers[ROWS] = of_rows.partition.atoms
                numbered = self._told(numbers, rows.names, levels)
                means = atom_means(rows, numbered, self.fewest, spread=whole.by_spread)
                of_rows = of_rows._replace(labels=of_rows.by_means(whole.of(means), convex=whole.convex))
            parts = {key: split(each, of_rows.labels, self.fewest) for key, each in atoms.by_key.items() if key != ROWS}
            parts[ROWS] = of_rows
            self._atoms = Atoms({key: part.partition for key, part in parts.items()}, atoms.gaps, atoms.complete)
            changed = any(_differ(parts[key].partition, each) for key, each in atoms.by_key.items())
            if record is not None and self._now is not None and changed:
                self._token = record.write(self._now, self._atoms)
        self.n_moved = int((of_rows.labels != own).sum())
        return self._told({key: part.labels for key, part in parts.items()}, rows.names, levels)

    def _current(self) -> Atoms:
        """Return the atoms as they are now: other jobs may have told of the table meanwhile."""
        self.begin()
        assert self._atoms is not None
        if self._record is None or self._now is None or self._record.has(self._token):
            return self._atoms
        return self._record.read(self._now, self._atoms, self.fewest)

    def _told(self, labels: Mapping[str, IntArray], names: Sequence[str], levels: Mapping[str, Sequence[str]]) -> Told:
        assert self._atoms is not None
        back = {key: each if self._order is None else each[self._order] for key, each in labels.items()}
        space = FeatureSpace(tuple(names))
        features: dict[str, list[str]] = {}
        for column, key in self._atoms.gaps.items():
            own = indicators({column: levels[column]}) if column in levels else (column,)
            features.setdefault(key, []).extend(name for name in own if name in space)
        columns = tuple((space.index(some), back[key]) for key, some in features.items() if some)
        return Told(back[ROWS], columns)

    def _in_given_order(self, labels: IntArray) -> IntArray:
        if self._order is None:
            return labels
        result = np.empty_like(labels)
        result[self._order] = labels
        return result

    def _fresh(self) -> Atoms:
        """Return the atoms of a table of which nothing was told: all rows, and all values of a column, are one."""
        table, n_rows = self._table, len(self._table)
        gappy = [name for name, n in table.filled.items() if n < n_rows]
        by_key = {ROWS: Partition.whole(np.ones(n_rows, dtype=np.bool_))}
        gaps = {}
        for column, observed in self._observed(gappy).items():
            key = blake2b(np.packbits(observed).tobytes(), digest_size=16).hexdigest()
            by_key.setdefault(key, Partition.whole(observed))
            gaps[column] = key
        return Atoms(by_key, gaps, frozenset(table.filled.keys() - gaps.keys()))

    def _observed(self, columns: Sequence[str]) -> dict[str, BoolArray]:
        """Return which values of some columns are observed, in the owner's order."""
        if not columns:
            return {}
        table, rows = self._table, self._table.rows()
        space = FeatureSpace(rows.names)
        first = {name: indicators({name: table.levels[name]})[0] if name in table.levels else name for name in columns}
        at = space.index(list(first.values()))
        observed = np.ones((len(columns), rows.n_rows), dtype=np.bool_)
        for piece in rows.pieces():
            if piece.mask is not None:
                observed[:, piece.at] = piece.mask[at] > 0
        if self._order is not None:
            given = np.empty_like(observed)
            given[:, self._order] = observed
            observed = given
        return dict(zip(columns, observed, strict=True))


def _differ(new: Partition, old: Partition) -> bool:
    divided = new.atoms.max(initial=-1) != old.atoms.max(initial=-1)
    return bool(divided or (new.pinned != old.pinned).any())
