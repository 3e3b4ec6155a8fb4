"""Search for the position of one row: no sum is needed, only at which cut an answer changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from intarsia.participant import Participant
from intarsia.protocol import Failure
from tests.attacks.asking import Line, line, refine
from tests.attacks.studies import Table

CLOSE = 1e-5  # in standard deviations


def search(participant: Participant, n_rows: int, n_clusters: int, seed: int, n_rounds: int = 20) -> tuple[Line, float]:
    """Look for the last cut along a line that anything is told behind, between a few rows from the end and the end."""
    where = line(participant, seed)
    low, high = float(norm.isf(12.0 / n_rows)), float(norm.isf(0.02 / n_rows))
    for number in range(1, n_rounds + 1):
        cuts = np.linspace(low, high, n_clusters + 1)[1:-1]
        reply: Any = participant.handle(refine(where, [cuts], n_clusters, number))
        if isinstance(reply, Failure):
            break
        sizes = reply.refined[0].sizes
        behind = np.cumsum(sizes[::-1])[::-1][1:] > 0
        last = int(np.flatnonzero(behind).max(initial=-1))
        ends = [low, *cuts, high]
        low, high = ends[last + 1], ends[last + 2]
    return where, (low + high) / 2


def misfit_search(participant: Participant, n_rows: int, seed: int, n_rounds: int = 20) -> tuple[Line, float]:
    """The same search by the misfit: rows that are counted with another centroid than before change it by a jump.

    The sums of both sides are told; the misfit of any other division of the told groups differs from theirs.
    """
    where = line(participant, seed)
    low, high = float(norm.isf(7.0 / n_rows)), float(norm.isf(0.02 / n_rows))
    first: Any = participant.handle(refine(where, [[low]], 2, 1))
    if isinstance(first, Failure):
        return where, low
    n, means = first.refined[0].sizes, first.refined[0].values
    total = float(n_rows * len(where.u))
    for number in range(2, n_rounds + 1):
        cut = (low + high) / 2
        request = refine(where, [[cut]], 2, number)
        reply: Any = participant.handle(request)
        if isinstance(reply, Failure) or reply.refined[0].misfit is None:
            break
        c = request.rivals[0].values
        apart = float(n @ np.square(c).sum(axis=1) - 2 * (n[:, None] * means * c).sum()) + total
        joined = float(n.sum() * np.square(c[0]).sum() - 2 * (n[:, None] * means).sum(axis=0) @ c[0]) + total
        misfit = reply.refined[0].misfit
        if abs(misfit - apart) < abs(misfit - joined):
            low = cut
        else:
            high = cut
    return where, (low + high) / 2


def missing_tail(seed: int) -> Table:
    """A table with twelve rows far out in column a; of the six nearer ones only one has a value in column j."""
    rng = np.random.default_rng(seed)
    a = np.r_[rng.normal(size=188), 8.0 + 0.5 * rng.normal(size=6), 12.0 + 0.5 * rng.normal(size=6)]
    j = rng.normal(size=200)
    j[188:193] = np.nan
    j[rng.choice(188, 20, replace=False)] = np.nan
    return {"a": a, "b": rng.normal(size=200), "j": j}


def search_for_value(participant: Participant, n_rounds: int = 30) -> float:
    """Tell the outer six rows from the inner six; then look for the mean of the outer six in a column with missing values.

    Sums of that column are told of all twelve rows together, which is a sum over seven values; the difference is one value.
    """
    plain = line(participant)
    a, j = plain.names.index("a"), plain.names.index("j")

    def along(x: float, y: float) -> Line:
        u = np.zeros(3)
        u[a], u[j] = x, y
        return plain._replace(u=u / np.linalg.norm(u))

    def outer(where: Line, cut: float, number: int) -> tuple[Any, int]:
        part = participant.handle(refine(where, [[cut]], 2, number)).refined[0]  # type: ignore[attr-defined]
        return part, int(np.argmax(np.where(part.sizes > 0, part.values[:, a], -np.inf)))

    unit, shift = plain.columns.scale[a], plain.columns.shift[a]
    twelve, k = outer(along(1, 0), (5.0 - shift) / unit, 1)
    count, total = twelve.counts[k, j], twelve.values[k, j] * twelve.counts[k, j]
    six, k = outer(along(1, 0), (10.0 - shift) / unit, 2)
    where, mean = along(1, 0.3), six.values[k, a]
    low, high = (mean * where.u[a] + side * where.u[j] for side in (-1.2, 1.2))
    for number in range(3, 3 + n_rounds):
        cut = (low + high) / 2
        told = (outer(where, cut, number)[0].sizes > 0).all()
        low, high = (cut, high) if told else (low, cut)
    found = ((low + high) / 2 - mean * where.u[a]) / where.u[j]
    return float(total - (count - 1) * found)


def is_a_row(where: Line, place: float, rows: np.ndarray) -> bool:
    """Whether a row is at this place along the line."""
    return bool(np.abs(rows @ where.u - place).min() < CLOSE)
