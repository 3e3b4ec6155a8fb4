"""Repeats: months of honest runs over a table that grows, and questions that only a repeated study asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from intarsia import FederatedClustering, ReleasePolicy
from intarsia.coordinator.previous import PreviousModel
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.rows import ArrayRows, Nearest
from intarsia.participant import Participant
from intarsia.privacy.record import Record
from intarsia.protocol import CountMoves, Failure, LabelBefore, Moves
from intarsia.runtime.drive import drive
from tests.attacks.asking import Line, centres_of, centroids, line
from tests.attacks.listening import Heard, Spied, Tap, participant_of, rows_of, squares_told, sums_told
from tests.attacks.membership import NEAR, in_units
from tests.attacks.solving import Solved, rounds, solve_sets
from tests.attacks.studies import Table

LATER = -2  # the label of a row that was not in the table yet
Labels = np.ndarray


def growing(seed: int, n_months: int, n_rows: int = 150, more: int = 12) -> list[dict[str, Table]]:
    """Three participants in a chain of columns, whose tables get some rows each month; one cluster moves."""
    rng, centres = np.random.default_rng([seed, 17]), np.random.default_rng(seed).normal(0.0, 1.2, (3, 8))
    months: list[dict[str, Table]] = []
    for month in range(n_months):
        now: dict[str, Table] = {}
        for i, name in enumerate("abc"):
            n = n_rows if month == 0 else more
            drift = np.zeros((3, 8))
            drift[0] = 0.4 * month
            X = (centres + drift)[rng.integers(3, size=n)] + rng.normal(size=(n, 8))
            new = {f"x{j}": X[:, j] for j in range(i, i + 6)}
            new[f"x{i}"][rng.random(n) < 0.1] = np.nan
            old = months[-1][name] if months else {}
            now[name] = {column: np.r_[old.get(column, np.zeros(0)), values] for column, values in new.items()}
        months.append(now)
    return months


def listen_for_months(
    months: Sequence[dict[str, Table]], policy: ReleasePolicy | None, folder: Path
) -> dict[str, list[Heard]]:
    """Run a study each month, each from the model of the month before, over records that go on."""
    heard: dict[str, list[Heard]] = {name: [] for name in months[0]}
    previous = None
    for tables in months:
        participants = [
            participant_of(table, name, policy, **({} if policy is None else {"record": Record(folder / name)}))
            for name, table in tables.items()
        ]
        tap = Tap(participants)
        algorithm: Any = FederatedClustering(3, random_state=0, max_rounds=8, tol=1e-4).algorithm_for(list(tables))
        outcome = drive(replace(algorithm, previous=previous, repeats=True), tap)
        previous = PreviousModel.of(outcome.model, "")
        for one in participants:
            messages = tap.heard[one.name]
            assert not any(isinstance(reply, Failure) for _, reply in messages)
            rows = rows_of(tables[one.name], messages)
            labels, local = np.asarray(one.labels), np.asarray(one.local_labels)
            heard[one.name].append(Heard(messages, rows, labels, local, tap.spies[one.name].spied))
    return heard


def solve_months(months: Sequence[Heard]) -> Solved:
    """Return what follows from all sums of all months for whoever knows the nearest centroids of all rows."""
    last = months[-1].rows
    labellings = []
    for heard in months:
        own = [heard.labels, heard.local_labels, *rounds(heard), *_labelled_before(heard)]
        own.append(np.zeros(len(heard.labels), dtype=int))
        labellings += [padded(labels, len(last.values), -1) for labels in own]
    told = [one for heard in months for one in sums_told(heard.messages)]
    squares = [one for heard in months for one in squares_told(heard.messages)]
    return solve_sets(told, squares, labellings, last)


def _labelled_before(heard: Heard) -> list[Labels]:
    rows, found = ArrayRows(heard.rows.values, heard.rows.observed), []
    for request, _ in heard.messages:
        if isinstance(request, LabelBefore):
            sent = request.centres
            centres = MaskedCentroids.of(sent.values, sent.known.astype(float))
            near = Nearest(rows, centres, Extent(sent.low, sent.high))
            found.append(np.concatenate([near.labels(piece) for piece in rows.pieces(len(centres))]))
    return found


def padded(labels: Labels, n_rows: int, with_: int = LATER) -> Labels:
    return np.r_[labels, np.full(n_rows - len(labels), with_)]


def smallest_groups(months: Sequence[Sequence[Sequence[Spied]]], observed: np.ndarray) -> list[int]:
    """Return how many rows are in the smallest group with one history, over all told labellings: rows, then columns."""
    n_rows, d = observed.shape
    told = [one for month in months for message in month for one in message]
    of_rows = np.stack([padded(one.rows, n_rows) for one in told])
    smallest = [int(np.unique(of_rows, axis=1, return_counts=True)[1].min())]
    for j in range(d):
        history = np.stack([padded(one.of_column(j), n_rows) for one in told])[:, observed[:, j]]
        smallest.append(int(np.unique(history, axis=1, return_counts=True)[1].min()))
    return smallest


def counts_told(months: Sequence[Heard]) -> list[int]:
    """Return all numbers of rows in tables of moves and of tails."""
    found: list[int] = []
    for heard in months:
        for _, reply in heard.messages:
            if isinstance(reply, Moves):
                found += reply.rows.ravel().tolist()
            elif getattr(reply, "tails", None) is not None:
                found += reply.tails.ravel().tolist()
    return found


def moves(where: Line, before: float, now: float) -> CountMoves:
    sent = [centres_of(centroids(where, [cut], 2)) for cut in (before, now)]
    return CountMoves(before=sent[0], now=sent[1], columns=where.columns)


def moved(participant: Participant, row: np.ndarray, seed: int) -> dict[str, float]:
    """Cut just before and just behind a known row, and ask how many rows changed side; then look at each cut alone."""
    where = line(participant, seed)
    at = float(in_units(where, row) @ where.u)
    reply: Any = participant.handle(moves(where, at - NEAR, at + NEAR))
    if isinstance(reply, Failure):
        return {"failure": 1.0}
    seen = {"moved": float(reply.rows.sum() - np.trace(reply.rows)), "parts": float((reply.rows.sum(axis=1) > 0).all())}
    for name, cut, axis in (("before", at - NEAR, 1), ("behind", at + NEAR, 0)):
        sent = centres_of(centroids(where, [cut], 2))
        labelled: Any = participant.handle(LabelBefore(centres=sent, columns=where.columns))
        seen[name] = float((labelled.sizes != reply.rows.sum(axis=axis)).any())
    return seen


def sliding_moves(participant: Participant, row: np.ndarray, n_rows: int, seed: int) -> float:
    """Turn a plane through the known row until enough rows are behind it; both sides of the row are in one question.

    Returns 1 for "there", −1 for "not there", and 0 if no answer decides.
    """
    plain = line(participant, seed)
    known, rng = in_units(plain, row), np.random.default_rng(seed)
    far = float(np.linalg.norm(known))
    u = known / far
    across = rng.normal(size=len(u))
    across -= (across @ u) * u
    across /= np.linalg.norm(across)
    for expected in np.linspace(2.0, 9.0, 10):
        cosine = min(1.0, float(norm.isf(expected / n_rows)) / far)
        v = cosine * u + np.sqrt(1.0 - cosine**2) * across
        at = float(known @ v)
        reply: Any = participant.handle(moves(plain._replace(u=v), at + NEAR, at - NEAR))
        if isinstance(reply, Failure):
            return 0.0
        without, with_ = (int(reply.rows.sum(axis=axis)[1]) for axis in (1, 0))
        if without != with_:
            return 1.0
        if 0 < without < reply.rows.sum():
            return -1.0
    return 0.0
