"""The way of a request into a participant, and of a reply out of it.

::

    request → check → admit → (the participant answers) → suppress → check_rows → round_counts → declare → record

Each step after the answer is a function ``(context, reply) -> reply`` in :data:`STEPS`. The steps read the facts that the
fields of messages declare (:mod:`intarsia.protocol.facts`); none knows a single message. Rows are checked before noise and
rounding change their counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np

from intarsia.core.densities import family_of
from intarsia.core.disclosure import hidden_entries, hidden_sizes
from intarsia.exceptions import ProtocolError, ReleaseError, quote
from intarsia.privacy.admission import Admission
from intarsia.privacy.journal import Journal
from intarsia.privacy.policy import OPEN, ReleasePolicy
from intarsia.privacy.suppression import Cells, Suppression
from intarsia.protocol import Failure, Reply, Request, StudyTerms, tag_of
from intarsia.protocol.catalogue import fields_of, paths_of, requests, rows_behind
from intarsia.protocol.wire import Part

S = TypeVar("S", bound=Part)


@dataclass
class Context:
    """What the steps need beside the reply: the policy, the request, the table's counts and what was suppressed so far."""

    policy: ReleasePolicy
    request: Request
    cells: Cells
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
    ) -> None:
        self.policy = policy
        self.suppression = Suppression(policy)
        self._steps = STEPS if steps is None else steps
        self._journal = journal
        self._admission = Admission(policy, journal, terms)
        self.check_units = self._admission.check_units

    def density(self, kind: str) -> str:
        """Return the density to fit: one with few parameters, unless the policy allows any covariance."""
        return kind if self.policy.allow_any_covariance else family_of(kind).parsimonious(kind)

    def admit(self, request: Request) -> None:
        """Raise an error if the request is invalid, or if the study or the policy forbids an answer; otherwise count it."""
        if not isinstance(request, requests()):
            raise ProtocolError(f"a {type(request).__name__} is not a request")
        request.check()
        self.suppression.start_request()
        self._admission.admit(request)

    def release(self, request: Request, reply: Reply, cells: Cells) -> Reply:
        """Return what may leave of a reply about a table with these counts, after it was written to the journal."""
        context = Context(self.policy, request, cells, self.suppression.counts, self._journal)
        for step in self._steps:
            reply = step(context, reply)
        return reply

    def release_failure(self, request: object, failure: Failure) -> Failure:
        """Return a failure after it was written to the journal."""
        if self._journal is not None:
            self._journal.write_reply(failure, request if isinstance(request, Request) else None)
        return failure


def suppress(context: Context, reply: Reply) -> Reply:
    """Suppress small clusters and entries, wherever the reply has sizes of clusters that the coordinator chose."""
    return mapped(reply, lambda part: _without_small(context, part) if part.hides_small else part)


def _without_small(context: Context, part: Any) -> Any:
    fewest, cells, sizes, counts = context.policy.min_cluster_size, context.cells, part.sizes, part.counts
    hidden = hidden_sizes(sizes, fewest, cells.n_rows - int(sizes.sum()))
    context.suppressed["clusters"] += int(hidden.sum())
    if counts is None:
        return msgspec.structs.replace(part, sizes=np.where(hidden, 0, sizes))
    hidden_cells = hidden_entries(counts, cells.filled, fewest, np.repeat(hidden[:, None], counts.shape[1], axis=1))
    context.suppressed["entries"] += int((hidden_cells & ~hidden[:, None] & (counts > 0)).sum())
    described = [name for name, fact in part.facts().items() if name == "counts" or fact.rows == "counts"]
    changed = {name: np.where(hidden_cells, 0.0, getattr(part, name)) for name in described}
    if part.needs_entries:
        hidden = hidden | ~(changed["counts"] > 0).any(axis=1)
    return msgspec.structs.replace(part, sizes=np.where(hidden, 0, sizes), **changed)


def round_counts(context: Context, reply: Reply) -> Reply:
    """Round all counts down to multiples, so that parts never add up to more than the total."""
    multiple = context.policy.round_counts_to

    def rounded(part: S) -> S:
        counts = {name: getattr(part, name) for name, fact in part.facts().items() if fact.is_count}
        changed = {name: value - value % multiple for name, value in counts.items() if value is not None}
        return msgspec.structs.replace(part, **changed) if changed else part

    return reply if multiple == 1 else mapped(reply, rounded)


def declare(context: Context, reply: Reply) -> Reply:
    """State in the reply how much was suppressed."""
    suppressed = {what: n for what, n in sorted(context.suppressed.items()) if n}
    return msgspec.structs.replace(reply, suppressed=suppressed)


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
        context.journal.write_reply(reply, context.request)
    return reply


STEPS: tuple[Step, ...] = (suppress, check_rows, round_counts, declare, record)


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
