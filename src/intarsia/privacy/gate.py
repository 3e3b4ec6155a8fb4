"""The gate of a participant: its release policy at work on its table, its local clusters, and every request and reply.

What is suppressed of tables and clusters is decided in :mod:`~intarsia.privacy.suppression`; the way of a message is in
:mod:`~intarsia.privacy.pipeline`.
"""

from __future__ import annotations

from intarsia.core.densities import family_of
from intarsia.privacy.journal import Journal
from intarsia.privacy.pipeline import Cells, Pipeline
from intarsia.privacy.policy import OPEN, ReleasePolicy
from intarsia.privacy.suppression import Suppression
from intarsia.protocol import Reply, Request


class Gate:
    """The release policy of one participant, its journal, and how much it suppressed."""

    def __init__(self, policy: ReleasePolicy = OPEN, journal: Journal | None = None) -> None:
        self.policy = policy
        self.pipeline = Pipeline(policy, journal)
        self.suppression = Suppression(policy)

    @property
    def is_discreet(self) -> bool:
        """Whether errors must not contain numbers of rows: nothing rounds them."""
        return self.policy.min_cluster_size > 1 or self.policy.round_counts_to > 1

    def admit(self, request: Request) -> None:
        """Raise an error if the request is invalid, or if the policy forbids an answer."""
        self.suppression.start_request()
        self.pipeline.admit(request)

    def density(self, kind: str) -> str:
        """Return the density to fit: one with few parameters, unless the policy allows any covariance."""
        return kind if self.policy.allow_any_covariance else family_of(kind).parsimonious(kind)

    def release(self, request: Request, reply: Reply, cells: Cells) -> Reply:
        """Return what may leave of a reply about a table with these counts, after it was written to the journal."""
        return self.pipeline.release(request, reply, cells, self.suppression.counts)
