"""Warnings about a run that succeeded: conditions of the method, names, units and rounds to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from intarsia.core.distances import extent_of
from intarsia.core.features import indicator, indicators, near_misses
from intarsia.core.homoglyphs import differing_letters, look_the_same
from intarsia.core.odd_columns import OddColumn
from intarsia.core.odd_levels import OddLevels, odd_levels
from intarsia.exceptions import AssumptionWarning, ContradictionWarning, FeatureNameWarning, UnitsWarning, quote
from intarsia.results.assumptions import AssumptionReport
from intarsia.results.doubts import contradictions
from intarsia.results.outcome import Outcome

MANY_ROUNDS = 10  # with a smaller max_rounds, convergence was not expected
STILL_MOVING = 0.01  # of the extent of all local centroids
MOST_LISTED = 5  # columns in other units, or with other levels
RECODE = "if so, recode them in the tables before."
DOMINANT = 100.0  # times the median range, from which on a feature dominates


def advice(
    names_of: Mapping[str, Sequence[str]],
    levels_of: Mapping[str, Mapping[str, Sequence[str]]],
    outcome: Outcome,
    report: AssumptionReport,
) -> Iterator[tuple[type[Warning], str]]:
    """Yield the class and the text of every warning about this run."""
    yield from ((FeatureNameWarning, text) for text in _about_names(names_of, levels_of))
    if other_words := listed([odd for odd in unlike_levels(outcome) if odd.in_common]):
        yield FeatureNameWarning, f"levels may be other words for the same thing: {other_words}. Hint: {RECODE}"
    if outcome.model.units is None and (dominant := _dominant_features(outcome)):
        text = (
            f"{len(dominant)} feature(s) have over {DOMINANT:.0f} times the median range and dominate all distances: "
        )
        yield UnitsWarning, f"{text}{quote(dominant)}. Hint: scale='standard' if units differ."
    if outcome.odd_columns:
        text = f"{len(outcome.odd_columns)} column(s) may be in other units: {listed(outcome.odd_columns)}."
        yield UnitsWarning, f"{text} Hint: ask how they are measured, convert them, or leave them out."
    for name, texts in contradictions(outcome).items():
        text = f"replies of participant {name!r} contradict each other: {'; '.join(texts)}."
        yield (
            ContradictionWarning,
            f"{text} Hint: ask what happened there, run again without it, or use merge='robust'.",
        )
    yield from ((AssumptionWarning, text) for text in _about_assumptions(outcome, report))


def unlike_levels(outcome: Outcome) -> list[OddLevels]:
    """Return the columns of which participants may have other words for the same levels, from summaries alone."""
    if outcome.privacy is not None:  # levels were declared for all
        return []
    model, local = outcome.model, outcome.local_centroids
    shares = local.values * model.scale + model.shift
    rows = np.where(local.seen & (local.values != 0.0), local.counts * shares, 0.0)
    at = {feature: m for m, feature in enumerate(model.space.names)}
    counts = {
        name: {
            column: {level: float(total[at[f]]) for level in levels if (f := indicator(column, level)) in at}
            for column, levels in model.levels.items()
        }
        for name, total in ((name, rows[outcome.owner == i].sum(axis=0)) for i, name in enumerate(outcome.participants))
    }
    return odd_levels(counts)


def listed(odd: Sequence[OddColumn] | Sequence[OddLevels]) -> str:
    """Return the first columns, which are the clearest, in words."""
    more = f"; and {len(odd) - MOST_LISTED} more" if len(odd) > MOST_LISTED else ""
    return "; ".join(map(str, odd[:MOST_LISTED])) + more


def _about_names(
    names_of: Mapping[str, Sequence[str]], levels_of: Mapping[str, Mapping[str, Sequence[str]]]
) -> Iterator[str]:
    for column, left, right in _without_common_levels(levels_of):
        yield (
            f"{left!r} and {right!r} have no level of {column!r} in common ({quote(levels_of[left][column], 3)} and "
            f"{quote(levels_of[right][column], 3)}), so that they differ in this column in every row. "
            "Hint: check whether they spell the same levels differently."
        )
    alike = [
        f"{a!r} ({b}) and {c!r} ({d})" + (f", with {differing_letters(a, c)}" if look_the_same(a, c) else "")
        for a, b, c, d in near_misses(names_of)
        if look_the_same(a, c) or not _in_one_table(a, c, names_of)
    ]
    if alike:
        yield (
            f"{len(alike)} pair(s) of columns look alike but count as different features: {'; '.join(alike[:5])}. "
            "Hint: rename one of each pair if they mean the same."
        )


def _about_assumptions(outcome: Outcome, report: AssumptionReport) -> Iterator[str]:
    last = outcome.rounds[-1].movement if outcome.rounds else 0.0
    if not outcome.converged and len(outcome.rounds) >= MANY_ROUNDS and last > STILL_MOVING:
        yield (
            f"the rounds did not converge: in the last of {len(outcome.rounds)} the centroids still moved by "
            f"{last:.1%} of their extent. Hint: a higher max_rounds, or local=None if a local algorithm was given."
        )
    if report.unstructured:
        yield (
            f"{len(report.unstructured)} participant(s) show no clusters while most others do: "
            f"{quote(report.unstructured)}. They may have fewer clusters than they were split into. "
            f"Hint: n_local_clusters={{{report.unstructured[0]!r}: 1}} if it is known to have one."
        )
    if not outcome.aggregation.is_supported:
        yield _about_method(outcome)
    elif report.case is None:
        yield (
            f"{report.explain()}, so that neither Assumption 1 nor Assumption 2 of the method holds. The answer may still "
            "be good. Hint: fewer clusters, or participants with these features."
        )


_UNMET = {
    "1.1": "the participants of {n} of {k} clusters are not connected by shared features",
    "1.2": "the participants of {n} of {k} clusters do not have all features together",
    "1.3": "{n} of {m} local clusters are nearer to one of another cluster than to one of their own",
    "2.1": "{n} of {k} clusters have participants that share no feature",
    "2.2": "the participants of {n} of {k} clusters do not have all features together",
    "3": "{n} of {m} local clusters fit another cluster nearly as well, so that they may mix clusters",
}


def _about_method(outcome: Outcome) -> str:
    """Return which conditions of the paper's Method A or B do not hold, and what to use instead."""
    case = {
        "method_a": "aggregation='method_a' is for tables for which Assumption 1 of the paper holds, and it does not",
        "method_b": "aggregation='method_b' is for tables for which Assumptions 2 and 3 of the paper hold, and they do not",
    }.get(
        outcome.aggregation.method,
        "neither Assumption 1 nor Assumptions 2 and 3 of the paper hold, so that aggregation='paper' took Method B",
    )
    hint = "aggregation='search' compares many groupings instead; result.outcome.aggregation.unmet has the counts"
    return f"{case}: {unmet_in_words(outcome)}. The answer may still be good. Hint: {hint}."


def unmet_in_words(outcome: Outcome) -> str:
    """Return the conditions of the paper's Methods A and B that do not hold."""
    k, m = len(outcome.model.centroids), len(outcome.local_clusters)
    words = [_UNMET[name].format(n=n, k=k, m=m) for name, n in outcome.aggregation.unmet.items() if name in _UNMET]
    return "; ".join(dict.fromkeys(words))  # 1.2 and 2.2 are the same


def known_of(outcome: Outcome) -> tuple[dict[str, tuple[str, ...]], dict[str, dict[str, tuple[str, ...]]]]:
    """Return, by participant, its columns with all indicators, and the levels that its rows have, from summaries alone."""
    space, local = outcome.model.space, outcome.local_centroids
    names_of, levels_of = {}, {}
    owner, nonzero = outcome.owner, local.seen & (local.values != 0.0)
    for i, name in enumerate(outcome.participants):
        present = {f for f, any_row in zip(space.names, nonzero[owner == i].any(axis=0), strict=True) if any_row}
        levels = {
            column: tuple(level for level in all_levels if indicator(column, level) in present)
            for column, all_levels in outcome.model.levels.items()
        }
        levels_of[name] = {column: kept for column, kept in levels.items() if kept}
        of_levels = set(indicators(outcome.model.levels))
        numbers = [f for f, has in zip(space.names, outcome.masks[i], strict=True) if has and f not in of_levels]
        names_of[name] = (*numbers, *levels_of[name], *indicators(levels_of[name]))
    return names_of, levels_of


def _without_common_levels(levels_of: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[tuple[str, str, str]]:
    """Yield columns of categories with the first two participants that have no level in common."""
    for column in sorted({column for levels in levels_of.values() for column in levels}):
        owners = [name for name, levels in levels_of.items() if column in levels]
        for left, right in combinations(owners, 2):
            if not set(levels_of[left][column]) & set(levels_of[right][column]):
                yield column, left, right
                break


def _in_one_table(left: str, right: str, names_of: Mapping[str, Sequence[str]]) -> bool:
    """Whether a participant has both names, so that they are different columns."""
    return any(left in names and right in names for names in names_of.values())


def _dominant_features(outcome: Outcome) -> list[str]:
    width = extent_of(outcome.local_centroids.values, outcome.local_centroids.seen).width
    if not (width > 0).any():
        return []
    typical = float(np.median(width[width > 0]))
    return [name for name, reach in zip(outcome.model.space.names, width, strict=True) if reach > DOMINANT * typical]
