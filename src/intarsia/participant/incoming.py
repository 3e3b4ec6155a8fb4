"""What a participant requires of the contents of a request before it computes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import LARGEST, Extent
from intarsia.core.mixture import FARTHEST, SMALLEST, Mixture
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import ProtocolError
from intarsia.participant.samples import Units
from intarsia.protocol import MOST_JOINT_LEVELS, MOST_SETS, Assign, Centres, Columns, Gaussians, Refine
from intarsia.protocol.centres import most_centres

_ROWS_AT_A_TIME = 1 << 16  # that are compared with centres at the same time, at most


class Incoming:
    """Checks the contents of requests to one participant, and converts them."""

    def __init__(self, name: str, n_rows: int, levels: Mapping[str, Sequence[str]]) -> None:
        self._name, self._levels = name, levels
        self._most_centres = most_centres(min(n_rows, _ROWS_AT_A_TIME))

    def _error(self, received: str) -> ProtocolError:
        return ProtocolError(f"participant {self._name!r} was sent {received}")

    def check_sets(self, request: Refine) -> None:
        """Refuse too many sets of centroids, or none."""
        if not 1 <= len(request.rivals) <= MOST_SETS:
            raise self._error(f"{len(request.rivals)} sets of centroids, not 1 to {MOST_SETS}")

    def check_groups(self, request: Assign, n_clusters: int | None) -> None:
        """Refuse groups of other clusters than the participant has (None if it has none yet)."""
        groups = request.groups
        if n_clusters is None or groups.shape != (n_clusters,):
            raise self._error("the groups of clusters that it does not have")
        inside = groups.dtype.kind == "i" and bool(((groups >= 0) & (groups < request.n_groups)).all())
        if not inside or request.n_groups > self._most_centres:
            raise self._error("groups that do not exist")

    def check_levels(self, columns: Columns) -> None:
        """Refuse levels that do not contain those of the participant, or that are too many."""
        levels = columns.levels
        fits = set(levels) == set(self._levels) and all(
            set(own) <= set(levels[name]) for name, own in self._levels.items()
        )
        if not fits or any(len(set(sent)) < len(sent) for sent in levels.values()):
            raise self._error("levels that do not fit its columns of categories")
        if any(len(sent) > MOST_JOINT_LEVELS for sent in levels.values()):
            raise self._error(f"more than {MOST_JOINT_LEVELS} levels of a column")

    def units(self, columns: Columns, n_features: int) -> Units | None:
        """Return the units of all features; None if they are those of the table."""
        shape = (n_features,)  # any other shape could be broadcast against single rows
        if columns.shift.shape != shape or columns.scale.shape != shape or not _is_moderate(columns.shift):
            raise self._error(f"units that do not fit its {n_features} features")
        if not ((columns.scale >= 1 / LARGEST) & (columns.scale <= LARGEST)).all():
            raise self._error("a scale that is not a positive number")
        return units_of(columns.shift, columns.scale)

    def centres(self, sent: Centres, n_features: int) -> tuple[MaskedCentroids, Extent]:
        """Return centroids and the extent that distances are rescaled by."""
        n, d = len(sent.values) if sent.values.ndim == 2 else 0, n_features
        fits = sent.values.shape == sent.known.shape == (n, d) and sent.low.shape == sent.high.shape == (d,)
        if not fits or n < 1:
            raise self._error(f"centroids that do not fit its {d} features")
        if n > self._most_centres:
            raise self._error(f"{n} centroids, more than the {self._most_centres} that it accepts")
        known = sent.known.astype(np.bool_)
        seen = known.any(axis=0)
        if not all(_is_moderate(part) for part in (sent.values[known], sent.low[seen], sent.high[seen])):
            raise self._error("centroids that are not finite")
        if not (sent.low[seen] <= sent.high[seen]).all():
            raise self._error("an extent whose lower side is above its upper side")
        return MaskedCentroids.of(sent.values, known.astype(np.float64)), Extent(sent.low, sent.high)

    def mixture(self, sent: Gaussians, centres: MaskedCentroids) -> Mixture:
        """Return the Gaussians of these clusters."""
        k, d = centres.values.shape
        flat, each = (sent.overall, sent.width), (sent.means, sent.variances, sent.seen)
        fits = all(part.shape == (d,) for part in flat) and all(part.shape == (k, d) for part in each)
        if not fits or sent.weights.shape != (k,):
            raise self._error(f"Gaussians that do not fit its {d} features")
        finite = all(_is_moderate(part) for part in (*flat, sent.means, sent.variances, sent.weights))
        wide = finite and bool(((sent.width == 0) | (sent.width >= 1 / LARGEST)).all())
        near = wide and bool((np.abs(sent.means) <= FARTHEST).all() and (sent.variances >= SMALLEST).all())
        if not near or not (sent.weights > 0).all():
            raise self._error("Gaussians with invalid means, variances or weights")
        seen = sent.seen.astype(np.bool_)
        return Mixture(sent.means, sent.variances, sent.variances, seen, sent.weights, sent.overall, sent.width)


def units_of(shift: FloatArray, scale: FloatArray) -> Units | None:
    """Return units; None if they are those of the table."""
    return Units(shift, scale) if shift.any() or (scale != 1.0).any() else None


def _is_moderate(values: FloatArray) -> bool:
    """Whether all values are finite, and small enough to be squared and summed."""
    return bool((np.abs(values) <= LARGEST).all())


def largest_label(labels: IntArray | None) -> int | None:
    """Return the number of clusters of a labelling, None if there is no labelling."""
    return None if labels is None else int(labels.max(initial=-1)) + 1
