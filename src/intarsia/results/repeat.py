"""What became of each cluster of the previous model: same, moved, split, merged or gone; and which clusters are new."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

SAME, MOVED, SPLIT, MERGED, NEW, GONE = STATES = ("same", "moved", "split", "merged", "new", "gone")


class Change(NamedTuple):
    """What became of one cluster.

    Attributes
    ----------
    number : int
        The number of the cluster. It is the same in all runs, and no other cluster ever gets it.
    state : str
        One of ``STATES``. A cluster that is the ``"same"`` has the centroid of the previous model, to the last digit.
    moved : float or None
        How far its rows moved: the root of the mean squared difference of features, in standard deviations within the
        cluster. None where there is nothing to compare.
    others : tuple of int
        The new clusters that it was split into; the cluster that it was merged with; or, of a new cluster, the one that it
        was split from.
    rows_before, rows : int
        The number of rows that the previous model and the new one put there, both of the present tables.
    """

    number: int
    state: str
    moved: float | None
    others: tuple[int, ...]
    rows_before: int
    rows: int


class Repeat(msgspec.Struct, frozen=True):
    """How the clusters of a run differ from those of the model that it started from.

    ``moves`` has the number of rows by cluster of the previous model (rows of the table) and of the new one (columns).
    ``unchanged`` says that the tables are as they were, as far as sums over clusters show, so that the model was kept as it
    is. ``new_columns`` and ``gone_columns`` are those that only the tables, or only the previous model, have.
    """

    changes: tuple[Change, ...]
    moves: tuple[tuple[int, ...], ...]
    unchanged: bool = False
    new_columns: tuple[str, ...] = ()
    gone_columns: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """The number of rows that both models put into a cluster."""
        return sum(map(sum, self.moves))

    @property
    def n_changed(self) -> int:
        """The number of rows that are in another cluster than by the previous model."""
        return self.n_rows - sum(row[k] for k, row in enumerate(self.moves))

    @property
    def share_changed(self) -> float:
        """The share of rows that are in another cluster than by the previous model."""
        return self.n_changed / self.n_rows if self.n_rows else 0.0

    def of(self, state: str) -> tuple[int, ...]:
        """Return the numbers of the clusters in a state, e.g. ``"new"``."""
        return tuple(change.number for change in self.changes if change.state == state)

    @property
    def columns(self) -> dict[str, list[int | float | str | list[int] | None]]:
        """The table as columns: cluster, state, moved, others, rows before and rows."""
        names = ("cluster", "state", "moved", "others", "rows_before", "rows")
        table: dict[str, list[int | float | str | list[int] | None]] = {name: [] for name in names}
        for change in self.changes:
            for name, value in zip(names, change, strict=True):
                table[name].append(list(value) if isinstance(value, tuple) else value)
        return table

    def __str__(self) -> str:
        counts = [f"{len(self.of(state))} {state}" for state in STATES if self.of(state)]
        lines = [f"compared with the previous model: {', '.join(counts)}; {self.in_words}"]
        lines += [f"{'cluster':>9}{'rows before':>13}{'rows':>9}  state"]
        lines += [f"{c.number:>9}{c.rows_before:>13}{c.rows:>9}  {words_of(c)}" for c in self.changes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Repeat: {self}>"

    @property
    def in_words(self) -> str:
        """How many rows changed cluster, as part of a sentence."""
        return f"{self.n_changed} of {self.n_rows} rows changed cluster ({self.share_changed:.1%})"


def words_of(change: Change) -> str:
    """Return what became of a cluster in words.

    >>> words_of(Change(2, "moved", 0.51, (), 40, 44)), words_of(Change(3, "merged", None, (1,), 40, 0))
    ('moved by 0.51 deviations', 'merged with 1')
    """
    others = ", ".join(map(str, change.others))
    match change.state:
        case "moved":
            return f"moved by {change.moved:.2f} deviations"
        case "split":
            return f"split into {change.number} and {others}"
        case "merged":
            return f"merged with {others}"
        case "new" if others:
            return f"new: split from {others}"
    return change.state
