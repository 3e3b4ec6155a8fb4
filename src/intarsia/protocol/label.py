"""The exchanges "label" and "assign": a participant labels its rows, keeps the labels, and counts them."""

from __future__ import annotations

from intarsia.protocol.centres import Centres, Gaussians
from intarsia.protocol.layout import Columns
from intarsia.protocol.wire import Array, Exchange, Reply, Request


class Label(Request, frozen=True, tag="query.label"):
    """Label your rows by the nearest of these centroids, or by the likeliest of ``gaussians`` around them, where there are.

    The labels stay with you.
    """

    centres: Centres
    gaussians: Gaussians | None = None
    columns: Columns | None = None


class Assign(Request, frozen=True, tag="query.assign"):
    """Label your rows by the group of their local cluster. The labels stay with you."""

    groups: Array
    n_groups: int


class Labelled(Reply, frozen=True, tag="reply.labelled"):
    """How many of the participant's rows are in each global cluster.

    After :class:`Label` also, per cluster and feature, how many cells are filled and the sum of their squared deviations
    from the centroid that was sent.
    """

    sizes: Array
    counts: Array | None = None
    squares: Array | None = None


LABEL = Exchange(Label, Labelled, title="labels")
ASSIGN = Exchange(Assign, Labelled, title="labels")
