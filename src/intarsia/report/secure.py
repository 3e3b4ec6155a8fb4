"""What a report says of a study with secure sums: what the coordinator saw, and what it did not."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.exceptions import quote
from intarsia.report.data import Finding, State
from intarsia.report.words import counted
from intarsia.results.outcome import Outcome


def findings_of_sums(outcome: Outcome) -> Iterator[Finding]:
    """Yield what the coordinator saw; nothing for a study without secure sums."""
    if (totals := outcome.secure) is None:
        return
    of, private = len(outcome.participants), outcome.privacy is not None
    what = "Of rounds" if private else "Of units, rounds, sizes and spreads"
    seen = (
        f"{what}: totals over {totals.n_participants} of {counted(of, 'participant')}, in "
        f"{counted(totals.n_sums, 'secure sum')}. Of each participant: "
    )
    columns = quote(sorted({column for each in totals.at_home.values() for column in each}), 20)
    if private:
        seen += "a noisy sketch."
    else:
        seen += "its first summary, because local clusters are compared, not added up"
        seen += (
            f"; of columns with fewer than {totals.min_holders} holders also mean and spread."
            if totals.at_home
            else "."
        )
    if totals.at_home:
        seen += (
            f" These columns stayed at home in the rounds, and their means are those from before the rounds: {columns}."
        )
    missed = totals.n_participants < of
    advice = (
        "Two totals over different participants can be subtracted: run again once all can be reached." if missed else ""
    )
    yield Finding("What the coordinator saw", State.CAUTION if missed else State.GOOD, seen, advice)
