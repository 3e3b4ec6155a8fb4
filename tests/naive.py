"""The formulas, slowly: one loop per sum, straight from the paper, errata applied. Nothing here is shared with src."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad


def phi(u, v, metric):
    if metric == "euclidean":
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)))
    if metric == "manhattan":
        return sum(abs(a - b) for a, b in zip(u, v, strict=True))
    if metric == "cosine":
        norms = math.sqrt(sum(a * a for a in u)) * math.sqrt(sum(b * b for b in v))
        d = 0.0 if norms == 0 else 1 - max(-1.0, min(1.0, sum(a * b for a, b in zip(u, v, strict=True)) / norms))
        return 0.0 if d < 1e-12 else d  # parallel, but for rounding
    return metric(np.array(u), np.array(v))


def extent(values, counts):
    """Entry-wise (min, max) over what is seen; None where nobody sees it."""
    result = []
    for m in range(values.shape[1]):
        column = [values[z, m] for z in range(len(values)) if counts[z, m] > 0]
        result.append((min(column), max(column)) if column else None)
    return result


def distance(x, seen_x, y, seen_y, ext, metric="euclidean"):
    """eq:d; None where incomparable."""
    shared = [m for m in range(len(x)) if seen_x[m] and seen_y[m] and ext[m] is not None and ext[m][1] > ext[m][0]]
    if not shared:
        return None
    largest = phi([ext[m][1] for m in shared], [ext[m][0] for m in shared], metric)
    return None if largest == 0 else phi([x[m] for m in shared], [y[m] for m in shared], metric) / largest


def merge(values, counts, members):
    """eq:merge_centroids_function, weighted, per feature."""
    d = values.shape[1]
    merged, total = np.zeros(d), np.zeros(d)
    for m in range(d):
        total[m] = sum(counts[z, m] for z in members)
        if total[m] > 0:
            merged[m] = sum(counts[z, m] * values[z, m] for z in members if counts[z, m] > 0) / total[m]
    return merged, total


def objective(values, counts, groups, metric="euclidean"):
    """eq:meta_clustering."""
    ext, loss = extent(values, counts), 0.0
    for g in set(groups):
        members = [z for z in range(len(values)) if groups[z] == g]
        centre, total = merge(values, counts, members)
        for z in members:
            d = distance(values[z], counts[z] > 0, centre, total > 0, ext, metric)
            # the centre may know features that c does not, never the other way round
            loss += (d or 0.0) ** 2
    return loss


def all_distances(values, counts, metric="euclidean"):
    ext = extent(values, counts)
    return [
        [distance(values[a], counts[a] > 0, values[b], counts[b] > 0, ext, metric) for b in range(len(values))]
        for a in range(len(values))
    ]


def max_min_seeds(distances, k):
    n = len(distances)
    if k == 1:
        return [max(range(n), key=lambda z: (max((x for x in distances[z] if x is not None), default=0.0), -z))]
    best = max(
        ((a, b) for a in range(n) for b in range(a + 1, n)),
        key=lambda ab: (-1.0 if distances[ab[0]][ab[1]] is None else distances[ab[0]][ab[1]], -ab[0], -ab[1]),
    )
    seeds = list(best)
    while len(seeds) < k:

        def nearest_seed(z):
            known = [distances[z][s] for s in seeds if distances[z][s] is not None]
            return min(known) if known else -1.0

        rest = [z for z in range(n) if z not in seeds]
        seeds.append(max(rest, key=lambda z: (nearest_seed(z), -z)))
    return seeds


def method_a(values, counts, owner, k, metric="euclidean"):
    """The printed loop, everything recomputed every time; assumes that it never gets stuck."""
    n = len(values)
    ext = extent(values, counts)
    n_of = {i: sum(o == i for o in owner) for i in owner}
    full = [i for i in sorted(n_of) if n_of[i] == k]
    seeds = (
        [z for z in range(n) if owner[z] == full[0]]
        if full
        else max_min_seeds(all_distances(values, counts, metric), k)
    )
    groups = [[z] for z in seeds]
    left = [z for z in range(n) if z not in seeds]
    while left:
        best = None
        for z in left:
            for g in range(k):
                if n_of[owner[z]] <= k and any(owner[m] == owner[z] for m in groups[g]):
                    continue
                centre, total = merge(values, counts, groups[g])
                d = distance(values[z], counts[z] > 0, centre, total > 0, ext, metric)
                if d is not None and (best is None or d < best[0]):
                    best = (d, z, g)
        if best is None:
            return None
        _, z, g = best
        groups[g].append(z)
        left.remove(z)
    result = [-1] * n
    for g, members in enumerate(groups):
        for z in members:
            result[z] = g
    return result


def method_b(values, counts, k, max_iter=100):
    """k-means over local centroids from max-min seeds; None if it gets stuck or empties a group (other tests do that)."""
    n, ext = len(values), extent(values, counts)
    centres = [(values[z], counts[z]) for z in max_min_seeds(all_distances(values, counts), k)]
    groups = None
    for _ in range(max_iter):
        new = []
        for z in range(n):
            ds = [distance(values[z], counts[z] > 0, c, t > 0, ext) for c, t in centres]
            known = [(d, g) for g, d in enumerate(ds) if d is not None]
            new.append(min(known)[1] if known else -1)
        if -1 in new or len(set(new)) < k:
            return None
        if new == groups:
            break
        groups = new
        centres = [merge(values, counts, [z for z in range(n) if groups[z] == g]) for g in range(k)]
    return groups


def sampled_force(p, q, ext_shared, w, s):
    """eq:attractive_force_two_clusters over shared features, softened."""
    largest = math.sqrt(sum((hi - lo) ** 2 for lo, hi in ext_shared))
    total = 0.0
    for x in p:
        for y in q:
            d = math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) / largest
            total += (d * d + s * s) ** (-w / 2)
    return total / (len(p) * len(q))


def inverse_power_moment(variances, squares, s, w):
    """E[(Q + s²)^(−w/2)] by adaptive quadrature of the same integral in u = log t."""

    def log_integrand(u):
        t = math.exp(u) if u < 700 else math.inf
        return (
            w / 2 * u
            - t * s * s
            - sum(
                0.5 * math.log1p(2 * t * v) + t * m / (1 + 2 * t * v) for v, m in zip(variances, squares, strict=True)
            )
        )

    grid = np.linspace(-400, 400, 8001)
    logs = np.array([log_integrand(u) for u in grid])
    peak = logs.max()
    inside = grid[logs > peak - 45]
    value, _ = quad(
        lambda u: math.exp(log_integrand(u) - peak), inside[0] - 0.1, inside[-1] + 0.1, limit=500, epsrel=1e-10
    )
    return value * math.exp(peak) / math.gamma(w / 2)


def agglomerate(affinity, forbidden=None):
    """The printed loop: recompute every group force, join the strongest pair. Returns every grouping, as sets of sets."""
    groups = [[z] for z in range(len(affinity))]
    levels = {len(groups): {frozenset(g) for g in groups}}
    while len(groups) > 1:
        best = None
        for r in range(len(groups)):
            for s in range(r + 1, len(groups)):
                if forbidden is not None and any(forbidden[a][b] for a in groups[r] for b in groups[s]):
                    continue
                values = [affinity[a][b] for a in groups[r] for b in groups[s] if not math.isnan(affinity[a][b])]
                if values and (best is None or sum(values) / len(values) > best[0]):
                    best = (sum(values) / len(values), r, s)
        if best is None:
            break
        _, r, s = best
        groups[r] += groups[s]
        del groups[s]
        levels[len(groups)] = {frozenset(g) for g in groups}
    return levels


def agglomerate_in_order(affinity, forbidden=None, weights=None):
    """The printed loop on a table of sums: (merges, strengths), the first of equals in order."""
    n = len(affinity)
    comparable = ~np.isnan(affinity) & ~np.eye(n, dtype=bool)
    pair = np.ones((n, n)) if weights is None else np.outer(weights, weights)
    total, pairs = np.where(comparable, affinity * pair, 0.0), comparable * pair
    blocked = np.eye(n, dtype=bool) if forbidden is None else forbidden | np.eye(n, dtype=bool)
    name, merges, strengths = list(range(n)), [], []
    for step in range(n - 1):
        mean = np.where((pairs > 0) & ~blocked, total / np.where(pairs > 0, pairs, 1.0), -np.inf)
        r, s = sorted(divmod(int(mean.argmax()), n))
        if mean[r, s] == -np.inf:
            break
        merges.append([name[r], name[s]])
        strengths.append(mean[r, s])
        for table in (total, pairs):
            table[r] += table[s]
            table[:, r] = table[r]
        blocked[r] |= blocked[s]
        blocked[:, r] = blocked[r]
        blocked[s], blocked[:, s] = True, True
        name[r] = n + step
    return merges, strengths


def partition(labels):
    return {frozenset(np.flatnonzero(np.asarray(labels) == g).tolist()) for g in set(np.asarray(labels).tolist())}


def silhouette(distances, groups, weights=None):
    """Mean silhouette of clusters that stand for ``weights`` points; ``distances`` has their spread on the diagonal."""
    n, total, weight = len(groups), 0.0, 0.0
    weights = [1.0] * n if weights is None else weights

    def mean(z, members):
        known = [m for m in members if not math.isnan(distances[z][m])]
        mass = sum(weights[m] for m in known)
        return sum(weights[m] * distances[z][m] for m in known) / mass if mass > 0 else math.inf

    for z in range(n):
        members = {g: [m for m in range(n) if groups[m] == g] for g in set(np.asarray(groups).tolist())}
        own = members.pop(int(groups[z]))
        within, other = mean(z, own), min((mean(z, rest) for rest in members.values()), default=math.inf)
        if math.isinf(within) or math.isinf(other) or max(within, other) == 0 or weights[z] == 0:
            continue
        alone = sum(weights[m] for m in own) <= 1 and within == 0
        total += 0.0 if alone else weights[z] * (other - within) / max(within, other)
        weight += weights[z]
    return total / weight if weight else math.nan
