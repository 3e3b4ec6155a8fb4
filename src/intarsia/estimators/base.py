"""The base class of both estimators: from tables to a result, and predictions for new rows."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from intarsia.coordinator import Algorithm, FederatedAlgorithm, OneShotAlgorithm
from intarsia.coordinator.columns import check_connected
from intarsia.coordinator.secure import SecureAlgorithm
from intarsia.coordinator.settings import check_rows, most_local_clusters
from intarsia.coordinator.weights import check_weighted
from intarsia.core.distances import Metric
from intarsia.core.features import indicators, joint_levels
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.randomness import seed_of
from intarsia.core.types import FloatArray
from intarsia.estimators.containers import contained, containing_itself
from intarsia.estimators.predict import features_in_order, framed
from intarsia.estimators.presets import with_preset
from intarsia.estimators.recording import VERSIONS, progress_of, settings_of
from intarsia.estimators.result import ClusteringResult
from intarsia.estimators.settings import OBSERVED, check_settings, for_each
from intarsia.estimators.stability import KINDS, Fitted
from intarsia.estimators.weights import row_weights_of, weights_by_name
from intarsia.exceptions import MissingCellsError, TooFewRowsError, UnknownFeaturesError, quote
from intarsia.participant.vault import new_credentials
from intarsia.privacy.budget import Charged
from intarsia.privacy.policy import OPEN
from intarsia.private.algorithm import PrivateAlgorithm
from intarsia.protocol.terms import SILHOUETTE, LocalNumber
from intarsia.results.advice import advice
from intarsia.results.assumptions import check_assumptions
from intarsia.runtime.contract import Watcher
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.runtime.processes import Joining, ProcessRuntime, Workers
from intarsia.runtime.recorder import Recorder
from intarsia.tables import AnyTable, open_table
from intarsia.tables.frame import read_table, table_of
from intarsia.tables.missing import settle_missing
from intarsia.tables.participants import check_one, has_text_names, hold_all, is_many, keyed

_PLAIN = "table"


@containing_itself
class TableClusterer(TransformerMixin, ClusterMixin, BaseEstimator, ABC):
    """Base class of the estimators: reads tables, runs an algorithm over their participants, keeps the result."""

    method: str  # the value of ``method`` in intarsia.cluster
    n_clusters: int | str
    local: Any
    n_local_clusters: Any
    metric: Metric
    scale: str | None
    missing: Any
    feature_weights: Any
    participant_weights: Any
    random_state: Any
    release: Any
    privacy: DifferentialPrivacy | None
    n_jobs: int | None
    verbose: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add an estimator to those that the record of a run may name."""
        super().__init_subclass__(**kwargs)
        KINDS.setdefault(cls.method, cls)

    @classmethod
    def from_preset(cls, preset: str, n_clusters: int | str = "auto", **overrides: Any) -> Self:
        """Return an estimator with the settings of a preset, e.g. ``"paper"``; ``overrides`` win over them."""
        settings = with_preset(cls.method, {**overrides, "preset": preset})
        return cls(n_clusters, **settings)

    def fit(self, tables: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn's signature)
        """Cluster one matrix, or the tables of several participants.

        Parameters
        ----------
        tables : mapping or sequence of tables, or one matrix or table
            Several tables: one per participant, matched by column name. One table or matrix: an ordinary clustering.
        y : ignored

        Returns
        -------
        self
        """
        self.fit_result(tables)
        return self

    def fit_result(self, tables: Any, watcher: Watcher | None = None) -> ClusteringResult:
        """Like ``fit``, but return the :class:`~intarsia.ClusteringResult`, which is also kept as ``result_``.

        A ``watcher`` is called at the start of every exchange and at every reply.
        """
        self._check_settings()
        many = is_many(tables)
        tables = keyed(tables) if many else tables
        workers_of = self._workers(len(tables) if many else 1)
        with progress_of(self) as progress, workers_of as workers:  # they start while tables are read
            result = self._run(self.held(tables), workers, watcher or progress)
        result = replace(result, fitted=Fitted(clone(self), tables))
        self._keep(result, plain=not many)
        return result

    def held(self, tables: Any) -> dict[Hashable, AnyTable]:
        """Return one matrix or the tables of several participants as participants hold them."""
        if not is_many(tables):
            return {_PLAIN: self._plain(tables)}
        named = keyed(tables)
        return hold_all(named, for_each(self.missing, list(named), "missing"), self.privacy)

    def fit_handed_over(
        self,
        tables: dict[Hashable, AnyTable],
        watcher: Watcher | None = None,
        charged: Mapping[str, Charged] | None = None,
    ) -> ClusteringResult:
        """Like ``fit_result`` for tables that were opened and held already. The mapping is emptied, so that rows are freed.

        Missing values must have been treated as this estimator's ``missing`` says. A private run writes what it spends to
        the ledgers that ``charged`` names, by participant.
        """
        self._check_settings()
        with self._workers(len(tables)) as workers:
            result = self._run(tables, workers, watcher, charged)
        result = replace(result, fitted=Fitted(clone(self), None))
        self._keep(result, plain=False)
        return result

    def _plain(self, X: Any) -> AnyTable:
        """Read one table with named columns, or one matrix as scikit-learn reads it."""
        check_one(X)
        if has_text_names(X):
            table = open_table(X, _PLAIN, declared=self.privacy).hold(self._missing_of_one, self.privacy)
            self.feature_names_in_ = np.array(table.given_names, dtype=object)
            self.n_features_in_ = len(table.given_names)
            return table
        # missing and infinite values are checked below, with messages that name columns
        values: FloatArray = validate_data(self, X, dtype=np.float64, ensure_all_finite=False)
        names = _numbered(values.shape[1])
        if self.privacy is not None:
            return open_table(dict(zip(names, values.T, strict=True)), _PLAIN).hold(declared=self.privacy)
        table = table_of(_PLAIN, names, values)
        if not table.observed.any(axis=0).all():
            empty = int((~table.observed.any(axis=0)).sum())
            raise MissingCellsError(f"{empty} of {values.shape[1]} columns have no values. Hint: drop them.")
        return settle_missing(table, self._missing_of_one)

    @property
    def _missing_of_one(self) -> str:
        return str(for_each(self.missing, [_PLAIN], "missing")[_PLAIN] or OBSERVED)

    def _workers(self, n_tables: int) -> AbstractContextManager[Workers | None]:
        """Return the processes for so many participants; None if they share this one."""
        n_jobs = min(effective_n_jobs(self.n_jobs), n_tables)
        return Workers(n_jobs) if n_jobs > 1 else nullcontext()

    def _run(
        self,
        tables: dict[Hashable, AnyTable],
        workers: Workers | None,
        watcher: Watcher | None = None,
        charged: Mapping[str, Charged] | None = None,
    ) -> ClusteringResult:
        """Run the algorithm; tables are taken out of the mapping, so that only their participants refer to them."""
        keys = {str(key): key for key in tables}
        names_of = {str(key): table.given_names for key, table in tables.items()}
        levels_of = {str(key): self._levels_of(table) for key, table in tables.items()}
        self._check_tables(tables, names_of, joint_levels(levels_of.values()))
        seed, recorder = seed_of(self.random_state), Recorder(watcher)
        algorithm, settings = self._for(list(tables), seed), settings_of(self)
        with self.runtime_for(tables, algorithm, workers, charged or {}) as runtime:
            outcome = drive(algorithm, runtime, recorder)
            labels_of = runtime.labels()
        report = check_assumptions(outcome)
        features_of = {name: (*names_of[name], *indicators(levels_of[name])) for name in keys}
        notes = tuple(advice(features_of, levels_of, outcome, report))
        for kind, text in notes:
            warnings.warn(text, kind, stacklevel=4)
        texts = [text for _, text in notes]
        return ClusteringResult(
            {keys[name]: kept.labels for name, kept in labels_of.items() if kept.labels is not None},
            {keys[name]: kept.local_labels for name, kept in labels_of.items() if kept.local_labels is not None},
            features_in_order(names_of.values(), outcome.model),
            outcome,
            recorder.record(self.method, settings, seed, VERSIONS, texts, outcome.participants),
            keys,
            report,
        )

    def _levels_of(self, table: AnyTable) -> dict[str, tuple[str, ...]]:
        """Return the levels of each column of categories: those of the table or, under privacy, the declared ones."""
        if self.privacy is None:
            return table.levels
        return {name: tuple(self.privacy.levels[name]) for name in table.given_names if name in self.privacy.levels}

    def _check_tables(
        self,
        tables: Mapping[Hashable, AnyTable],
        names_of: Mapping[str, Sequence[str]],
        levels: Mapping[str, Sequence[str]],
    ) -> None:
        if self.feature_weights:
            check_weighted(weights_by_name(self.feature_weights) or (), chain(*names_of.values()), levels)
        if not getattr(self, "allow_partial", False):
            check_connected(names_of)
        if self.privacy is not None:  # nothing but names may decide whether there is a result
            for name, columns in names_of.items():
                self.privacy.check_declared(name, columns)
            return
        n_rows = {str(key): len(table) for key, table in tables.items()}
        total = sum(n_rows.values())
        if self._known_k is not None and self._known_k > total:
            raise TooFewRowsError(
                f"n_clusters={self._known_k} is more than the number of rows (n_samples={total}). Hint: ask for fewer."
            )
        if len(tables) > 1:  # with one table, local clusters are the clusters
            fixed, local = (for_each(getattr(self, name), list(tables), name) for name in ("n_local_clusters", "local"))
            any_size = {name: not isinstance(one, str | None) for name, one in local.items()}
            most = {name: most_local_clusters(n_rows[name], fixed[name], any_size=any_size[name]) for name in n_rows}
            check_rows(self._known_k, n_rows, most)

    def runtime_for(
        self,
        tables: dict[Hashable, AnyTable],
        algorithm: Algorithm,
        workers: Workers | None,
        charged: Mapping[str, Charged],
    ) -> AbstractContextManager[Any]:
        """Return the runtime with a participant for each table, in this process or in several."""
        local, missing, release = (
            for_each(getattr(self, name), list(tables), name) for name in ("local", "missing", "release")
        )
        names = list(map(str, tables))
        credentials = new_credentials(names) if isinstance(algorithm, SecureAlgorithm) else {}
        joining = (
            Joining(
                tables.pop(key),
                local[name],
                self.metric,
                missing[name] or OBSERVED,
                release[name] or OPEN,
                algorithm.terms(name),
                charged.get(name),
                credentials.get(name),
            )
            for name, key in [(str(key), key) for key in tables]
        )
        if workers is not None:
            return ProcessRuntime(joining, workers)
        return nullcontext(InProcessRuntime([one.participant() for one in joining]))

    def algorithm_for(self, participants: Sequence[str]) -> Algorithm:
        """Return the algorithm that a coordinator of a federation runs for participants of these names."""
        self._check_settings()
        return self._for(list(participants), seed_of(self.random_state))

    def _for(self, keys: Sequence[Hashable], seed: int) -> Algorithm:
        fixed = self.n_local_clusters
        if len(keys) == 1 and self._known_k is not None and (fixed is None or fixed == SILHOUETTE):
            fixed = self._known_k  # with one table, local clusters are the clusters
        algorithm = replace(
            self._algorithm(for_each(fixed, keys, "n_local_clusters"), seed),
            feature_weights=weights_by_name(self.feature_weights),
            participant_weights=row_weights_of(self.participant_weights, keys),
        )
        known = algorithm if self.privacy is None else PrivateAlgorithm(algorithm, self.privacy)
        if not getattr(self, "secure_sums", False):
            return known
        return SecureAlgorithm(known, int(getattr(self, "min_holders")))  # noqa: B009  (of one estimator only)

    @property
    def _known_k(self) -> int | None:
        """K, or None if it is to be chosen."""
        return None if isinstance(self.n_clusters, str) else int(self.n_clusters)

    def _keep(self, result: ClusteringResult, *, plain: bool) -> None:
        self.result_ = result
        self.labels_: Any = result.labels[_PLAIN] if plain else result.labels
        self.centroids_ = result.centroids
        self.counts_ = result.counts
        self.confidence_ = result.confidence
        self._fitted_plain = plain
        if not plain:
            self.feature_names_in_ = np.array(result.feature_names, dtype=object)
            self.n_features_in_ = len(result.feature_names)

    def predict(self, X: Any, *, none_beyond: float | None = None, as_frame: bool = False) -> Any:
        """Return the cluster of every row.

        Parameters
        ----------
        X : table or matrix, or mapping or sequence of tables
            A table may have any of the known columns, in any order; a matrix must have the columns of the fitted one.
        none_beyond : float, optional
            From 0.5 to 0.999: a row gets −1 if it is farther from every centroid than this share of the fitted rows.
        as_frame : bool, default=False
            Return tables with a column ``cluster``, with the index of a pandas table.

        Returns
        -------
        array of int, or dict of arrays for several tables
            A row is compared by the values that it has; −1 for a row without values.
        """
        tables = self._named(X)
        if as_frame and tables is not X:  # the index is that of the table that was given
            frame = self.result_.predict(tables, none_beyond=none_beyond, as_frame=True)
            return framed(X, {name: frame[name].tolist() for name in frame})
        return self.result_.predict(tables, none_beyond=none_beyond, as_frame=as_frame)

    def predict_proba(self, X: Any) -> Any:
        """Return the membership of each row in each cluster: rows × K, as :meth:`ClusteringResult.predict_proba`."""
        tables = self._named(X)
        return self.result_.predict_proba(tables)

    def transform(self, X: Any) -> Any:
        """Return the rescaled distance of each row to each centroid: rows × K, as :meth:`ClusteringResult.transform`.

        ``set_output(transform="pandas")`` gives a table of them, for each of several tables.
        """
        tables = self._named(X)
        distances = self.result_.transform(tables)
        if not is_many(tables):
            return contained(self, X, distances)
        return {key: contained(self, table, distances[key]) for key, table in keyed(tables).items()}

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the rescaled distances of the same rows, as :meth:`transform`."""
        return self.fit(X, y).transform(X)

    def predict_margin(self, X: Any) -> Any:
        """Return the largest membership of each row minus the second, as :meth:`ClusteringResult.predict_margin`."""
        return self.result_.predict_margin(self._named(X))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002  (scikit-learn's signature)
        """Return the share of the variance that the clusters explain, as :meth:`ClusteringResult.score`."""
        tables = self._named(X)
        return self.result_.score(tables)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002  (scikit-learn's signature)
        """Return the names of the columns of :meth:`transform`."""
        check_is_fitted(self)
        name = type(self).__name__.lower()
        return np.array([f"{name}{k}" for k in range(self.result_.n_clusters)], dtype=object)

    def _named(self, X: Any) -> Any:
        """Return tables whose columns the model knows by name: a matrix gets the names of the fitted one."""
        check_is_fitted(self)
        by_name = not self._fitted_plain or hasattr(self, "feature_names_in_")
        if is_many(X) or not self._fitted_plain or (by_name and has_text_names(X)):
            return X
        if has_text_names(X):  # the model was fitted on a matrix: columns are matched by position
            table = read_table(X, "new rows")
            if table.categories:
                raise UnknownFeaturesError(
                    f"{len(table.categories)} column(s) are not numbers, and the model was fitted on a matrix of numbers: "
                    f"{quote(table.categories)}."
                )
            X = table.in_given_order()
        values = validate_data(self, X, dtype=np.float64, ensure_all_finite=False, reset=False)
        if self._missing_of_one == "error":
            settle_missing(table_of("new rows", self.result_.feature_names, values), "error")
        return dict(zip(self.result_.feature_names, values.T, strict=True))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = []  # distances are float64
        return tags

    @abstractmethod
    def _algorithm(
        self, n_local_clusters: Mapping[str, LocalNumber], seed: int
    ) -> FederatedAlgorithm | OneShotAlgorithm:
        """Return the algorithm with the settings of this estimator."""

    def _check_settings(self) -> None:
        check_settings(self.method, self.get_params(deep=False))


def _numbered(n: int) -> list[str]:
    """Names x0, x1, … padded with zeros, so that their order is that of the columns."""
    return [f"x{k:0{len(str(n - 1))}d}" for k in range(n)]
