"""The number of local clusters, where neither the request nor the clusterer sets it: the one with the best silhouettes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.grouping.n_clusters import CLEAR, NO_STRUCTURE
from intarsia.core.grouping.tried_numbers import TriedNumbers, clearest_number
from intarsia.core.types import IntArray
from intarsia.participant.clusterers import N_INIT, Clusterer
from intarsia.participant.samples import Sample, for_all_rows
from intarsia.participant.silhouettes import distances_between, drawn, of_clusters, of_rows, of_sample
from intarsia.participant.unknown_k import try_numbers

FEWER_ROWS, CLEAR_ENOUGH = 400, 0.3  # a smaller sample, and the silhouette in it that makes a larger one unnecessary
MANY_PAIRS = 20  # of rows, from which on they are not taken for one cluster because K is larger
LARGE = 1_000_000  # values, from which on threads help
PART_ROWS = 1 << 14  # rows that numbers of clusters are tried on, where there are more than twice as many
MOST_STEPS = 150_000_000  # clusters × values over all numbers of clusters that are tried below the expected one
PART_INIT = 3  # starts of each k-means on such a part


class Chosen(NamedTuple):
    """Labels, the mean silhouette of the least clear cluster if it was computed, and what other numbers show."""

    labels: IntArray
    clarity: float | None
    tried: TriedNumbers | None = None


def choose_labels(
    clusterer: Clusterer, rows: Sample, expected: int | None, most: int, rng: np.random.Generator, fewest: int = 1
) -> Chosen:
    """Cluster with the number of clusters, at most ``most``, that the silhouettes suggest.

    If the number of global clusters is unknown, silhouettes are compared with those of tables without structure
    (:func:`clearest_number`), and a cluster has at least ``fewest`` rows. If it is known (``expected``), a participant need
    not have rows of all global clusters, but too few local clusters are worse than too many: it uses ``expected`` unless one
    of these clusters has no structure of its own and fewer clusters are all clear. Rows without any structure form
    ``expected`` clusters if there are at least two rows for each, as many as there are pairs of rows if these are not far
    fewer, and a single cluster otherwise: few rows are often of one cluster.
    """
    prepared, used = clusterer.missing.prepared(rows)
    most = min(most, len(used) // 2)  # a cluster has at least two rows
    with _few_threads(prepared):
        if expected is None:
            chosen = _clearest(clusterer, prepared, most, rng, fewest)
        else:
            chosen = _up_to(clusterer, prepared, expected, most, rng)
    return chosen._replace(labels=for_all_rows(chosen.labels, used, rows.n_rows))


def highest_silhouette(clusterer: Clusterer, rows: Sample, most: int, rng: np.random.Generator) -> Chosen:
    """Cluster with the number, from 2 to ``most``, that has the highest mean silhouette: what the paper proposes.

    Of equal numbers the smallest is taken. There is one cluster if ``most`` is 1, or fewer than three rows. With many rows,
    silhouettes are those of a sample, and numbers that would take too many steps are not tried.
    """
    prepared, used = clusterer.missing.prepared(rows)
    with _few_threads(prepared):
        chosen = _highest(clusterer, prepared, min(most, len(used) - 1), rng)
    return Chosen(for_all_rows(chosen.labels, used, rows.n_rows), chosen.clarity)


def _highest(clusterer: Clusterer, rows: Sample, most: int, rng: np.random.Generator) -> Chosen:
    part, best = _part(rows, rng), Chosen(np.zeros(rows.n_rows, dtype=np.intp), None)
    sample, n_init = drawn(part.n_rows, rng), N_INIT if part is rows else PART_INIT
    distances = distances_between(part.values_of(sample), part.observed[sample])
    highest, number, steps = -1.0, 1, 0
    for k in range(2, most + 1):
        if (steps := steps + k * part.cells.size) > MOST_STEPS and k > 2:
            break
        labels = clusterer.cluster(part, k, rng, n_init)
        silhouettes = of_rows(distances, labels[sample])
        if (mean := float(silhouettes.mean())) > highest:
            highest, number = mean, k
            best = Chosen(labels, float(of_clusters(silhouettes, labels[sample]).min()))
    return best if part is rows or number == 1 else best._replace(labels=clusterer.cluster(rows, number, rng))


def _few_threads(rows: Sample) -> AbstractContextManager[Any]:
    """One thread for hundreds of small k-means: several would wait for each other longer than they work."""
    return _threads().limit(limits=1) if rows.cells.size < LARGE else nullcontext()


@cache
def _threads() -> Any:
    """Return the controller of threads; to create it takes as long as a small k-means."""
    return ThreadpoolController()


def _up_to(clusterer: Clusterer, rows: Sample, expected: int, most: int, rng: np.random.Generator) -> Chosen:
    """Return the expected number of clusters, or fewer if these are clearer."""
    if most < expected:
        labels = np.zeros(rows.n_rows, dtype=np.intp)
    else:
        labels = clusterer.cluster(rows, expected, rng)
        if rows.n_rows > 2 * FEWER_ROWS:  # nearly always a small sample is enough
            clarity = float(of_sample(rows, labels, rng, FEWER_ROWS).min())
            if clarity > CLEAR_ENOUGH:
                return Chosen(labels, clarity)
    clarity = float(of_sample(rows, labels, rng).min())
    if clarity > NO_STRUCTURE:
        return Chosen(labels, clarity)
    part, steps = _part(rows, rng), 0
    for k in range(min(most, expected - 1), 1, -1):
        if (steps := steps + k * part.cells.size) > MOST_STEPS:
            break
        fewer = clusterer.cluster(part, k, rng, N_INIT if part is rows else PART_INIT)
        if (clarity_of_fewer := float(of_sample(part, fewer, rng).min())) > CLEAR:
            return Chosen(fewer if part is rows else clusterer.cluster(rows, k, rng), clarity_of_fewer)
    if min(expected / 2, MANY_PAIRS) <= most < expected:
        labels = clusterer.cluster(rows, most, rng)
    return Chosen(labels, clarity if most >= expected > 1 else None)


def _part(rows: Sample, rng: np.random.Generator) -> Sample:
    """Return the rows that several numbers of clusters are tried on: all, unless that takes long."""
    if rows.n_rows <= 2 * PART_ROWS:
        return rows
    at = drawn(rows.n_rows, rng, PART_ROWS)
    return rows._replace(cells=rows.values_of(at), observed=rows.observed[at], units=None)


def _clearest(clusterer: Clusterer, rows: Sample, most: int, rng: np.random.Generator, fewest: int) -> Chosen:
    """Return the labels with the number of clusters that :func:`clearest_number` chooses, from 1 to ``most``."""
    single = np.zeros(rows.n_rows, dtype=np.intp)
    if most < 2:
        return Chosen(single, None)
    tried = try_numbers(rows, most, fewest)
    number = clearest_number(tried.numbers)
    if number == 1:
        return Chosen(single, None, tried.numbers)
    step = tried.steps[number - 2]
    whole = len(tried.sample) == rows.n_rows
    labels = step.labels if whole else clusterer.continued(rows, step.centres, rng)
    return Chosen(renumber(labels), float(tried.least[number - 2]), tried.numbers)
