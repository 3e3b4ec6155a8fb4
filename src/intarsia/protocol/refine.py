"""The exchange "refine": one round, in which a participant moves the global centroids by its rows."""

from __future__ import annotations

from intarsia.protocol.centres import Centres
from intarsia.protocol.layout import Columns
from intarsia.protocol.wire import Array, Exchange, Part, Reply, Request

MOST_SETS = 8  # of centroids in one request


class Refine(Request, frozen=True, tag="query.refine"):
    """Start from these global centroids, refine those that fit your rows, and send back which moved where.

    ``rivals`` are sets of centroids to start from, each on its own: more than one while the coordinator is in doubt which
    local clusters belong together.
    """

    seed: int
    round: int
    rivals: tuple[Centres, ...]
    min_points: int
    max_iter: int
    columns: Columns | None = None


class Refined(Part, frozen=True):
    """Refined centroids, in the order of the global ones, and how many rows stand behind each; 0 where there are none.

    ``misfit`` is the sum over all rows of the squared distance to the nearest centroid that was sent.
    """

    values: Array
    counts: Array
    sizes: Array
    misfit: float


class Refinement(Reply, frozen=True, tag="reply.refinement"):
    """One answer for each set of centroids that was sent."""

    refined: tuple[Refined, ...]


REFINE = Exchange(Refine, Refinement, title="rounds")
