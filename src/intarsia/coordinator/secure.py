"""An algorithm on secure sums: keys and shares first, then each sum as two exchanges, masked values and their unmasking.

::

    AskedKeys ──▶ AskedShares ──▶ InTheClear ──▶ AskedMasked ──▶ AskedUnmask ──▶ … ──▶ result
    (AskKeys)     (AskShares)     (as the other  (AskMasked)     (AskUnmask)
                                   algorithm)        ▲                │
                                                     └────────────────┘ for each sum

What is asked in the clear, what is summed, and what follows from a total is decided by another object
(:class:`Summing`); whose masks are removed how, by :mod:`intarsia.privacy.secure`. A participant that does not answer in
time is not in the total; one that gave no keys and shares is not in the run. Without noise all totals are over the same
participants: whoever is in the first must be in all others, or the run pauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Protocol

import msgspec

from intarsia.coordinator.contract import Step
from intarsia.coordinator.federated import FederatedAlgorithm
from intarsia.coordinator.gather import check_senders, replies_of
from intarsia.coordinator.sums import Asked, FederatedSums
from intarsia.core.types import IntArray
from intarsia.exceptions import ProtocolError, SettingError, about, quote
from intarsia.privacy.secure.group import Group, Signed, Statement, checked_statements, holders, holders_left
from intarsia.privacy.secure.identity import fingerprint_of
from intarsia.privacy.secure.masks import unmasked
from intarsia.protocol import (
    AskKeys,
    AskMasked,
    AskShares,
    AskUnmask,
    Keys,
    Masked,
    Reply,
    Shares,
    StudyTerms,
    Unmasked,
)
from intarsia.protocol.secure import MOST_PARTICIPANTS, Layout, SignedKeys
from intarsia.protocol.totals import length

RUN = "run"
FEWEST = 3  # participants: of two, each could subtract its own part


class Summing(Protocol):
    """Decides what is asked in the clear and what as a total.

    If ``same_participants``, all totals must be over the same: differences of totals without noise would tell parts.
    """

    same_participants: ClassVar[bool]

    def start(self, names: Sequence[str]) -> Step | Asked:
        """Return the first requests."""

    def advance(self, state: Any, replies: Mapping[str, Reply]) -> Step | Asked:
        """Return what follows replies that were given in the clear."""

    def summed(self, state: Any, layout: Layout, total: IntArray, names: Sequence[str]) -> Step | Asked:
        """Return what follows a total over these participants."""


@dataclass(frozen=True)
class AskedKeys:
    """All participants were asked for keys."""

    group: Group


@dataclass(frozen=True)
class AskedShares:
    """Participants that gave keys were asked for shares."""

    group: Group
    keys: Mapping[str, Signed]


@dataclass(frozen=True)
class Setup:
    """What all sums of a run need: keys, and the sealed shares by recipient and sender.

    ``n_done`` sums are over. ``survivors`` are those that all further totals must be over; None: any.
    """

    group: Group
    statements: Mapping[str, Statement]
    boxes: Mapping[str, Mapping[str, bytes]]
    summing: Summing
    n_done: int = 0
    survivors: tuple[str, ...] | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """The participants whose shares all others have."""
        return tuple(sorted(self.boxes))


@dataclass(frozen=True)
class InTheClear:
    """Participants were asked for something that is not summed."""

    setup: Setup
    state: Any


@dataclass(frozen=True)
class AskedMasked:
    """Participants were asked for masked values."""

    setup: Setup
    asked: Asked


@dataclass(frozen=True)
class AskedUnmask:
    """Those whose masked values arrived were asked for shares."""

    setup: Setup
    asked: Asked
    vectors: Mapping[str, IntArray]


State = AskedKeys | AskedShares | InTheClear | AskedMasked | AskedUnmask


@dataclass(frozen=True)
class SecureAlgorithm:
    """Another algorithm on secure sums.

    ``min_holders`` participants must have a column for it to be in a sum; ``quorum`` must be in each total, all of them if
    it is None. ``run`` names the run in what participants sign.
    """

    inner: Any
    min_holders: int = 2
    quorum: int | None = None
    run: str = RUN

    def terms(self, name: str) -> StudyTerms:
        """Return which requests a participant can get."""
        terms: StudyTerms = self.inner.terms(name)
        return replace(
            terms, tails=False, secure_sums=True, min_holders=self.min_holders, needed=self.quorum or MOST_PARTICIPANTS
        )

    def start(self, participants: Sequence[str]) -> Step:
        """Ask all participants for keys."""
        if len(participants) < FEWEST:
            raise SettingError(
                f"secure sums need at least {FEWEST} participants: of two, each could subtract its own part from the total. "
                f"Got {len(participants)}."
            )
        group = Group.of(self.run, participants, n_sums_of(self.inner))
        request = AskKeys(run=group.run, names=group.names, n_sums=group.n_sums)
        return Step(AskedKeys(group), dict.fromkeys(participants, request))

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Return the next requests, or the result."""
        match state:
            case AskedKeys(group):
                check_senders(replies, group.names)
                return self._with_keys(group, replies_of(Keys, replies, group.names))
            case AskedShares(group, keys):
                check_senders(replies, tuple(keys))
                return self._with_shares(group, keys, replies_of(Shares, replies, tuple(keys)))
            case InTheClear(setup, inner):
                return _next(setup, setup.summing.advance(inner, replies))
            case AskedMasked(setup, asked):
                check_senders(replies, setup.members)
                return self._with_masked(setup, asked, replies_of(Masked, replies, setup.members))
            case AskedUnmask():
                check_senders(replies, tuple(state.vectors))
                return self._with_total(state, replies_of(Unmasked, replies, tuple(state.vectors)))

    def _with_keys(self, group: Group, replies: Mapping[str, Keys]) -> Step:
        keys = {name: Signed(each.statement, each.signature, each.public) for name, each in replies.items()}
        _stated(group, keys)  # a statement that nobody would accept is named here
        sent = tuple(
            SignedKeys(name=name, statement=each.statement, signature=each.signature, public=each.public)
            for name, each in sorted(keys.items())
        )
        return Step(AskedShares(group, keys), dict.fromkeys(keys, AskShares(keys=sent)))

    def _with_shares(self, group: Group, keys: Mapping[str, Signed], replies: Mapping[str, Shares]) -> Step:
        statements = _stated(group, keys)
        members = tuple(sorted(replies))
        for name, reply in replies.items():
            if set(reply.boxes) != set(keys) - {name}:
                raise about(name, ProtocolError(f"participant {name!r} did not give shares to all others"))
        boxes = {
            name: {sender: replies[sender].boxes[name] for sender in members if sender != name} for name in members
        }
        columns = {name: statements[name].columns for name in members}
        most = max(Counter(chain.from_iterable(columns.values())).values())
        if most < self.min_holders:
            raise SettingError(
                f"secure sums need columns with min_holders={self.min_holders} holders, and the most common column has "
                f"{most}. Hint: min_holders=2, or rename columns that mean the same."
            )
        # participants tell nothing in the clear of a column that had several holders
        self._check_left(holders(statements), holders({name: statements[name] for name in members}))
        summing = summing_of(self.inner, columns, self.min_holders, group.threshold)
        setup = Setup(group, statements, boxes, summing)
        return _next(setup, summing.start(members))

    def _with_masked(self, setup: Setup, asked: Asked, replies: Mapping[str, Masked]) -> Step:
        n = length(asked.layout)
        for name, reply in replies.items():
            if reply.values.shape != (n,):
                raise about(name, ProtocolError(f"the masked sum of participant {name!r} must have {n} numbers"))
        survivors = tuple(sorted(replies))
        _check_same(setup, survivors)
        self._check_holders(setup, survivors)
        request = AskUnmask(index=setup.n_done, survivors=survivors)
        vectors = {name: reply.values.astype("int64") for name, reply in replies.items()}
        return Step(AskedUnmask(setup, asked, vectors), dict.fromkeys(survivors, request))

    def _check_holders(self, setup: Setup, survivors: Sequence[str]) -> None:
        """Raise a ProtocolError for a total that no participant would open, before it is asked for."""
        n_holders = holders({name: setup.statements[name] for name in setup.members})
        self._check_left(n_holders, holders_left(setup.group, setup.statements, setup.members, survivors))

    def _check_left(self, before: Mapping[str, int], left: Mapping[str, int]) -> None:
        if few := sorted(name for name, n in before.items() if n >= self.min_holders > left.get(name, 0)):
            raise ProtocolError(f"too few of the holders of {len(few)} column(s) are left: {quote(few)}")

    def _with_total(self, state: AskedUnmask, replies: Mapping[str, Unmasked]) -> Step:
        setup, asked = state.setup, state.asked
        total = unmasked(
            state.vectors,
            {name: reply.shares for name, reply in replies.items()},
            setup.group,
            setup.statements,
            setup.members,
            setup.n_done,
            asked.layout.digest(),
        )
        survivors = tuple(sorted(state.vectors)) if setup.summing.same_participants else None
        setup = replace(setup, n_done=setup.n_done + 1, survivors=survivors)
        return _next(setup, setup.summing.summed(asked.state, asked.layout, total, tuple(state.vectors)))


def _stated(group: Group, keys: Mapping[str, Signed]) -> dict[str, Statement]:
    """Return what participants stated. Whether their keys are the right ones is for the other participants to check."""
    return checked_statements(group, keys, {name: fingerprint_of(each.public) for name, each in keys.items()})


def _check_same(setup: Setup, names: Sequence[str]) -> None:
    """Raise a ProtocolError unless a total would be over the same participants as the last one."""
    if setup.survivors is not None and (gone := sorted(set(setup.survivors) - set(names))):
        raise ProtocolError(
            f"all totals of a run are over the same participants, because differences would tell one participant's part, "
            f"and {quote(gone)} was in the last one"
        )


def _next(setup: Setup, step: Step | Asked) -> Step:
    """Return a step in the clear as it is, and a sum as requests for masked values."""
    if isinstance(step, Step):
        return step if step.result is not None else replace(step, state=InTheClear(setup, step.state))
    if setup.survivors is not None:
        questions = {name: step.questions[name] for name in setup.survivors if name in step.questions}
        _check_same(setup, tuple(questions))
        step = replace(step, questions=questions)
    requests = {
        name: AskMasked(
            index=setup.n_done,
            boxes=dict(setup.boxes[name]),
            layout=step.layout,
            question=question,  # type: ignore[arg-type]
            merged=step.merged.get(name, ()),
            came_from=step.came_from,
            step_size=step.step_size,
        )
        for name, question in step.questions.items()
    }
    layout = _bound(step, requests)
    requests = {name: msgspec.structs.replace(request, layout=layout) for name, request in requests.items()}
    return Step(AskedMasked(setup, replace(step, layout=layout)), requests, last=step.last)


def _bound(step: Asked, requests: Mapping[str, AskMasked]) -> Layout:
    """Return the layout with digests of the questions, by which participants see that all are asked the same."""
    told: dict[str, bytes] = {}
    for name, request in requests.items():
        told.update(zip(step.features.get(name, ()), request.told(), strict=True))
    asked = {request.asked() for request in requests.values()}
    digests = tuple(told[feature] for feature in step.layout.features) if told else ()
    return msgspec.structs.replace(step.layout, told=digests, asked=asked.pop())


_SUMMING: dict[type, tuple[Callable[[Any], int], Callable[..., Summing]]] = {
    FederatedAlgorithm: (FederatedSums.n_sums, FederatedSums)
}


def register_summing(kind: type, n_sums: Callable[[Any], int], make: Callable[..., Summing]) -> None:
    """Say how an algorithm runs on sums; ``make(algorithm, columns, min_holders, threshold)`` returns what decides."""
    _SUMMING[kind] = (n_sums, make)


def n_sums_of(inner: Any) -> int:
    """Return the largest number of sums in a run of an algorithm."""
    return _SUMMING[type(inner)][0](inner)


def summing_of(inner: Any, columns: Mapping[str, tuple[str, ...]], min_holders: int, threshold: int) -> Summing:
    """Return what decides on sums for an algorithm; at least ``threshold`` participants are in each."""
    return _SUMMING[type(inner)][1](inner, columns, min_holders, threshold)
