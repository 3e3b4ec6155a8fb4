"""A participant of a private study: it tells noisy sums over its rows, and nothing else.

Whatever leaves depends on rows only through :meth:`PrivateParticipant._ask`: the cost is written to the ledger, noise is
drawn, and only then rows are read and added up as integers. Everything else in a reply follows from such noisy sums, from
what the study declares, and from the names of the columns. Errors that could depend on rows have one constant text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from intarsia.core.distances import Metric
from intarsia.core.mixture import likeliest
from intarsia.core.private.declared import FARTHEST, DifferentialPrivacy
from intarsia.core.private.questions import Question, RoundSums, RowCount
from intarsia.core.private.sketch import Noisy, draw_sketch
from intarsia.core.rows import Labeller, Nearest, labels_of
from intarsia.core.types import IntArray
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError, ReleaseError
from intarsia.participant.messages import columns_behind, mixture_of, with_name
from intarsia.participant.refine import CentroidSet
from intarsia.participant.samples import units_of
from intarsia.privacy.budget import SPENT, Account
from intarsia.privacy.noise import add_noise
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import (
    AskSketch,
    AskSums,
    Failure,
    KeepLabels,
    LabelsKept,
    Masked,
    NoisySums,
    Reply,
    Request,
    Sketched,
    decode_reply,
    encode,
)
from intarsia.protocol.checks import require
from intarsia.protocol.parts import MOST_CENTRES
from intarsia.tables import AnyTable
from intarsia.tables.in_memory import HeldRows, hold
from intarsia.tables.sample import LIMITS, Limits

_COUNT_SHARE = 0.01  # of what a sketch costs, for the noisy number of rows that decides on the number of passes
_LONG = 1 << 25  # values of a table that is read in few passes
_FAILED = "it could not answer. Its own log says why."

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
        if table.levels != {name: privacy.levels[name] for name in table.given_names if name in privacy.levels}:
            raise ValueError("A private table must be read as it is declared. Hint: hold(declared=privacy).")
        self._table = hold(table, all_rows=False, limits=limits)
        self._privacy, self._account, self._metric = privacy, account, metric
        self.pipeline = self._pipeline = Pipeline() if pipeline is None else pipeline
        self._units = privacy.units_of(table.given_names)
        self._columns = tuple(sorted(table.given_names))
        self._labels: IntArray | None = None

    @property
    def labels(self) -> IntArray | None:
        """The global cluster of each row, in the order of the owner's table. No message carries it."""
        return None if self._labels is None else self._table.in_given_order(self._labels)

    def column_of(self, _: object = None) -> dict[str, str]:
        """Return the column behind each feature, in the order of the features."""
        levels = {name: self._privacy.levels[name] for name in self._columns if name in self._privacy.levels}
        return columns_behind([name for name in self._columns if name not in levels], levels)

    def shared_sums(self, request: AskSums, n_sharing: int, n_features: int, places: IntArray, run: bytes) -> IntArray:
        """Return the sums of a round with a share of the noise, as a vector of ``n_features`` features and sizes.

        ``places`` are the positions of the own features in it, −1 for those that are not told. The noise of ``n_sharing``
        such vectors together is what the round needs; it is added to all numbers, also of features that this table lacks.
        Another ``run`` gets new noise: a share of the noise that is in two totals would be left alone in their difference.
        """
        require(
            request.centres.shape[1] == len(places), f"centroids must have {len(places)} features, as the table has"
        )
        k = len(request.centres)

        def answer(digest: str) -> Reply:
            question = RoundSums(request.centres, request.known, request.scales, request.radius, places >= 0)
            require(question.radius == request.radius, "the radius is too short for exact sums over this table")
            size, rho = k * (n_features + 1), self._account.for_round
            noise = self._account.noise_for(digest, question.words, size, self._norm(question), rho, n_sharing)
            sums = question.sums(self._rows()).reshape(k, -1)
            vector = np.zeros((k, n_features + 1), dtype=np.int64)
            vector[:, places[places >= 0]] = sums[:, :-1][:, places >= 0]
            vector[:, -1] = sums[:, -1]
            return Masked(values=add_noise(vector.ravel(), noise))

        asked = repr((n_sharing, n_features, places.tolist(), run))
        try:
            reply = self._once(request, answer, asked)
        except Exception as error:
            if isinstance(error, ReleaseError) and str(error) == SPENT:
                raise
            raise LocalAlgorithmError(_FAILED) from error  # how it fails may depend on rows
        assert isinstance(reply, Masked)
        return reply.values

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
        except Exception as error:  # noqa: BLE001  (how it fails may depend on rows, unless the budget is spent)
            spent = isinstance(error, ReleaseError) and str(error) == SPENT
            return self._failed(request, error, f"participant {self.name!r}: {SPENT if spent else _FAILED}")

    def _failed(self, request: Request, error: Exception, message: str) -> Reply:
        self.last_error = error
        kind = ReleaseError.__name__ if isinstance(error, ReleaseError) else LocalAlgorithmError.__name__
        return self._pipeline.release_failure(request, Failure(error=kind, message=message))

    def _rows(self) -> HeldRows:
        return self._table.rows(self._table.levels, (self._units.shift, self._units.scale), centred=False)

    def _once(self, request: Request, answer: Callable[[str], Reply], more: str = "") -> Reply:
        """Return the kept answer to the same request of the same study, or answer and keep it."""
        digest = sha256(
            encode(request) + repr((self._privacy, self._units.features)).encode() + more.encode()
        ).hexdigest()
        return decode_reply(self._account.answered(digest, lambda: encode(answer(digest))))

    def _ask(self, question: Question, rho: float, digest: str) -> Noisy:
        """Return noisy sums over all rows: pay, draw the noise, then read rows."""
        norm = self._norm(question)
        noise = self._account.noise_for(digest, question.words, question.size, norm, rho)
        noisy = add_noise(question.sums(self._rows()), noise)
        return Noisy(noisy.astype(np.float64), norm / np.sqrt(2 * rho))

    def _norm(self, question: Question) -> float:
        """Return by how much the rows of one person change the sums at most; the product may be rounded down."""
        return math.nextafter(question.norm * self._privacy.rows_per_person, math.inf)

    def _sketch(self, request: AskSketch) -> Reply:
        def answer(digest: str) -> Reply:
            self._account.check_left()
            rho, n_features = self._account.for_sketch, len(self._units.features)
            n_rows = self._ask(RowCount(), _COUNT_SHARE * rho, digest).values[0]
            sketch = draw_sketch(
                n_features,
                request.n_clusters,
                lambda question, share: self._ask(question, share * (1.0 - _COUNT_SHARE) * rho, digest),
                few_passes=bool(n_rows * n_features > _LONG),  # not whether it fits into memory, which a row may decide
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
        columns, declared = request.columns, self._table.levels
        levels = declared if columns is None else columns.levels
        known = all(
            set(each) <= set(declared.get(name, ())) and len(set(each)) == len(each) for name, each in levels.items()
        )
        require(known and set(levels) == set(declared), "levels must be those that the study declares, each once")
        if columns is not None:  # before rows are read: an array of rows × features would fit one number of rows only
            columns.check(len(self._table.names) + sum(map(len, levels.values())))
        units = None if columns is None else units_of(columns.shift, columns.scale)
        rows = self._table.rows(levels, units)
        centres, extent = CentroidSet.received(request.centres, len(rows.names), MOST_CENTRES)
        label: Labeller = Nearest(rows, centres, extent, self._metric).labels
        if request.gaussians is not None:
            mixture, varies = mixture_of(request.gaussians, centres), extent.varies

            def label(piece: Any, /) -> IntArray:
                return likeliest(mixture, piece.cells.T + rows.offset, piece.observed, varies)

        self._labels = labels_of(rows, label, len(centres))
        return LabelsKept()

    handlers: ClassVar[dict[type[Request], Handler]] = {AskSketch: _sketch, AskSums: _sums, KeepLabels: _label}
    """The function that answers each request; no other request is answered."""
