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
    of = len(outcome.participants)
    seen = (
        f"Totals only, in {counted(totals.n_sums, 'secure sum')} over {totals.n_participants} of "
        f"{counted(of, 'participant')}: units, rounds, sizes and spreads of no single one."
    )
    columns = sorted({column for each in totals.at_home.values() for column in each})
    if columns:
        seen += (
            f" {counted(len(columns), 'column')} with fewer than {totals.min_holders} holders stayed at home in the rounds, "
            f"so that the means of this page are those of the first summaries there: {quote(columns, 20)}."
        )
    if outcome.privacy is None:
        seen += " First summaries were told as they are, because local clusters are compared, not added up."
    elif totals.epsilon_if_all_collude is not None:
        seen += (
            " Participants share the noise of rounds: epsilon holds while at least two thirds of them are honest; if all "
            f"others and the coordinator collude, it is {totals.epsilon_if_all_collude:.3g} for a participant's rows."
        )
    missed = totals.n_participants < of
    advice = (
        "Two totals over different participants can be subtracted: run again once all can be reached." if missed else ""
    )
    yield Finding("What the coordinator saw", State.CAUTION if missed else State.GOOD, seen, advice)
