"""Algorithm 1, Method A and Method B. Comments give the lines of the paper; "errata" is docs/theory/errata.md."""

from itertools import permutations
from typing import NamedTuple

import numpy as np

from tests.paper.distances import Centroid, distance, merge, reach_of

FORBIDDEN = 1e6  # far above any distance: such a pair is matched only where no other is left


def method_a(centroids, K):
    """Return G as K lists of positions in 𝒸 (Method A)."""
    reach = reach_of([c.value for c in centroids])
    number = number_of_clusters(centroids)
    complete = [i for i in number if number[i] == K]
    if complete:  # line 1
        seeds = [z for z, c in enumerate(centroids) if c.participant == complete[0]]
    else:  # errata: K centroids at max-min distance
        seeds = farthest_first(centroids, K, reach)
    G = [[z] for z in seeds]  # line 2
    G_c = [centroids[z] for z in seeds]  # line 3
    L = [z for z in range(len(centroids)) if z not in seeds]  # line 4
    while L:  # line 5; errata: until L is empty
        D = np.full((len(L), K), np.inf)
        allowed = np.zeros((len(L), K), dtype=bool)
        for l, z in enumerate(L):  # lines 6 and 7
            j = centroids[z].participant
            for g in range(K):  # line 8
                # line 9; errata: the constraint holds for participants with at most K clusters
                allowed[l, g] = number[j] > K or all(centroids[y].participant != j for y in G[g])
                if allowed[l, g]:
                    D[l, g] = np.nan_to_num(distance(centroids[z].value, G_c[g].value, reach), nan=np.inf)  # line 11
        # line 14; errata: if nothing can be compared, the first free centroid takes the first group it may join
        l, g = np.unravel_index(np.argmin(D), D.shape) if np.isfinite(D).any() else (0, int(np.argmax(allowed[0])))
        G[g].append(L[l])  # line 15
        z = L.pop(l)  # line 16
        G_c[g] = merge([G_c[g], centroids[z]])  # lines 17 and 18; Ω_i ∨ Ω_j is what the merged vector knows
    return G


def number_of_clusters(centroids):
    """Return K_i by participant, in the order of participants."""
    number = {}
    for c in centroids:
        number[c.participant] = number.get(c.participant, 0) + 1
    return number


def farthest_first(centroids, K, reach):
    """Return K positions in 𝒸 at max-min distance (Method B, lines 1 to 14). Pairs without a distance are ignored."""
    if K == 1:
        return [0]
    n = len(centroids)
    distances = np.full((n, n), np.nan)  # line 1
    for z1 in range(n):  # line 2
        for z2 in range(z1 + 1, n):  # line 3
            distances[z1, z2] = distance(centroids[z1].value, centroids[z2].value, reach)  # lines 4 and 5
            distances[z2, z1] = distances[z1, z2]  # line 6
    Z = list(np.unravel_index(np.nanargmax(distances), distances.shape))  # lines 7 and 8
    while len(Z) < K:  # line 9
        nearest = np.full(n, -np.inf)  # line 10
        for z in set(range(n)) - set(Z):  # line 11
            known = distances[z, Z][~np.isnan(distances[z, Z])]
            nearest[z] = min(known, default=-1.0)  # line 12; without a distance, only where nothing else is left
        Z.append(int(np.argmax(nearest)))  # lines 13 and 14
    return [int(z) for z in Z]


def method_b(centroids, K):
    """Return G as K lists of positions in 𝒸 (Method B)."""
    reach = reach_of([c.value for c in centroids])
    G_c = [centroids[z] for z in farthest_first(centroids, K, reach)]  # line 15
    before = None
    for _ in range(100):  # line 16; errata: at most 100 iterations
        D = np.array([[distance(c.value, center.value, reach) for center in G_c] for c in centroids])  # lines 19 to 23
        # errata: a centroid that cannot be compared with any group waits
        choice = np.where(np.isnan(D).all(axis=1), -1, np.argmin(np.nan_to_num(D, nan=np.inf), axis=1))  # line 24
        for k in range(K):  # errata: an emptied group is seeded again with the worst-fitted centroid
            if not (choice == k).any():
                fit = np.nan_to_num(D[np.arange(len(choice)), choice], nan=np.inf)
                alone = [k >= 0 and np.sum(choice == k) == 1 for k in choice]
                choice[np.argmax(np.where(alone, -1.0, fit))] = k
        if before is not None and (choice == before).all():
            break
        before = choice
        clusters = [[z for z in range(len(choice)) if choice[z] == k] for k in range(K)]  # line 25
        G_c = [merge([centroids[z] for z in cluster]) for cluster in clusters]  # lines 26 and 27
    return clusters


class Study(NamedTuple):
    """X_i of every participant (rows × d, NaN where masked), and the parameters of Algorithm 1."""

    rows: list
    K: int
    step_size: float = 0.8  # α
    max_rounds: int = 3  # F
    min_points: int = 1
    local_iterations: int = 1


class Run(NamedTuple):
    """What Algorithm 1 did: its branch, the conditions that do not hold, 𝒸, G, G_c after each round, and labels.

    ``tied``: in some round two ways of matching cost the same, so that the paper does not define the result.
    """

    method: str
    unmet: dict
    centroids: list
    G: list
    G_c: list
    labels: list
    tied: bool


def summarize(rows, labels):
    """Return the centroids of every participant's clusters: 𝒸 ← 𝒸_1 ∪ … ∪ 𝒸_n (line 3)."""
    centroids = []
    for i, X in enumerate(rows):
        for a in range(max(labels[i]) + 1):
            centroids.append(centroid_of(i, X[np.asarray(labels[i]) == a]))
    return centroids


def centroid_of(i, points):
    """Return the mean of a local cluster, with the number of its points on each feature that i has."""
    value = np.mean(points, axis=0)
    return Centroid(i, value, np.where(np.isnan(value), 0, len(points)))


def branch(centroids, K):
    """Return the method of lines 4 to 10, its groups, and the conditions that do not hold, with the number of offenders.

    The errata ("Which assumption holds") say what is tested on summaries.
    """
    reach, G = reach_of([c.value for c in centroids]), method_a(centroids, K)
    unmet = {"1.1": 0, "1.2": 0, "1.3": 0}
    for group in G:
        masks = masks_of(group, centroids)
        unmet["1.1"] += not connected(masks)
        unmet["1.2"] += not masks.any(axis=0).all()
    unmet["1.3"] = sum(not nearest_to_its_own(z, centroids, G, reach) for z in range(len(centroids)))
    if not any(unmet.values()):
        return "method_a", G, {}  # lines 4 and 5
    G = method_b(centroids, K)  # lines 7 and 10
    unmet |= {"2.1": 0, "2.2": 0}
    for group in G:
        masks = masks_of(group, centroids)
        unmet["2.1"] += not all((one & other).any() for one in masks for other in masks)
        unmet["2.2"] += not masks.any(axis=0).all()
    unmet["3"] = sum(margin(z, centroids, G, reach) < 0.1 for z in range(len(centroids)))
    return "method_b", G, {name: int(n) for name, n in unmet.items() if n}


def masks_of(group, centroids):
    """Return the masks of the participants of one group."""
    return np.array([~np.isnan(centroids[z].value) for z in group])


def connected(masks):
    """Whether shared features lead from each participant to every other."""
    reached = masks[0]
    for _ in masks:
        reached = reached | masks[(masks & reached).any(axis=1)].any(axis=0)
    return bool((masks & reached).any(axis=1).all())


def nearest_to_its_own(z, centroids, G, reach):
    """Whether a centroid is nearer to each comparable one of its own group than to any comparable one of another."""
    own, others = [], []
    for group in G:
        for y in group:
            if y != z and not np.isnan(d := distance(centroids[z].value, centroids[y].value, reach)):
                (own if z in group else others).append(d)
    return max(own, default=0.0) < min(others, default=np.inf)


def margin(z, centroids, G, reach):
    """Return 1 − d²/d′²: d to its group, d′ to the best other one, both without its participant; 1 where there are none.

    The extent stands for the distance of an incomparable pair (errata).
    """
    squares = {}
    for g, group in enumerate(G):
        rest = [centroids[y] for y in group if centroids[y].participant != centroids[z].participant]
        if rest:
            squares[g] = np.nan_to_num(distance(centroids[z].value, merge(rest).value, reach), nan=1.0) ** 2
    own = next(g for g, group in enumerate(G) if z in group)
    others = [square for g, square in squares.items() if g != own]
    return 1 - squares[own] / min(others) if own in squares and others else 1.0


def algorithm_1(study, labels):
    """Run Algorithm 1 from given local clusterings: ``labels[i]`` has the local cluster of each row of X_i (line 2)."""
    centroids = summarize(study.rows, labels)  # line 3
    reach = reach_of([c.value for c in centroids])
    method, G, unmet = branch(centroids, study.K)  # lines 4 to 10
    G_c = [merge([centroids[z] for z in group]).value for group in G]
    history, tied = [G_c], False
    for _ in range(study.max_rounds):  # line 11
        rounds = [participant_round(i, X, G_c, reach, study) for i, X in enumerate(study.rows)]  # line 12
        G_c = [update(G_c[a], [c[a] for c, _ in rounds if c[a] is not None], study.step_size) for a in range(study.K)]
        tied = tied or any(is_tie for _, is_tie in rounds)
        history.append(G_c)
    final = [nearest(X, G_c, reach) for X in study.rows]  # E2: "obtained using the final global centroids"
    return Run(method, unmet, centroids, G, history, final, tied)


def nearest(X, G_c, reach):
    """Return the nearest centroid of each row; −1 where a row can be compared with none (errata)."""
    D = np.array([distance(X, c, reach) for c in G_c])
    return np.where(np.isnan(D).all(axis=0), -1, np.argmin(np.nan_to_num(D, nan=np.inf), axis=0))


def participant_round(i, X, G_c, reach, study):
    """Return K aligned local centroids of participant i, None where none was matched (lines 13 to 18)."""
    labels = nearest(X, G_c, reach)
    compatible = [a for a in range(study.K) if np.sum(labels == a) >= study.min_points]  # line 13
    local = local_clustering(i, X, [start(G_c[a], X, X[labels == a]) for a in compatible], study.local_iterations)
    cost = np.array([[distance(c.value, center, reach) for c in local] for center in G_c])
    aligned = [None] * study.K
    indices, is_tie = sort_hungarian(cost)  # line 15
    for b, a in enumerate(indices):  # lines 16 to 18
        if not np.isnan(cost[a, b]):
            aligned[a] = local[b]
    return aligned, is_tie


def sort_hungarian(cost):
    """Return the global centroid of each local one at the smallest total cost, tried out, and whether another costs as much.

    On a single feature ties are common: two points on one side of two others are as near to them crosswise as in order.
    """
    K, n_local = cost.shape
    cost = np.nan_to_num(cost, nan=FORBIDDEN)
    total = {way: sum(cost[a, b] for b, a in enumerate(way)) for way in permutations(range(K), n_local)}
    best, *others = sorted(total, key=total.__getitem__)
    return best, bool(others) and total[others[0]] - total[best] < 1e-9


def start(center, X, chosen):
    """Return Ω_i G_c[a]; where G_c[a] is hidden, the mean of the rows that chose it (errata)."""
    return np.where(np.isnan(X[0]), np.nan, np.where(np.isnan(center), np.mean(chosen, axis=0), center))


def local_clustering(i, X, init, n_iterations):
    """Return the local centroids after some iterations of k-means from ``init`` (line 14)."""
    has = ~np.isnan(X[0])
    for _ in range(n_iterations):
        squares = np.array([np.sum((X[:, has] - center[has]) ** 2, axis=1) for center in init])
        labels = np.argmin(squares, axis=0)
        for a in range(len(init)):  # as in most implementations, an emptied cluster takes the worst-fitted row
            if not (labels == a).any():
                alone = np.bincount(labels)[labels] == 1
                labels[np.argmax(np.where(alone, -1.0, np.min(squares, axis=0)))] = a
        local = [centroid_of(i, X[labels == a]) for a in range(len(init))]
        init = [c.value for c in local]
    return local


def update(old, reported, step_size):
    """Return (1 − α) G_c[a] + α merge({c_i^a}) (line 19).

    A feature that only one of the two knows has the value of that one.
    """
    if not reported:
        return old
    new = merge(reported).value
    both = (1 - step_size) * old + step_size * new
    return np.where(np.isnan(new), old, np.where(np.isnan(old), new, both))
