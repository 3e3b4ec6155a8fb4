"""Checks of a saved study whose bytes are intact: shapes, names, numbers and references must fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.features import indicators
from intarsia.core.grouping.paper import CONDITIONS
from intarsia.core.tails import LEVELS
from intarsia.core.units import SCALES
from intarsia.protocol.catalogue import exchanges
from intarsia.protocol.wire import Array
from intarsia.results.outcome import ROUND_KINDS, RunRecord
from intarsia.results.repeat import STATES, Repeat
from intarsia.results.stability import Stability
from intarsia.results.stored import StoredStudy, StoredTree

MOST_ROWS = 2**53  # counts are exact up to here
MOST_CHARACTERS = 100_000  # of a note
_MOST_NESTING = 4  # of settings
_METRICS = ("euclidean", "manhattan", "cosine")


def problems_of(stored: StoredStudy) -> Iterator[str]:
    """Yield what is wrong with the content, in words. Later checks rely on the earlier ones: stop at the first problem."""
    yield from _wrong_shapes(stored)
    yield from _wrong_names(stored)
    if stored.names and (len(stored.names) != len(stored.values) or not all(map(str.isprintable, stored.names))):
        yield "there must be a name in one line for each cluster, or none at all"
    yield from _wrong_numbers(stored)
    yield from _wrong_scores(stored)
    yield from _wrong_choices(stored)
    yield from _wrong_privacy(stored)
    yield from _wrong_repeat(stored.repeat, len(stored.values))
    yield from _wrong_labels(stored)
    yield from _wrong_tree(stored.tree, len(stored.leaves) or len(stored.owner))
    yield from _wrong_run(stored.run, set(stored.participants))


def _wrong_shapes(stored: StoredStudy) -> Iterator[str]:
    if stored.values.ndim != 2 or stored.owner.ndim != 1:
        yield "values must have two dimensions and owner one"
        return
    d, k, n, m = len(stored.features), len(stored.values), len(stored.participants), len(stored.owner)
    expected: dict[str, tuple[tuple[int, ...], str]] = {
        **dict.fromkeys(("values", "counts", "variances", "cells"), ((k, d), "f")),
        **dict.fromkeys(("low", "high", "shift", "scale"), ((d,), "f")),
        **dict.fromkeys(("local_values", "local_counts"), ((m, d), "f")),
        **dict.fromkeys(("owner", "index", "size", "group"), ((m,), "i")),
        "margin": ((m,), "f"),
        "masks": ((n, d), "b"),
        "rows": ((n,), "i"),
        "filled": ((n, d), "i"),
        "fidelity": ((m, 4), "f"),
        "weights": ((k,), "f"),
        "tails": ((k, len(LEVELS)), "f"),
    }
    for name, (shape, kind) in expected.items():
        array = getattr(stored, name)
        if array is not None and (array.shape != shape or array.dtype.kind != kind):
            yield f"{name} has the wrong shape or type"
    if not all(sizes.shape == (k,) and sizes.dtype.kind == "i" for sizes in stored.sizes.values()):
        yield "sizes have the wrong shape or type"
    if not 0 <= stored.n_joined < max(d, 1):
        yield "there must be fewer features of newcomers than features"
    if not (d and k and n and m):
        yield "features, clusters or participants are missing"


def _wrong_names(stored: StoredStudy) -> Iterator[str]:
    if len(set(stored.features)) != len(stored.features) or len(set(stored.participants)) != len(stored.participants):
        yield "features or participants repeat"
    if sorted(stored.names_in_order) != sorted(stored.features):
        yield "names_in_order must contain the same names as features"
    of_levels = indicators(stored.levels)
    named = all(levels and column not in stored.features for column, levels in stored.levels.items())
    if not named or len(set(of_levels)) != len(of_levels) or not set(of_levels) <= set(stored.features):
        yield "levels are not among the features"
    if stored.units not in SCALES or stored.units == "auto":
        yield "units are unknown"
    if stored.metric not in _METRICS:
        yield f"metric must be one of {_METRICS}"
    mentioned = {
        *(leaf.participant for leaf in stored.leaves),
        *stored.clarity,
        *stored.strain,
        *stored.doubts,
        *stored.sizes,
        *(odd.participant for odd in stored.odd_columns or ()),
        *(odd.other for odd in stored.odd_columns or () if odd.other),
        *(() if stored.secure is None else stored.secure.at_home),
        *stored.row_weights,
        *(stored.labels or {}),
        *(stored.local_labels or {}),
    }
    if strangers := mentioned - set(stored.participants):
        yield f"{len(strangers)} participants are mentioned but not listed"
    if set(stored.sizes) != set(stored.participants):
        yield "sizes of some participants are missing"
    if not all(name.strip() for name in stored.features):
        yield "a feature has no name"
    if stored.numbered and not all(_is_number(name) for name in stored.participants):
        yield "names of numbered participants must be whole numbers"


# the smallest and the largest value of every array of numbers
_RANGES: dict[str, tuple[float, float]] = {
    "counts": (0, MOST_ROWS),
    "local_counts": (0, MOST_ROWS),
    "cells": (0, MOST_ROWS),
    "variances": (0, LARGEST**2),
    "shift": (-LARGEST, LARGEST),
    "scale": (1 / LARGEST, LARGEST),
    "weights": (float(np.nextafter(0, 1)), 1),
    "size": (1, MOST_ROWS),
    "rows": (1, MOST_ROWS),
    "filled": (0, MOST_ROWS),
}


def _wrong_numbers(stored: StoredStudy) -> Iterator[str]:
    for name, (low, high) in _RANGES.items():
        array = getattr(stored, name)
        if array is not None and not are_between(array, low, high):
            yield f"{name} must be between {low:g} and {high:g}"
    if not all(are_between(sizes, 0, MOST_ROWS) for sizes in stored.sizes.values()):
        yield f"sizes must be between 0 and {MOST_ROWS}"
    totals = stored.secure
    if totals is not None and not (
        len(totals.sizes) == len(stored.values) and all(0 <= size <= MOST_ROWS for size in totals.sizes)
    ):
        yield "the totals must have a size for each cluster"
    for values, counts in ((stored.values, stored.counts), (stored.local_values, stored.local_counts)):
        if not are_between(values[counts > 0], -LARGEST, LARGEST):
            yield "centroids must be finite"
    known = stored.local_counts.sum(axis=0) > 0
    if not are_between(stored.low[known], -LARGEST, LARGEST) or not (stored.low[known] <= stored.high[known]).all():
        yield "low must not be above high"
    if not (stored.filled <= stored.rows[:, None]).all():
        yield "a participant has more values in a column than rows"
    if not all(odd.factor and np.isfinite(odd[2:4] + odd[5:8]).all() for odd in stored.odd_columns or ()):
        yield "factors, shifts and means of columns in other units must be finite"


def _wrong_scores(stored: StoredStudy) -> Iterator[str]:
    confidence = stored.aggregation.confidence
    if not (np.isnan(confidence) or 0 <= confidence <= 1):
        yield "confidence must be between 0 and 1"
    if stored.aggregation.branch not in {None, "method_a", "method_b"}:
        yield "the branch must be 'method_a' or 'method_b'"
    if not all(name in CONDITIONS and 0 < n <= MOST_ROWS for name, n in stored.aggregation.unmet.items()):
        yield "conditions that do not hold are unknown, or have no count"
    if not all(0 <= strain < np.inf for strain in stored.strain.values()):
        yield "strain must be at least 0"
    if not all(0 <= amount < np.inf for amounts in stored.doubts.values() for amount in amounts.values()):
        yield "doubts must be at least 0"
    most = len(stored.leaves) or len(stored.owner)
    if not all(1 <= k <= most and not np.isinf(v) for k, v in stored.silhouettes.items()):
        yield f"silhouettes must be of 1 to {most} clusters"
    if not all(0 <= r.movement < LARGEST and r.kind in ROUND_KINDS for r in stored.rounds):
        yield "a round has an unknown kind or an impossible movement"
    if stored.found is not None and not 1 <= stored.found <= MOST_ROWS:
        yield "the number of clusters that participants found must be at least 1"
    if stored.stability is not None and not _is_stability(stored.stability, len(stored.values)):
        yield "stability must have a number from 0 to 1 for each cluster"


def _is_stability(figures: Stability, n_clusters: int) -> bool:
    by_cluster = (figures.scores, figures.sizes, *(() if figures.local else (figures.jaccard, figures.dissolved)))
    shares = (*figures.scores, *figures.jaccard, *figures.dissolved, figures.reference)
    return (
        all(len(values) == n_clusters for values in by_cluster)
        and all(share is None or 0 <= share <= 1 for share in shares)
        and all(0 <= size <= MOST_ROWS for size in figures.sizes)
        and 0 <= figures.n_resamples <= MOST_ROWS
        and figures.seed >= 0
    )


def _wrong_choices(stored: StoredStudy) -> Iterator[str]:
    if not all(0 < weight < LARGEST for weight in stored.row_weights.values()):
        yield "weights of participants must be positive and finite"
    if any(row.n_clusters != k or any(np.isinf(score) for score in row[1:]) for k, row in enumerate(stored.choices, 1)):
        yield "the numbers of clusters that were considered must be 1, 2, … with finite scores"


def _wrong_privacy(stored: StoredStudy) -> Iterator[str]:
    if (account := stored.privacy) is None:
        return
    if not all(0 <= rho < np.inf for rho in (account.epsilon, account.delta, *account.rho.values())):
        yield "what was spent of privacy must be finite and at least 0"
    fits = len(account.errors) in {0, len(stored.values)} and all(
        len(row) == len(stored.features) and all(error is None or 0 <= error < np.inf for error in row)
        for row in account.errors
    )
    if not fits:
        yield "the errors of centroids must be numbers of at least 0, clusters × features"


def _wrong_repeat(repeat: Repeat | None, k: int) -> Iterator[str]:
    if repeat is None:
        return
    numbers = [change.number for change in repeat.changes]
    mentioned = {*numbers, *(other for change in repeat.changes for other in change.others)}
    amounts = [n for change in repeat.changes for n in (change.rows_before, change.rows)]
    moved = [change.moved for change in repeat.changes if change.moved is not None]
    fits = numbers == list(range(k)) == sorted(mentioned) and all(change.state in STATES for change in repeat.changes)
    fits = fits and all(0 <= m < np.inf for m in moved) and len(repeat.moves) <= k
    counts = [n for row in repeat.moves for n in row]
    if (
        not fits
        or not all(len(row) == k for row in repeat.moves)
        or not all(0 <= n <= MOST_ROWS for n in counts + amounts)
    ):
        yield "the changes since the previous model must name all clusters, with numbers of rows"


def _wrong_labels(stored: StoredStudy) -> Iterator[str]:
    k = len(stored.values)
    if not _inside(stored.owner, len(stored.participants)) or not _inside(stored.group, k):
        yield "a local cluster belongs to an unknown participant or cluster"
    for name, labels in (stored.labels or {}).items():
        if not _are_labels(labels, k):
            yield f"labels must be whole numbers from −1 to {k - 1}"
        elif stored.privacy is not None or stored.secure is not None:
            continue  # sizes are noisy, or those of the first summaries
        elif not np.array_equal(np.bincount(labels[labels >= 0], minlength=k), stored.sizes[name]):
            yield "labels and sizes do not agree"
    if not all(_are_labels(labels, len(stored.owner)) for labels in (stored.local_labels or {}).values()):
        yield "local labels must be numbers of local clusters, or −1"


def _wrong_tree(tree: StoredTree | None, n_leaves: int) -> Iterator[str]:
    if tree is None:
        return
    steps = len(tree.merges) if tree.merges.ndim else 0
    fits = tree.n_leaves == n_leaves > steps and tree.merges.shape == (steps, 2) and tree.strengths.shape == (steps,)
    fits = fits and tree.merges.dtype.kind == "i" and tree.strengths.dtype.kind == "f"
    if not fits or not ((tree.strengths > 0) & (tree.strengths < np.inf)).all():
        yield "the merge tree does not fit the local clusters"
        return
    born = n_leaves + np.arange(steps)[:, None]
    once = len(np.unique(tree.merges)) == tree.merges.size
    if not ((tree.merges >= 0) & (tree.merges < born)).all() or not once:
        yield "the merge tree is not a tree"


def _wrong_run(run: RunRecord, participants: set[str]) -> Iterator[str]:
    mentioned = {
        *(sent.participant for sent in run.sent),
        *(part.participant for part in run.suppressed),
        *run.differences,
        *run.audited,
        *run.joined,
    }
    for exchange in run.exchanges:
        for by_name in (exchange.seconds, exchange.bytes_in, exchange.bytes_out):
            mentioned |= set(by_name)
            if not all(0 <= number < LARGEST for number in by_name.values()):
                yield "seconds and bytes of an exchange must be at least 0"
    if not mentioned <= participants | set(run.absent):
        yield "the record of the run mentions participants that are not listed"
    texts = (run.method, run.started, *run.notes, *run.joined.values())
    if not _is_plain(run.settings, _MOST_NESTING) or not all(len(text) <= MOST_CHARACTERS for text in texts):
        yield "the record of the run contains settings or texts that are not plain values"
    phases = {exchange.phase for exchange in run.exchanges}.union(*run.absent.values())
    if unknown := phases - {exchange.phase for exchange in exchanges()}:
        yield f"the record of the run mentions {len(unknown)} unknown phases"
    few = (entry.fewest_rows for entry in run.sent)
    if not all(n is None or 0 <= n <= MOST_ROWS for n in (*few, *run.differences.values(), *run.audited.values())):
        yield f"numbers of rows in the record of the run must be between 0 and {MOST_ROWS}"
    counts = (count for entry in run.sent for count in (entry.times, entry.withheld, entry.entries, entry.n_bytes))
    if not all(0 <= count < LARGEST for count in counts) or not 0 <= run.seconds < LARGEST:
        yield "counts and seconds in the record of the run must be at least 0"


def _is_plain(value: object, depth: int) -> bool:
    """Whether JSON can represent the value with at most ``depth`` levels of nesting."""
    if isinstance(value, Mapping):
        return depth > 0 and all(isinstance(k, str) and _is_plain(v, depth - 1) for k, v in value.items())
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(v, depth - 1) for v in value)
    return value is None or isinstance(value, bool | int | float | str)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name


def _are_labels(labels: Array, n_clusters: int) -> bool:
    return labels.ndim == 1 and labels.dtype.kind == "i" and _inside(labels[labels != -1], n_clusters)


def _inside(values: Array, below: int) -> bool:
    return are_between(values, 0, below - 1)


def are_between(values: Array, low: float, high: float) -> bool:
    """Whether all values are numbers from ``low`` to ``high``."""
    return bool(((values >= low) & (values <= high)).all())
