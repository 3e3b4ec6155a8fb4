"""The findings about a repeated study: what became of the clusters and the columns of the previous model."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.exceptions import quote
from intarsia.report.data import Finding, State
from intarsia.results.outcome import Outcome
from intarsia.results.repeat import SAME, words_of

_CLUSTERS = "Clusters are those of the previous model"
_IS = {"new": " is", "gone": " is", "split": " was"}
_COLUMNS = "Columns are those of the previous model"


def findings_of_repeat(outcome: Outcome) -> Iterator[Finding]:
    """Yield which clusters changed, and which columns."""
    repeat = outcome.repeat
    if repeat is None:
        return
    changed = [change for change in repeat.changes if change.state != SAME]
    if not changed:
        kept = " The tables are as they were, so that the model was kept." if repeat.unchanged else ""
        yield Finding(
            _CLUSTERS, State.GOOD, f"All {len(repeat.changes)} clusters are where they were; {repeat.in_words}.{kept}"
        )
    else:
        named = "; ".join(
            f"{outcome.model.called(change.number)}{_IS.get(change.state, '')} {words_of(change)}" for change in changed
        )
        yield Finding(
            _CLUSTERS,
            State.CAUTION,
            f"{named[:1].upper()}{named[1:]}; {repeat.in_words}.",
            "Compare the profiles before you read a trend: did the patients, machines or customers change, or the way they "
            "are measured?",
        )
    if repeat.new_columns or repeat.gone_columns:
        parts = [("not in the previous model", repeat.new_columns), ("no longer in any table", repeat.gone_columns)]
        yield Finding(
            _COLUMNS,
            State.CAUTION,
            "; ".join(f"{words}: {quote(names)}" for words, names in parts if names) + ".",
            "Was a column or a level renamed? If not, a cluster may have moved because it is measured in another way.",
        )
