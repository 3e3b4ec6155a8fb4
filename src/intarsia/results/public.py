"""The public part of a result: the global model, without anything of a single participant.

It has no local centroid, no name of a participant, no record of the run, and no field for numbers of values: in a column
that one participant has, these are its sizes. What labels, memberships, estimates and explanations need is stored as the
numbers that these figures lead to. Of the range of local centroids, of which each end is a single local centroid's, only
the width is stored; where entries of a column are hidden, it is that of the shown ones.

What follows from the answers cannot be hidden from whoever has them: for each column, the shares of its values that clusters
have, and so their numbers, which are whole. Where one participant has the column, these are its sizes, and means are those
of its rows; ``min_holders=2`` hides such entries. And the width of a level that a local cluster lacks is the largest share
of the level in any of them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import NamedTuple

import msgspec
import numpy as np

from intarsia._version import __version__
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.features import FeatureSpace, indicator, indicators
from intarsia.core.mixture import Spread
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError
from intarsia.protocol.wire import Array
from intarsia.results.outcome import GlobalModel, Outcome
from intarsia.results.privacy import centroid_errors
from intarsia.results.profiles import Comparison, Separation, comparison_of, separations_by

FEWEST = 5
"""The default of the smallest number of values behind an entry of a public model."""
METRICS = ("euclidean", "manhattan")
_OF_SINGLE_ROWS = ("minmax", "robust")  # units made of values of single rows


class PublicStudy(msgspec.Struct, frozen=True, eq=False, kw_only=True, forbid_unknown_fields=True):
    """Everything that a public file of version 1 contains: clusters × features are in common units."""

    written_by: str
    fewest: int
    min_holders: int
    features: tuple[str, ...]
    names_in_order: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    units: str | None
    shift: Array
    scale: Array
    metric: str
    values: Array
    known: Array
    width: Array
    sizes: Array
    weights: Array | None
    squares: Array
    overall: Array
    overall_width: Array
    typical: float
    rest: Array
    within: Array
    tails: Array | None = None
    errors: Array | None = None
    privacy: str | None = None
    names: tuple[str, ...] = ()  # of clusters


class Shown(NamedTuple):
    """What may be shown of a model: the model without hidden entries, the sizes, and which features are rare levels."""

    model: GlobalModel
    sizes: IntArray
    rare: BoolArray


def public_from(
    outcome: Outcome, names_in_order: tuple[str, ...], fewest: int = FEWEST, min_holders: int = 1
) -> PublicStudy:
    """Return the content of a public file, in which entries of fewer values or holders are hidden."""
    _check_shareable(outcome, fewest)
    model, sizes, rare = hidden(outcome, fewest, min_holders)
    compared = comparison_of(model, names_in_order, all_spreads=outcome.secure is None)
    back = np.argsort(model.space.index(names_in_order))
    spread, account = model.spread, outcome.privacy
    levels, renamed = _without_rare_names(model, rare)
    return PublicStudy(
        written_by=__version__,
        fewest=fewest,
        min_holders=min_holders,
        features=tuple(renamed.get(name, name) for name in model.space.names),
        names_in_order=tuple(renamed.get(name, name) for name in names_in_order),
        levels=levels,
        units=model.units,
        shift=model.shift,
        scale=model.scale,
        metric=str(model.metric),
        values=model.centroids.values,
        known=model.centroids.seen,
        width=np.where(model.extent.varies, model.extent.width, 0.0),
        sizes=sizes,
        weights=model.weights,
        squares=spread.squares,
        overall=spread.overall,
        overall_width=spread.width,
        typical=spread.typical,
        rest=compared.rest[:, back],
        within=compared.within[back],
        tails=model.tails,
        errors=None if account is None else np.where(model.centroids.seen, _errors_of(outcome), np.nan),
        privacy=None if account is None else account.meaning,
        names=model.names,
    )


def _check_shareable(outcome: Outcome, fewest: int) -> None:
    """Raise a SettingError if labels or units need values of single participants or rows."""
    metric, units = outcome.model.metric, outcome.model.units
    if metric not in METRICS:
        raise SettingError(
            "a public model needs metric='euclidean' or 'manhattan': with others, labels need the smallest and the largest "
            "local centroids, which are those of single participants."
        )
    if units in _OF_SINGLE_ROWS and outcome.privacy is None and fewest > 1:
        raise SettingError(
            f"the units of this study, {units!r}, are values of single rows, and a public model shows no number of fewer "
            f"than {fewest} rows. Hint: fit with scale='standard'; or fewest=1, if these values may be shown."
        )


def _errors_of(outcome: Outcome) -> FloatArray:
    return centroid_errors(outcome.privacy, *outcome.model.centroids.values.shape)


def hidden(outcome: Outcome, fewest: int = FEWEST, min_holders: int = 1) -> Shown:
    """Hide entries and sizes that fewer than ``fewest`` rows or ``min_holders`` participants are behind.

    A feature without any entry left has no units and no range; a level that fewer than ``fewest`` rows have is hidden, and
    so is its name.
    """
    model, sizes = outcome.model, outcome.total_sizes
    rare = _rare_levels(model, fewest)
    few = _between(model.centroids.counts, fewest) | _between(model.cells, fewest) | rare
    small = _between(sizes, fewest)
    if min_holders > 1:
        behind, holders = _holders(outcome)
        few, small = few | (holders < min_holders), small | (behind < min_holders)
    if not (few & model.centroids.seen).any() and not small.any():
        return Shown(model, sizes, rare)
    sizes = np.where(small, 0, sizes)
    centroids = MaskedCentroids.of(model.centroids.values, np.where(few, 0.0, model.centroids.counts))
    gone, weights = ~centroids.seen.any(axis=0), model.weights
    extent = _extent_of_shown(model, centroids.seen)
    tails = _tails_in(model, centroids.seen, extent)
    if weights is not None and small.any():
        weights = np.maximum(sizes, 1e-12) / max(sizes.sum(), 1)
    model = replace(
        model,
        centroids=centroids,
        extent=extent,
        shift=np.where(gone, 0.0, model.shift),
        scale=np.where(gone, 1.0, model.scale),
        variances=np.where(few, 0.0, model.variances),
        cells=np.where(few, 0.0, model.cells),
        weights=weights,
        tails=None if tails is None else np.where(small[:, None], np.inf, tails),
    )
    return Shown(model, sizes, rare)


def _holders(outcome: Outcome) -> tuple[IntArray, IntArray]:
    """Return how many participants have rows in each cluster; and values there, by cluster and feature, for certain.

    A participant has a value of a feature in a cluster for certain if it has more rows there than rows without the feature.
    """
    sizes = np.array([np.asarray(outcome.sizes[name]) for name in outcome.participants])
    missing = np.asarray(outcome.coverage.rows)[:, None] - np.asarray(outcome.coverage.filled)
    certain = (sizes[:, :, None] > missing[:, None, :]) & outcome.masks[:, None, :]
    return (sizes > 0).sum(axis=0), certain.sum(axis=0)


def _extent_of_shown(model: GlobalModel, shown: BoolArray) -> Extent:
    """Return the extent in which no hidden entry can be found: NaN for a feature without any that is shown.

    Where some entries of a feature are hidden, the range of all local centroids could be theirs. It becomes that of the
    shown entries, and of values one deviation from them.
    """
    reach = np.sqrt(model.variances)
    low = np.where(shown, model.centroids.values - reach, np.inf).min(axis=0)
    high = np.where(shown, model.centroids.values + reach, -np.inf).max(axis=0)
    touched, gone = (model.centroids.seen & ~shown).any(axis=0), ~shown.any(axis=0)
    return Extent(
        np.where(gone, np.nan, np.where(touched, low, model.extent.low)),
        np.where(gone, np.nan, np.where(touched, high, model.extent.high)),
    )


def _tails_in(model: GlobalModel, shown: BoolArray, extent: Extent) -> FloatArray | None:
    """Return the quantiles of distances over the shown features, relative to their extent, as far as variances tell."""
    if model.tails is None:
        return None
    power = 2 if model.metric == "euclidean" else 1

    def scale(known: BoolArray, extent: Extent) -> FloatArray:
        """Return, for each cluster, a typical distance of its rows relative to the extent, to this power."""
        used = known & extent.varies
        apart: FloatArray = np.where(used, np.sqrt(model.variances) ** power, 0.0).sum(axis=1)
        width = np.where(used, np.where(extent.varies, extent.width, 0.0) ** power, 0.0).sum(axis=1)
        return np.asarray(np.divide(apart, width, out=np.zeros_like(apart), where=width > 0))

    before, after = scale(model.centroids.seen, model.extent), scale(shown, extent)
    factor = np.divide(after, before, out=np.full_like(after, np.inf), where=(before > 0) & (after > 0))
    tails: FloatArray = model.tails * (factor ** (1 / power))[:, None]
    return tails


def _between(counts: FloatArray | IntArray, fewest: int) -> BoolArray:
    return np.asarray((counts > 0) & (counts < fewest))


def _rare_levels(model: GlobalModel, fewest: int) -> BoolArray:
    """Return which features are levels that some rows have, but fewer than ``fewest``; means of levels are shares."""
    is_level = model.space.mask(indicators(model.levels))
    rows = (model.centroids.counts * np.where(model.centroids.seen, model.values, 0.0)).sum(axis=0).round()
    return is_level & _between(rows, fewest)


def _without_rare_names(model: GlobalModel, rare: BoolArray) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the levels of each column without the names of rare ones, and the new name of each feature that got one."""
    is_rare = {name for name, is_rare in zip(model.space.names, rare, strict=True) if is_rare}
    levels: dict[str, tuple[str, ...]] = {}
    renamed: dict[str, str] = {}
    for column, names in model.levels.items():
        kept = [name for name in names if indicator(column, name) not in is_rare]
        free = (text for n in count(1) if (text := f"(hidden {n})") not in kept)
        shown = [name if name in kept else next(free) for name in names]
        levels[column] = tuple(shown)
        renamed |= {indicator(column, old): indicator(column, new) for old, new in zip(names, shown, strict=True)}
    return levels, renamed


def model_from(stored: PublicStudy) -> GlobalModel:
    """Return the model that a public file contains."""
    known, half = stored.known.astype(np.bool_), stored.width / 2
    spread = Spread(stored.squares, stored.overall, stored.overall_width, stored.typical)
    return GlobalModel(
        space=FeatureSpace(stored.features),
        centroids=MaskedCentroids.of(stored.values, known.astype(np.float64)),
        extent=Extent(-half, half),
        shift=stored.shift,
        scale=stored.scale,
        metric=stored.metric,
        variances=np.where(known, spread.squares * np.square(spread.width), 0.0),
        cells=known.astype(np.float64),
        levels=stored.levels,
        units=stored.units,
        weights=stored.weights,
        tails=stored.tails,
        names=stored.names,
        known_spread=spread,
    )


def explanations_of(stored: PublicStudy) -> tuple[Separation, ...]:
    """Return the features that separate each cluster from the others, without who measured them."""
    model = model_from(stored)
    index = model.space.index(stored.names_in_order)
    errors = np.full(stored.values.shape, np.nan) if stored.errors is None else stored.errors
    compared = Comparison(stored.rest[:, index], stored.within[index])
    return separations_by(compared, model, stored.names_in_order, errors[:, index])
