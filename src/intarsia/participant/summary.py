"""What a participant releases about its local clusters beside centroids and counts: densities, their fidelity, and boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.densities import Clustered, Density, family_of, fit_densities
from intarsia.core.densities.fidelity import Fidelity, fidelity
from intarsia.core.rows import Rows
from intarsia.core.types import FloatArray, IntArray
from intarsia.participant.samples import Sample
from intarsia.protocol import Summarize
from intarsia.protocol.densities import packed

MOST_PROXIES = 1000


class SummaryInput(NamedTuple):
    """Local clusters as they are released, and the rows in the forms that a summary needs.

    ``exact`` returns the rows of the clusters with an offset of 0. ``sample`` and ``drawn`` are the rows in memory that
    proxies are compared with, and their positions. ``fewest`` is the number of rows that a released number must describe.
    """

    clusters: Clustered
    exact: Callable[[], Rows]
    sample: Sample
    drawn: IntArray
    fewest: int


def details_of(
    given: SummaryInput, request: Summarize, density: str | None, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the fields of a summary that the request asks for in addition: densities, fidelity, low and high."""
    details: dict[str, Any] = {}
    if density is not None:
        clusters = given.clusters
        family = family_of(density)
        if family.exact_cells:
            clusters = replace(clusters, rows=given.exact())
        fitted = fit_densities(clusters, density)
        details["densities"] = tuple(packed(each, family) for each in fitted)
        if request.n_proxies > 0:
            details["fidelity"] = _fidelity(given, fitted, min(request.n_proxies, MOST_PROXIES), rng)
    if request.bounding_boxes:
        details["low"], details["high"] = _boxes(replace(given.clusters, rows=given.exact()))
    return details


def _fidelity(given: SummaryInput, densities: list[Density], n_proxies: int, rng: np.random.Generator) -> FloatArray:
    """Return how close proxies are to the sampled rows of each cluster; NaN where too few of them are complete."""
    values, labels, result = given.sample.values, given.clusters.labels[given.drawn], []
    for k, density in enumerate(densities):
        at = np.ix_(labels == k, given.clusters.released.seen[k])
        rows, observed = values[at], given.sample.observed[at]
        if observed.all(axis=1).sum() < given.fewest:
            result.append(Fidelity(*[float("nan")] * 4))
        else:
            result.append(fidelity(rows, observed, density, rng, n_proxies))
    return np.array(result, dtype=np.float64).reshape(-1, 4)


def _boxes(clusters: Clustered) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest value of each cluster and feature, 0 where it is suppressed."""
    released = clusters.released.seen
    low, high = np.full(released.shape, np.inf), np.full(released.shape, -np.inf)
    for k, cells, observed in clusters.parts():
        for side, extreme, nothing in ((low, np.minimum, np.inf), (high, np.maximum, -np.inf)):
            values = cells if observed is None else np.where(observed > 0, cells, nothing)
            side[k] = extreme(side[k], extreme.reduce(values, axis=1))
    return np.where(released, low, 0.0), np.where(released, high, 0.0)
