"""Release rules as files say them: those that a study starts its kits with, and a participant's own, which win.

::

    [release]
    min_cluster_size = 10
    small = "withhold"
    max_rounds = "any"              # which TOML has no other word for
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import msgspec

from intarsia.coordinator import Algorithm, FederatedAlgorithm
from intarsia.exceptions import ReleaseError, SettingError, quote
from intarsia.privacy.policy import ReleasePolicy

ANY = "any"
USUAL = ReleasePolicy()
RULES = tuple(entry.name for entry in fields(ReleasePolicy))
_AT_MOST = ("min_cluster_size", "round_counts_to")  # rules where less is looser


def rules_from(said: Any, where: str, base: ReleasePolicy = USUAL) -> ReleasePolicy:
    """The rules of ``base`` but for what a table says; what cannot be understood is an error that names it."""
    if not isinstance(said, dict):
        raise SettingError(f"{where} must be a table of rules, of which there are {', '.join(RULES)}.")
    if strange := [name for name in said if name not in RULES]:
        raise SettingError(f"{where} has rules that do not exist: {quote(strange)}. There are {', '.join(RULES)}.")
    known = {name: None if (name, value) == ("max_rounds", ANY) else value for name, value in said.items()}
    try:
        return msgspec.convert(asdict(base) | known, ReleasePolicy)
    except msgspec.ValidationError as error:
        raise SettingError(f"{where}: {str(error).rstrip('.')}.") from None


def as_table(policy: ReleasePolicy) -> dict[str, Any]:
    """All rules, as a file says them."""
    return {name: ANY if value is None else value for name, value in asdict(policy).items()}


def looser(policy: ReleasePolicy) -> list[str]:
    """Which rules let out more than the usual ones do."""
    mine, usual = as_table(policy), as_table(USUAL)
    return [
        name
        for name, value in mine.items()
        if value != usual[name]
        and (
            (name in _AT_MOST and value < usual[name])
            or (name == "max_rounds" and (value == ANY or value > usual[name]))
            or value is True
        )
    ]


def forbidden(algorithm: Algorithm, policy: ReleasePolicy) -> str | None:
    """Why the first questions of a study would be refused, by the very gate that would refuse them."""
    from intarsia.participant import Gate  # which a server need not load

    gate = Gate(policy)
    try:
        for request in algorithm.start(("you",)).requests.values():
            gate.admit(request)
    except ReleaseError as error:
        return str(error)
    return None


def rounds_beyond(algorithm: Algorithm, policy: ReleasePolicy) -> str | None:
    """What to know where a study may ask for more rounds than are answered."""
    most = policy.max_rounds
    if not isinstance(algorithm, FederatedAlgorithm) or most is None or algorithm.max_rounds <= most:
        return None
    return (
        f"the study takes up to {algorithm.max_rounds} rounds, and the release rules answer {most}: "
        "if it needs more, it ends without a result."
    )
