"""Traffic lights: the conditions under which a result can be trusted, what was seen of each, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from intarsia.core.grouping.n_clusters import CLEAR, NO_STRUCTURE
from intarsia.exceptions import quote
from intarsia.report.data import Column, Light, Party, Release, State
from intarsia.report.looks import apart_clusters, holders, nearest_other, odd_columns, separation_by_shared, unseen
from intarsia.report.words import FEW_ROWS, NEARLY_A_TIE, counted
from intarsia.results.assumptions import AssumptionReport
from intarsia.results.outcome import Outcome, RunRecord

MANY_DOUBTFUL = 0.25  # of the rows
CLOSE, FAR = 0.5, 1.0  # how far local versions are off their centre, of the way to the next cluster
HARDLY, NOT_AT_ALL = 0.5, 0.25  # deviations by which the columns that are shared tell local clusters apart
FEW_EMPTY, MANY_EMPTY = 0.1, 0.3  # beyond which docs/evidence.md has measured nothing
RESTLESS = 0.01  # of the extent
FAR_OUT = 100.0  # times what centroids reach: no cluster of real rows is there while everybody's first ones are not


def lights_of(
    outcome: Outcome,
    assumptions: AssumptionReport,
    parties: Sequence[Party],
    columns: Sequence[Column],
    bridges: Sequence[str],
    releases: Sequence[Release],
    run: RunRecord | None,
) -> tuple[Light, ...]:
    """Every condition that can be looked at, in the order of the method."""
    return (
        *_answered(outcome, run),
        _overlap(assumptions, bridges, len(parties)),
        *_shared_columns_tell(outcome),
        *_same_meaning(outcome),
        *_nobody_far_away(outcome),
        *_clusters_hang_together(outcome),
        _coverage(outcome),
        _agreement(outcome, assumptions),
        _clarity(outcome, assumptions, parties),
        *_structure(outcome, assumptions),
        *_rest(outcome, run),
        *_cells(parties, columns),
        *_few_rows(releases),
        *_differences(run),
    )


def _answered(outcome: Outcome, run: RunRecord | None) -> Iterator[Light]:
    """Where a quorum went on without somebody."""
    if run is None or not run.absent:
        return
    about = "Everybody answered every question"
    never = [name for name in run.absent if name not in outcome.participants or not outcome.sizes[name].any()]
    missed = [f"{name} ({len(phases)} of {len(run.exchanges)})" for name, phases in run.absent.items()]
    seen = f"Exchanges went on without {quote(missed)}."
    if never:
        seen += f" No row of {quote(never)} has a label: the result is the others'."
    early = [name for name, phases in run.absent.items() if "summarize" in phases and name not in never]
    if early:
        seen += f" {quote(early)} came after the groups were found, and had no part in that."
    yield Light(
        about,
        State.BAD if never else State.CAUTION,
        seen,
        "A run with everybody: the same study with another seed, once they are there.",
    )


def _overlap(assumptions: AssumptionReport, bridges: Sequence[str], n: int) -> Light:
    about = "Participants share columns"
    if n == 1:
        return Light(about, State.GOOD, "There is one participant, so that nothing has to be shared.")
    if not assumptions.connected:
        return Light(
            about,
            State.BAD,
            "Some participants share no column with the others, not even through others, and cannot be compared with them.",
            "Add a participant that has columns of both sides, or read the parts as studies of their own.",
        )
    if assumptions.complete:
        return Light(about, State.GOOD, "Every two participants share a column.")
    seen = "All are connected, some only through others"
    if bridges:
        return Light(
            about,
            State.CAUTION,
            f"{seen}, and without {quote(bridges)} the study would fall apart.",
            "More columns in common, above all between those that now meet only through others, make the result firmer.",
        )
    return Light(about, State.GOOD, f"{seen}; no single participant holds the study together.")


def _shared_columns_tell(outcome: Outcome) -> Iterator[Light]:
    """Clusters that differ only in columns that nobody else has cannot be matched."""
    found = separation_by_shared(outcome)
    if not found:
        return
    about = "Shared columns tell local clusters apart"
    worst = min(found, key=lambda name: found[name])
    seen = f"The least clear are those of {worst}: {found[worst]:.2f} deviations apart in the column that tells most."
    if found[worst] >= HARDLY:
        yield Light(about, State.GOOD, seen)
        return
    weak = [name for name, apart in found.items() if apart < HARDLY]
    yield Light(
        about,
        State.BAD if found[worst] < NOT_AT_ALL else State.CAUTION,
        f"{seen} Local clusters of {quote(weak)} differ almost only in columns that nobody else has, so that which of the "
        "others' clusters they belong to is a guess.",
        "More columns in common; or read these participants' labels as their own, not as the others'.",
    )


def _same_meaning(outcome: Outcome) -> Iterator[Light]:
    if len(outcome.participants) == 1:
        return
    about = "Columns mean the same everywhere"
    odd = odd_columns(outcome)
    if not odd:
        yield Light(about, State.GOOD, "No column is far off, or of another order of magnitude, at one participant.")
        return
    told = "; ".join(
        f"{entry.feature!r} averages {entry.mean:.3g} at {entry.participant!r} and {entry.elsewhere:.3g} "
        f"{f'at {entry.other!r}' if entry.other else 'elsewhere'}"
        for entry in odd[:5]
    )
    more = f"; and {len(odd) - 5} more" if len(odd) > 5 else ""
    yield Light(
        about,
        State.BAD,
        f"{counted(len(odd), 'column')} may be in other units, or something else: {told}{more}.",
        "Ask how it is measured there, convert it, or leave it out.",
    )


def _nobody_far_away(outcome: Outcome) -> Iterator[Light]:
    """Means follow whoever is far away; summaries have a light of their own, so this is about rounds."""
    if len(outcome.participants) == 1 or not outcome.strain:
        return
    about = "Nobody's rounds were far from everybody else's"
    far = sorted((name for name, n in outcome.strain.items() if n > FAR_OUT), key=lambda name: -outcome.strain[name])
    if not far:
        yield Light(about, State.GOOD, "No refined centroid was far outside what all other centroids reach.")
        return
    most = outcome.strain[far[0]]
    yield Light(
        about,
        State.BAD,
        f"In some round {quote(far)} sent centroids far outside what all others reach, by up to {most:.3g} times as far.",
        "Means follow whoever is far away: ask what happened there, or leave them out and run again.",
    )


def _clusters_hang_together(outcome: Outcome) -> Iterator[Light]:
    if len(outcome.participants) == 1:
        return
    about = "Each cluster's participants are connected"
    apart, held = apart_clusters(outcome), holders(outcome)
    lone = np.flatnonzero(held.sum(axis=0) == 1).tolist()
    if apart:
        yield Light(
            about,
            State.BAD,
            f"Those who hold {_clusters(apart)} share no column, not even through others who do.",
            "That these are one cluster rests on other clusters alone: fewer clusters, or more shared columns.",
        )
    elif lone:
        yield Light(
            about,
            State.CAUTION,
            f"All rows of {_clusters(lone)} are one participant's: nobody else confirms it.",
            "Ask whether that participant is different in kind, or whether fewer clusters would do.",
        )
    else:
        yield Light(about, State.GOOD, "In every cluster, those who hold it are connected by shared columns.")


def _clusters(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
    return f"cluster {shown}" if len(numbers) == 1 else f"clusters {shown}"


def _coverage(outcome: Outcome) -> Light:
    about = "Every cluster is seen in every feature"
    bare, n_features = unseen(outcome), len(outcome.model.space)
    if not bare:
        return Light(about, State.GOOD, "Somebody in every cluster measured every feature.")
    worst = max(bare, key=lambda k: len(bare[k]))
    most = len(bare[worst])
    return Light(
        about,
        State.BAD if most > n_features / 2 else State.CAUTION,
        f"{len(bare)} of {len(outcome.model.centroids)} clusters have features that none of their participants measured, at "
        f"most {most} of {n_features} (cluster {worst}: {quote(bare[worst])}).",
        "Their profiles are empty there. Do not compare clusters by these features.",
    )


def _agreement(outcome: Outcome, assumptions: AssumptionReport) -> Light:
    about = "Participants' versions of a cluster agree"
    if len(assumptions.clusters) == 1:
        return Light(about, State.GOOD, "There is one cluster, so that there is no other to be mistaken for.")
    spread, apart = np.array([cluster.spread for cluster in assumptions.clusters]), nearest_other(outcome)
    ratio = np.divide(spread, apart, out=np.full(len(spread), np.nan), where=apart > 0)
    if np.isnan(ratio).all():
        return Light(about, State.CAUTION, "Clusters share no feature that varies, so that it cannot be told.")
    worst = int(np.nanargmax(ratio))
    seen = (
        f"Local versions are off their common centre by at most {ratio[worst]:.0%} of the way to the next cluster "
        f"(cluster {worst})."
    )
    if ratio[worst] < CLOSE:
        return Light(about, State.GOOD, seen)
    advice = (
        "Participants may measure differently, or hold other kinds of rows: compare units, devices, who is included."
    )
    return Light(about, State.CAUTION if ratio[worst] < FAR else State.BAD, seen, advice)


def _clarity(outcome: Outcome, assumptions: AssumptionReport, parties: Sequence[Party]) -> Light:
    about = "Local clusters clearly belong where they were put"
    if len(outcome.model.centroids) == 1 or len(outcome.participants) == 1:
        return Light(about, State.GOOD, "There was nothing to match.")
    doubtful = set(assumptions.doubtful)
    rows = sum(c.size for c in outcome.local_clusters if (c.participant, c.index) in doubtful)
    total = max(sum(party.rows for party in parties), 1)
    overruled, confidence = outcome.aggregation.overruled, outcome.aggregation.confidence
    tie = not overruled and confidence < NEARLY_A_TIE
    seen = [
        f"None of {len(outcome.local_clusters)} local clusters is ambiguous."
        if not doubtful
        else f"{len(doubtful)} of {len(outcome.local_clusters)} local clusters, with "
        f"{f'{rows / total:.0%}' if rows >= total / 100 else 'less than 1%'} of the rows, fit another one nearly as well."
    ]
    if overruled:
        seen.append("Groupings that summaries hardly told apart were tried on the rows, which decided.")
    if tie:
        seen.append(f"Another way to group them all would be nearly as good (confidence {confidence:.2f}).")
    if not doubtful and not tie:
        return Light(about, State.GOOD, " ".join(seen))
    return Light(
        about,
        State.BAD if rows > MANY_DOUBTFUL * total else State.CAUTION,
        " ".join(seen),
        "Ambiguous ones are marked below. Read their rows' labels with care; other numbers of clusters may be clearer.",
    )


def _structure(outcome: Outcome, assumptions: AssumptionReport) -> Iterator[Light]:
    """Silhouettes that participants looked at: k-means cuts anything into as many pieces as it is asked for."""
    about = "Participants' rows fall into clusters"
    clarity, k = outcome.clarity, len(outcome.model.centroids)
    pieces = np.bincount(outcome.owner, minlength=len(outcome.participants)).tolist()
    single = [name for name, n in zip(outcome.participants, pieces, strict=True) if k > 1 and n == 1]
    if not clarity and not single:
        return
    vague = [name for name, value in clarity.items() if value <= NO_STRUCTURE]
    clear = [name for name, value in clarity.items() if value > CLEAR]
    best = f"The clearest silhouette is {max(clarity.values()):.2f}. " if clarity else ""
    if k > 1 and not clear and (vague or single):
        yield Light(
            about,
            State.BAD if len(vague) + len(single) == len(outcome.participants) else State.CAUTION,
            f"{best}No participant's own rows show clear clusters (above {CLEAR}), and those of "
            f"{quote([*vague, *single])} none at all (below {NO_STRUCTURE}, or one).",
            'Any rows can be cut into clusters. Let the number be chosen (n_clusters="auto"): it may be 1.',
        )
    elif assumptions.unstructured or single:
        yield Light(
            about,
            State.CAUTION,
            f"{quote(dict.fromkeys([*assumptions.unstructured, *single]))} show no clusters of their own, unlike others.",
            "They may hold fewer clusters than they were cut into: n_local_clusters sets it for one participant.",
        )
    else:
        yield Light(about, State.GOOD, f"{best}No participant stands out by having no clusters of its own.")


def _rest(outcome: Outcome, run: RunRecord | None) -> Iterator[Light]:
    about = "Rounds came to rest"
    if run is None and not outcome.rounds:
        return
    if run is not None and run.method == "one_shot":
        yield Light(
            "One round only",
            State.CAUTION,
            "Labels follow each participant's first clustering, which is never revisited with what the others know.",
            "Where more exchanges are possible, the federated method corrects local mistakes.",
        )
    elif not outcome.rounds:
        yield Light(
            about,
            State.CAUTION,
            "No round was run. Profiles are those of the local clusters as they were grouped, not of the rows as labelled.",
            "A max_rounds above 0.",
        )
    elif outcome.converged:
        yield Light(about, State.GOOD, f"After {counted(len(outcome.rounds), 'round')} the centroids no longer moved.")
    else:
        last = outcome.rounds[-1].movement
        yield Light(
            about,
            State.BAD if last > RESTLESS else State.CAUTION,
            f"In the last of {counted(len(outcome.rounds), 'round')} centroids still moved by {last:.2%} of their extent, "
            "so that profiles are not quite of the rows as labelled.",
            "A higher max_rounds, or a local algorithm that starts from given centres without changing its mind.",
        )


def _cells(parties: Sequence[Party], columns: Sequence[Column]) -> Iterator[Light]:
    known = [party for party in parties if party.filled is not None]
    if not known:
        return
    worst = min(known, key=lambda party: party.filled or 0.0)
    empty = 1.0 - (worst.filled or 0.0)
    about = "Few cells are empty in columns that a participant has"
    if empty <= 0:
        yield Light(about, State.GOOD, "No cell is empty.")
        return
    emptiest, at, share = max(
        ((c.name, p.name, 1.0 - f) for c in columns for p, f in zip(parties, c.filled, strict=True) if f is not None),
        key=lambda entry: entry[2],
    )
    seen = (
        f"At most {empty:.0%} of a participant's cells are empty ({worst.name}); of one column {share:.0%} "
        f"({emptiest} at {at})."
    )
    if empty <= FEW_EMPTY and share <= MANY_EMPTY:
        yield Light(about, State.GOOD, seen)
        return
    advice = (
        "Rows are compared by the cells that they have. What makes a cell empty should not depend on what it would say."
    )
    yield Light(about, State.CAUTION if empty <= MANY_EMPTY else State.BAD, seen, advice)


def _few_rows(releases: Sequence[Release]) -> Iterator[Light]:
    about = "Every number that left stands for several rows"
    left = [r for r in releases if r.message.startswith("reply.") and r.times]
    told = [r for r in left if r.fewest_rows]
    if not told:
        return
    few = [r for r in told if (r.fewest_rows or 0) < FEW_ROWS]
    worst = min(told, key=lambda r: r.fewest_rows or 0)
    levels = [r for r in left if r.field == "levels" and r.entries]
    names = " Names of categories' levels left too, however few rows have them." if levels else ""
    if not few:
        seen = f"At least {worst.fewest_rows} rows stand behind every number.{names}"
        yield Light(about, State.CAUTION if levels else State.GOOD, seen, _ASK if levels else "")
        return
    single = worst.fewest_rows == 1
    yield Light(
        about,
        State.BAD if single else State.CAUTION,
        f"{counted(len(few), 'field')} of messages hold numbers that fewer than {FEW_ROWS} rows stand behind: "
        f"{quote(f'{r.message} {r.field}' for r in few)}; the fewest are {worst.fewest_rows} ({worst.fewest_at})"
        f"{', which is that row itself' if single else ''}.{names}",
        f"{_ASK} Fewer local clusters, or leaving out columns that are mostly empty and rare levels, raise it.",
    )


_ASK = "It matters where participants do not trust each other or the coordinator: ask whoever answers for the data."


def _differences(run: RunRecord | None) -> Iterator[Light]:
    if run is None or not run.differences:
        return
    about = "What left cannot be subtracted"
    name = min(run.differences, key=lambda who: run.differences[who])
    fewest = run.differences[name]
    if fewest >= FEW_ROWS:
        yield Light(about, State.GOOD, f"Sums that belong together differ by at least {fewest} rows.")
        return
    yield Light(
        about,
        State.CAUTION,
        f"Two sums that left {name!r}, of successive rounds or of all rows and those in clusters, differ by "
        f"{counted(fewest, 'row')}: whoever keeps both can subtract one from the other.",
        f"{_ASK} One round, or fewer, tell less.",
    )
