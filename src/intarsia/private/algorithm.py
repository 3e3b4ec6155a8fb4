"""The algorithm of a private study.

    sketch (noisy sums of each table) → synthetic tables → another algorithm on them → noisy rounds → labels

The other algorithm is the federated or the one-shot one with all its settings. It runs on synthetic tables, at the
coordinator, so that searching, rivals and the choice of K cost no privacy. Only the sketch and a fixed number of rounds do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.coordinator.contract import Step
from intarsia.coordinator.finishing import with_tails
from intarsia.coordinator.gather import check_senders, replies_of
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import ProtocolError, about
from intarsia.participant import Participant
from intarsia.private.outcome import as_if_of_rows, with_sizes
from intarsia.private.requests import label_request, round_request
from intarsia.private.synthetic import columns_of, numbers_of_rows, synthetic_table
from intarsia.protocol import AskSketch, LabelsKept, NoisySums, Reply, Sketched, StudyTerms
from intarsia.results.outcome import GlobalModel, Outcome, RoundInfo
from intarsia.results.privacy import Spent
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime

_SURE = 3.0  # standard deviations of its noise that a number of rows must have before a centroid moves
_BEYOND = 0.5  # widths of the local centroids of synthetic tables that a centroid may move beyond them


@dataclass(frozen=True)
class AskedSketches:
    """All participants were asked for sketches of their tables."""

    participants: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """Sketches, and the outcome so far; ``counts`` are noisy numbers of rows of the latest round by participant.

    ``errors`` are the standard deviations that its noise gives each centroid, in common units.
    """

    sketches: Mapping[str, Sketched]
    outcome: Outcome
    counts: Mapping[str, FloatArray | IntArray]
    spent: tuple[Spent, ...]
    round: int = 0
    errors: FloatArray | None = None


class NoisyTotal(NamedTuple):
    """Noisy sums of all participants, clusters × features of the model in common units, and sizes of clusters.

    ``sums`` are of differences from the centroids, ``counts`` the numbers of rows behind them; ``of_sums`` and ``of_counts``
    are the variances of their noise.
    """

    sums: FloatArray
    counts: FloatArray
    of_sums: FloatArray
    of_counts: FloatArray
    sizes: FloatArray


@dataclass(frozen=True)
class AskedSums:
    """Participants were asked for noisy sums around the current centroids."""

    run: Run


@dataclass(frozen=True)
class AskedLabels:
    """Participants were asked to label their rows."""

    run: Run


State = AskedSketches | AskedSums | AskedLabels


@dataclass(frozen=True)
class PrivateAlgorithm:
    """Another algorithm under differential privacy."""

    inner: FederatedAlgorithm | OneShotAlgorithm
    privacy: DifferentialPrivacy

    @property
    def rounds(self) -> int:
        """The number of noisy rounds: none in the one-shot method."""
        return self.privacy.rounds if isinstance(self.inner, FederatedAlgorithm) else 0

    def terms(self, name: str) -> StudyTerms:
        """Return which requests a participant can get."""
        return replace(
            self.inner.terms(name),
            privacy=self.privacy,
            noisy_rounds=self.rounds,
            max_rounds=0,  # and all else that is asked of synthetic tables only
            n_rivals=0,
            trial_rounds=0,
            crosswise=False,
            halves=False,
            n_proxies=0,
            stability=False,
            tails=False,
        )

    def start(self, participants: Sequence[str]) -> Step:
        """Ask all participants for a sketch."""
        request = AskSketch(n_clusters=self.inner.n_clusters)
        return Step(AskedSketches(tuple(participants)), dict.fromkeys(participants, request))

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Return the next requests, or the result."""
        match state:
            case AskedSketches(participants):
                check_senders(replies, participants)
                return self._sketched(replies_of(Sketched, replies, participants), participants)
            case AskedSums(run):
                names = tuple(run.sketches)
                check_senders(replies, names)
                return self.next_step(self._moved(run, replies_of(NoisySums, replies, names)))
            case AskedLabels(run):
                names = tuple(run.sketches)
                check_senders(replies, names)
                replies_of(LabelsKept, replies, names)
                return Step(
                    result=with_sizes(with_tails(run.outcome, {}), run.counts, run.spent, self.privacy, run.errors)
                )

    def _sketched(self, sketches: Mapping[str, Sketched], asked: Sequence[str]) -> Step:
        """Run the other algorithm on synthetic tables. Who sent no sketch takes no part."""
        for name, sketch in sketches.items():
            self._check_features(name, sketch)
        n_rows, seed = numbers_of_rows(sketches), self.inner.seed
        tables = [synthetic_table(name, each, self.privacy, n_rows[name], seed) for name, each in sketches.items()]
        runtime = InProcessRuntime([Participant(table, metric=self.inner.metric) for table in tables])
        outcome = drive(self.inner, runtime)
        shares = {name: sketch.n_rows / n_rows[name] for name, sketch in sketches.items()}
        spent = tuple(Spent(name, "sketch", sketch.rho) for name, sketch in sketches.items())
        outcome = as_if_of_rows(outcome, shares)
        absent = (f"{name!r} sent no sketch: the result is without it." for name in asked if name not in sketches)
        outcome = replace(outcome, remarks=(*outcome.remarks, *absent))
        return self.next_step(Run(sketches, outcome, outcome.sizes, spent))

    def _check_features(self, name: str, sketch: Sketched) -> None:
        numbers, levels = columns_of(self.privacy, sketch.features)
        if (
            not set(numbers) <= set(self.privacy.bounds)
            or self.privacy.units_of([*numbers, *levels]).features != sketch.features
        ):
            wrong = f"the sketch of participant {name!r} has features that the study does not declare"
            raise about(name, ProtocolError(wrong))

    def next_step(self, run: Run) -> Step:
        """Ask for the next round, or for labels."""
        last = run.outcome.rounds[-1] if run.round else None
        model, sketches = run.outcome.model, run.sketches.items()
        if run.round < self.rounds:
            sums = {name: round_request(model, self.privacy, each, run.round) for name, each in sketches}
            return Step(AskedSums(run), sums, last=last)
        return Step(
            AskedLabels(run), {name: label_request(model, self.privacy, each) for name, each in sketches}, last=last
        )

    def _moved(self, run: Run, replies: Mapping[str, NoisySums]) -> Run:
        """Move the centroids by the noisy sums of all participants."""
        model = run.outcome.model
        shape = model.centroids.values.shape
        sums, counts, noise, of_sums = (np.zeros(shape) for _ in range(4))
        for name, reply in replies.items():
            index, units = places_in(run, name, self.privacy)
            if reply.sums.shape != (shape[0], len(run.sketches[name].features)):
                raise about(name, ProtocolError(f"the noisy sums of participant {name!r} do not fit the centroids"))
            own = index >= 0
            sums[:, index[own]] += (reply.sums * units / model.scale[index])[:, own]
            counts[:, index[own]] += reply.counts[:, None]
            noise[:, index[own]] += reply.deviation_of_counts**2
            of_sums[:, index[own]] += np.square(reply.deviation * units / model.scale[index])[own]
        told = {name: reply.counts for name, reply in replies.items()}
        sizes = np.sum(list(told.values()), axis=0)
        return self.moved(
            run, NoisyTotal(sums, counts, of_sums, noise, sizes), told, {n: r.rho for n, r in replies.items()}
        )

    def moved(
        self,
        run: Run,
        total: NoisyTotal,
        told: Mapping[str, FloatArray | IntArray],
        rho: Mapping[str, float],
    ) -> Run:
        """Return the run after a round in which centroids were moved by a total, and participants spent ``rho`` each."""
        sums, counts, of_sums, noise, sizes = total
        model, step = run.outcome.model, getattr(self.inner, "step_size", 1.0)
        moved = (counts > _SURE * np.sqrt(noise)) & model.centroids.seen
        away = np.where(moved, step * sums / np.where(moved, counts, 1.0), 0.0)
        values = np.clip(model.centroids.values + away, *_reach(model, self.privacy)) * model.centroids.seen
        centroids = MaskedCentroids.of(values, model.centroids.counts)
        width = np.where(model.extent.varies, model.extent.width, np.inf)
        info = RoundInfo(
            run.round + 1,
            float((np.abs(values - model.centroids.values) / width).max(initial=0.0)),
            tuple(_rounded(sizes).tolist()),
        )
        rounds = (info,) if not run.round else (*run.outcome.rounds, info)
        outcome = replace(run.outcome, model=replace(model, centroids=centroids), rounds=rounds, converged=True)
        spent = (*run.spent, *(Spent(name, f"round {run.round + 1}", each) for name, each in rho.items()))
        errors = step * np.sqrt(of_sums + noise * np.square(away / step)) / np.where(moved, counts, np.nan)
        return Run(run.sketches, outcome, {**run.counts, **told}, spent, run.round + 1, errors)


def places_in(run: Run, name: str, privacy: DifferentialPrivacy) -> tuple[IntArray, FloatArray]:
    """Return where the model has each feature of a participant (−1: nowhere), and the feature's declared unit."""
    features, space = run.sketches[name].features, run.outcome.model.space
    numbers, levels = columns_of(privacy, features)
    places = [space.index([feature])[0] if feature in space else -1 for feature in features]
    return np.array(places, dtype=np.intp), privacy.units_of([*numbers, *levels]).scale


def _reach(model: GlobalModel, privacy: DifferentialPrivacy) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest value of a centroid by feature.

    Synthetic rows are rounder than rows, so that the centroids of rows lie outside of theirs; but not as far as noise can
    move them where there are few rows.
    """
    low, high = np.array([privacy.bounds.get(name, (0.0, 1.0)) for name in model.space.names]).reshape(-1, 2).T
    more = _BEYOND * model.extent.width
    return (
        np.maximum(model.extent.low - more, (low - model.shift) / model.scale),
        np.minimum(model.extent.high + more, (high - model.shift) / model.scale),
    )


def _rounded(counts: FloatArray) -> IntArray:
    return np.maximum(np.rint(counts), 0).astype(np.intp)
