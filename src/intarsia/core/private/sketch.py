"""The sketch of a table: clusters of rows with one common covariance, computed from noisy sums alone.

Five questions are asked one after the other; each is made of the noisy answers before it, so that everything in between is
post-processing:

1. sums of values → the number of rows and a centre;
2. distances of rows from the centre → a radius that rows are clipped to, shorter the more noise there is;
3. second moments around the centre → the main directions;
4. counts on a grid in these directions → k-means on the cells, which finds more local clusters than are wanted in the end;
5. sums of these local clusters → their centroids and weights, and the covariance within them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.pooled import pooled_groupings
from intarsia.core.private.questions import (
    BOUND,
    ClusterSums,
    GridCounts,
    Moments,
    NormCounts,
    Projection,
    Question,
    TotalSums,
    widest,
)
from intarsia.core.randomness import stream
from intarsia.core.types import FloatArray, IntArray

_FEWEST_ROWS = 10.0  # a table is taken to have at least so many
_USUAL_K = 5  # where K is chosen later
_BEYOND = (0.02, 0.5)  # least and largest share of rows that are clipped
_N_STARTS = 20  # of k-means on the grid
_AT_LEAST_WITHIN = 0.1  # of the mean variance: no direction is narrower within clusters


@dataclass(frozen=True)
class Plan:
    """How a sketch is drawn: shares of the budget by question, which sum to 1, and limits that depend on no data."""

    totals: float = 0.05
    norms: float = 0.04
    moments: float = 0.30
    grid: float = 0.30
    clusters: float = 0.31
    clipping: float = 5.0  # share of rows that are clipped, by the noise of second moments
    fewest_directions: int = 3
    most_directions: int = 4
    most_bins: int = 12
    half_width: float = 2.2  # of the grid, in standard deviations
    cut: float = 2.0  # cells with fewer rows than so many standard deviations of noise are ignored
    clusters_per_k: float = 3.0  # local clusters, at most
    precision: float = 0.25  # of their centroids, in standard deviations of a value: what allows for more of them
    inner: float = 1.0  # radius of a local cluster, by the root of the mean square


class Noisy(NamedTuple):
    """An answer in grains: sums plus noise, and the standard deviation of the noise of each number."""

    values: FloatArray
    deviation: float


class Ask(Protocol):
    """A function that answers a question for a share of the budget."""

    def __call__(self, question: Question, share: float, /) -> Noisy:
        """Return the sums with noise. For the same budget its deviation is proportional to norm / √share."""


class Sketch(NamedTuple):
    """A table as a mixture of clusters with a common covariance, in declared units.

    ``n_rows`` is noisy; ``weights`` of the clusters sum to 1; ``radius`` is a length that most rows keep to their centroid.
    """

    n_rows: float
    weights: FloatArray
    centroids: FloatArray
    covariance: FloatArray
    radius: float


def draw_sketch(
    n_features: int, n_clusters: int | None, ask: Ask, *, few_passes: bool = False, plan: Plan | None = None
) -> Sketch:
    """Ask five questions about a table and return its sketch; with ``few_passes`` three, for tables that are long.

    ``n_clusters`` is K, None if it is chosen later.
    """
    plan, k = plan or Plan(), n_clusters or _USUAL_K
    frame = _without_look(n_features, ask, plan) if few_passes else _looked(n_features, ask, plan)
    n_directions = min(max(plan.fewest_directions, k - 1), plan.most_directions, n_features)
    directions, variances = _main_directions(frame.second, n_directions)
    projection = Projection(frame.centre, frame.radius, directions)
    points = _found_on_grid(projection, variances, k, frame, ask, plan)
    return _with_sums(projection, points, frame, ask, plan)


class _Frame(NamedTuple):
    """The number of rows, the centre, the radius around it, the matrix of mean products of differences and the standard
    deviation of its diagonal, and the noise of a question of norm 1 with the whole budget.
    """

    n_rows: float
    centre: FloatArray
    radius: float
    second: FloatArray
    error: float
    noise: float


def _looked(n_features: int, ask: Ask, plan: Plan) -> _Frame:
    totals = TotalSums(n_features)
    answer = ask(totals, plan.totals)
    noise = answer.deviation * np.sqrt(plan.totals) / totals.norm
    sizes, sums = totals.read(answer.values)
    n_rows = max(float(sizes[0]), _FEWEST_ROWS)
    centre = _shrunk(sums[0] / n_rows, totals.deviation(answer.deviation) / n_rows)
    norms = NormCounts(centre)
    # clipping more rows biases second moments, but lowers their noise, here as a share of the squared radius
    noise_of_moments = noise * np.sqrt(2.0 * n_features / plan.moments) / n_rows
    beyond = float(np.clip(plan.clipping * noise_of_moments, *_BEYOND))
    radius = _typical_radius(ask(norms, plan.norms).values, norms.radii, beyond)
    moments = Moments(centre, radius, products_only=True)
    second = ask(moments, plan.moments)
    error = moments.deviation(second.deviation) / n_rows
    return _Frame(n_rows, centre, moments.radius, moments.read(second.values) / n_rows, error, noise)


def _without_look(n_features: int, ask: Ask, plan: Plan) -> _Frame:
    """One pass instead of two: moments around the middle of the bounds, with the radius of usual tables."""
    moments, share = Moments(np.zeros(n_features), 0.6 * widest(n_features)), plan.totals + plan.norms + plan.moments
    answer = ask(moments, share)
    matrix = moments.read(answer.values)
    n_rows = max(float(matrix[-1, -1]), _FEWEST_ROWS)
    error = moments.deviation(answer.deviation) / n_rows
    centre = _shrunk(matrix[-1, :-1] / n_rows, 2.0 * error / moments.radius / np.sqrt(2.0))
    second = matrix[:-1, :-1] / n_rows - np.outer(centre, centre)
    return _Frame(n_rows, centre, moments.radius, second, error, answer.deviation * np.sqrt(share) / moments.norm)


def _shrunk(mean: FloatArray, error: float) -> FloatArray:
    """Shrink a noisy mean towards the middle as far as its length is explained by noise (James and Stein)."""
    kept = 1.0 - len(mean) * error**2 / max(float(np.square(mean).sum()), 1e-12)
    return np.clip(mean * max(kept, 0.0), -BOUND, BOUND)


def _typical_radius(counts: FloatArray, radii: FloatArray, beyond: float) -> float:
    """Return the radius that a share ``beyond`` of rows exceeds: the quantile as the least sum of weighted distances, which
    is steadier with noisy counts than the first radius with enough rows.
    """
    too_many = np.cumsum(counts) - (1.0 - beyond) * counts.sum()
    return float(radii[int(np.argmin(np.append(0.0, np.cumsum(too_many[:-1]))))])


def _main_directions(second: FloatArray, n_directions: int) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvectors of the largest eigenvalues as columns, and these eigenvalues."""
    values, vectors = np.linalg.eigh(second)
    order = np.argsort(values)[::-1][:n_directions]
    return vectors[:, order], np.maximum(values[order], 1e-3)


def _found_on_grid(
    projection: Projection, variances: FloatArray, k: int, frame: _Frame, ask: Ask, plan: Plan
) -> FloatArray:
    """Return the centres that k-means finds among the cells of a noisy grid, J × directions."""
    error = frame.noise / np.sqrt(plan.grid)
    per_axis = (frame.n_rows / max(error, 1e-9)) ** (1.0 / len(variances))
    grid = GridCounts(projection, plan.half_width * np.sqrt(variances), int(np.clip(per_axis, 3, plan.most_bins)))
    counts = ask(grid, plan.grid).values
    kept = counts > plan.cut * error
    if kept.sum() < k:
        kept = np.zeros(len(counts), dtype=np.bool_)
        kept[np.argsort(-counts, kind="stable")[: max(k, 3)]] = True
    points, weights = grid.points()[kept], np.maximum(counts[kept], 1e-9)
    return _kmeans(points, weights, min(_n_local(k, frame, plan), len(points)))


def _n_local(k: int, frame: _Frame, plan: Plan) -> int:
    """Return the number of local clusters: as many as can be told with precision, from K to twice K."""
    trace = max(float(np.trace(frame.second)), 1e-9)
    sums_error = min(frame.radius, np.sqrt(trace)) * 1.12 * frame.noise / np.sqrt(plan.clusters)
    affordable = frame.n_rows * plan.precision * np.sqrt(trace / len(frame.second)) / max(sums_error, 1e-9)
    return int(np.clip(affordable, k, max(k, round(plan.clusters_per_k * k))))


def _kmeans(points: FloatArray, weights: FloatArray, n_groups: int) -> FloatArray:
    """Return the centres of the best of several runs of weighted k-means."""
    centroids = MaskedCentroids.of(points, np.repeat(weights[:, None], points.shape[1], axis=1))
    runs = pooled_groupings(centroids, n_groups, _N_STARTS, lambda start: stream(0, "grid", start))
    groups: IntArray = runs[0].groups if runs else np.arange(len(points)) % n_groups
    member = (np.arange(n_groups)[:, None] == groups) * weights
    return np.asarray(member @ points / member.sum(axis=1, keepdims=True))


def _with_sums(projection: Projection, points: FloatArray, frame: _Frame, ask: Ask, plan: Plan) -> Sketch:
    """Ask for the sums of local clusters, and make the sketch of all answers."""
    offsets = points @ projection.directions.T
    trace = max(float(np.trace(frame.second)), 1e-6)
    spread = trace - float(np.square(points - points.mean(axis=0)).sum(axis=1).mean())
    radius = min(frame.radius, plan.inner * np.sqrt(max(spread, 0.2 * trace)))
    question = ClusterSums(projection, points, frame.centre + offsets, radius)
    answer = ask(question, plan.clusters)
    counts, sums = question.read(answer.values)
    counts = np.maximum(counts, 0.1 * frame.n_rows / len(points))
    centroids = np.clip(question.centres + sums / counts[:, None], -BOUND, BOUND)
    weights = counts / counts.sum()
    moved = centroids - frame.centre
    within = frame.second - (moved.T * weights) @ moved
    return Sketch(frame.n_rows, weights, centroids, _covariance(within, frame), question.radius)


def _covariance(within: FloatArray, frame: _Frame) -> FloatArray:
    """Return a matrix without directions that are too narrow, shrunk towards its diagonal, and this towards its mean, as far
    as noise explains the differences.
    """
    level = max(float(np.trace(frame.second)) / len(within), 1e-3)
    diagonal = np.diag(within)
    mean = max(float(diagonal.mean()), _AT_LEAST_WITHIN * level)
    spread = float(np.square(diagonal - mean).sum())
    kept = max(0.0, 1.0 - len(within) * frame.error**2 / max(spread, 1e-12))
    target = np.diag(np.maximum(mean + kept * (diagonal - mean), _AT_LEAST_WITHIN * level))
    apart = within - np.diag(diagonal)
    expected = len(within) * (len(within) - 1) * frame.error**2 / 2.0
    kept = max(0.0, 1.0 - expected / max(float(np.square(apart).sum()), 1e-12))
    values, vectors = np.linalg.eigh(target + kept * apart)
    return np.asarray((vectors * np.maximum(values, _AT_LEAST_WITHIN * level)) @ vectors.T)
