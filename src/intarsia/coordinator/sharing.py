"""An algorithm whose participants get a copy of the public model at the end: one more exchange after all others.

::

    … (as the other algorithm) … ──▶ AskedToKeep ──▶ result
                                     (KeepModel)

Nothing leaves a participant in this exchange, and the result does not wait for it: whoever is gone gets no copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from intarsia.coordinator.contract import Algorithm, Step
from intarsia.coordinator.gather import check_senders, replies_of
from intarsia.exceptions import ModelFileError, SettingError, quote
from intarsia.protocol import KeepModel, ModelKept, Reply, StudyTerms
from intarsia.protocol.keep_model import MOST_BYTES
from intarsia.results.model_file import public_to_bytes
from intarsia.results.outcome import Outcome
from intarsia.results.public import FEWEST, public_from


@dataclass(frozen=True)
class AskedToKeep:
    """All participants of the outcome were given the model."""

    outcome: Outcome


@dataclass(frozen=True)
class SharingAlgorithm:
    """Another algorithm, and a copy of the public model for each participant of its outcome.

    Entries that fewer than ``min_holders`` participants are behind are hidden in the copies.
    """

    inner: Algorithm
    min_holders: int = 1

    def terms(self, name: str) -> StudyTerms:
        """Return which requests a participant can get."""
        return replace(self.inner.terms(name), share_model=True, share_min_holders=self.min_holders)

    def start(self, participants: Sequence[str]) -> Step:
        """Return the first requests of the other algorithm."""
        return self.inner.start(participants)

    def advance(self, state: Any, replies: Mapping[str, Reply]) -> Step:
        """Return the next requests of the other algorithm; when it has a result, give the model to all participants."""
        if isinstance(state, AskedToKeep):
            return _kept(state.outcome, replies)
        step = self.inner.advance(state, replies)
        return step if step.result is None else self._given(step.result)

    def _given(self, outcome: Outcome) -> Step:
        """Give the public model to all participants, or say why they get no copy."""
        try:
            public = public_from(outcome, outcome.model.space.names, FEWEST, self.min_holders)
            model = public_to_bytes(public)
        except (SettingError, ModelFileError) as error:
            return Step(result=_with(outcome, f"participants got no copy of the model: {error}"))
        if len(model) > MOST_BYTES:
            size, most = -(-len(model) >> 20), MOST_BYTES >> 20
            why = f"it has {size} MiB, and a copy may have {most}. Hint: give them the file public.intarsia."
            return Step(result=_with(outcome, f"participants got no copy of the model: {why}"))
        request = KeepModel(model=model)
        return Step(AskedToKeep(outcome), dict.fromkeys(outcome.participants, request), optional=True)


def _kept(outcome: Outcome, replies: Mapping[str, Reply]) -> Step:
    """Return the result, with the names of those who have no copy."""
    check_senders(replies, outcome.participants, optional=True)
    kept = replies_of(ModelKept, replies, outcome.participants)
    if without := [name for name in outcome.participants if name not in kept]:
        text = f"{quote(without)} got no copy of the model. Hint: give them the file public.intarsia."
        return Step(result=_with(outcome, text))
    return Step(result=outcome)


def _with(outcome: Outcome, remark: str) -> Outcome:
    return replace(outcome, remarks=(*outcome.remarks, remark))
