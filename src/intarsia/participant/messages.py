"""Parts of messages, from and to what a participant computes with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.mixture import Mixture
from intarsia.core.types import IntArray
from intarsia.core.units import Statistics
from intarsia.exceptions import IntarsiaError
from intarsia.protocol import ColumnKinds, Describe, Description, Gaussians, Moments
from intarsia.tables.in_memory import HeldRows, HeldTable


def mixture_of(sent: Gaussians, centres: MaskedCentroids) -> Mixture:
    """Return the Gaussians that a request contains."""
    sent.check(*centres.values.shape)
    seen = sent.seen.astype(np.bool_)
    return Mixture(sent.means, sent.variances, sent.variances, seen, sent.weights, sent.overall, sent.width)


def moments_of(s: Statistics, features: IntArray | slice = slice(None)) -> Moments:
    """Return the statistics of some features as a message carries them."""
    low, high, quantiles = (None if part is None else part[..., features] for part in (s.low, s.high, s.quantiles))
    count, mean, m2 = s.count[features], s.mean[features], s.m2[features]
    return Moments(count=count, mean=mean, m2=m2, low=low, high=high, quantiles=quantiles)


def columns_of(table: HeldTable) -> ColumnKinds:
    """Return the names of the columns of a table by their kind."""
    return ColumnKinds(numbers=table.names, categories=tuple(sorted(table.levels)))


def description_of(table: HeldTable, request: Describe, rows: HeldRows) -> Description:
    """Return the columns of a table, with the moments that a request asks for."""
    moments = None
    if request.scale is not None:
        moments = moments_of(rows.statistics(request.scale), FeatureSpace(rows.names).index(table.names))
        if request.moments_of is not None:  # those of the other columns are told as totals
            moments = moments.only(np.isin(table.names, request.moments_of))
    return Description(features=table.names, levels=table.levels, n_rows=len(table), moments=moments)


def columns_behind(numbers: Iterable[str], levels: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the column behind each feature of a table with these columns, in the order of the features."""
    of_levels = {name: column for column, each in levels.items() for name in indicators({column: each})}
    return dict(sorted((of_levels | {name: name for name in numbers}).items()))


def with_name(name: str, error: IntarsiaError) -> str:
    """Return the text of an error with the name of the participant."""
    text = str(error)
    return text if repr(name) in text else f"participant {name!r}: {text}"
