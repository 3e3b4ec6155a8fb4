"""Membership: is a row that the attacker knows completely in a participant's table?

Each attack asks one fresh participant about one known row, and returns what it saw as numbers, 0 for "nothing there".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from scipy.stats import norm

from intarsia.participant import Participant
from intarsia.protocol import Failure
from tests.attacks.asking import Line, cut_at, label, line, refine
from tests.attacks.studies import Table

NEAR = 1e-4  # on both sides of the known row, in standard deviations


def in_units(where: Line, row: np.ndarray) -> np.ndarray:
    return (row - where.columns.shift) / where.columns.scale


def two_cuts(participant: Participant, row: np.ndarray, n_clusters: int, seed: int) -> dict[str, float]:
    """Cut just before and just behind the known row, and compare the two answers in every respect."""
    where = line(participant, seed)
    at = float(in_units(where, row) @ where.u)
    rounds = [[at - NEAR], [at + NEAR]] if n_clusters == 2 else [[at - NEAR, at + NEAR]]
    messages = cut_at(participant, where, rounds, n_clusters)
    replies = [reply for _, reply in messages]
    if any(isinstance(reply, Failure) for reply in replies):
        return {"failure": 1.0}
    seen = {"suppressed": float(sum(sum(suppressed(reply).values()) for reply in replies))}
    seen["misfit"] = sum(float(unexplained_misfit(request, reply) > 1e-6) for request, reply in messages)
    if n_clusters == 2:
        before, behind = (reply.refined[0] for reply in replies)
        seen["sizes"] = float(np.abs(np.sort(before.sizes) - np.sort(behind.sizes)).sum())
        seen["sums"] = float(np.abs(_sums(before) - _sums(behind)).max() > 1e-6)
        seen["hidden"] = float(suppressed(replies[0]) != suppressed(replies[1]))
    else:
        part = replies[0].refined[0]
        place = part.values @ where.u
        told = part.sizes > 0
        seen["sizes"] = float((told & (np.abs(place - at) < 10 * NEAR)).sum())
        seen["hidden"] = float(len(part.sizes) - told.sum())
    labelled: Any = participant.handle(label(where, rounds[-1], n_clusters))  # a last look, at the same rows
    if not isinstance(labelled, Failure):
        seen["labelled"] = float(sum(suppressed(labelled).values()))
        told = [reply.refined[0].sizes for reply in replies]
        seen["sizes of labels"] = float(any(sorted(labelled.sizes) != sorted(sizes) for sizes in told))
    return seen


def suppressed(reply: Any) -> dict[str, int]:
    """What a reply says about what the participant suppressed or changed, in whichever field."""
    said = dict(getattr(reply, "suppressed", {}))
    return said | {name: int(getattr(reply, name)) for name in ("changed",) if hasattr(reply, name)}


def _sums(part: Any) -> np.ndarray:
    order = np.argsort(part.values[:, 0] * (part.sizes > 0))
    return np.asarray((part.values * part.sizes[:, None])[order])


def unexplained_misfit(request: Any, reply: Any, squares: float | None = None) -> float:
    """The part of a told misfit that the told sums do not explain, relative to the misfit; 0 for one without sums.

    Σ |x − c|² over clusters of n rows with sum s is Q − 2 c·s + n |c|²; Q is the number of values, in standard units.
    """
    sent, part = request.rivals[0].values, reply.refined[0]
    misfit = getattr(part, "misfit", None)
    if misfit is None or part.sizes.sum() == 0:
        return 0.0
    n_rows, d = int(part.sizes.sum()), sent.shape[1]
    total = n_rows * d if squares is None else squares
    near = np.argmin(np.square(part.values[:, None] - sent[None]).sum(axis=2), axis=1)
    best = min(_explained(part, sent, order, total) - misfit for order in (np.arange(len(sent)), near))
    return abs(best) / max(misfit, 1.0)


def _explained(part: Any, sent: np.ndarray, order: np.ndarray, total: float) -> float:
    c, s = sent[order], part.values * part.sizes[:, None]
    return float(total - 2.0 * (c * s).sum() + (part.sizes * np.square(c).sum(axis=1)).sum())


def sliding(participant: Participant, row: np.ndarray, n_rows: int, seed: int, n_rounds: int = 20) -> float:
    """Turn a plane through the known row until enough rows are behind it, and ask for both sides of the row each time.

    The answer with the row comes before the one without it if, and only if, the row is there. Returns 1 for "there",
    −1 for "not there", and 0 if no answer decides.
    """
    plain = line(participant, seed)
    known, rng = in_units(plain, row), np.random.default_rng(seed)
    norm_ = float(np.linalg.norm(known))
    u = known / norm_
    across = rng.normal(size=len(u))
    across -= (across @ u) * u
    across /= np.linalg.norm(across)
    for expected in np.linspace(2.0, 9.0, n_rounds // 2):
        cosine = min(1.0, float(norm.isf(expected / n_rows)) / norm_)
        v = cosine * u + np.sqrt(1.0 - cosine**2) * across
        where = plain._replace(u=v)
        for answer, cut in ((-1.0, known @ v + NEAR), (1.0, known @ v - NEAR)):
            (_, reply), *_ = cut_at(participant, where, [[cut]], 2)
            if isinstance(reply, Failure):
                return 0.0
            if (reply.refined[0].sizes > 0).sum() > 1:
                return answer
    return 0.0


def by_min_points(participant: Participant, row: np.ndarray, n_rows: int, seed: int, n_rounds: int = 20) -> float:
    """Ask for the rows behind a known row, with and without it, and ignore the centroid unless so many rows are there.

    The number goes down until one of the two is told. Returns 1 for "there", −1 for "not there", 0 if nothing is told.
    """
    where = line(participant, seed)
    at = float(in_units(where, row) @ where.u)
    at, where = (at, where) if at > 0 else (-at, where._replace(u=-where.u))
    expected = n_rows * float(norm.sf(at))
    for least in range(int(expected + n_rounds / 4), int(expected - n_rounds / 4), -1):
        for answer, cut in ((-1.0, at + NEAR), (1.0, at - NEAR)):
            request = msgspec.structs.replace(refine(where, [[cut]], 2, least), min_points=max(least, 1))
            reply: Any = participant.handle(request)
            if isinstance(reply, Failure):
                return 0.0
            if (reply.refined[0].sizes > 0).all():
                return answer
    return 0.0


def correlated(participant: Participant, row: np.ndarray, n_rows: int, seed: int, fewest: int = 5) -> float:
    """Ask for the few rows behind a plane through the known row; return how far their sum points towards it.

    A row that is in a sum of n moves the mean by 1/n of itself, across the plane, where all others cancel out.
    """
    plain = line(participant, seed)
    known, rng = in_units(plain, row), np.random.default_rng(seed)
    across = rng.normal(size=len(known))
    across -= (across @ known) / (known @ known) * known
    across /= np.linalg.norm(across)
    for expected in (1.4 * fewest, 3.0 * fewest, 5.0 * fewest):
        cosine = min(1.0, float(norm.isf(expected / n_rows)) / float(np.linalg.norm(known)))
        v = cosine * known / np.linalg.norm(known) + np.sqrt(1.0 - cosine**2) * across
        rest = known - (known @ v) * v
        (_, reply), *_ = cut_at(participant, plain._replace(u=v), [[float(known @ v) - NEAR]], 2)
        if isinstance(reply, Failure):
            return 0.0
        part = reply.refined[0]
        if (part.sizes > 0).sum() > 1:
            k = int(np.argmax(part.values @ v))
            return float(part.sizes[k] * (part.values[k] @ rest) / (rest @ rest) - 0.5)
    return 0.0


def accuracy_of_signs(members: Sequence[float], others: Sequence[float]) -> float:
    """The share of right answers if numbers above 0 say "there"; undecided ones are right by half."""
    right = sum((score > 0) + 0.5 * (score == 0) for score in members)
    right += sum((score < 0) + 0.5 * (score == 0) for score in others)
    return float(right / (len(members) + len(others)))


def accuracy(members: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]]) -> float:
    """The share of right answers of the best rule: "there" if one of the numbers is not 0, or if it is."""
    best = 0.5
    for name in {name for seen in (*members, *others) for name in seen}:
        hits = sum(seen.get(name, 0.0) != 0 for seen in members) + sum(seen.get(name, 0.0) == 0 for seen in others)
        share = hits / (len(members) + len(others))
        best = max(best, share, 1.0 - share)
    return best


def targets(n_rows: int, n_columns: int, n: int, seed: int) -> tuple[Table, np.ndarray, np.ndarray]:
    """Return a table, ``n`` of its rows, and as many rows of the same distribution that are not in it."""
    rng = np.random.default_rng([seed, n_rows])
    values = rng.normal(size=(n_rows + n, n_columns))
    table = {f"x{j:02d}": values[:n_rows, j].copy() for j in range(n_columns)}
    return table, values[rng.choice(n_rows, n, replace=False)], values[n_rows:]
