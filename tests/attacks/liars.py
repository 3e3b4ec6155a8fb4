"""Participants that lie within the rules, and the share of the others' labels that they change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from scipy.optimize import linear_sum_assignment

import intarsia
from intarsia.datasets import Split, mask_features, partition
from intarsia.protocol import Description, LocalSummary, Refinement, Reply, Request
from intarsia.report.data import State
from intarsia.runtime.in_process import InProcessRuntime

Tables = Mapping[str, Any]
LAYOUTS = ("chain", "core", "random")
N, ROWS, FEATURES, K = 5, 200, 30, 4
MANY = 1000  # times the rows that a liar has
change = msgspec.structs.replace


def gaussians(layout: str, seed: int, n: int = N, separation: float = 1.0) -> Tables:
    """Tables of p0, p1, … with four Gaussian clusters; columns in a chain, around a core, or 70 % at random."""
    rng = np.random.default_rng([seed, LAYOUTS.index(layout)])
    truth = rng.integers(K, size=n * ROWS)
    X = separation * rng.normal(size=(K, FEATURES))[truth] + rng.normal(size=(len(truth), FEATURES))
    if layout == "random":
        masks = rng.random((n, FEATURES)) < 0.7
        masks[0] |= ~masks.any(axis=0)
    else:
        masks = mask_features(FEATURES, n, layout=layout, random_state=rng)
    return Split.of(X, truth, partition(len(X), n, random_state=rng), masks).tables()


class Liar:
    """Changes the honest replies of one participant. A subclass overrides the kinds of replies that it lies about."""

    def __init__(self) -> None:
        self.deviations: Any = 1.0  # of the columns, in the units of the replies

    def reply(self, request: Request, honest: Reply) -> Reply:
        """Return the reply that the coordinator gets."""
        if isinstance(honest, Description):
            if honest.moments is not None:
                self.deviations = np.sqrt(honest.moments.m2 / honest.moments.count)
            return self.described(honest)
        if getattr(request, "columns", None) is not None:
            self.deviations = 1.0
        if isinstance(honest, LocalSummary):
            return self.summarized(honest)
        if isinstance(honest, Refinement):
            return change(honest, refined=tuple(self.refined(k, part) for k, part in enumerate(honest.refined)))
        return self.labelled(honest)

    def described(self, honest: Any) -> Any:
        """Return the description."""
        return honest

    def summarized(self, honest: Any) -> Any:
        """Return the summary."""
        return honest

    def refined(self, number: int, honest: Any) -> Any:
        """Return the part of a round that answers the set of centroids of this number."""
        return honest

    def labelled(self, honest: Any) -> Any:
        """Return the sizes."""
        return honest

    def moved(self, honest: Any, by: float) -> Any:
        """Return centroids that are moved by some deviations in every column."""
        return change(honest, values=np.where(honest.counts > 0, honest.values + by * self.deviations, 0.0))


class Shifts(Liar):
    """Moves its centroids in every round by ten deviations."""

    by = 10.0

    def refined(self, number: int, honest: Any) -> Any:
        """Return moved centroids."""
        return self.moved(honest, self.by)


class ShiftsSummaryToo(Shifts):
    """Moves the centroids of its local clusters as well."""

    def summarized(self, honest: Any) -> Any:
        """Return moved centroids."""
        return self.moved(honest, self.by)


class ShiftsALittle(Shifts):
    """Moves its centroids in every round by one deviation."""

    by = 1.0


class Inflates(Shifts):
    """Moves its centroids by two deviations and claims a thousand times its rows."""

    by = 2.0

    def described(self, honest: Any) -> Any:
        """Return many rows."""
        moments = honest.moments
        if moments is not None:
            moments = change(moments, count=moments.count * MANY, m2=moments.m2 * MANY)
        return change(honest, n_rows=honest.n_rows * MANY, moments=moments)

    def summarized(self, honest: Any) -> Any:
        """Return many rows."""
        many = {name: getattr(honest, name) * MANY for name in ("n_rows", "filled", "counts", "sizes")}
        return change(honest, **many)

    def refined(self, number: int, honest: Any) -> Any:
        """Return moved centroids with many rows."""
        part = super().refined(number, honest)
        return change(part, counts=part.counts * MANY, sizes=part.sizes * MANY, misfit=part.misfit * MANY)

    def labelled(self, honest: Any) -> Any:
        """Return many rows."""
        many = {name: getattr(honest, name) * MANY for name in ("sizes", "counts", "squares")}
        return change(honest, **many)


class Swaps(Liar):
    """Gives each centroid the place of another one in every round."""

    def refined(self, number: int, honest: Any) -> Any:
        """Return the same centroids in another order."""
        order = np.roll(np.arange(len(honest.sizes)), 1)
        return change(honest, **{name: getattr(honest, name)[order] for name in ("values", "counts", "sizes")})


class Favours(Liar):
    """Reports that its rows fit the last rival perfectly."""

    def reply(self, request: Request, honest: Reply) -> Reply:
        """Return a misfit of 0 for the last set of centroids."""
        if not isinstance(honest, Refinement) or len(honest.refined) == 1:
            return honest
        return change(honest, refined=(*honest.refined[:-1], change(honest.refined[-1], misfit=0.0)))


class Blackens(Liar):
    """Reports that its rows fit all sets of centroids badly, except the last rival."""

    def reply(self, request: Request, honest: Reply) -> Reply:
        """Return ten times the misfit for all sets but the last."""
        if not isinstance(honest, Refinement):
            return honest
        others = (change(part, misfit=10 * part.misfit) for part in honest.refined[:-1])
        return change(honest, refined=(*others, honest.refined[-1]))


LIARS: dict[str, type[Liar]] = {
    kind.__name__: kind for kind in (Shifts, ShiftsSummaryToo, ShiftsALittle, Inflates, Swaps, Favours, Blackens)
}


@contextmanager
def lying(name: str, liar: Liar) -> Iterator[None]:
    """Within it, the participant of this name lies in every run of this process."""
    honest = InProcessRuntime.exchange

    def exchange(runtime: InProcessRuntime, requests: Mapping[str, Request], on_reply: Any = None) -> dict[str, Reply]:
        replies = honest(runtime, requests, on_reply)
        return {who: liar.reply(requests[who], reply) if who == name else reply for who, reply in replies.items()}

    with patch.object(InProcessRuntime, "exchange", exchange):
        yield


def fitted(tables: Tables, k: int = K, **settings: Any) -> Any:
    """The result of a run, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return intarsia.cluster(tables, k, random_state=0, **settings)


def changed(honest: Any, other: Any, liar: str) -> float:
    """Share of the others' rows that have another label, under the best matching of clusters."""
    before, after = (
        np.concatenate([labels for name, labels in result.labels.items() if name != liar]) for result in (honest, other)
    )
    table = np.zeros((before.max() + 1, after.max() + 1))
    np.add.at(table, (before, after), 1)
    return float(1.0 - table[linear_sum_assignment(-table)].sum() / len(before))


LIGHTS = (
    "Replies of each participant fit each other",
    "No participant's updates were outliers",
    "No participant has more than half of all rows",
)


def named(result: Any) -> set[str]:
    """The participants that a light about replies names."""
    lights = [finding for finding in result.summarise().findings if finding.about in LIGHTS]
    assert len(lights) == len(LIGHTS)
    seen = " ".join(finding.seen for finding in lights if finding.state is not State.GOOD)
    return {name for name in result.outcome.participants if repr(name) in seen}
