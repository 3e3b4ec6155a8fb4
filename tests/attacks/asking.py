"""The clever asker: a coordinator that chooses centroids so that its sums cut the rows where it likes.

Rows have an order along any direction u. Centroids ``t u + (Λ + ℓ) w`` with w across u and a large Λ divide the rows at any
K − 1 positions along u: the constant ``2 Λ ℓ`` moves each boundary, and ℓ is too small to tilt it. So neither units nor
columns of the request are unusual: those of every request are the same, and follow from the participant's description.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from intarsia.core.features import indicators
from intarsia.participant import Participant
from intarsia.protocol import Centres, Columns, Describe, Failure, Label, Refine
from tests.attacks.listening import Heard, Rows, Spied, Spy, Told, different, feature, sums_told
from tests.attacks.studies import Table

AFAR = 1e5  # Λ
EDGE = 8.0  # standard deviations, beyond all rows


class Line(NamedTuple):
    """A direction in which rows are cut, one across it, the columns and units of all requests, and the features."""

    u: np.ndarray
    w: np.ndarray
    columns: Columns
    names: tuple[str, ...]


def line(participant: Participant, seed: int = 0) -> Line:
    """Choose a direction over the numeric columns without missing values, in units that follow from the description."""
    reply: Any = participant.handle(Describe(scale="standard"))
    names = tuple(sorted({*reply.features, *indicators(reply.levels)}))
    at = [names.index(name) for name in reply.features]
    shift, scale, complete = np.zeros(len(names)), np.full(len(names), np.sqrt(2.0)), np.zeros(len(names), dtype=bool)
    deviations = np.sqrt(reply.moments.m2 / reply.moments.count)
    shift[at], scale[at] = reply.moments.mean, np.where(deviations > 0, deviations, 1.0)
    complete[at] = (reply.moments.count == reply.n_rows) & (deviations > 0)
    rng = np.random.default_rng(seed)
    u, w = np.where(complete, rng.normal(size=(2, len(names))), 0.0)
    u = u / np.linalg.norm(u)
    w = w - (w @ u) * u
    return Line(u, w / np.linalg.norm(w), Columns(shift, scale, dict(reply.levels)), names)


def centroids(where: Line, cuts: Sequence[float], n_clusters: int) -> np.ndarray:
    """Return K centroids that divide rows at these positions along the line; more centroids than needed are far away."""
    b = np.sort(np.asarray(cuts, dtype=float))
    b = np.r_[b, EDGE + 2.0 * np.arange(n_clusters - 1 - len(b))]
    if n_clusters == 2:  # any two points at the same distance from the cut
        return where.u * np.array([b[0] - 1.0, b[0] + 1.0])[:, None]
    t = np.linspace(b[0] - 1.0, b[-1] + 1.0, n_clusters)
    lift = np.r_[0.0, np.cumsum(np.diff(t) * (b - (t[1:] + t[:-1]) / 2) / AFAR)]
    return t[:, None] * where.u + (AFAR + lift)[:, None] * where.w


def centres_of(values: np.ndarray) -> Centres:
    reach = np.full(values.shape[1], 4.0 * AFAR)
    return Centres(values, np.ones(values.shape, dtype=bool), -reach, reach)


def refine(where: Line, sets: Sequence[Sequence[float]], n_clusters: int, number: int) -> Refine:
    """A round that looks like any other of a study with K clusters."""
    rivals = tuple(centres_of(centroids(where, cuts, n_clusters)) for cuts in sets)
    return Refine(seed=0, round=number, rivals=rivals, min_points=1, max_iter=1, columns=where.columns)


def label(where: Line, cuts: Sequence[float], n_clusters: int) -> Label:
    return Label(centres=centres_of(centroids(where, cuts, n_clusters)), columns=where.columns)


def label_around(where: Line, cut: float, reach: float) -> Label:
    """The same two clusters for any reach, with sums of squares around other centroids: two of them give the sums."""
    return Label(centres=centres_of(where.u * np.array([[cut - reach], [cut + reach]])), columns=where.columns)


def laid_out(table: Table, where: Line) -> Rows:
    """The rows of a table in the columns and units of the requests."""
    values = np.stack([feature(table, name) for name in where.names], axis=1)
    observed = ~np.isnan(values)
    return Rows(np.where(observed, (values - where.columns.shift) / where.columns.scale, 0.0), observed, where.names)


class Prefix(NamedTuple):
    """How many rows are before a cut, as far as was told."""

    cut: float
    n_rows: int


def prefixes(where: Line, cuts: Sequence[float], part: Any) -> list[Prefix]:
    """Return how many rows are before each cut, from the sizes of the intervals between cuts."""
    there = np.flatnonzero(part.sizes > 0)
    place = part.values[there] @ where.u
    return [Prefix(float(cut), int(part.sizes[there[place < cut]].sum())) for cut in cuts]


def next_cuts(known: Sequence[Prefix], n: int) -> list[float]:
    """Return the middles of the smallest intervals that more than one row is in, so that single rows come out early."""
    pairs = pairwise(known)
    sizes = [(after.n_rows - before.n_rows, before.cut, after.cut) for before, after in pairs]
    open_ = sorted(size for size in sizes if size[0] > 1 and size[2] - size[1] > 1e-5)
    cuts = [(low + high) / 2 for _, low, high in open_[:n]]
    while len(cuts) < n:  # a cut beyond all rows tells nothing
        cuts.append(EDGE + len(cuts))
    return cuts


class Asked(NamedTuple):
    """All requests with their replies, and the line that they cut."""

    messages: list[Any]
    where: Line
    spied: list[list[Spied]]


def ask(participant: Participant, n_clusters: int, n_rounds: int = 20, n_sets: int = 1, seed: int = 0) -> Asked:
    """Cut where the replies so far leave the smallest intervals, within so many rounds."""
    spy, where, n_cuts = Spy(participant), line(participant, seed), n_sets * (n_clusters - 1)
    messages: list[Any] = []
    known = [Prefix(-EDGE, 0)]
    cuts = norm.ppf(np.linspace(0, 1, n_cuts + 2)[1:-1]).tolist()
    for number in range(1, n_rounds + 1):
        sets = [cuts[k::n_sets] for k in range(n_sets)]
        request = refine(where, sets, n_clusters, number)
        reply: Any = participant.handle(request)
        messages.append((request, reply))
        spy.end_of_message()
        if isinstance(reply, Failure):
            break
        for each, part in zip(sets, reply.refined, strict=True):
            known += prefixes(where, each, part)
        known = sorted({one.cut: one for one in known if one.cut < EDGE}.values())
        most = max(*(one.n_rows for one in known), *(int(part.sizes.sum()) for part in reply.refined))
        cuts = next_cuts([*known, Prefix(EDGE, most)], n_cuts)
    return Asked(messages, where, spy.spied)


def cut_at(participant: Participant, where: Line, rounds: Sequence[Sequence[float]], n_clusters: int) -> list[Any]:
    """Ask for given cuts, one round after the other."""
    requests = [refine(where, [cuts], n_clusters, number) for number, cuts in enumerate(rounds, start=1)]
    return [(request, participant.handle(request)) for request in requests]


def asked_sums(messages: Sequence[Any]) -> list[Told]:
    """Return all told sums, and the sums before each cut, which follow from them."""
    told = [one for pair in messages if not isinstance(pair[1], Failure) for one in sums_told([pair])]
    more: list[Told] = []
    for request, reply in messages:
        for sent, part in zip(request.rivals, getattr(reply, "refined", ()), strict=False):
            order = [k for k in np.argsort(sent.values @ (sent.values[1] - sent.values[0])) if part.sizes[k] > 0]
            for end in range(2, len(order)):
                some = order[:end]
                sums = (part.values[some] * part.counts[some]).sum(axis=0)
                more.append(Told(int(part.sizes[some].sum()), part.counts[some].sum(axis=0), sums, "prefix"))
    return different([*told, *more])


def overheard(asked: Asked, table: Table) -> Heard:
    """The messages of an asker, for the attacks of a listener."""
    nobody = np.full(len(next(iter(table.values()))), -1)
    return Heard(asked.messages, laid_out(table, asked.where), nobody, nobody, asked.spied)
