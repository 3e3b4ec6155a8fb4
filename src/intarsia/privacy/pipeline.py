"""The way of a request into a participant, and of a reply out of it.

::

    request → check → admit → (the participant answers, and audits) → check_rows → round_counts → declare → record

Each step after the answer is a function ``(context, reply) -> reply`` in :data:`STEPS`. The steps read the facts that the
fields of messages declare (:mod:`intarsia.protocol.facts`); none knows a single message. Rows are checked before noise and
rounding change their counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from intarsia.core.densities import family_of
from intarsia.exceptions import ProtocolError, ReleaseError, quote
from intarsia.privacy.admission import Admission
from intarsia.privacy.journal import Journal
from intarsia.privacy.policy import OPEN, ReleasePolicy
from intarsia.privacy.record import Record
from intarsia.privacy.suppression import Suppression
from intarsia.protocol import Failure, Labelled, Masked, Reply, Request, StudyTerms, tag_of
from intarsia.protocol.catalogue import fields_of, paths_of, requests, rows_behind
from intarsia.protocol.wire import Part

S = TypeVar("S", bound=Part)


@dataclass
class Context:
    """What the steps need beside the reply: the policy, the request, and what was suppressed so far."""

    policy: ReleasePolicy
    request: Request
    suppressed: Counter[str] = field(default_factory=Counter)
    journal: Journal | None = None


Step = Callable[[Context, Reply], Reply]


class Pipeline:
    """The release policy of one participant at work: on its table and local clusters, its requests and its replies."""

    def __init__(
        self,
        policy: ReleasePolicy = OPEN,
        journal: Journal | None = None,
        steps: Sequence[Step] | None = None,
        terms: StudyTerms | None = None,
        record: Record | None = None,
        run: str = "",
    ) -> None:
        self.policy, self.record = policy, record
        self.suppression = Suppression(policy)
        self._steps = STEPS if steps is None else steps
        self._journal = journal
        self._admission = Admission(policy, journal, terms, run)
        self.check_units = self._admission.check_units

    def density(self, kind: str) -> str:
        """Return the density to fit: one with few parameters, unless the policy allows any covariance."""
        return kind if self.policy.allow_any_covariance else family_of(kind).parsimonious(kind)

    def admit(self, request: Request, answered: Container[type[Request]] | None = None) -> None:
        """Raise an error if the request is invalid, or if the study or the policy forbids an answer; otherwise count it.

        ``answered`` are the requests that the participant has answers to: those of a private study, or all others.
        """
        if not isinstance(request, requests()):
            raise ProtocolError(f"a {type(request).__name__} is not a request")
        if answered is not None and type(request) not in answered:
            raise ReleaseError(f"the study that this participant agreed to does not ask {tag_of(request)}.")
        request.check()
        self.suppression.start_request()
        self._admission.admit(request)

    def release(self, request: Request, reply: Reply) -> Reply:
        """Return what may leave of a reply, after it was written to the journal."""
        context = Context(self.policy, request, self.suppression.counts, self._journal)
        for step in self._steps:
            reply = step(context, reply)
        return reply

    @contextmanager
    def at_home(self) -> Iterator[None]:
        """Let replies that are released meanwhile stay with the participant: the journal does not list them."""
        journal, self._journal = self._journal, None
        try:
            yield
        finally:
            self._journal = journal

    def release_failure(self, request: object, failure: Failure) -> Failure:
        """Return a failure after it was written to the journal."""
        if self._journal is not None:
            self._journal.write_reply(failure, request if isinstance(request, Request) else None)
        return failure


def round_counts(context: Context, reply: Reply) -> Reply:
    """Round all counts down to multiples, so that parts never add up to more than the total."""
    multiple = context.policy.round_counts_to

    def rounded(part: S) -> S:
        counts = {name: getattr(part, name) for name, fact in part.facts().items() if fact.is_count}
        changed = {name: value - value % multiple for name, value in counts.items() if value is not None}
        return msgspec.structs.replace(part, **changed) if changed else part

    return reply if multiple == 1 else mapped(reply, rounded)


def declare(context: Context, reply: Reply) -> Reply:
    """State in replies with final sums which number of rows is audited: a policy, which no row changes."""
    if not isinstance(reply, Labelled | Masked):
        return reply
    return msgspec.structs.replace(reply, audited=context.policy.min_cluster_size)


def check_rows(context: Context, reply: Reply) -> Reply:
    """Raise a ReleaseError if a field would tell of fewer rows than the policy requires, whichever step overlooked it."""
    fewest, rows = context.policy.min_cluster_size, rows_behind(reply)
    small = {item.path for item in fields_of(reply) if item.entries and 0 < rows.get(item.path, 0) < fewest}
    rules = {path: fact.allowed_by for path, fact in paths_of(type(reply)).items()} if small else {}
    if refused := sorted(path for path in small if not getattr(context.policy, str(rules.get(path)), False)):
        raise ReleaseError(
            f"{len(refused)} field(s) of {tag_of(reply)} would tell of fewer than {fewest} rows: {quote(refused)}."
        )
    return reply


def record(context: Context, reply: Reply) -> Reply:
    """Write the reply to the journal."""
    if context.journal is not None:
        context.journal.write_reply(reply, context.request, context.suppressed)
    return reply


STEPS: tuple[Step, ...] = (check_rows, round_counts, declare, record)


def mapped(part: S, change: Callable[[Any], Any]) -> S:
    """Return a message with a change applied to it and to all its parts."""
    parts: dict[str, Any] = {}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, Part):
            parts[name] = mapped(value, change)
        elif isinstance(value, tuple) and any(isinstance(inner, Part) for inner in value):
            parts[name] = tuple(mapped(inner, change) for inner in value)
    changed: S = change(msgspec.structs.replace(part, **parts) if parts else part)
    return changed
