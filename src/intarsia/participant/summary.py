"""What a participant releases about its local clusters beside centroids and counts: densities, their fidelity, and boxes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.densities import Clustered, Density, family_of, fit_densities
from intarsia.core.densities.fidelity import Fidelity, fidelity
from intarsia.core.densities.force import Box
from intarsia.core.rows import Rows
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.participant.samples import Sample
from intarsia.protocol import Summarize
from intarsia.protocol.densities import packed

MOST_PROXIES = 1000


class Summarized(NamedTuple):
    """Labels of the last summary.

    ``shown`` are for the owner. ``assigned`` say which cluster each row follows when clusters are grouped: suppressed rows
    follow the nearest cluster, noise none. ``counted`` are those that released sizes are counted from.
    """

    shown: IntArray
    assigned: IntArray
    counted: IntArray


def details_of(
    clusters: Clustered,
    exact: Rows,
    sample: Sample,
    labels: IntArray,
    request: Summarize,
    density: str | None,
    fewest: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the fields of a summary that the request asks for in addition: densities, fidelity, low and high.

    ``exact`` are the rows of the clusters with an offset of 0; ``sample`` are rows in memory that proxies are compared with,
    and ``labels`` their clusters. A fidelity describes at least ``fewest`` rows.
    """
    details: dict[str, Any] = {}
    in_exact_values = replace(clusters, rows=exact)
    boxes: list[Box] = [(None, None)] * len(clusters.sizes)
    if request.bounding_boxes:
        details["low"], details["high"] = low, high = _boxes(in_exact_values)
        boxes = [(a[seen], b[seen]) for a, b, seen in zip(low, high, clusters.released.seen, strict=True)]
    if density is not None:
        family = family_of(density)
        fitted = fit_densities(in_exact_values if family.exact_cells else clusters, density, shrink=request.shrink)
        details["densities"] = tuple(packed(each, family) for each in fitted)
        if request.n_proxies > 0:
            released, n_proxies = clusters.released.seen, min(request.n_proxies, MOST_PROXIES)
            details["fidelity"] = _fidelity(sample, labels, released, fitted, boxes, n_proxies, fewest, rng)
    return details


def _fidelity(
    sample: Sample,
    labels: IntArray,
    released: BoolArray,
    densities: list[Density],
    boxes: list[Box],
    n_proxies: int,
    fewest: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return how close proxies are to the sampled rows of each cluster; NaN where a matching would have too few of them.

    With a minimum of more than one row, numbers are rounded to two digits.
    """
    values, result = sample.values, []
    for k, (density, box) in enumerate(zip(densities, boxes, strict=True)):
        at = np.ix_(labels == k, released[k])
        rows, observed = values[at], sample.observed[at]
        n_complete = int(observed.all(axis=1).sum())
        enough = fewest == 1 or min(n_complete // 2, n_proxies) >= fewest  # a matching takes half of the rows
        result.append(fidelity(rows, observed, density, rng, n_proxies, box) if enough else Fidelity(*[np.nan] * 4))
    measured = np.array(result, dtype=np.float64).reshape(-1, 4)
    return measured if fewest == 1 else np.round(measured, 2)


def _boxes(clusters: Clustered) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest value of each cluster and feature, 0 where it is suppressed."""
    released = clusters.released.seen
    low, high = np.full(released.shape, np.inf), np.full(released.shape, -np.inf)
    for k, cells, observed in clusters.parts():
        for side, extreme, nothing in ((low, np.minimum, np.inf), (high, np.maximum, -np.inf)):
            values = cells if observed is None else np.where(observed > 0, cells, nothing)
            side[k] = extreme(side[k], extreme.reduce(values, axis=1))
    return np.where(released, low, 0.0), np.where(released, high, 0.0)


def by_first_row(new: IntArray, labels: IntArray) -> IntArray:
    """Return new clusters (−1: none) of old ones, numbered in the order in which the labelled rows have them."""
    clusters = np.where(labels >= 0, new[labels], -1)
    first = np.full(int(new.max()) + 1, len(labels))
    np.minimum.at(first, clusters[clusters >= 0], np.flatnonzero(clusters >= 0))
    rank = np.argsort(np.argsort(first, kind="stable"))
    return np.where(new >= 0, rank[new], -1)
