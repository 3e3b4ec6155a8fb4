"""What differential privacy costs in time: a whole run with it and without it, and noise by itself."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia.privacy.noise import OpenDPNoise, rho_of

PARTICIPANTS, COLUMNS, SEEN, K, HALF = 4, 40, 30, 5, 10.0
NUMBERS = 10_000


def tables_of(n_rows: int) -> dict[str, dict[str, np.ndarray]]:
    """Four tables with the same five round clusters, each with its own 30 of 40 columns."""
    rng = np.random.default_rng(0)
    centres, tables = 2 * rng.normal(size=(K, COLUMNS)), {}
    for i in range(PARTICIPANTS):
        columns = np.sort(rng.choice(COLUMNS, SEEN, replace=False))
        rows = centres[rng.integers(K, size=n_rows)] + rng.normal(size=(n_rows, COLUMNS))
        tables[f"p{i}"] = {f"x{m:03}": rows[:, m] for m in columns}
    return tables


def compared(n_rows: int) -> tuple[float, float, bool]:
    """Return the processor's seconds with privacy and without it, the best of two each, and whether labels agree."""
    tables = tables_of(n_rows)
    privacy = intarsia.DifferentialPrivacy(1, bounds={f"x{m:03}": (-HALF, HALF) for m in range(COLUMNS)})
    intarsia.cluster(tables_of(1000), K, random_state=0, privacy=privacy)  # imports OpenDP
    best, labels = {}, {}
    for _ in range(2):
        for name, settings in (("plain", {}), ("private", {"privacy": privacy})):
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
                result = intarsia.cluster(tables, K, random_state=0, **settings)
            best[name] = min(best.get(name, np.inf), time.process_time() - started)
            labels[name] = np.concatenate(list(result.labels.values()))
    return best["private"], best["plain"], bool(adjusted_rand_score(labels["plain"], labels["private"]) > 0.95)


def noise() -> tuple[float, bool]:
    """Return the clock's seconds for 10,000 noisy numbers, the best of three, and whether their spread is as it must be."""
    source, rho, sensitivity = OpenDPNoise(), rho_of(1.0, 1e-6), 2.0**20
    source.draw(1, sensitivity, rho)
    best = np.inf
    for _ in range(3):
        started = time.perf_counter()
        drawn = source.draw(NUMBERS, sensitivity, rho)
        best = min(best, time.perf_counter() - started)
    return best, bool(abs(drawn.std() / (sensitivity / np.sqrt(2 * rho)) - 1) < 0.1)
