"""The result of a clustering: what the coordinator knows and, where they are known, the labels of every row."""

from __future__ import annotations

import html
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._files import write_atomically
from intarsia.core.mixture import Mixture
from intarsia.core.stability import N_RESAMPLES
from intarsia.core.types import FloatArray, IntArray
from intarsia.estimators.join import joined
from intarsia.estimators.model import Model, names_given
from intarsia.estimators.plots import plot_n_clusters
from intarsia.estimators.predict import Closeness, profile_frame
from intarsia.estimators.public import PublicModel
from intarsia.estimators.settings import NONE, check_value, whole_number
from intarsia.estimators.stability import Fitted, fitted_from, measure
from intarsia.exceptions import SettingError
from intarsia.report import FEW_ROWS, Finding, ReportData, findings, in_notebook, render, summarise
from intarsia.report.words import grouped_by
from intarsia.results import model_file
from intarsia.results.assumptions import AssumptionReport, check_assumptions
from intarsia.results.choices import Choices
from intarsia.results.influence import shares_by_cluster
from intarsia.results.outcome import GlobalModel, LocalCluster, Outcome, RoundInfo, RunRecord
from intarsia.results.privacy import PrivacyAccount
from intarsia.results.profiles import Covered, Separation, coverage_of, separations
from intarsia.results.public import FEWEST, public_from
from intarsia.results.repeat import Repeat
from intarsia.results.stability import Stability
from intarsia.runtime.contract import Watcher


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
    def weight_shares(self) -> dict[Hashable, FloatArray]:
        """By participant, its share of the weight behind each centroid: of its rows, each times the participant's weight."""
        shares = shares_by_cluster(self.outcome)
        return {self.keys[name]: share for name, share in zip(self.outcome.participants, shares, strict=True)}

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
    def repeat(self) -> Repeat | None:
        """What became of each cluster of the previous model; None if the study did not start from one."""
        return self.outcome.repeat

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
        participants that have it. ``name`` stands beside ``cluster`` if clusters have names. A private study adds ``error``,
        the standard deviation that noise gives the mean.
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

    def join(
        self,
        tables: Any,
        *,
        local: Any = None,
        n_local_clusters: Any = None,
        missing: Any = None,
        release: Any = None,
        watcher: Watcher | None = None,
    ) -> ClusteringResult:
        """Return the result with participants that come later, and with their columns; this one does not change.

        Only newcomers are asked anything. Their local clusters are matched with the clusters of the model, whose centroids
        stay over the columns that it has, so that everybody else's labels stay. Columns that only newcomers have enter with
        the means of their rows. To let newcomers change clusters, cluster all tables anew.

        Parameters
        ----------
        tables : mapping or sequence of tables
            One table per newcomer, by its name; a sequence if the participants of this result are numbered.
        local, n_local_clusters, missing, release : optional
            Settings of the newcomers, as in the fit. Default: the built-in k-means, and what the fit had for everybody.
        watcher : optional
            Called at the start of every exchange and at every reply.

        Raises
        ------
        InputError
            A newcomer has the name of a participant, shares no column that varies, or has a column in another kind.
        SettingError
            The study is private or has secure sums.

        Examples
        --------
        >>> import intarsia
        >>> a = {"age": [30, 31, 29, 70, 72], "chol": [180, 190, 185, 280, 270]}
        >>> result = intarsia.cluster({"a": a, "b": a}, 2, random_state=0)
        >>> joined = result.join({"c": {"age": [33, 29, 71, 69], "pulse": [80, 82, 62, 60]}})
        >>> joined.labels["c"].tolist(), joined.feature_names
        ([0, 0, 1, 1], ('age', 'chol', 'pulse'))
        """
        given = {"local": local, "n_local_clusters": n_local_clusters, "missing": missing, "release": release}
        result: ClusteringResult = joined(self, tables, given, watcher)
        return result

    def plot_n_clusters(self) -> Any:
        """Return a matplotlib figure of how K was chosen: the silhouette of every cut, and the tree."""
        return plot_n_clusters(self.outcome, self.run.settings.get("linkage"))

    def rename(self, names: Mapping[int, str]) -> ClusteringResult:
        """Return the same result with names for some clusters, by number; an empty name removes one.

        Names have at most 60 characters. They are saved with the model, also with a public one, and stand beside numbers in
        ``predict(..., as_frame=True)``, ``explain``, ``to_frame``, the report and files of labels. A repeat keeps them.

        >>> import intarsia
        >>> result = intarsia.cluster({"a": {"x": [0, 0, 0, 9]}, "b": {"x": [0, 9]}}, 2, random_state=0)
        >>> result.rename({1: "high"}).cluster_names
        {1: 'high'}
        """
        model = replace(self.global_model, names=names_given(self.global_model, names))
        return replace(self, outcome=replace(self.outcome, model=model))

    def public(self, *, fewest: int = FEWEST, min_holders: int = 1) -> PublicModel:
        """Return the part of the result to share: the global model, without local centroids and names of participants.

        Entries of centroids and sizes of clusters are hidden if fewer than ``fewest`` rows or fewer than ``min_holders``
        participants are behind them. With ``min_holders=1``, the columns of a single participant are shown: means and shares
        of clusters in them are those of its rows.

        >>> import intarsia
        >>> x = [0.0, 0.1, 0.2, 0.3, 0.4, 9.0, 9.1, 9.2, 9.3, 9.4]
        >>> result = intarsia.cluster({"a": {"x": x}, "b": {"x": x}}, 2, random_state=0)
        >>> result.public()
        <PublicModel: 2 clusters of 20 rows over 1 feature (sizes 10, 10; public model)>
        """
        check_value("fewest", fewest, whole_number(1))
        check_value("min_holders", min_holders, whole_number(1))
        return PublicModel(public_from(self.outcome, self.feature_names, int(fewest), int(min_holders)))

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        labels: bool = False,
        public: bool = False,
        fewest: int = FEWEST,
        min_holders: int = 1,
    ) -> None:
        """Write the study to one file, usually ``….intarsia``; :func:`intarsia.load` reads it.

        The file contains what the coordinator knows, and no code. Labels belong to the participants, and are written only
        with ``labels=True``. With ``public=True`` only the model of :meth:`public` is written, which has no local centroids;
        ``fewest`` and ``min_holders`` are for that.
        """
        if public:
            if labels:
                raise SettingError("a public model has no labels. Hint: save twice, once with labels=True.")
            self.public(fewest=fewest, min_holders=min_holders).save(path)
            return
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

        HTML needs jinja2 and plotly (``pip install '.[report]'`` in a clone). ``fewest`` is as in :meth:`summarise`.
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
        if len(self.labels) == len(self.outcome.participants) and self.privacy is None:
            rows = sum(len(labels) for labels in self.labels.values())
        sizes, n_participants = self.outcome.total_sizes, len(self.outcome.participants)
        absent = [name for name in self.run.absent if name in self.outcome.sizes and not self.outcome.sizes[name].any()]
        n_labelled = n_participants - len(absent)
        counts = (
            f"{self.n_clusters} cluster",
            f"{rows} row" if self.privacy is None else f"about {rows} row",
            f"{f'{n_labelled} of ' if n_labelled < n_participants else ''}{n_participants} participant",
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
