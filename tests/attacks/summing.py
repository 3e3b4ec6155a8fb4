"""Participants on secure sums, all that they say and add up, and a coordinator that asks them what it likes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import polars as pl

from intarsia import FederatedClustering, ReleasePolicy
from intarsia.participant.secure import SecureParticipant
from intarsia.participant.vault import MemoryVault, new_credentials
from intarsia.privacy.secure.group import Group, Signed, checked_statements
from intarsia.privacy.secure.identity import fingerprint_of
from intarsia.privacy.secure.masks import unmasked
from intarsia.protocol import AskKeys, AskMasked, AskShares, AskUnmask, Describe, Label, Masked, Summarize, Unmasked
from intarsia.protocol.secure import SignedKeys
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import WireRuntime
from intarsia.runtime.processes import Joining
from intarsia.tables.frame import read_table

N_ROWS = 40
RULES = ReleasePolicy(min_cluster_size=1, max_rounds=None)


def tables_of(columns, seed=0, rows=N_ROWS):
    """Return a table for each participant, of two clusters, with these columns (one letter each)."""
    rng = np.random.default_rng(seed)
    side = 9 * (np.arange(rows) % 2)
    return {
        name: pl.DataFrame({each: rng.normal(size=rows) + side for each in sorted(columns[name])}) for name in columns
    }


def algorithm_of(names, quorum=None, min_holders=2, **settings):
    settings = {"random_state": 0, "max_rounds": 2, "tol": 0, "scale": "standard"} | settings
    estimator = FederatedClustering(2, secure_sums=True, min_holders=min_holders, **settings)
    return replace(estimator.algorithm_for(list(names)), quorum=quorum)


@dataclass
class Heard:
    """What participants added up, and told inside: nobody else may learn a part of it."""

    vectors: dict = field(default_factory=dict)
    """The vector of each participant and sum, before it is masked."""
    inner: dict = field(default_factory=lambda: defaultdict(list))
    """Replies that stayed with each participant."""


class People:
    """Participants on secure sums; each can be started anew from its vault."""

    def __init__(self, tables, algorithm, rules=RULES, vaults=None, credentials=None):
        self.tables, self.algorithm, self.rules = tables, algorithm, rules
        self.credentials = new_credentials(sorted(tables)) if credentials is None else credentials
        self.vaults = {name: MemoryVault() for name in tables} if vaults is None else vaults
        self.heard, self.all = Heard(), {}
        for name in tables:
            self.restart(name)

    def restart(self, name):
        terms = self.algorithm.terms(name)
        table = read_table(self.tables[name], name)
        inner = Joining(table, None, "euclidean", "observed", self.rules, terms).participant()
        secure = terms.secure_sums
        person = SecureParticipant(inner, self.credentials[name], terms, self.vaults[name]) if secure else inner
        vector, handle = getattr(person, "_vector", None), inner.handle

        def spied_vector(request, state, n):
            found = vector(request, state, n)
            if isinstance(found[0], np.ndarray):
                self.heard.vectors[name, request.index] = found[0].copy()
            return found

        def spied_handle(request):
            reply = handle(request)
            if not isinstance(request, Summarize) and not (
                isinstance(request, Describe) and request.moments_of is not None
            ):
                self.heard.inner[name].append(reply)
            return reply

        person._vector, inner.handle = spied_vector, spied_handle
        self.all[name] = person

    def handle(self, name, request):
        return self.all[name].handle(request)


class Listening(WireRuntime):
    """Keeps all requests and replies; ``away(name, request)`` do not answer."""

    def __init__(self, people, away=lambda name, request: False):
        super().__init__(list(people.all.values()))
        self._people, self._away, self.said = people, away, []

    def _ask(self, name, request):
        self._participants[name] = self._people.all[name]  # it may have been started anew
        reply = super()._ask(name, request)
        self.said.append((name, request, reply))
        return reply

    def exchange(self, requests, on_reply=None):
        return super().exchange({n: each for n, each in requests.items() if not self._away(n, each)}, on_reply)

    def of(self, kind, name=None):
        """Return the requests and replies of one kind of request, by name and in order."""
        return [each for each in self.said if isinstance(each[1], kind) and name in {None, each[0]}]


def ran(columns, quorum=None, away=lambda name, request: False, seed=0, **settings):
    """Run a study to its end, and return its participants, all that was said, and the outcome."""
    algorithm = algorithm_of(columns, quorum, **settings)
    people = People(tables_of(columns, seed), algorithm)
    runtime = Listening(people, away)
    return people, runtime, drive(algorithm, runtime, quorum=quorum)


class Liar:
    """A coordinator that asks what it likes, of participants that it knows from an honest run of the same study."""

    def __init__(self, columns, quorum=None, members=None, seed=0, **settings):
        _, self.honest, self.outcome = ran(columns, quorum, seed=seed, **settings)
        self.people = People(tables_of(columns, seed), algorithm_of(columns, quorum, **settings))
        self.names = tuple(sorted(columns))
        self.members = self.names if members is None else tuple(sorted(members))
        n_sums = self.honest.of(AskKeys)[0][1].n_sums
        self.group = Group.of("run", self.names, n_sums)
        ask = AskKeys(run="run", names=self.names, n_sums=n_sums)
        self.keys = {name: self.people.handle(name, ask) for name in self.names}
        signed = {name: Signed(each.statement, each.signature, each.public) for name, each in self.keys.items()}
        pins = {name: fingerprint_of(each.public) for name, each in signed.items()}
        self.statements = checked_statements(self.group, signed, pins)
        keys = tuple(SignedKeys(name, each.statement, each.signature, each.public) for name, each in signed.items())
        shares = {name: self.people.handle(name, AskShares(keys=keys)).boxes for name in self.names}
        self.boxes = {to: {n: shares[n][to] for n in self.members if n != to} for to in self.members}

    def asked(self, name, index):
        """Return the request of the honest run for a sum, with the shares of this run."""
        request = next(each for _, each, _ in self.honest.of(AskMasked, name) if each.index == index)
        return msgspec.structs.replace(request, boxes=self.boxes[name])

    def index_of(self, kind):
        """Return the first sum of the honest run with this kind of question."""
        return next(each.index for _, each, _ in self.honest.of(AskMasked) if isinstance(each.question, kind))

    def summarize(self):
        for name, request, _ in self.honest.of(Summarize):
            self.people.handle(name, request)

    def masked(self, requests):
        """Return the vectors of those who answer, and the failures of the others."""
        replies = {name: self.people.handle(name, request) for name, request in requests.items()}
        return (
            {name: reply.values for name, reply in replies.items() if isinstance(reply, Masked)},
            {name: reply for name, reply in replies.items() if not isinstance(reply, Masked)},
        )

    def unmask(self, index, survivors, helpers=None):
        """Return the shares of those who give some, and the failures of the others."""
        ask = AskUnmask(index=index, survivors=tuple(survivors))
        replies = {name: self.people.handle(name, ask) for name in helpers or survivors}
        return (
            {name: reply.shares for name, reply in replies.items() if isinstance(reply, Unmasked)},
            {name: reply for name, reply in replies.items() if not isinstance(reply, Unmasked)},
        )

    def total(self, index, layout, vectors, shares):
        """Return the total of vectors, all of which must be of survivors."""
        return unmasked(vectors, shares, self.group, self.statements, self.members, index, layout.digest())

    def sum_of(self, requests, survivors=None, helpers=None):
        """Ask for a sum and open it; raise an AssertionError with the first failure."""
        vectors, failures = self.masked(requests)
        first = next(iter(requests.values()))
        survivors = tuple(sorted(vectors)) if survivors is None else tuple(survivors)
        shares, more = self.unmask(first.index, survivors, helpers)
        refused = [*failures.values(), *more.values()]
        if len(shares) < self.group.threshold:
            raise AssertionError(refused[0].message)
        return self.total(first.index, first.layout, {name: vectors[name] for name in survivors}, shares)


def kinds(requests):
    """Return which question each of some requests has."""
    return {Describe: "units", Label: "labels"}.get(type(next(iter(requests.values())).question), "round")
