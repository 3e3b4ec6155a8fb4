"""A participant of a private study: it tells noisy sums over its rows, and nothing else.

Whatever leaves depends on rows only through :meth:`PrivateParticipant._ask`: the cost is written to the ledger, noise is
drawn, and only then rows are read and added up as integers. Everything else in a reply follows from such noisy sums, from
what the study declares, and from the names of the columns. Errors that could depend on rows have one constant text.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from intarsia.core.distances import Metric
from intarsia.core.mixture import likeliest
from intarsia.core.private.declared import FARTHEST, DifferentialPrivacy
from intarsia.core.private.questions import Question, RoundSums
from intarsia.core.private.sketch import Noisy, draw_sketch
from intarsia.core.rows import Labeller, Nearest, labels_of
from intarsia.core.types import IntArray
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError, ReleaseError
from intarsia.participant.messages import mixture_of, with_name
from intarsia.participant.refine import CentroidSet
from intarsia.participant.samples import units_of
from intarsia.privacy.budget import Account
from intarsia.privacy.noise import add_noise
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import (
    AskSketch,
    AskSums,
    Failure,
    KeepLabels,
    LabelsKept,
    NoisySums,
    Reply,
    Request,
    Sketched,
    decode_reply,
    encode,
)
from intarsia.protocol.checks import require
from intarsia.protocol.parts import most_centres
from intarsia.tables import AnyTable
from intarsia.tables.declared import with_declared_kinds
from intarsia.tables.in_memory import HeldRows, hold
from intarsia.tables.sample import LIMITS, Limits

_ROWS_AT_A_TIME = 1 << 16
_FAILED = "could not answer. Its own log says why."

Handler = Callable[["PrivateParticipant", Any], Reply]


class PrivateParticipant:
    """Holds private rows, and answers the three requests of a private study. Labels stay with their owner.

    ``account`` says what may be spent on the table, and keeps each answer, so that a repeated request gets the same bytes.
    """

    def __init__(
        self,
        table: AnyTable,
        privacy: DifferentialPrivacy,
        account: Account,
        metric: Metric = "euclidean",
        pipeline: Pipeline | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.name = table.owner
        self.last_error: Exception | None = None
        self.local_labels: IntArray | None = None
        privacy.check_declared(self.name, table.given_names)
        held = hold(with_declared_kinds(table, privacy.bounds, privacy.levels), all_rows=False, limits=limits)
        self._table = held.with_levels({name: privacy.levels[name] for name in held.levels})
        self._privacy, self._account, self._metric = privacy, account, metric
        self._pipeline = Pipeline() if pipeline is None else pipeline
        self._units = privacy.units_of(table.given_names)
        self._most_centres = most_centres(min(len(held), _ROWS_AT_A_TIME))
        self._labels: IntArray | None = None

    @property
    def labels(self) -> IntArray | None:
        """The global cluster of each row, in the order of the owner's table. No message carries it."""
        return None if self._labels is None else self._table.in_given_order(self._labels)

    def clipped(self) -> dict[str, float]:
        """Return the share of values outside the declared bounds by column, where there are any; for the owner only."""
        outside, n_rows = np.zeros(len(self._units.features)), max(len(self._table), 1)
        for piece in self._rows():
            outside += (np.abs(piece.cells) > FARTHEST * (1 + 1e-9)).sum(axis=1)
        return {name: float(n / n_rows) for name, n in zip(self._units.features, outside, strict=True) if n}

    def handle(self, request: Request) -> Reply:
        """Answer a request, or return a failure that does not depend on rows."""
        self.last_error = None
        try:
            self._pipeline.admit(request, self.handlers)
        except IntarsiaError as error:
            return self._failed(request, error, with_name(self.name, error))
        try:
            return self._pipeline.release(request, self.handlers[type(request)](self, request))
        except ReleaseError as error:  # the budget is spent, which no row changes
            return self._failed(request, error, with_name(self.name, error))
        except Exception as error:  # noqa: BLE001  (whether and how it fails may depend on rows)
            return self._failed(request, error, f"participant {self.name!r} {_FAILED}")

    def _failed(self, request: Request, error: Exception, message: str) -> Reply:
        self.last_error = error
        kind = type(error).__name__ if isinstance(error, ReleaseError) else LocalAlgorithmError.__name__
        return self._pipeline.release_failure(request, Failure(error=kind, message=message))

    def _rows(self) -> HeldRows:
        levels = {name: self._privacy.levels[name] for name in self._table.levels}
        return self._table.rows(levels, (self._units.shift, self._units.scale), centred=False)

    def _once(self, request: Request, answer: Callable[[str], Reply]) -> Reply:
        """Return the kept answer to the same request of the same study, or answer and keep it."""
        digest = sha256(encode(request) + repr((self._privacy, self._units.features)).encode()).hexdigest()
        return decode_reply(self._account.answered(digest, lambda: encode(answer(digest))))

    def _ask(self, question: Question, rho: float, digest: str) -> Noisy:
        """Return noisy sums over all rows: pay, draw the noise, then read rows."""
        norm = question.norm * self._privacy.rows_per_person
        noise = self._account.noise_for(digest, question.words, question.size, norm, rho)
        noisy = add_noise(question.sums(self._rows()), noise)
        return Noisy(noisy.astype(np.float64), norm / np.sqrt(2 * rho))

    def _sketch(self, request: AskSketch) -> Reply:
        def answer(digest: str) -> Reply:
            self._account.check_left()
            rho = self._account.for_sketch
            sketch = draw_sketch(
                len(self._units.features),
                request.n_clusters,
                lambda question, share: self._ask(question, share * rho, digest),
                few_passes=not self._table.in_memory,
            )
            return Sketched(
                features=self._units.features,
                n_rows=sketch.n_rows,
                weights=sketch.weights,
                centroids=sketch.centroids,
                covariance=sketch.covariance,
                radius=sketch.radius,
                rho=rho,
            )

        return self._once(request, answer)

    def _sums(self, request: AskSums) -> Reply:
        n_features = len(self._units.features)
        require(request.centres.shape[1] == n_features, f"centroids must have {n_features} features, as the table has")

        def answer(digest: str) -> Reply:
            rho = self._account.for_round
            question = RoundSums(request.centres, request.known, request.scales, request.radius)
            noisy = self._ask(question, rho, digest)
            counts, sums = question.read(noisy.values)
            of_counts, of_sums = question.read(np.full(question.size, noisy.deviation))
            return NoisySums(
                sums=sums,
                counts=counts,
                deviation=float(of_sums.max()),
                deviation_of_counts=float(of_counts.max()),
                rho=rho,
            )

        return self._once(request, answer)

    def _label(self, request: KeepLabels) -> Reply:
        columns = request.columns
        units = None if columns is None else units_of(columns.shift, columns.scale)
        levels = {} if columns is None else columns.levels
        rows = self._table.rows({name: levels.get(name, ()) for name in self._table.levels}, units)
        centres, extent = CentroidSet.received(request.centres, len(rows.names), self._most_centres)
        label: Labeller = Nearest(rows, centres, extent, self._metric).labels
        if request.gaussians is not None:
            mixture, varies = mixture_of(request.gaussians, centres), extent.varies

            def label(piece: Any, /) -> IntArray:
                return likeliest(mixture, piece.cells.T + rows.offset, piece.observed, varies)

        self._labels = labels_of(rows, label, len(centres))
        return LabelsKept()

    handlers: ClassVar[dict[type[Request], Handler]] = {AskSketch: _sketch, AskSums: _sums, KeepLabels: _label}
    """The function that answers each request; no other request is answered."""
