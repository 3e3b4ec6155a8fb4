"""What a participant lets itself be asked: numbers that make sense, and no more work or memory than its rows are worth."""

from __future__ import annotations

from intarsia.core.densities.base import density_names
from intarsia.core.units import SCALES
from intarsia.exceptions import ProtocolError
from intarsia.protocol import MOST_LOCAL_CLUSTERS, Assign, Describe, Label, Refine, Request, Summarize

MOST_ITERATIONS = 1000  # of a local algorithm in one round; one that has not come to rest by then never will
_MOST_CENTRES = 10_000
_MOST_DISTANCES = 1 << 30  # from rows to centroids, held at the same time
_MOST_ROUNDS = 1 << 53


def check_asked(name: str, request: Request) -> None:
    """Refuse numbers and words that no coordinator of ours sends."""
    match request:
        case Describe():
            _require(request.scale in SCALES, name, "units that there are not")
        case Summarize():
            _require(request.scale in SCALES, name, "units that there are not")
            _require(request.density is None or request.density in density_names(), name, "a density that there is not")
            _require(request.seed >= 0, name, "a seed below 0")
            _require(request.n_proxies >= 0, name, "fewer proxies than none")
            _check_numbers(name, request)
        case Refine():
            _require(request.seed >= 0, name, "a seed below 0")
            _require(0 <= request.round < _MOST_ROUNDS, name, "a round that there is not")
            _require(request.min_points >= 1, name, "centroids that no row is nearest to")
            _require(request.max_iter >= 1, name, "less than one iteration")
        case Label() | Assign():
            pass
        case _:
            raise ProtocolError(f"a {type(request).__name__} is not a request")


def _check_numbers(name: str, request: Summarize) -> None:
    """How many clusters to look for."""
    if request.n_local_clusters is not None:
        _check_number(name, "local clusters", request.n_local_clusters)
        return
    _check_number(name, "local clusters at most", request.max_local_clusters)
    if request.n_clusters is not None:
        _check_number(name, "global clusters, and to choose the number of its own", request.n_clusters)


def _check_number(name: str, what: str, n: int) -> None:
    _require(1 <= n <= MOST_LOCAL_CLUSTERS, name, f"{n} {what}, not 1 to {MOST_LOCAL_CLUSTERS}")


def most_centres(n_rows: int) -> int:
    """So many centroids can be compared with so many rows."""
    return max(1, min(_MOST_CENTRES, _MOST_DISTANCES // max(n_rows, 1)))


def _require(holds: bool, name: str, problem: str) -> None:
    if not holds:
        raise ProtocolError(f"participant {name!r} was asked for {problem}")
