"""How the coordinator's work grows: ratios to a named reference, measured in one process on the same input.

    python -m benchmarks.scale [--quick] [--only TEXT]

Each row is a function that returns a ratio, whether the results agree, and what was measured. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.cluster.hierarchy import linkage
from scipy.integrate import quad
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import intarsia
from benchmarks import private
from benchmarks.audit import compared
from benchmarks.memory import SMALL
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import extent_of_densities, sampled_forces
from intarsia.core.densities.gaussian import Gaussian
from intarsia.core.distances import extent_of, nearest, rescaled_distances
from intarsia.core.grouping.agglomeration import agglomerate
from intarsia.core.grouping.local_centroids import LocalCentroids, objective
from intarsia.core.grouping.method_a import method_a, method_a_seeds
from intarsia.core.grouping.method_b import far_apart, method_b
from intarsia.core.grouping.search import SearchOptions, search_centroids
from intarsia.core.kmeans import lloyd
from intarsia.core.randomness import stream
from intarsia.core.rows import ArrayRows
from intarsia.tables import parquet
from intarsia.tables.frame import native_table

K, D, SEEN = 10, 100, 30
GIB = 1 << 30


@dataclass
class Measured:
    """What a row found: its ratio, whether results are right, and a few words."""

    ratio: float
    right: bool
    words: str
    peak: float = 0.0  # bytes


def study(n: int, noise: float = 0.3, k: int = K, d: int = D, sees: int = SEEN) -> LocalCentroids:
    """n participants that find the same k clear clusters, each in its own 30 of 100 features."""
    rng = np.random.default_rng(0)
    truth, values, counts = rng.normal(size=(k, d)), np.empty((n * k, d)), np.zeros((n * k, d))
    for i in range(n):
        seen, rows = rng.choice(d, sees, replace=False), slice(i * k, (i + 1) * k)
        values[rows] = truth[rng.permutation(k)] + noise * rng.normal(size=(k, d))
        counts[rows, seen] = rng.integers(5, 50, size=(k, sees))
    return LocalCentroids(MaskedCentroids.of(values, counts), np.repeat(np.arange(n), k))


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Of the processor, not of the clock: others may be at work."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def column(local: LocalCentroids, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Rescaled distances of all centroids to one centre, as one writes them down; the library's own may get faster."""
    shared = local.centroids.seen & local.extent.varies & (counts > 0)
    apart = np.sqrt(np.square(np.where(shared, local.centroids.values - values, 0.0)).sum(axis=1))
    reach = np.sqrt(np.square(np.where(shared, local.extent.high - local.extent.low, 0.0)).sum(axis=1))
    return np.divide(apart, reach, out=np.full(len(local), np.inf), where=reach > 0)


def column_per_merge(local: LocalCentroids, n_groups: int, merges: int | None = None) -> np.ndarray:
    """Method A, straightforward: after a merge, all distances to the group that grew are computed again, vectorised."""
    seeds = method_a_seeds(local, n_groups)
    groups = np.full(len(local), -1)
    groups[seeds] = np.arange(n_groups)
    values, counts = local.centroids.values[seeds].copy(), local.centroids.counts[seeds].copy()
    distance = local.distances_to(local.centroids.take(seeds))
    distance[np.isnan(distance) | (local.owner[:, None] == local.owner[seeds])] = np.inf
    for _ in range(len(local) - n_groups if merges is None else merges):
        z, g = divmod(int(distance.argmin()), n_groups)
        groups[z] = g
        weight = local.centroids.counts[z]
        counts[g] += weight
        share = np.divide(weight, counts[g], out=np.zeros_like(weight), where=counts[g] > 0)
        values[g] += share * np.where(local.centroids.seen[z], local.centroids.values[z] - values[g], 0.0)
        barred = np.isinf(distance[:, g]) | (local.owner == local.owner[z])  # all can be compared from the start
        distance[:, g] = np.where(barred, np.inf, column(local, values[g], counts[g]))
        distance[z] = np.inf
    return groups


def method_a_once(*, quick: bool) -> Measured:
    small = study(100)
    right = bool((method_a(small, K) == column_per_merge(small, K)).all())
    local = study(1000)
    fast, groups = min((seconds(lambda: method_a(local, K)) for _ in range(3)), key=lambda pair: pair[0])
    if quick:
        some = 300
        slow, _ = seconds(lambda: column_per_merge(local, K, some))
        slow *= (len(local) - K) / some
    else:
        slow, theirs = seconds(lambda: column_per_merge(local, K))
        right = right and bool((groups == theirs).all())
    return Measured(slow / fast, right, f"{fast:.2f} s instead of {slow:.0f} s{', extrapolated' if quick else ''}")


def method_a_grows(*, quick: bool) -> Measured:
    local, large = study(1000), study(3000 if quick else 10_000)
    one, _ = min((seconds(lambda: method_a(local, K)) for _ in range(3)), key=lambda pair: pair[0])
    ten, groups = seconds(lambda: method_a(large, K))
    right = bool((np.bincount(groups) == len(large) // K).all())
    return Measured(ten / one, right, f"{ten:.1f} s for {len(large)} clusters, {one:.2f} s for {len(local)}")


def product(multiply_adds: float) -> float:
    """How long one blocked matrix product of so many multiply-adds takes."""
    x, y = np.random.default_rng(0).random((256, D)), np.random.default_rng(1).random((2048, D))
    times = max(20, int(min(multiply_adds, 2e10) / (256 * 2048 * D)))
    out = np.empty((256, 2048))

    def multiply() -> None:
        for _ in range(times):
            np.matmul(x, y.T, out=out)

    taken, _ = seconds(multiply)
    return taken / (times * 256 * 2048 * D) * multiply_adds


def method_b_in_blocks(*, quick: bool) -> Measured:
    local = study(1000 if quick else 5000)
    taken, groups = seconds(lambda: method_b(local, K))
    n = len(local)
    reference = product(n * (n - 1) / 2 * D)  # each pair once; what the iterations need comes on top and is little
    seeds = far_apart(study(30), K)
    right = len(np.unique(groups)) == K and len(np.unique(seeds)) == K
    return Measured(taken / reference, right, f"{taken:.1f} s, the product {reference:.1f} s")


def gaussians(m: int, d: int, *, full: bool) -> tuple[list[Gaussian], np.ndarray]:
    rng = np.random.default_rng(0)
    truth, found = rng.normal(size=(K, d)), []
    for k in range(m):
        root = 0.2 * rng.normal(size=(d, 2 * d)) if full else None
        spread = 0.1 + 0.3 * rng.random(d) if root is None else root @ root.T
        found.append(Gaussian(truth[k % K] + 0.3 * rng.normal(size=d), spread))
    return found, np.ones((m, d), dtype=np.bool_)


def forces(m: int, d: int, sampled: int, *, full: bool) -> tuple[float, float, float]:
    """Seconds per exact and per sampled pair, and the worst of 30 relative errors against adaptive quadrature."""
    densities, seen = gaussians(m, d, full=full)
    extent = extent_of_densities(densities, seen, 2.0)
    exact, matrix = seconds(lambda: exact_forces(densities, seen, extent, 2.0, 0.01))
    rng = np.random.default_rng(1)
    proxies = [density.sample(rng, 100) for density in densities[:sampled]]
    drawn, _ = seconds(lambda: sampled_forces(proxies, seen[:sampled], extent, 2.0, 0.01, "euclidean"))
    worst = 0.0
    for _ in range(30):
        i, j = rng.choice(m, 2, replace=False)
        worst = max(worst, abs(matrix[i, j] / adaptive(densities[i], densities[j], extent.width) - 1.0))
    return exact / (m * (m - 1) / 2), drawn / (sampled * (sampled - 1) / 2), worst


def adaptive(p: Gaussian, q: Gaussian, width: np.ndarray) -> float:
    """E[1 / (d² + s²)], by adaptive quadrature over u = log t."""
    covariance = p.covariance + q.covariance
    values, basis = np.linalg.eigh(np.diag(covariance) if covariance.ndim == 1 else covariance)
    reach = np.square(width).sum()
    variances, squares = values / reach, np.square(basis.T @ (p.mean - q.mean)) / reach

    def integrand(u: float) -> float:
        t = np.exp(u)
        log = 0.5 * np.log1p(2 * t * variances).sum() + (t * squares / (1 + 2 * t * variances)).sum()
        return float(np.exp(u - t * 1e-4 - log))

    return quad(integrand, -40.0, 15.0, limit=500, epsrel=1e-10, points=[0.0, 3.0])[0]


def diagonal_forces(*, quick: bool) -> Measured:
    exact, sampled, worst = forces(600 if quick else 3000, 100, 60 if quick else 150, full=False)
    return Measured(
        sampled / exact,
        bool(worst <= 1e-4),
        f"{exact * 1e6:.1f} µs a pair, sampled {sampled * 1e6:.0f}; {worst:.0e} off",
    )


def full_forces(*, quick: bool) -> Measured:
    exact, sampled, worst = forces(100 if quick else 300, 30, 60 if quick else 150, full=True)
    return Measured(
        exact / sampled,
        bool(worst <= 1e-4),
        f"{exact * 1e6:.0f} µs a pair, sampled {sampled * 1e6:.0f}; {worst:.0e} off",
    )


def agglomeration(*, quick: bool) -> Measured:
    points = np.random.default_rng(0).normal(size=(4000 if quick else 10_000, 8))
    apart = pdist(points)
    theirs, tree = seconds(lambda: linkage(apart, "average"))
    affinity = -squareform(apart)
    ours, found = seconds(lambda: agglomerate(affinity))
    right = bool((np.sort(found.merges, axis=1) == tree[:, :2]).all())
    return Measured(ours / theirs, right, f"{ours:.1f} s, scipy {theirs:.1f} s")


def searching(*, quick: bool) -> Measured:
    local = study(400 if quick else 1000)
    options = SearchOptions(local.centroids.seen[::K], 30, lambda k: stream(0, "bench", k))
    once, groups = min((seconds(lambda: method_a(local, K)) for _ in range(3)), key=lambda pair: pair[0])
    taken, found = seconds(lambda: search_centroids(local, K, options))
    right = bool(found.loss <= objective(local, groups, K) + 1e-9)
    return Measured(taken / once, right, f"{taken:.1f} s, Method A {once:.2f} s")


def searching_wide(*, quick: bool) -> Measured:
    k = 20 if quick else 40
    local = study(4, noise=0.6, k=k, d=4200, sees=2500)
    options = SearchOptions(local.centroids.seen[::k], 30, lambda start: stream(0, "bench", start))
    once, groups = min((seconds(lambda: method_a(local, k)) for _ in range(3)), key=lambda pair: pair[0])
    taken, found = seconds(lambda: search_centroids(local, k, options))
    right = bool(found.loss <= objective(local, groups, k) + 1e-9)
    return Measured(taken / once, right, f"{taken:.1f} s, Method A {once:.2f} s")


def stored_rows(path: Path, n_bytes: int) -> None:
    """K clear clusters in 30 columns, drawn from a pool of noise, in a Parquet file of about this size as its libraries
    write it by default.
    """
    rng = np.random.default_rng(0)
    truth, pool = 3 * rng.normal(size=(K, SEEN)), rng.normal(size=(1 << 18, SEEN))
    schema = pa.schema([(f"f{k:02d}", pa.float64()) for k in range(SEEN)])
    with pq.ParquetWriter(path, schema) as file:
        while path.stat().st_size < n_bytes:
            rows = truth[rng.integers(K, size=len(pool))] + np.roll(pool, rng.integers(len(pool)), axis=0)
            file.write_table(pa.table([rows[:, k] for k in range(SEEN)], schema=schema))


def streaming(*, quick: bool) -> Measured:
    """A whole run, divided by the number of passes; reading is by the same library, in the same batches."""
    passes = 0

    def counted(*asked: Any) -> Any:
        nonlocal passes
        passes += 1
        return batches(*asked)

    batches, parquet._batches = parquet._batches, counted
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        stored_rows(path, GIB // 2 if quick else 4 * GIB)

        def read() -> None:
            for _ in pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False).iter_batches(
                65_536, use_threads=False
            ):
                pass

        once = min(by_the_clock(read)[0] for _ in range(2))
        taken, _, result = by_the_clock(lambda: intarsia.cluster({"a": path}, K, random_state=0))
        n_rows = pq.ParquetFile(path).metadata.num_rows
    sizes = np.bincount(result.labels["a"])
    right = len(sizes) == K and sizes.sum() == n_rows and bool((np.abs(sizes / n_rows * K - 1) < 0.02).all())
    words = f"{taken:.0f} s, {passes} passes over {n_rows / 1e6:.1f} M rows; reading {once:.1f} s"
    return Measured(taken / passes / once, right, words)


def local_kmeans(gaps: float, *, quick: bool) -> Measured:
    """Ten iterations from ten of the rows; with gaps scikit-learn gets the table before cells were taken out."""
    rng = np.random.default_rng(0)
    n, iterations = 100_000 if quick else 1_000_000, 10
    rows = 0.7 * rng.normal(size=(K, SEEN))[rng.integers(K, size=n)] + rng.normal(size=(n, SEEN))
    start = rows[rng.choice(n, K, replace=False)]
    observed = rng.random(rows.shape) >= gaps
    centres = MaskedCentroids.of(start, np.ones(start.shape))
    reference = KMeans(K, init=start, n_init=1, max_iter=iterations, tol=0.0, algorithm="lloyd")
    warnings.simplefilter("ignore", ConvergenceWarning)
    pairs = []
    for _ in range(5):
        theirs, _ = seconds(lambda: reference.fit(rows))
        ours, fit = seconds(lambda: lloyd(ArrayRows(rows, observed), centres, iterations))
        pairs.append((ours, theirs))
    ours, theirs = np.median(pairs, axis=0)
    before, some = lloyd(ArrayRows(rows, observed), centres, iterations - 1).centres, slice(0, 2000)
    extent = extent_of(rows, observed)
    slowly = nearest(rescaled_distances(rows[some], observed[some], before.values, before.seen, extent))
    right = fit.n_iter == reference.n_iter_ and bool((fit.labels[some] == slowly).all())
    if not gaps:  # theirs are the labels of one more assignment; rounding may decide for a few rows in a million
        again = lloyd(ArrayRows(rows, observed), centres, iterations + 1).labels
        right = right and bool((again == reference.labels_).mean() > 1 - 1e-5)
    return Measured(ours / theirs, right, f"{ours:.2f} s, scikit-learn {theirs:.2f} s")


def local_kmeans_complete(*, quick: bool) -> Measured:
    return local_kmeans(0.0, quick=quick)


def local_kmeans_with_gaps(*, quick: bool) -> Measured:
    return local_kmeans(0.2, quick=quick)


def whole_run(n_jobs: int, *, quick: bool) -> Measured:
    """Default settings, K known. By the clock, for processes are to share the work; the processor's seconds are told."""
    rng = np.random.default_rng(0)
    n = 100 if quick else 500
    centres, tables, truth = rng.normal(size=(K, D)), {}, []
    for i in range(n):
        seen, own = np.sort(rng.choice(D, SEEN, replace=False)), rng.integers(K, size=2000)
        rows = centres[own][:, seen] + 0.5 * rng.normal(size=(len(own), SEEN))
        tables[f"p{i:03}"] = native_table({f"x{m:03}": rows[:, k] for k, m in enumerate(seen)}, "pandas")
        truth.append(own)

    def alone() -> None:
        for table in tables.values():
            KMeans(K, n_init=10, random_state=0).fit(table.to_numpy())

    def together() -> dict[str, np.ndarray]:
        return intarsia.cluster(tables, K, random_state=0, n_jobs=n_jobs).labels

    theirs, by_processor, _ = by_the_clock(alone)
    ours, busy, labels = by_the_clock(together)
    right = adjusted_rand_score(np.concatenate(truth), np.concatenate(list(labels.values()))) > 0.95
    words = (
        f"{ours:.1f} s, scikit-learn {theirs:.1f} s; of this process's processor {busy:.1f} and {by_processor:.1f} s"
    )
    return Measured(ours / theirs, bool(right), words)


def by_the_clock(work: Callable[[], Any]) -> tuple[float, float, Any]:
    started, by_processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - started, time.process_time() - by_processor, result


def whole_run_on_one(*, quick: bool) -> Measured:
    return whole_run(1, quick=quick)


def whole_run_on_two(*, quick: bool) -> Measured:
    return whole_run(2, quick=quick)


def audit(*, quick: bool) -> Measured:
    audited, plain, right = compared(200_000 if quick else 1_000_000)
    return Measured(audited / plain, right, f"20 rounds in {audited:.1f} s, {plain:.1f} s without")


def with_privacy(*, quick: bool) -> Measured:
    protected, plain, right = private.compared(10_000 if quick else 100_000)
    return Measured(protected / plain, right, f"{protected:.1f} s, {plain:.1f} s without")


def noisy_numbers(*, quick: bool) -> Measured:  # noqa: ARG001 - it is quick
    taken, right = private.noise()
    return Measured(taken, right, f"{private.NUMBERS / taken:,.0f} a second")


def blobs(n_participants: int, n_rows: int, n_columns: int, k: int = 5) -> dict[str, dict[str, np.ndarray]]:
    """Tables with the same k round clusters, each with its own 70 % of the columns."""
    rng = np.random.default_rng(0)
    centres, tables = 2 * rng.normal(size=(k, n_columns)), {}
    for i in range(n_participants):
        columns = np.sort(rng.choice(n_columns, round(0.7 * n_columns), replace=False))
        rows = centres[rng.integers(k, size=n_rows)] + rng.normal(size=(n_rows, n_columns))
        tables[f"p{i}"] = {f"x{m:03}": rows[:, m] for m in columns}
    return tables


def choosing_k(n_participants: int, n_rows: int, n_columns: int) -> Callable[..., Measured]:
    """Return the work of one row: the same tables with K unknown and with K given."""

    def work(*, quick: bool) -> Measured:
        tables, k = blobs(n_participants, n_rows // (10 if quick else 1), n_columns), 5
        intarsia.cluster(tables, k, random_state=0)
        given, _ = min(
            (seconds(lambda: intarsia.cluster(tables, k, random_state=0)) for _ in range(2)), key=lambda p: p[0]
        )
        chosen, result = min(
            (seconds(lambda: intarsia.cluster(tables, random_state=0)) for _ in range(2)), key=lambda pair: pair[0]
        )
        return Measured(chosen / given, result.n_clusters == k, f"{chosen:.2f} s, {given:.2f} s with K given")

    return work


@dataclass(frozen=True)
class Row:
    """One line of the table: ``at_least`` says on which side of the limit the ratio must be."""

    name: str
    reference: str
    limit: float
    work: Callable[..., Measured]
    at_least: bool = False
    bytes_limit: float = 0.0
    fails_above: float | None = None  # a limit that was never reached; docs/performance.md says what bounds it


ROWS = (
    Row("Method A, 1,000 × 10", "one column computed again per merge", 100, method_a_once, at_least=True),
    Row("Method A, 10,000 × 10", "the same code at 1,000", 15, method_a_grows, bytes_limit=GIB),
    Row("Method B, 5,000 × 10", "a blocked matrix product", 3, method_b_in_blocks, bytes_limit=GIB),
    Row("exact force, diagonal", "sampled, M = 100, in blocks", 10, diagonal_forces, at_least=True),
    Row("exact force, full", "sampled, M = 100, in blocks", 3, full_forces),
    Row("agglomeration, 10,000", "scipy's average linkage", 3, agglomeration),
    Row("search, 1,000 × 10", "Method A", 20, searching),
    Row("search, 160 × 4,200", "Method A", 20, searching_wide),
    Row("streamed table, 4 GiB", "reading it once per pass", 2.5, streaming, bytes_limit=GIB),
    Row("local k-means, no gaps", "scikit-learn's, same start", 1.3, local_kmeans_complete),
    Row("local k-means, 20 % gaps", "scikit-learn's without gaps", 3, local_kmeans_with_gaps),
    Row("rounds with audit, K = 10", "the same without", 1.1, audit, bytes_limit=GIB),
    Row("auto K, 4 × 10,000 × 50", "the same with K given", 4, choosing_k(4, 10_000, 50)),
    Row("auto K, 10 × 2,000 × 100", "the same with K given", 4, choosing_k(10, 2_000, 100)),
    Row("auto K, 3 × 200,000 × 20", "the same with K given", 4, choosing_k(3, 200_000, 20)),
    Row("private 4 × 100,000 × 30", "the same without privacy", 3, with_privacy),
    Row("10,000 noisy numbers", "one second of the clock", 1, noisy_numbers),
    Row("whole run, one core", "all local KMeans.fit in turn", 1.15, whole_run_on_one, fails_above=1.5),
    Row("whole run, two cores", "all local KMeans.fit in turn", 0.65, whole_run_on_two, fails_above=1.5),
)


def in_a_process_of_its_own(row: Row, *, quick: bool) -> Measured:
    """With the most memory that it held."""
    command = [
        sys.executable,
        "-c",
        SMALL,
        "-m",
        "benchmarks.scale",
        "--row",
        row.name,
        *(["--quick"] if quick else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result, peak = done.stdout.splitlines()
    return Measured(**json.loads(result) | {"peak": int(peak) * (1 if sys.platform == "darwin" else 1024)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="smaller inputs, in a minute; limits are for the full ones"
    )
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.row:
        row = next(row for row in ROWS if row.name == asked.row)
        print(json.dumps(asdict(row.work(quick=asked.quick))))
        return
    print(f"{'work':<24} {'reference':<38} {'ratio':>7} {'limit':>7}   ok   measured")
    failed = 0
    for row in (row for row in ROWS if asked.only in row.name):
        found = in_a_process_of_its_own(row, quick=asked.quick)
        fits = found.ratio >= row.limit if row.at_least else found.ratio <= row.limit
        fits = fits and found.right and not 0 < row.bytes_limit < found.peak
        known = row.fails_above is not None and found.right and found.ratio <= row.fails_above
        failed += not found.right if asked.quick else not fits and not known  # limits are for the full inputs
        words = f"{found.words}; {found.peak / GIB:.2f} GiB" + ("" if found.right else "; WRONG RESULT")
        words += "; not reached so far" if known and not fits else ""
        limit = f"{'≥' if row.at_least else '≤'} {row.limit:g}"
        print(
            f"{row.name:<24} {row.reference:<38} {found.ratio:7.2f} {limit:>7}   {'yes' if fits else 'NO ':<3}  {words}",
            flush=True,
        )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
