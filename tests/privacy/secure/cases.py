"""Participants of secure sums, and a coordinator that follows the protocol or tries not to."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from intarsia.privacy.secure.group import Group, checked_statements, make_secrets, signed_statement
from intarsia.privacy.secure.identity import Identity, fingerprint_of
from intarsia.privacy.secure.masks import masked, shares_for, unmasked
from intarsia.privacy.secure.shares import opened_boxes, split

CONTEXT = b"the digest of a question"


@lru_cache
def identity(name):
    """A key by name: making one takes longer than a small sum."""
    return Identity.create()


class Federation:
    """All participants of one run, after the set-up.

    ``silent`` made no statement, ``closed`` no boxes; ``columns`` are those of each participant.
    """

    def __init__(self, names, n_sums=1, run="run", silent=(), closed=(), columns=None):
        self.group = Group.of(run, names, n_sums)
        self.names = self.group.names
        self.pins = {name: fingerprint_of(identity(name).public) for name in self.names}
        self.secrets = {name: make_secrets(n_sums) for name in self.names}
        speakers = [name for name in self.names if name not in silent]
        columns = columns or dict.fromkeys(self.names, ("age", "height"))
        self.signed = {
            name: signed_statement(identity(name), self.group, name, columns[name], self.secrets[name])
            for name in speakers
        }
        self.statements = checked_statements(self.group, self.signed, self.pins)
        self.splits = {name: self.split(name) for name in speakers if name not in closed}
        self.members = tuple(sorted(self.splits))
        self.held = {name: self.opened(name, self.members) for name in self.members}

    def split(self, name, statements=None):
        return split(self.group, name, self.secrets[name], statements or self.statements)

    def opened(self, name, senders, statements=None):
        """What a participant holds if the coordinator carries only the boxes of ``senders``."""
        boxes = {sender: self.splits[sender][0][name] for sender in senders if sender != name}
        statements = statements or self.statements
        return opened_boxes(self.group, name, self.secrets[name], statements, self.splits[name][1], boxes)

    def masked(self, name, values, index=0, context=CONTEXT, members=None, statements=None):
        how = statements or self.statements, members or self.members, index, context
        return masked(values, self.group, name, self.secrets[name], *how)

    def shares(self, helper, survivors, index=0):
        held = self.held[helper]
        return shares_for(held, self.group, helper, held.members, index, tuple(survivors))

    def total(self, vectors, helpers=None, index=0, context=CONTEXT):
        shares = {helper: self.shares(helper, vectors, index) for helper in helpers or vectors}
        return unmasked(vectors, shares, self.group, self.statements, self.members, index, context)


def names_of(n):
    return [f"site {k:02}" for k in range(n)]


def random_values(names, rng, size=6):
    return {name: rng.integers(-(2**58), 2**58, size, dtype=np.int64) for name in names}
