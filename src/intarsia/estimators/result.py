"""The result of a clustering: what the coordinator knows and, where they are known, the labels of every row."""

from __future__ import annotations

import html
import os
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._files import write_atomically
from intarsia.core.mixture import Mixture
from intarsia.core.stability import N_RESAMPLES
from intarsia.core.types import FloatArray, IntArray
from intarsia.estimators.model import Model
from intarsia.estimators.plots import plot_n_clusters
from intarsia.estimators.predict import Closeness, profile_frame
from intarsia.estimators.settings import NONE, check_value, whole_number
from intarsia.estimators.stability import Fitted, fitted_from, measure
from intarsia.exceptions import SettingError
from intarsia.report import FEW_ROWS, Finding, ReportData, findings, in_notebook, render, summarise
from intarsia.report.words import grouped_by
from intarsia.results import model_file
from intarsia.results.advice import advice, known_of
from intarsia.results.assumptions import AssumptionReport, check_assumptions
from intarsia.results.choices import Choices
from intarsia.results.outcome import GlobalModel, LocalCluster, Outcome, RoundInfo, RunRecord
from intarsia.results.privacy import PrivacyAccount
from intarsia.results.profiles import Covered, Separation, coverage_of, separations
from intarsia.results.stability import Stability


@dataclass(frozen=True, eq=False, repr=False)
class ClusteringResult(Model):
    """One clustering over the union of all columns.

    Attributes
    ----------
    labels : dict of arrays
        By participant, the cluster of each of its rows, in the order of its table; −1 for noise. Keys are those of the
        mapping of tables; 0, 1, … for a sequence; ``"table"`` for a single table.
    local_labels : dict of arrays
        By participant, the local cluster of each of its rows.
    feature_names : tuple of str
        The union of all columns, in the order of first appearance.
    outcome : Outcome
        What the coordinator knows.
    run : RunRecord
        Settings, seed, versions, and what was exchanged, field by field.
    """

    labels: dict[Hashable, IntArray]
    local_labels: dict[Hashable, IntArray]
    feature_names: tuple[str, ...]
    outcome: Outcome
    run: RunRecord
    keys: dict[str, Hashable] = field(default_factory=dict)
    checked: AssumptionReport | None = None
    fitted: Fitted | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: everything but the tables, which belong to the participants."""
        return {**self.__dict__, "fitted": None}

    @cached_property
    def assumptions(self) -> AssumptionReport:
        """Which conditions of the method hold, as far as summaries show."""
        return check_assumptions(self.outcome) if self.checked is None else self.checked

    @property
    def privacy(self) -> PrivacyAccount | None:
        """What each participant spent of its privacy budget, by exchange; None if the study was not private."""
        return self.outcome.privacy

    @property
    def global_model(self) -> GlobalModel:
        """The centroids in common units, and all that labelling a row needs."""
        return self.outcome.model

    @property
    def total_sizes(self) -> IntArray:
        """The rows of all participants in each cluster."""
        return self.outcome.total_sizes

    def _gaussians(self) -> Mixture:
        return self.outcome.model.mixture(self.outcome.total_sizes)

    @property
    def counts(self) -> FloatArray:
        """K × features: the number of values behind each entry of ``centroids``."""
        return self.outcome.model.centroids.counts[:, self._order]

    @property
    def sizes(self) -> dict[Hashable, IntArray]:
        """By participant, the number of its rows in each cluster; with secure sums, of those whose labels are known."""
        if self.outcome.secure is None or self.outcome.privacy is not None:
            return {key: np.asarray(self.outcome.sizes[name]) for name, key in self.keys.items()}
        return {key: np.bincount(each[each >= 0], minlength=self.n_clusters) for key, each in self.labels.items()}

    @property
    def coverage(self) -> tuple[Covered, ...]:
        """One entry per participant and column: whether it has the column, and how many values are missing."""
        return coverage_of(self.outcome, self.feature_names, self.keys)

    @property
    def fidelity(self) -> tuple[Closeness, ...]:
        """How close proxies are to the rows of each local cluster; empty unless the setting ``fidelity`` is True."""
        fidelity = self.outcome.fidelity
        if fidelity is None:
            return ()
        return tuple(
            Closeness(self.keys[cluster.participant], cluster.index, *map(float, numbers))
            for cluster, numbers in zip(self.local_clusters, fidelity, strict=True)
        )

    @property
    def confidence(self) -> float:
        """How clearly the best grouping of local clusters won: 0 for a tie, 1 if every start found it."""
        return self.outcome.aggregation.confidence

    @property
    def choices(self) -> Choices:
        """The numbers of clusters that were considered, with their scores; empty if K was given."""
        return Choices(self.outcome.choices, self.n_clusters)

    @property
    def rounds(self) -> tuple[RoundInfo, ...]:
        """The federated rounds; empty for one-shot."""
        return self.outcome.rounds

    @property
    def local_clusters(self) -> tuple[LocalCluster, ...]:
        """The local clusters of all participants, each with the cluster it joined."""
        return self.outcome.local_clusters

    def explain(self) -> tuple[Separation, ...]:
        """Return the features that separate each cluster from the others, the clearest first, and who measured them."""
        return separations(self.outcome, self.feature_names)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a table with one row per cluster and feature.

        Columns are mean, standard deviation, the number of rows with a value (``cells``), without a value in a column that
        their participant has (``missing``), and of participants without the column (``absent``), and the number of
        participants that have it. A private study adds ``error``, the standard deviation that noise gives the mean.
        ``backend`` is "pandas", "polars" or "pyarrow".
        """
        return profile_frame(self.outcome, self.feature_names, backend)

    def stability(
        self,
        tables: Any = None,
        *,
        n_resamples: int = N_RESAMPLES,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> Stability:
        """Return how surely each cluster comes back when rows are resampled and clustered anew, with the same K.

        ``tables`` are needed if the result was loaded, or was computed in a federation. Of more than 5,000 rows a sample is
        measured. ``random_state`` and ``n_jobs`` are those of the fit by default. The result keeps the figures for its
        report and its file. Release rules do not apply: whoever calls this has all tables.

        >>> import intarsia
        >>> x = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5] * 5 + [9.0, 9.1, 9.2, 9.3, 9.4, 9.5] * 5
        >>> result = intarsia.cluster({"a": {"x": x}, "b": {"x": x[3:-3]}}, 2, random_state=0)
        >>> result.stability(n_resamples=4).scores
        (1.0, 1.0)
        """
        if self.privacy is not None:
            raise SettingError(
                "stability() reads all rows again, for which a private study has no budget. Hint: stability=True measures "
                "it on the synthetic tables of the study, at no cost."
            )
        check_value("n_resamples", n_resamples, whole_number(2, 10_000))
        check_value("random_state", random_state, whole_number(0), NONE)
        fitted = self.fitted
        if tables is None and (fitted is None or fitted.tables is None):
            raise SettingError(
                "this result does not have its tables: it was loaded, or computed elsewhere. "
                "Hint: result.stability(tables), with the tables that were clustered."
            )
        fitted = fitted_from(self.run) if fitted is None else fitted
        held = fitted.held(tables)
        labels = self.labels
        if held.keys() != labels.keys() or any(len(labels[key]) != len(table) for key, table in held.items()):
            predicted = self.predict(tables)
            labels = predicted if isinstance(predicted, dict) else dict.fromkeys(held, predicted)
        seed = self.run.seed if random_state is None else int(random_state)
        found = measure(self.outcome.model, fitted.estimator, held, labels, n_resamples, seed, n_jobs)
        object.__setattr__(self, "outcome", replace(self.outcome, stability=found))
        return found

    def cut(self, n_clusters: int) -> tuple[LocalCluster, ...]:
        """Return the local clusters with their groups in a cut of the merge tree into ``n_clusters`` groups.

        There is a tree if K was chosen, and after the one-shot method. With ``aggregation="greedy"`` the result is such a
        cut; otherwise its groups come from another method, and may be better.
        """
        tree = self.outcome.merge_tree
        if tree is None:
            raise SettingError(
                "there is no merge tree, because n_clusters was given. Hint: n_clusters='auto', or method='one_shot'."
            )
        check_value("n_clusters", n_clusters, whole_number(tree.fewest_groups, tree.n_leaves))
        groups = tree.cut(n_clusters)
        return tuple(replace(leaf, group=int(g)) for leaf, g in zip(self.outcome.tree_leaves, groups, strict=True))

    def plot_n_clusters(self) -> Any:
        """Return a matplotlib figure of how K was chosen: the silhouette of every cut, and the tree."""
        return plot_n_clusters(self.outcome, self.run.settings.get("linkage"))

    def save(self, path: str | os.PathLike[str], *, labels: bool = False) -> None:
        """Write the study to one file, usually ``….intarsia``; :func:`intarsia.load` reads it.

        The file contains what the coordinator knows, and no code. Labels belong to the participants, and are written only
        with ``labels=True``.
        """
        name_of = {key: name for name, key in self.keys.items()}
        numbered = all(isinstance(key, int | np.integer) and not isinstance(key, bool) and key >= 0 for key in name_of)
        if not numbered and not all(isinstance(key, str) for key in name_of):
            raise SettingError(
                "only studies whose participants have names or numbers from 0 as keys can be saved. "
                "Hint: cluster a mapping with names."
            )
        model_file.save(
            path,
            self.outcome,
            self.feature_names,
            self.run,
            {name_of[key]: values for key, values in self.labels.items()} if labels else None,
            {name_of[key]: values for key, values in self.local_labels.items()} if labels else None,
            numbered=numbered,
        )

    def summarise(self, title: str | None = None, *, fewest: int = FEW_ROWS) -> ReportData:
        """Return the content of the report as plain typed facts, with ``to_json()``; it contains no rows and no labels.

        Means of fewer than ``fewest`` values are not shown in profiles; 1 shows all.
        """
        return summarise(self.outcome, self.feature_names, self.assumptions, self.run, title, fewest)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The conditions for a result that can be trusted, each with its state, as in the report."""
        return findings(self.outcome, self.feature_names, self.assumptions, self.run)

    def report(self, path: str | os.PathLike[str], *, title: str | None = None, fewest: int = FEW_ROWS) -> Path:
        """Write the report: one HTML file that needs no network, or, if the path ends in .json, its content as JSON.

        HTML needs jinja2 and plotly (``pip install 'intarsia[report]'``). ``fewest`` is as in :meth:`summarise`.
        """
        target = Path(path)
        if target.suffix.lower() not in {".html", ".htm", ".json"}:
            raise SettingError(f"the name of a report must end in .html or .json. Got {target.name!r} instead.")
        data = self.summarise(title, fewest=fewest)
        write_atomically(target, (data.to_json() if target.suffix == ".json" else render(data)).encode())
        return target

    def _repr_html_(self) -> str:
        """The report, for a notebook; one line if its libraries are not installed."""
        try:
            return in_notebook(self.summarise())
        except Exception:  # noqa: BLE001  (a notebook shows one line instead; report() raises the error)
            return f"<pre>{html.escape(repr(self))}</pre>"

    def __str__(self) -> str:
        rows = int(self.outcome.total_sizes.sum())
        if self.labels and self.privacy is None:
            rows = sum(len(labels) for labels in self.labels.values())
        sizes = self.outcome.total_sizes
        counts = (
            f"{self.n_clusters} cluster",
            f"{rows} row" if self.privacy is None else f"about {rows} row",
            f"{len(self.outcome.participants)} participant",
            f"{len(self.feature_names)} feature",
        )
        k, n, p, d = (text if text.startswith("1 ") else f"{text}s" for text in counts)
        aggregation, sure = self.outcome.aggregation, f"confidence {self.confidence:.2f}"
        if aggregation.overruled:
            sure = "grouping decided on the rows"
        elif np.isnan(self.confidence):  # the paper's methods try one grouping
            sure = f"grouped by {grouped_by(aggregation)}"
        return f"{k} of {n} from {p} over {d} (sizes {', '.join(map(str, sizes))}; {sure})"

    def __repr__(self) -> str:
        return f"<ClusteringResult: {self}>"


def load(path: str | os.PathLike[str]) -> ClusteringResult:
    """Return a study that ``result.save`` wrote. ``labels`` is empty if they were not saved.

    Raises
    ------
    ModelFileError
        The file is damaged, written by a newer version, or not a saved study.
    """
    outcome, stored = model_file.load(path)
    run = stored.run
    if not run.notes:  # the coordinator of a federation stores figures only; the notes are made from them here
        report = check_assumptions(outcome)
        run = replace(run, notes=tuple(text for _, text in advice(*known_of(outcome), outcome, report)))
    keys: dict[str, Hashable] = {name: int(name) if stored.numbered else name for name in stored.participants}
    return ClusteringResult(
        {keys[name]: labels.copy() for name, labels in (stored.labels or {}).items()},
        {keys[name]: labels.copy() for name, labels in (stored.local_labels or {}).items()},
        stored.names_in_order,
        outcome,
        run,
        keys,
    )
