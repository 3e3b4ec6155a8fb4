"""The findings of a report: conditions for a result that can be trusted, what was seen of each, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from intarsia.core.grouping.n_clusters import CLEAR, NO_STRUCTURE
from intarsia.exceptions import quote
from intarsia.report.choices import advice_on_number, findings_of_choices
from intarsia.report.data import Column, Finding, Participant, Release, State
from intarsia.report.diagnostics import (
    holders,
    nearest_other,
    separation_by_shared,
    unconnected_clusters,
    unseen,
)
from intarsia.report.influence import findings_of_influence
from intarsia.report.methods import findings_of_method
from intarsia.report.private import findings_of_privacy
from intarsia.report.repeat import findings_of_repeat
from intarsia.report.replies import findings_of_replies
from intarsia.report.secure import findings_of_sums
from intarsia.report.stability import findings_of_stability
from intarsia.report.units import same_meaning, units_left
from intarsia.report.words import FEW_ROWS, NEARLY_A_TIE, counted, labelled_by
from intarsia.results.assumptions import AssumptionReport
from intarsia.results.outcome import Outcome, RunRecord

MANY_DOUBTFUL = 0.25  # of the rows
CLOSE, FAR = 0.5, 1.0  # distance of local versions from their centre, as a share of the distance to the next cluster
WEAK, TOO_WEAK = 0.5, 0.25  # separation of local clusters by shared columns, in standard deviations
FEW_MISSING, MANY_MISSING = 0.1, 0.3  # docs/evidence.md has no measurements beyond
HARDLY_MOVING, STILL_MOVING = 0.01, 0.05  # of the extent

_UNCORRECTED = "Global clusters are joined local ones, which no round corrected by what other participants know."
_AUDIT = "A release policy with a minimum number of rows audits what is told."
_ASK = "Ask the data protection officer if participants do not trust each other or the coordinator."


def findings_of(
    outcome: Outcome,
    assumptions: AssumptionReport,
    participants: Sequence[Participant],
    columns: Sequence[Column],
    bridges: Sequence[str],
    releases: Sequence[Release],
    run: RunRecord,
) -> tuple[Finding, ...]:
    """Return a finding for every condition that can be checked, in the order of the method."""
    several = len(participants) > 1
    return (
        *_answered(outcome, run),
        _overlap(assumptions, bridges, len(participants)),
        *(_shared_columns(outcome) if several else ()),
        *units_left(outcome, run),
        *(same_meaning(outcome) if several else ()),
        *(findings_of_replies(outcome) if several and outcome.privacy is None and outcome.secure is None else ()),
        *([_connected_clusters(outcome)] if several else ()),
        _coverage(outcome),
        _agreement(outcome, assumptions),
        _clarity(outcome, assumptions, participants),
        *_structure(outcome, assumptions),
        *findings_of_choices(outcome),
        *findings_of_repeat(outcome),
        *findings_of_stability(outcome),
        *(findings_of_method(outcome) if several else ()),
        *(findings_of_influence(outcome, run) if several else ()),
        *findings_of_privacy(outcome),
        *findings_of_sums(outcome),
        *(_about_rows(outcome, participants, columns, releases, run) if outcome.privacy is None else ()),
    )


def _about_rows(
    outcome: Outcome,
    participants: Sequence[Participant],
    columns: Sequence[Column],
    releases: Sequence[Release],
    run: RunRecord,
) -> Iterator[Finding]:
    """What participants tell of their rows unless the study is private."""
    yield _convergence(outcome, run)
    yield _missing_values(participants, columns)
    yield from _few_rows(releases)
    yield from _differences(run)


def _answered(outcome: Outcome, run: RunRecord) -> Iterator[Finding]:
    """Participants that a run with a quorum went on without."""
    if not run.absent:
        return
    never = [name for name in run.absent if name not in outcome.participants or not outcome.sizes[name].any()]
    missed = [f"{name} ({len(phases)} of {len(run.exchanges)})" for name, phases in run.absent.items()]
    seen = f"Exchanges went on without {quote(missed)}."
    if never:
        seen += f" No row of {quote(never)} has a label: the result is that of the other participants."
    late = [name for name, phases in run.absent.items() if "summarize" in phases and name not in never]
    if late:
        seen += f" {quote(late)} came after the local clusters were grouped."
    advice = (
        "Once all participants can be reached, remove the run's folder in the server's runs/, and run the study anew."
    )
    yield Finding("Everybody answered every request", State.BAD if never else State.CAUTION, seen, advice)


def _overlap(assumptions: AssumptionReport, bridges: Sequence[str], n: int) -> Finding:
    about = "Participants share columns"
    if n == 1:
        return Finding(about, State.GOOD, "There is one participant.")
    if not assumptions.connected:
        return Finding(
            about,
            State.BAD,
            "Some participants share no column with the others, directly or through others, and cannot be compared.",
            "Add a participant that has columns of both sides, or read the parts as separate studies.",
        )
    if assumptions.complete:
        return Finding(about, State.GOOD, "Every two participants share a column.")
    seen = "All participants are connected, some only through others"
    if bridges:
        return Finding(
            about,
            State.CAUTION,
            f"{seen}; without {quote(bridges)} the study would fall into parts.",
            "Add columns that participants have in common, above all those that are connected only through others.",
        )
    return Finding(about, State.GOOD, f"{seen}; no single participant is needed for that.")


def _shared_columns(outcome: Outcome) -> Iterator[Finding]:
    """Local clusters that differ only in columns that no other participant has cannot be matched."""
    separation = separation_by_shared(outcome)
    if not separation:
        return
    about = "Shared columns separate local clusters"
    worst = min(separation, key=lambda name: separation[name])
    seen = f"The least separated are those of {worst}: {separation[worst]:.2f} deviations in the best column."
    if separation[worst] >= WEAK:
        yield Finding(about, State.GOOD, seen)
        return
    weak = [name for name, deviations in separation.items() if deviations < WEAK]
    yield Finding(
        about,
        State.BAD if separation[worst] < TOO_WEAK else State.CAUTION,
        f"{seen} Local clusters of {quote(weak)} differ almost only in columns that no other participant has, so that "
        "their match with other participants' clusters is uncertain.",
        "Add columns in common, or do not compare the labels of these participants with others.",
    )


def _connected_clusters(outcome: Outcome) -> Finding:
    about = "Each cluster's participants are connected"
    apart = unconnected_clusters(outcome)
    single = np.flatnonzero(holders(outcome).sum(axis=0) == 1).tolist()
    if apart:
        return Finding(
            about,
            State.BAD,
            f"The participants of {_clusters(apart)} share no column, directly or through others in the cluster.",
            "Only other clusters support that these rows are one cluster: use fewer clusters, or more shared columns.",
        )
    if single:
        return Finding(
            about,
            State.CAUTION,
            f"All rows of {_clusters(single)} belong to one participant: no other participant confirms it.",
            "Ask whether that participant has a different kind of rows, or use fewer clusters.",
        )
    return Finding(about, State.GOOD, "In every cluster, the participants are connected by shared columns.")


def _clusters(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
    return f"cluster {shown}" if len(numbers) == 1 else f"clusters {shown}"


def _coverage(outcome: Outcome) -> Finding:
    about = "Every feature is measured in every cluster"
    unmeasured, n_features = unseen(outcome), len(outcome.model.space)
    if not unmeasured:
        return Finding(about, State.GOOD, "In every cluster some participant measured every feature.")
    worst = max(unmeasured, key=lambda k: len(unmeasured[k]))
    most = len(unmeasured[worst])
    return Finding(
        about,
        State.BAD if most > n_features / 2 else State.CAUTION,
        f"In {len(unmeasured)} of {len(outcome.model.centroids)} clusters no participant measured some features, at most "
        f"{most} of {n_features} ({outcome.model.called(worst)}: {quote(unmeasured[worst])}).",
        "Do not compare clusters by these features.",
    )


def _agreement(outcome: Outcome, assumptions: AssumptionReport) -> Finding:
    about = "Participants' versions of a cluster agree"
    if len(assumptions.clusters) == 1:
        return Finding(about, State.GOOD, "There is one cluster.")
    spread, apart = np.array([cluster.spread for cluster in assumptions.clusters]), nearest_other(outcome)
    ratio = np.divide(spread, apart, out=np.full(len(spread), np.nan), where=apart > 0)
    if np.isnan(ratio).all():
        return Finding(about, State.CAUTION, "It cannot be checked: clusters share no feature that varies.")
    worst = int(np.nanargmax(ratio))
    seen = (
        f"The distance of local versions from their common centre is at most {ratio[worst]:.0%} of that to the next cluster "
        f"({outcome.model.called(worst)})."
    )
    if ratio[worst] < CLOSE:
        return Finding(about, State.GOOD, seen)
    advice = "Participants may measure differently, or have other kinds of rows: compare units, devices and inclusion."
    return Finding(about, State.CAUTION if ratio[worst] < FAR else State.BAD, seen, advice)


def _clarity(outcome: Outcome, assumptions: AssumptionReport, participants: Sequence[Participant]) -> Finding:
    about = "Local clusters clearly belong to their cluster"
    if len(outcome.model.centroids) == 1 or len(outcome.participants) == 1:
        return Finding(about, State.GOOD, "There was nothing to match.")
    doubtful, n = set(assumptions.doubtful), len(outcome.local_clusters)
    rows = sum(c.size for c in outcome.local_clusters if (c.participant, c.index) in doubtful)
    total = max(sum(participant.rows for participant in participants), 1)
    share = f"{rows / total:.0%}" if rows >= total / 100 else "less than 1%"
    seen = f"None of {n} local clusters is ambiguous."
    if doubtful:
        seen = f"{len(doubtful)} of {n} local clusters, with {share} of the rows, fit another cluster nearly as well."
    if outcome.aggregation.overruled:
        seen += " Groupings that summaries hardly distinguish were compared on the rows."
    tie = not outcome.aggregation.overruled and outcome.aggregation.confidence < NEARLY_A_TIE
    if tie:
        seen += f" Another grouping is nearly as good (confidence {outcome.aggregation.confidence:.2f})."
    if not doubtful and not tie:
        return Finding(about, State.GOOD, seen)
    return Finding(
        about,
        State.BAD if rows > MANY_DOUBTFUL * total else State.CAUTION,
        seen,
        "Ambiguous local clusters are marked below. "
        + (advice_on_number(outcome) or "Other numbers of clusters may be clearer."),
    )


def _structure(outcome: Outcome, assumptions: AssumptionReport) -> Iterator[Finding]:
    """Whether participants' rows have clusters at all: k-means splits any rows into as many as it is asked for."""
    about = "Participants' rows fall into clusters"
    clarity, k = outcome.clarity, len(outcome.model.centroids)
    n_local = np.bincount(outcome.owner, minlength=len(outcome.participants)).tolist()
    single = [name for name, n in zip(outcome.participants, n_local, strict=True) if k > 1 and n == 1]
    if not clarity and not single:
        return
    vague = [name for name, value in clarity.items() if value <= NO_STRUCTURE]
    clear = [name for name, value in clarity.items() if value > CLEAR]
    best = f"The clearest silhouette is {max(clarity.values()):.2f}. " if clarity else ""
    if k > 1 and not clear and (vague or single):
        yield Finding(
            about,
            State.BAD if len(vague) + len(single) == len(outcome.participants) else State.CAUTION,
            f"{best}No participant's rows show clear clusters (above {CLEAR}), and those of {quote([*vague, *single])} "
            f"show no clusters (below {NO_STRUCTURE}, or a single one).",
            "Any rows can be split into clusters. "
            + (advice_on_number(outcome) or "Let the number be chosen (give none): it may be 1."),
        )
    elif assumptions.unstructured or single:
        yield Finding(
            about,
            State.CAUTION,
            f"{quote(dict.fromkeys([*assumptions.unstructured, *single]))} show no clusters, unlike other participants.",
            "They may have fewer clusters than they were split into: n_local_clusters sets the number of a participant.",
        )
    else:
        yield Finding(about, State.GOOD, f"{best}No participant differs from the others by having no clusters.")


def _convergence(outcome: Outcome, run: RunRecord) -> Finding:
    about, n_rounds = "Rounds converged", counted(len(outcome.rounds), "round")
    if run.method == "one_shot":
        return Finding(
            "One round only",
            State.CAUTION,
            f"{labelled_by(outcome, run)} {_UNCORRECTED}",
            "If more exchanges are possible, the federated method corrects local mistakes.",
        )
    if not outcome.rounds and outcome.repeat is not None and outcome.converged:
        return Finding(
            about, State.GOOD, "No round was needed: the clusters of the previous model fit these rows as before."
        )
    if not outcome.rounds:
        return Finding(
            about,
            State.CAUTION,
            "No round was run: profiles are those of the grouped local clusters, not of the labelled rows.",
            "Set max_rounds above 0.",
        )
    if outcome.converged:
        return Finding(about, State.GOOD, f"After {n_rounds} the centroids no longer moved.")
    last = outcome.rounds[-1].movement
    if last <= HARDLY_MOVING:
        return Finding(about, State.GOOD, f"In the last of {n_rounds} centroids moved by {last:.2%} of their extent.")
    return Finding(
        about,
        State.BAD if last > STILL_MOVING else State.CAUTION,
        f"In the last of {n_rounds} centroids still moved by {last:.2%} of their extent: profiles are not exactly those of "
        "the labelled rows.",
        "Set a higher max_rounds, or use the built-in local algorithm.",
    )


def _missing_values(participants: Sequence[Participant], columns: Sequence[Column]) -> Finding:
    took_part = {each.name for each in participants if each.local_clusters or each.labelled}
    worst = min((each for each in participants if each.name in took_part), key=lambda each: each.filled)
    missing = 1.0 - worst.filled
    about = "Few values are missing in columns that a participant has"
    if missing <= 0:
        return Finding(about, State.GOOD, "No value is missing.")
    column, at, share = max(
        (
            (column.name, participant.name, 1.0 - filled)
            for column in columns
            for participant, filled in zip(participants, column.filled, strict=True)
            if filled is not None and participant.name in took_part
        ),
        key=lambda entry: entry[2],
    )
    seen = (
        f"At most {missing:.0%} of a participant's values are missing ({worst.name}), and {share:.0%} of a column "
        f"({column} at {at})."
    )
    if missing <= FEW_MISSING and share <= MANY_MISSING:
        return Finding(about, State.GOOD, seen)
    advice = (
        "Rows are compared by the values that they have. Whether a value is missing should not depend on the value."
    )
    return Finding(about, State.CAUTION if missing <= MANY_MISSING else State.BAD, seen, advice)


def _few_rows(releases: Sequence[Release]) -> Iterator[Finding]:
    about = "Every number that left stands for several rows"
    left = [release for release in releases if release.message.startswith("reply.") and release.times]
    counted_rows = [release for release in left if release.fewest_rows]
    if not counted_rows:
        return
    few = [release for release in counted_rows if (release.fewest_rows or 0) < FEW_ROWS]
    worst = min(counted_rows, key=lambda release: release.fewest_rows or 0)
    levels = any(release.field == "levels" and release.entries for release in left)
    names = " Names of levels of categories left too, however few rows have them." if levels else ""
    if not few:
        seen = f"At least {worst.fewest_rows} rows stand behind every number.{names}"
        yield Finding(about, State.CAUTION if levels else State.GOOD, seen, _ASK if levels else "")
        return
    single = worst.fewest_rows == 1
    kinds = list(dict.fromkeys(release.meaning for release in few))
    more = f"; and {len(kinds) - 5} more" if len(kinds) > 5 else ""
    yield Finding(
        about,
        State.BAD if single else State.CAUTION,
        f"Fewer than {FEW_ROWS} rows stand behind some of these numbers: {'; '.join(kinds[:5])}{more}. The fewest are "
        f"{worst.fewest_rows} ({worst.fewest_at}){', so that the number is that row itself' if single else ''}.{names}",
        f"{_ASK} Fewer local clusters, and leaving out rare levels and columns with few values, raise the number of rows.",
    )


def _differences(run: RunRecord) -> Iterator[Finding]:
    """What can be subtracted, as the participants audited it; a run that was not audited never gets a green light."""
    about = "What sums of one participant can be subtracted to"
    told = {sent.participant for sent in run.sent if sent.message.startswith("reply.")}
    not_audited = sorted(name for name in told if run.audited.get(name, 1) == 1)
    if told and not not_audited:
        fewest = min(run.audited[name] for name in told)
        state = State.GOOD if fewest >= FEW_ROWS else State.CAUTION
        seen = (
            "Every participant audits all that it ever told: whatever is subtracted from whatever is a sum over at least "
            f"{counted(fewest, 'row')}."
        )
        yield Finding(about, state, seen, "" if state is State.GOOD else f"{_ASK} {_AUDIT}")
        return
    if any(sent.message == "reply.masked" for sent in run.sent):
        seen = (
            f"{counted(len(not_audited), 'participant')} did not audit what they told. Masks hide whose rows a total is "
            "about, not how many: two totals of successive rounds may differ by one row, and can be subtracted."
        )
        yield Finding(about, State.CAUTION, seen, f"{_ASK} {_AUDIT}")
        return
    if not run.differences:
        return
    name = min(run.differences, key=lambda who: run.differences[who])
    yield Finding(
        about,
        State.CAUTION,
        f"{counted(len(not_audited), 'participant')} did not audit what they told. Two sums that left {name!r}, of "
        f"successive rounds or of all rows and those in clusters, differ by {counted(run.differences[name], 'row')}: "
        "whoever has both sums can subtract one from the other, and more sums may tell of fewer rows.",
        f"{_ASK} {_AUDIT}",
    )
