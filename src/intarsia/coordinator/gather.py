"""What participants reply is checked here, in shape and content, before anybody computes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.features import indicators
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import QUANTILES
from intarsia.exceptions import ProtocolError, TooFewClustersError, about, quote
from intarsia.protocol import (
    MOST_JOINT_LEVELS,
    MOST_LOCAL_CLUSTERS,
    Description,
    DirichletDensity,
    DiscreteDensity,
    GaussianDensity,
    Labelled,
    LocalSummary,
    LowRankDensity,
    Message,
    Moments,
    Refined,
    Refinement,
    Reply,
)
from intarsia.protocol.densities import problem_of

M = TypeVar("M", bound=Message)
_MOST_ROWS = 2**53  # counts are exact up to here
_MOST_LETTERS = 1000  # of a name
_KEPT_BACK = ("columns", "levels", "clusters", "entries")


def replies_of(kind: type[M], replies: Mapping[str, Reply], expected: Sequence[str]) -> dict[str, M]:
    """The replies of those who were asked this, in the order in which they were; whoever stayed away is not in it."""
    found: dict[str, M] = {}
    for name in expected:
        reply = replies.get(name)
        if reply is None:
            continue
        if not isinstance(reply, kind):
            wrong = f"participant {name!r} sent a {type(reply).__name__} where a {kind.__name__} was asked for"
            raise about(name, ProtocolError(wrong))
        told = getattr(reply, "suppressed", {})
        counts = all(what in _KEPT_BACK and 0 <= n < _MOST_ROWS for what, n in told.items())
        _require(counts, name, "something kept back that there is not")
        found[name] = reply
    return found


def check_senders(replies: Mapping[str, Reply], asked: Sequence[str], *, optional: bool = False) -> None:
    """Nobody answers who was not asked, and somebody does who was, unless that is optional."""
    if not set(replies) <= set(asked) or not (replies or optional):
        raise ProtocolError(
            f"replies came from {quote(sorted(replies))}, but were expected from {quote(sorted(asked))}"
        )


def check_description(name: str, reply: Description) -> None:
    """Names must be there, be unique and fit the moments."""
    _require(len(reply.features) + len(reply.levels) > 0, name, "no feature")
    _check_order(name, reply.features)
    _require(not set(reply.features) & set(reply.levels), name, "a column that is two kinds at once")
    _check_levels(name, reply.levels)
    _require(0 < reply.n_rows < _MOST_ROWS, name, "no rows")
    if reply.moments is not None:
        _check_moments(name, reply.moments, len(reply.features), reply.n_rows)


def check_statistics(sent: Mapping[str, Moments | None], scale: str | None) -> None:
    """Everybody sent the moments that the units need."""
    silent = [name for name, moments in sent.items() if scale is not None and moments is None]
    if silent:
        raise about(silent[0], ProtocolError(f"the moments of {quote(silent)} are missing, which were asked for"))
    for name, moments in sent.items():
        if moments is not None:
            _require(
                scale != "minmax" or moments.low is not None,
                name,
                "no smallest and largest cells, which were asked for",
            )
            _require(scale != "robust" or moments.quantiles is not None, name, "no quantiles, which were asked for")


def check_summary(name: str, reply: LocalSummary) -> None:
    """Shapes must fit each other, counts must be counts, and what is not hidden must be a number."""
    _check_features(name, reply.features)
    _check_levels(name, reply.levels)
    _require(set(indicators(reply.levels)) <= set(reply.features), name, "levels without a feature")
    _require(0 < reply.n_rows < _MOST_ROWS, name, "no rows")
    filled = reply.filled
    whole = filled.shape == (len(reply.features),) and filled.dtype.kind == "i"
    _require(whole and bool(((filled >= 0) & (filled <= reply.n_rows)).all()), name, "counts that do not fit its rows")
    shape = (len(reply.sizes), len(reply.features)) if reply.sizes.ndim == 1 else None
    _require(
        shape is not None and reply.values.shape == shape and reply.counts.shape == shape, name, "shapes do not fit"
    )
    if len(reply.sizes) == 0:
        none = f"participant {name!r} found no cluster at all (every row is noise). "
        hint = "Hint: give it a less strict local algorithm, or leave it out."
        raise about(name, TooFewClustersError(none + hint))
    _require(len(reply.sizes) <= MOST_LOCAL_CLUSTERS, name, f"more than {MOST_LOCAL_CLUSTERS} local clusters")
    _require(reply.clarity is None or -1 <= reply.clarity <= 1, name, "a clarity that is no silhouette")
    _require(reply.sizes.dtype.kind == "i" and bool((reply.sizes > 0).all()), name, "a cluster without rows")
    _require(int(reply.sizes.sum(dtype=object)) <= reply.n_rows, name, "more rows in clusters than in all")
    _check_numbers(name, reply.values, reply.counts)
    fewer = (reply.counts <= reply.sizes[:, None]).all() and (reply.counts.sum(axis=0) <= filled).all()
    _require(bool(fewer), name, "more filled cells than rows")
    if reply.densities is not None:
        _require(len(reply.densities) == len(reply.sizes), name, "not one density per cluster")
        for density, counts in zip(reply.densities, reply.counts, strict=True):
            problem = problem_of(density, int((counts > 0).sum()))
            _require(problem is None, name, str(problem))
    if reply.fidelity is not None:
        fits = reply.fidelity.shape == (len(reply.sizes), 4) and reply.fidelity.dtype.kind == "f"
        sane = fits and not (np.isinf(reply.fidelity[:, :3]) | (reply.fidelity[:, :3] < 0)).any()
        _require(sane, name, "a fidelity that is none")
    if reply.low is not None and reply.high is not None:
        _require(reply.low.shape == shape and reply.high.shape == shape, name, "a bounding box of the wrong shape")
        inside = _is_moderate(reply.low) and _is_moderate(reply.high) and bool((reply.low <= reply.high).all())
        _require(inside, name, "a bounding box that is none")
    if reply.moments is not None:
        _check_moments(name, reply.moments, len(reply.features), reply.n_rows)


def check_densities(summaries: Mapping[str, LocalSummary], kind: str) -> None:
    """Everybody sent densities, of the kind that was asked for."""
    wanted: tuple[type, ...] = {"dirichlet": (DirichletDensity,), "discrete": (DiscreteDensity,)}.get(
        kind, (GaussianDensity, LowRankDensity)
    )
    for name, summary in summaries.items():
        if summary.densities is None:
            raise about(name, ProtocolError(f"participant {name!r} sent no densities, which were asked for"))
        _require(all(isinstance(d, wanted) for d in summary.densities), name, f"densities that are not {kind}")
        _require(kind != "dirichlet" or not summary.levels, name, "a composition with categories in it")


def check_centroids(name: str, reply: Refined, shape: tuple[int, int]) -> None:
    """Refined centroids must have the shape that was asked for, and no more cells behind them than rows."""
    fits = reply.values.shape == shape and reply.counts.shape == shape and reply.sizes.shape == shape[:1]
    _require(fits, name, "centroids of the wrong shape")
    whole = reply.sizes.dtype.kind == "i" and bool(((reply.sizes >= 0) & (reply.sizes < _MOST_ROWS)).all())
    _require(whole, name, "sizes that are not sizes")
    _require(0 <= reply.misfit < np.inf, name, "a misfit that is not a sum of squares")
    _check_numbers(name, reply.values, reply.counts)
    _require(bool((reply.counts <= reply.sizes[:, None]).all()), name, "more filled cells than rows")


def check_rows(name: str, reply: Refinement, n_rows: int) -> None:
    """Nobody has more rows in clusters than it said it has: counts are weights, and huge ones would outweigh everybody."""
    for part in reply.refined:
        whole = part.sizes.dtype.kind == "i" and int(part.sizes.sum(dtype=object)) <= n_rows
        _require(whole, name, "more rows in clusters than in all")


def sizes_of(
    labelled: Mapping[str, Labelled], participants: Sequence[str], n_clusters: int, n_rows: Mapping[str, int]
) -> dict[str, IntArray]:
    """How many rows of each participant are in each cluster, in all no more than it has; none of one that did not say."""
    for name, reply in labelled.items():
        sizes = reply.sizes
        fits = sizes.shape == (n_clusters,) and sizes.dtype.kind == "i" and bool((sizes >= 0).all())
        _require(fits and int(sizes.sum(dtype=object)) <= n_rows[name], name, "sizes that do not fit the clusters")
    nobody = np.zeros(n_clusters, dtype=np.intp)
    return {name: labelled[name].sizes if name in labelled else nobody for name in participants}


def checked_spread(name: str, reply: Labelled, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Counts and sums of squares, which must be there, be such and have the shape that was asked for."""
    if reply.counts is None or reply.squares is None:
        unsaid = f"participant {name!r} did not say how far its rows are from the centroids"
        raise about(name, ProtocolError(unsaid))
    _require(reply.counts.shape == reply.squares.shape == shape, name, "a spread of the wrong shape")
    _check_numbers(name, np.zeros(shape), reply.counts)
    fewer = reply.sizes.shape == shape[:1] and bool((reply.counts <= reply.sizes[:, None]).all())
    _require(fewer, name, "more filled cells than rows")
    sane = reply.squares.dtype.kind == "f" and _is_moderate(reply.squares, squared=True) and (reply.squares >= 0).all()
    _require(bool(sane), name, "squares that are not sums of squares")
    return reply.counts, reply.squares


def _check_numbers(name: str, values: FloatArray, counts: FloatArray) -> None:
    whole = (
        np.isfinite(counts).all() and (counts >= 0).all() and (counts < _MOST_ROWS).all() and (counts % 1 == 0).all()
    )
    _require(bool(whole), name, "counts that are not counts")
    _require(values.dtype.kind == "f" and _is_moderate(values[counts > 0]), name, "centroids that are not finite")


def _check_features(name: str, features: tuple[str, ...]) -> None:
    _require(len(features) > 0, name, "no feature")
    _check_order(name, features)


def _check_order(name: str, features: tuple[str, ...]) -> None:
    _require(all(map(_is_name, features)), name, "a feature without a name, or with one far too long")
    _require(len(set(features)) == len(features), name, "a feature twice")
    _require(tuple(sorted(features)) == tuple(features), name, "features that are not in order")


def _check_levels(name: str, levels: Mapping[str, tuple[str, ...]]) -> None:
    fits = all(_is_name(column) and 0 < len(own) == len(set(own)) for column, own in levels.items())
    short = all(len(level) <= _MOST_LETTERS for own in levels.values() for level in own)
    _require(fits and short, name, "levels that are none")
    _require(all(len(own) <= MOST_JOINT_LEVELS for own in levels.values()), name, "far too many levels")


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= _MOST_LETTERS


def _check_moments(name: str, moments: Moments, d: int, n_rows: int) -> None:
    _require((moments.low is None) == (moments.high is None), name, "half of its extremes")
    parts = [moments.count, moments.mean, moments.m2]
    sane = _is_moderate(moments.count) and _is_moderate(moments.mean) and _is_moderate(moments.m2, squared=True)
    if moments.low is not None and moments.high is not None:
        parts += [moments.low, moments.high]
        sane = sane and _is_moderate(moments.low) and _is_moderate(moments.high)
    _require(
        all(part.shape == (d,) and part.dtype.kind == "f" for part in parts) and sane, name, "moments that do not fit"
    )
    _require(bool((moments.count >= 0).all() and (moments.m2 >= 0).all()), name, "negative counts or squares")
    counts = (moments.count <= n_rows) & (moments.count % 1 == 0)
    _require(bool(counts.all()), name, "moments of more cells than rows")
    if moments.low is not None and moments.high is not None:
        _require(bool((moments.low <= moments.high).all()), name, "a smallest cell above the largest")
    quantiles = moments.quantiles
    if quantiles is not None:
        fits = quantiles.shape == (len(QUANTILES), d) and quantiles.dtype.kind == "f" and _is_moderate(quantiles)
        _require(fits and bool((np.diff(quantiles, axis=0) >= 0).all()), name, "quantiles that are none")


def _is_moderate(values: FloatArray, *, squared: bool = False) -> bool:
    """Finite, and small enough to be squared and summed; sums of squares may be as large as such sums get."""
    return bool((np.abs(values) <= (LARGEST**2 * _MOST_ROWS if squared else LARGEST)).all())


def _require(holds: bool, name: str, problem: str) -> None:
    if not holds:
        raise about(name, ProtocolError(f"the reply of participant {name!r} cannot be used: {problem}"))
