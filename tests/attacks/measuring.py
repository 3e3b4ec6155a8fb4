"""All attacks on one study, as numbers of rows: what the tests assert and what ``make attack`` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from intarsia import ReleasePolicy
from tests.attacks.asking import ask, asked_sums, overheard
from tests.attacks.blind import blind
from tests.attacks.curious import restricted, sums_of_other, sums_over_all
from tests.attacks.listening import Heard, listen, participant_of, sums_told
from tests.attacks.solving import solve, solve_recorded
from tests.attacks.studies import Study

Found = dict[str, int]


class Measured(NamedTuple):
    """The rows that each attack computes without rules, and with the rules of a federation."""

    attack: str
    without: int
    guarded: int


def listener(heard: dict[str, Heard]) -> Found:
    """Rows from pairs of sums and peeling; rows in solvable groups below the minimum, if all labels are known."""
    subtracted = [blind(sums_told(one.messages), one.rows) for one in heard.values()]
    solved = [solve(one).rows | solve_recorded(one).rows for one in heard.values()]
    over_all, rows = sums_over_all(heard)
    return {
        "listener: pairs and peeling": sum(len(found.rows) for found in subtracted),
        "listener: labels known, groups below 5": sum(map(len, solved)),
        "sums over all participants": len(blind(over_all, rows, 1).rows),
    }


def asker(study: Study, policy: ReleasePolicy | None, seed: int, n_clusters: int | None = None) -> Found:
    """Rows of the largest table for a coordinator that cuts it, with K as the study has it, within 20 rounds."""
    name = max(study.tables, key=lambda who: len(next(iter(study.tables[who].values()))))
    asked = ask(participant_of(study.tables[name], name, policy), n_clusters or study.n_clusters, seed=seed)
    heard = overheard(asked, study.tables[name])
    solved = solve(heard).rows | solve_recorded(heard).rows
    return {"clever asker: 20 rounds": len(solved | blind(asked_sums(asked.messages), heard.rows, 0).rows)}


def curious(study: Study, policy: ReleasePolicy | None, seed: int) -> Found:
    """Rows of one of two participants for the other, on the features that they share."""
    two = dict(sorted(study.tables.items(), key=lambda each: -len(next(iter(each[1].values()))))[:2])
    settings = {**study.settings, "n_rivals": 0, "refinement": "plain", "n_local_clusters": study.n_clusters}
    heard = listen(Study(two, study.n_clusters, settings), policy, seed)
    found = 0
    for own, other in (tuple(heard.values()), tuple(heard.values())[::-1]):
        names = [name for name in own.rows.names if name in other.rows.names]
        shared = [own.rows.names.index(name) for name in names]
        told = sums_of_other(own, shared, len(other.rows.values))
        found += len(blind(told, restricted(other.rows, names), 1).rows)
    return {"curious participant of two": found}


def all_attacks(study: Study, policy: ReleasePolicy | None, seed: int) -> Found:
    return listener(listen(study, policy, seed)) | asker(study, policy, seed) | curious(study, policy, seed)


def measured(make: Callable[[int], Study], seed: int) -> list[Measured]:
    """Attack a study without rules and with those of a federation."""
    without, guarded = (all_attacks(make(seed), policy, seed) for policy in (None, ReleasePolicy()))
    return [Measured(attack, without[attack], guarded[attack]) for attack in without]
