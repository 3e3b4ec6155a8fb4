"""A participant: answers requests about its private rows with summaries, and keeps the labels for their owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from intarsia.core.atoms import Labelling, Told, told_sums
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows
from intarsia.core.densities import Clustered
from intarsia.core.distances import Metric
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.grouping.tried_numbers import DIGITS
from intarsia.core.kmeans import Fit, fit_of, lloyd, most_iterations
from intarsia.core.randomness import stream
from intarsia.core.rows import relabelled, sizes_of
from intarsia.core.types import IntArray
from intarsia.core.units import choose_units, factors_of_features, own_units
from intarsia.exceptions import (
    InputError,
    IntarsiaError,
    LocalAlgorithmError,
    OutputError,
    ProtocolError,
    ReleaseError,
    TooFewRowsError,
)
from intarsia.participant.choose_k import Chosen, choose_labels, highest_silhouette
from intarsia.participant.clusterers import BuiltInKMeans, check_in_memory, clusterer_for
from intarsia.participant.halves import in_halves, wholes
from intarsia.participant.labelling import count_moves, label_rows
from intarsia.participant.messages import columns_behind, columns_of, description_of, moments_of, with_name
from intarsia.participant.refine import CentroidSet, Round, Tell, labelled_by_nearest, refine_sets
from intarsia.participant.samples import LEFT_OUT, NOISE, MissingValues, Sample, Units, own_moments, units_of
from intarsia.participant.stability import local_stability, told_nearest
from intarsia.participant.summary import Summarized, by_first_row, details_of
from intarsia.privacy.audit import Audit
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import (
    AskColumns,
    Assign,
    Columns,
    CountMoves,
    Describe,
    Failure,
    Label,
    LabelBefore,
    Labelled,
    LocalStability,
    LocalSummary,
    MeasureStability,
    Moments,
    Refine,
    Refinement,
    Reply,
    Request,
    Summarize,
    encode,
)
from intarsia.protocol.parts import most_centres
from intarsia.protocol.terms import SILHOUETTE
from intarsia.tables import AnyTable
from intarsia.tables.in_memory import HeldRows, HeldTable, hold
from intarsia.tables.sample import LIMITS, Limits

_ROWS_AT_A_TIME = 1 << 16  # that are compared with centres at the same time, at most
_MOST_TRIED = 50  # numbers of clusters that are tried if nobody knows K
_TOLERANCE = 1e-4  # of the mean variance: centres that move less in a pass over a large table have converged

Handler = Callable[["Participant", Any, HeldRows], Reply]


class Participant:
    """Holds private rows and clusters them. ``handle`` is the only access: neither rows nor labels leave by it.

    A table that is larger than the sample (see :class:`~intarsia.tables.sample.Limits`) is clustered by the best of several
    k-means on the sample, followed by exact iterations over all rows. It does not matter whether the table is in memory.
    """

    def __init__(
        self,
        table: AnyTable,
        local: Any = None,
        metric: Metric = "euclidean",
        missing: str = "observed",
        pipeline: Pipeline | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.name = table.owner
        self.last_error: Exception | None = None
        self.pipeline = self._pipeline = Pipeline() if pipeline is None else pipeline
        self._suppression = self._pipeline.suppression
        self._metric = metric
        self._clusterer = clusterer_for(local, MissingValues(missing, discreet=self._pipeline.policy.is_discreet))
        held = hold(table, all_rows=self._clusterer.needs_all_rows, limits=limits)
        check_in_memory(held, self._clusterer)
        given, self._table = held, self._released(held)
        self._kinds = columns_of(given)  # of all: when a column has enough values would tell of single rows
        # the order of the rows must not matter; an estimator gets the rows as they are
        if not self._clusterer.chooses_k:
            self._table = self._table.in_canonical_order()
        self._audit = Audit(self._table, given, self._suppression.fewest, self._pipeline.record)
        self._most_centres = most_centres(min(len(held), _ROWS_AT_A_TIME))
        self._labels: IntArray | None = None
        self._summarized: Summarized | None = None
        self._clustered: dict[bytes, tuple[Fit, Chosen]] = {}

    def _released(self, table: HeldTable) -> HeldTable:
        """Return the table without levels and columns that too few rows have."""
        self._suppression.check_rows(table.owner, len(table))
        table = table.with_levels(self._suppression.kept_levels(table.counted))
        return table.without(self._suppression.sparse_columns(table.owner, table.filled))

    @property
    def labels(self) -> IntArray | None:
        """The global cluster of each row, in the order of the owner's table. No message carries it."""
        return None if self._labels is None else self._table.in_given_order(self._labels)

    @property
    def local_labels(self) -> IntArray | None:
        """The local cluster of each row, in the order of the owner's table; −1 for rows in none."""
        if self._summarized is None:
            return None
        return self._table.in_given_order(np.maximum(self._summarized.shown, -1))

    def column_of(self, columns: Columns | None = None) -> dict[str, str]:
        """Return the column behind each feature, in the order of the features; ``columns`` may have more levels."""
        return columns_behind(self._table.names, self._levels(columns))

    def handle(self, request: Request) -> Reply:
        """Answer a request, or return a failure: in names and counts only, whatever went wrong."""
        self.last_error = None
        try:
            self._pipeline.admit(request, self.handlers)
            if not isinstance(request, AskColumns):  # names bind nobody: the table may be changed afterwards
                self._begin()
            rows = self._layout(request)
            answer = self.handlers[type(request)](self, request, rows)
            return self._pipeline.release(request, answer)
        except IntarsiaError as error:
            self.last_error = error
            failure = Failure(error=type(error).__name__, message=with_name(self.name, error))
        except Exception as error:  # noqa: BLE001  (the text of another library's error may contain values)
            self.last_error = error
            kind, what = type(error).__name__, type(request).__name__
            message = f"participant {self.name!r} failed with a {kind} while answering {what}"
            failure = Failure(error=LocalAlgorithmError.__name__, message=message)
        return self._pipeline.release_failure(request, failure)

    def _begin(self) -> None:
        """Read the record of the table. What changed in the table is not told to others."""
        try:
            self._audit.begin()
        except ReleaseError as error:
            changed = "the table has changed since answers about it left, so that its owner must consent anew."
            raise ReleaseError(changed) from error
        except (InputError, OutputError) as error:
            raise ReleaseError("the record of what was told of the table cannot be read or written.") from error

    def check_record(self) -> None:
        """Raise an error that says what changed in the table since it was first told of; for the owner only."""
        self._audit.check()

    def _layout(self, request: Any) -> HeldRows:
        """Return all rows in the common columns and units of a request; in its own if the request has none."""
        columns: Columns | None = getattr(request, "columns", None)
        if columns is None:
            return self._table.rows()
        columns.check_levels(self._table.levels)
        units = self._units(columns)
        self._pipeline.check_units(columns, lambda: own_moments(self._table))
        return self._table.rows(columns.levels, units)

    def _units(self, columns: Columns | None) -> Units | None:
        if columns is None:
            return None
        n_features = len(self._table.names) + sum(len(columns.levels[name]) for name in self._table.levels)
        columns.check(n_features)
        return units_of(columns.shift, columns.scale)

    def _describe(self, request: Describe, rows: HeldRows) -> Reply:
        return description_of(self._table, request, rows)

    def _summarize(self, request: Summarize, rows: HeldRows) -> Reply:
        levels = None if request.columns is None else request.columns.levels
        clustered, units, moments = rows, self._units(request.columns), None
        if request.columns is None:  # one round: cluster in one's own units; the coordinator computes common ones
            units, moments = self._own_units(rows, request)
            clustered = rows if units is None else self._table.rows(units=units)
        key = encode(msgspec.structs.replace(request, density=None, shrink=True, bounding_boxes=False, n_proxies=0))
        if key not in self._clustered:  # the same request again gets the same answer without a new clustering
            self._clustered = {key: self._cluster(clustered, units, request)}
        fit, (_, clarity, tried) = self._clustered[key]
        told, half_of = self._settled(clustered, fit, request)
        sizes, means, _ = sums = told_sums(rows, told, len(half_of))
        clusters = Clustered(
            rows, told.rows, sizes, means, means, rows.names, self._categories(rows.names), told.columns
        )
        details = details_of(
            clusters,
            self._table.rows(levels, self._units(request.columns), centred=False),
            self._sample(rows, self._units(request.columns)),
            told.rows[rows.drawn],
            request,
            None if request.density is None else self._pipeline.density(request.density),
            self._suppression.fewest,
            stream(request.seed, self.name, "fidelity", *self._audit.secret()),
        )
        return LocalSummary(
            features=rows.names,
            n_rows=rows.n_rows,
            filled=rows.counts,
            levels=dict(self._table.levels),
            values=sums.means.values,
            counts=sums.means.counts,
            sizes=sizes,
            clarity=clarity if clarity is None or not self._audit.is_active else round(clarity, 2),
            tried=None if tried is None else np.round(np.column_stack(tried), DIGITS),
            moments=moments,
            half_of=half_of if request.halves else None,
            **details,
        )

    def _own_units(self, rows: HeldRows, request: Summarize) -> tuple[Units | None, Moments | None]:
        """Return units from the participant's own statistics, and these statistics."""
        units, moments = own_units(kinds := FeatureSpace(rows.names).mask(indicators(self._table.levels))), None
        if request.scale is not None:
            statistics = rows.statistics(request.scale)
            moments, units = moments_of(statistics), choose_units(statistics, request.scale, kinds)
        units = units.multiplied(factors_of_features(rows.names, self._table.levels, request.factors or {}))
        return units_of(units.shift, units.scale), moments

    def _cluster(self, rows: HeldRows, units: Units | None, request: Summarize) -> tuple[Fit, Chosen]:
        """Return clusters of all rows and how their number was chosen; of a large table the sample is clustered first."""
        sample = self._sample(rows, units)
        chosen = self._cluster_sample(sample, request)
        labels = chosen.labels
        n_clusters = int(labels.max(initial=-1)) + 1
        if sample.n_rows == rows.n_rows:
            every = np.empty(rows.n_rows, dtype=np.intp)
            every[rows.drawn] = labels
            return fit_of(rows, every), chosen
        found = centroids_of_rows(sample.values, sample.observed, labels, n_clusters)
        start = np.where(found.seen, found.values, rows.mean)  # every centre knows all features
        statistics = rows.statistics(None)
        variances = statistics.m2 / np.maximum(statistics.count, 1.0)
        mean = float(np.mean(variances if units is None else variances / np.square(units.scale)))
        fit = lloyd(
            rows, MaskedCentroids.of(start, np.ones_like(start)), most_iterations(*start.shape), _TOLERANCE * mean
        )
        used = fit.sizes > 0
        if not used.all():  # fewer different rows than clusters
            new = np.full(n_clusters, -1, dtype=np.intp)
            new[used] = renumber(np.flatnonzero(used))
            fit = Fit(relabelled(fit.labels, new), fit.centres.take(used), fit.sizes[used], fit.n_iter)
        return fit, chosen

    def _sample(self, rows: HeldRows, units: Units | None) -> Sample:
        sample, filled = rows.sample(), {name: n / len(self._table) for name, n in self._table.filled.items()}
        return Sample(sample.values, sample.observed, filled, tuple(self._categories(rows.names).values()), units)

    def _categories(self, names: Sequence[str]) -> dict[str, IntArray]:
        """Return the features of each category, by the name of its column."""
        space = FeatureSpace(tuple(names))
        return {
            column: space.index([name for name in indicators({column: levels}) if name in space])
            for column, levels in self._table.levels.items()
        }

    def _cluster_sample(self, sample: Sample, request: Summarize) -> Chosen:
        rng = stream(request.seed, self.name, "summarize")
        if self._clusterer.chooses_k:
            return Chosen(self._clusterer.cluster(sample, 0, rng), None)
        if request.n_local_clusters is None or request.n_local_clusters == SILHOUETTE:
            most = request.max_local_clusters
            most = most if request.n_clusters is not None else min(most, _MOST_TRIED)
            if request.n_local_clusters is None:
                return choose_labels(self._clusterer, sample, request.n_clusters, most, rng, self._suppression.fewest)
            return highest_silhouette(self._clusterer, sample, most, rng)
        n_used = len(self._clusterer.missing.used(sample))
        if request.n_local_clusters > n_used:
            raise TooFewRowsError(
                f"participant {self.name!r} was asked for {request.n_local_clusters} clusters of "
                + ("fewer rows. " if self._pipeline.policy.is_discreet else f"{n_used} row(s). ")
                + "Hint: ask for fewer local clusters, or exclude participants with so few rows."
            )
        return Chosen(self._clusterer.cluster(sample, request.n_local_clusters, rng), None)

    def _settled(self, rows: HeldRows, found: Fit, request: Summarize) -> tuple[Told, IntArray]:
        """Return the clusters as they may be released, and the local cluster of each; keep the labels for the owner."""
        half_of = np.arange(len(found.sizes))
        if request.halves:
            rng, sample = stream(request.seed, self.name, "halves"), self._sample(rows, self._units(request.columns))
            found, half_of = in_halves(rows, sample, rows.drawn, found, self._suppression.fewest, rng)
        new = self._suppression.settle(found.sizes, rows.extent, lambda: found.centres)
        if (new != np.arange(len(new))).any():
            new = by_first_row(new, found.labels[rows.drawn])
        labels = relabelled(found.labels, np.where(new >= 0, new, LEFT_OUT))
        told = self._tell(np.maximum(labels, NOISE), rows, request.columns)
        used = sizes_of(told.rows, int(new.max(initial=-1)) + 1) > 0
        if not used.all():  # too few rows that nothing else told of were left to a cluster
            number = np.cumsum(used) - 1
            labels = relabelled(np.where((labels >= 0) & ~used[labels], told.rows, labels), number)
            told = Told(relabelled(told.rows, number), tuple((m, relabelled(each, number)) for m, each in told.columns))
            new = np.where((new >= 0) & used[new], number[new], -1)
        assigned = labels
        if used.any() and (left_out := labels == LEFT_OUT).any():
            centres = fit_of(rows, labels, int(used.sum())).centres
            assigned = labelled_by_nearest(rows, labels, left_out, centres)
        local = wholes(new, half_of, found.sizes)
        kept = (labels, np.maximum(assigned, NOISE), told.rows)
        self._summarized = Summarized(*(relabelled(each, local) for each in kept) if request.halves else kept)
        return told, local

    def _tell(self, labels: IntArray, rows: HeldRows, columns: Columns | None, whole: Labelling | None = None) -> Told:
        """Return the labels that sums over clusters are told by."""
        told = self._audit.tell(rows, labels, self._levels(columns), whole)
        self._suppression.counts["rows"] += self._audit.n_moved
        return told

    def _levels(self, columns: Columns | None) -> Mapping[str, Sequence[str]]:
        return self._table.levels if columns is None else columns.levels

    def _refine(self, request: Refine, rows: HeldRows) -> Reply:
        sets = [CentroidSet.received(sent, len(rows.names), self._most_centres) for sent in request.rivals]
        units, used = self._units(request.columns), None
        if self._clusterer.missing.how == "drop":
            used = np.zeros(rows.n_rows, dtype=np.bool_)
            used[self._clusterer.missing.used(self._sample(rows, units))] = True

        def refine(start: Any) -> Fit:
            rng = stream(request.seed, self.name, "refine", request.round)
            return self._clusterer.refine(rows, lambda: self._sample(rows, units), start, n_iter, rng)

        clusterer, telling = self._clusterer, self._telling(request.columns, rows)
        is_lloyd = isinstance(clusterer, BuiltInKMeans) and (rows.complete or clusterer.missing.how != "impute")
        n_iter = min(request.max_iter, most_iterations(sum(len(each.centres) for each in sets), len(rows.names)))
        if telling is not None and not is_lloyd:
            n_iter = 1  # the means between iterations would be exact
        round_ = Round(self._metric, request.min_points, used, refine, n_iter, telling, is_lloyd)
        return Refinement(refined=refine_sets(rows, sets, round_))

    def _label(self, request: Label, rows: HeldRows) -> Reply:
        self._labels, reply = self._labelled(request, rows)
        return reply

    def _label_before(self, request: LabelBefore, rows: HeldRows) -> Reply:
        return self._labelled(Label(centres=request.centres, columns=request.columns), rows)[1]

    def _labelled(self, request: Label, rows: HeldRows) -> tuple[IntArray, Labelled]:
        centroids = CentroidSet.received(request.centres, len(rows.names), self._most_centres)
        return label_rows(rows, centroids, request, self._metric, self._telling(request.columns, rows))

    def _count_moves(self, request: CountMoves, rows: HeldRows) -> Reply:
        return count_moves(rows, request, self._metric, self._most_centres, self._telling(request.columns, rows))

    def _telling(self, columns: Columns | None, rows: HeldRows) -> Tell | None:
        """Return what changes the labels that sums are told over; None if the audit changes nothing."""

        def tell(labels: IntArray, whole: Labelling) -> Told:
            return self._tell(labels, rows, columns, whole)

        return tell if self._audit.is_active else None

    def _assign(self, request: Assign, rows: HeldRows) -> Reply:  # noqa: ARG002
        last = self._summarized
        if last is None:
            raise ProtocolError("groups need local clusters, which this participant was not asked to find")
        request.check_groups(int(last.shown.max(initial=-1)) + 1, self._most_centres)
        self._labels = relabelled(last.assigned, request.groups)
        return Labelled(sizes=sizes_of(relabelled(last.counted, request.groups), request.n_groups))

    def _stability(self, request: MeasureStability, rows: HeldRows) -> Reply:
        centroids = CentroidSet.received(request.centres, len(rows.names), self._most_centres)

        def tell(labels: IntArray, whole: Labelling) -> IntArray:
            return self._tell(labels, rows, request.columns, whole).rows

        labels = told_nearest(rows, centroids, self._metric, tell if self._audit.is_active else None)
        sample, fewest = self._sample(rows, self._units(request.columns)), self._suppression.fewest
        sizes = sizes_of(labels, len(centroids.centres))
        scores = local_stability(sample, labels[rows.drawn], sizes, fewest, request.seed, self.name)
        return LocalStability(scores=scores, fewest=fewest)

    handlers: ClassVar[dict[type[Request], Handler]] = {
        AskColumns: lambda self, *_: self._kinds,
        Describe: _describe,
        Summarize: _summarize,
        Refine: _refine,
        Label: _label,
        LabelBefore: _label_before,
        CountMoves: _count_moves,
        Assign: _assign,
        MeasureStability: _stability,
    }
    """The function that answers each request. That of a registered exchange is added here."""
