"""What an analyst gets: what the coordinator knows, and, in one process, the labels of every row."""

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
from intarsia.core.types import FloatArray, IntArray
from intarsia.estimators.plots import plot_n_clusters
from intarsia.estimators.predict import (
    Closeness,
    Imputed,
    all_tables,
    each,
    imputed,
    joined,
    margin_of,
    memberships,
    predict_table,
    profile_frame,
    squares_of,
)
from intarsia.estimators.settings import WholeNumber, check_value
from intarsia.exceptions import SettingError
from intarsia.report import FEW_ROWS, ReportData, in_notebook, render, summarise
from intarsia.results import model_file
from intarsia.results.advice import advice, known_of
from intarsia.results.assumptions import AssumptionReport, check_assumptions
from intarsia.results.outcome import LocalCluster, Outcome, RoundInfo, RunRecord
from intarsia.results.profiles import Covered, Separation, coverage_of, separations


@dataclass(frozen=True, eq=False, repr=False)
class ClusteringResult:
    """One clustering over the union of all columns.

    Attributes
    ----------
    labels : dict
        By participant, the global cluster of each of its rows, in the table's own order; −1 for noise. Keys are the
        mapping's own, 0, 1, … for a sequence of tables, and ``"table"`` for a single one.
    local_labels : dict
        By participant, the local cluster that each row was in before any grouping.
    feature_names : tuple of str
        The union of all columns, in the order of first appearance.
    outcome : Outcome
        All that the coordinator saw.
    run : RunRecord or None
        Settings, seed, versions, and what was exchanged, field by field; None in files from before it was kept.
    """

    labels: dict[Hashable, IntArray]
    local_labels: dict[Hashable, IntArray]
    feature_names: tuple[str, ...]
    outcome: Outcome
    run: RunRecord
    keys: dict[str, Hashable] = field(default_factory=dict)
    checked: AssumptionReport | None = None

    @cached_property
    def assumptions(self) -> AssumptionReport:
        """Which conditions of the method hold, as far as summaries can tell."""
        return check_assumptions(self.outcome) if self.checked is None else self.checked

    @cached_property
    def _order(self) -> IntArray:
        return self.outcome.model.space.index(self.feature_names)

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.outcome.model.centroids)

    @property
    def centroids(self) -> FloatArray:
        """K × features, in original units; NaN where nobody in the cluster saw the feature."""
        return self.outcome.model.values[:, self._order] + 0.0  # no minus zero

    @property
    def counts(self) -> FloatArray:
        """K × features: how many cells stand behind each entry of ``centroids``."""
        return self.outcome.model.centroids.counts[:, self._order]

    @property
    def sizes(self) -> dict[Hashable, IntArray]:
        """By participant, how many of its rows are in each global cluster."""
        return {key: np.asarray(self.outcome.sizes[name]) for name, key in self.keys.items()}

    @property
    def units(self) -> str | None:
        """How common units were found: "standard", "minmax", "robust"; None where everybody kept their own."""
        return self.outcome.model.units

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories; each is a feature called ``column=level``."""
        return dict(self.outcome.model.levels)

    @property
    def coverage(self) -> tuple[Covered, ...]:
        """Who has what: one entry per participant and column, absent columns (nobody there measures it) told from gaps."""
        return coverage_of(self.outcome, self.feature_names, self.keys)

    @property
    def fidelity(self) -> tuple[Closeness, ...]:
        """How close proxies are to the rows of each local cluster; empty unless ``fidelity=True`` asked for it."""
        measured = self.outcome.fidelity
        if measured is None:
            return ()
        return tuple(
            Closeness(self.keys[cluster.participant], cluster.index, *map(float, numbers))
            for cluster, numbers in zip(self.local_clusters, measured, strict=True)
        )

    @property
    def confidence(self) -> float:
        """How clearly the best grouping of local clusters won: 0 a tie, 1 every start agreed."""
        return self.outcome.aggregation.confidence

    @property
    def rounds(self) -> tuple[RoundInfo, ...]:
        """The federated rounds; empty for one-shot."""
        return self.outcome.rounds

    @property
    def local_clusters(self) -> tuple[LocalCluster, ...]:
        """Every local cluster and the global one it joined."""
        return self.outcome.local_clusters

    def predict(self, tables: Any) -> Any:
        """The nearest global centroid for new rows over any subset of the known columns.

        One table gives an array, several (a mapping or a sequence) a dict of arrays. Empty cells are left out of a row's
        comparison; a row without any filled cell that the model knows gets −1.

        For one-shot results this is a second opinion: ``labels`` there follow the local cluster that a row was in, as
        Algorithm 2 has it, and rows between clusters may be nearer to another centroid.
        """
        return each(self.outcome.model, tables, lambda table: predict_table(self.outcome.model, table))

    @property
    def deviations(self) -> FloatArray:
        """K × features: the standard deviation of each cluster's cells, in original units; NaN where nobody saw any."""
        return self.outcome.model.deviations[:, self._order]

    @cached_property
    def _mixture(self) -> Mixture:
        if self.outcome.model.metric not in {"euclidean", "manhattan"}:
            raise SettingError(
                "clusters found by angles, or by a metric of your own, are no Gaussians: there are no memberships to go by. "
                "Hint: predict, score, explain and to_frame work."
            )
        sizes = sum(self.outcome.sizes.values(), np.zeros(self.n_clusters, dtype=np.intp))
        return self.outcome.model.mixture(sizes)

    def predict_proba(self, tables: Any) -> Any:
        """How much each row belongs to each cluster: rows × K, each row summing to 1.

        Clusters are taken for Gaussians with independent features, so that with many features memberships are nearly 0 or 1;
        their order is more to be trusted than their size. A row without any known cell gets the clusters' shares.
        """
        return each(self.outcome.model, tables, lambda table: memberships(self.outcome.model, self._mixture, table))

    def predict_margin(self, tables: Any) -> Any:
        """How far ahead the likeliest cluster of each row is: its membership minus the next one's; 1 with one cluster."""
        return each(
            self.outcome.model, tables, lambda table: margin_of(memberships(self.outcome.model, self._mixture, table))
        )

    def score(self, tables: Any) -> float:
        """The share of the cells' variance that the clusters explain: 1 − (squares around the nearest centroid) / (squares
        around the overall mean), in common units; 1 is perfect, 0 no better than one cluster, and below 0 worse.
        """
        parts = [squares_of(self.outcome.model, table) for table in all_tables(self.outcome.model, tables)]
        inside, total = (float(sum(part[k] for part in parts)) for k in (0, 1))
        return 1.0 - inside / total if total > 0 else float("nan")

    def impute(self, table: Any) -> Imputed:
        """What the columns that a table lacks, and its empty cells, are likely to hold.

        Every column that the study knows, row by row: filled cells as they are with a spread of 0, others the expected value
        given the row's memberships, with its standard deviation. In original units.

        >>> import intarsia
        >>> a = {"x": [0.0, 0.1, 9.0, 9.1], "y": [5.0, 5.2, 7.0, 7.2]}
        >>> result = intarsia.cluster({"a": a, "b": {"x": [0.05, 9.05]}}, 2, random_state=0)
        >>> result.impute({"x": [0.0, 9.0]}).values["y"].round(1)
        array([5.1, 7.1])
        """
        model = self.outcome.model
        return joined([imputed(model, self._mixture, part, self.feature_names) for part in all_tables(model, table)])

    def explain(self) -> tuple[Separation, ...]:
        """Which features separate which cluster from the rest, the clearest first, and who measured them."""
        return separations(self.outcome, self.feature_names)

    def to_frame(self, backend: str = "pandas") -> Any:
        """One line per cluster and feature: mean, standard deviation, and how many rows have a value (``cells``), lack one
        in a column that their owner has (``missing``), or whose owner has no such column (``absent``); and how many have.

        ``backend`` is "pandas", "polars" or "pyarrow", whichever is installed.
        """
        return profile_frame(self.outcome, self.feature_names, backend)

    def cut(self, n_clusters: int) -> tuple[LocalCluster, ...]:
        """The local clusters, each with the group that the merge tree puts it in when so many are left.

        Every cut is kept where K was chosen, whichever was taken. The groups of the result itself come from a search, and
        may be better.
        """
        tree = self.outcome.merge_tree
        if tree is None:
            raise SettingError("there is no merge tree: K was given. Hint: n_clusters='auto', or method='one_shot'.")
        check_value("n_clusters", n_clusters, WholeNumber(tree.fewest_groups, tree.n_leaves))
        groups = tree.cut(n_clusters)
        return tuple(replace(leaf, group=int(g)) for leaf, g in zip(self.outcome.tree_leaves, groups, strict=True))

    def plot_n_clusters(self) -> Any:
        """How K was chosen: the silhouette of every cut, and the tree, as a matplotlib figure (``.savefig("k.png")``)."""
        return plot_n_clusters(self.outcome)

    def save(self, path: str | os.PathLike[str], *, labels: bool = False) -> None:
        """Write the study to one file, conventionally ``….intarsia``; :func:`intarsia.load` reads it back.

        The file holds what the coordinator knows, no pickle and no code. Labels belong to whoever holds the rows, and are
        left out unless ``labels=True``.
        """
        name_of = {key: name for name, key in self.keys.items()}
        numbered = all(isinstance(key, int | np.integer) and not isinstance(key, bool) and key >= 0 for key in name_of)
        if not numbered and not all(isinstance(key, str) for key in name_of):
            raise SettingError(
                "only participants whose keys are text, or numbers from 0 on, can be saved. "
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
        """What the report says, as plain typed facts, with ``to_json()`` for machines; no table of rows, and no label.

        Means that fewer than ``fewest`` cells stand behind are left out of profiles; 1 shows all.
        """
        return summarise(self.outcome, self.feature_names, self.assumptions, self.run, title, fewest)

    def report(self, path: str | os.PathLike[str], *, title: str | None = None, fewest: int = FEW_ROWS) -> Path:
        """Write the report: one HTML file that needs no network, or, if the path ends in .json, what it says as JSON.

        It needs jinja2 and plotly (``pip install 'intarsia[report]'``). It holds no table of rows and no label; ``fewest``
        is as for :meth:`summarise`.
        """
        target = Path(path)
        if target.suffix.lower() not in {".html", ".htm", ".json"}:
            raise SettingError(f"a report is written as .html or .json. Got {target.name!r} instead.")
        data = self.summarise(title, fewest=fewest)
        write_atomically(target, (data.to_json() if target.suffix == ".json" else render(data)).encode())
        return target

    def _repr_html_(self) -> str:
        """The report, in a notebook; the result in a line where what draws it is not installed."""
        try:
            return in_notebook(self.summarise())
        except Exception:  # noqa: BLE001  (a notebook shows something whatever happens; report() says what is wrong)
            return f"<pre>{html.escape(repr(self))}</pre>"

    def __str__(self) -> str:
        rows = int(sum(sizes.sum() for sizes in self.outcome.sizes.values()))
        if self.labels:
            rows = sum(len(labels) for labels in self.labels.values())
        sizes = sum(self.outcome.sizes.values(), np.zeros(self.n_clusters, dtype=np.intp))
        counts = (
            f"{self.n_clusters} cluster",
            f"{rows} row",
            f"{len(self.outcome.participants)} participant",
            f"{len(self.feature_names)} feature",
        )
        k, n, p, d = (text if text.startswith("1 ") else f"{text}s" for text in counts)
        decided = "grouping decided on the rows" if self.outcome.aggregation.overruled else None
        sure = decided or f"confidence {self.confidence:.2f}"
        return f"{k} of {n} from {p} over {d} (sizes {', '.join(map(str, sizes))}; {sure})"

    def __repr__(self) -> str:
        return f"<ClusteringResult: {self}>"


def load(path: str | os.PathLike[str]) -> ClusteringResult:
    """A study that ``result.save`` wrote, by this version or an older one. ``labels`` is empty if they were not saved.

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
