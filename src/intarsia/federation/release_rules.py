"""Release rules as files write them: those that a study proposes for its kits, and a participant's own, which win.

::

    [release]
    min_cluster_size = 10
    small = "withhold"
    max_rounds = "any"              # any number; TOML has no null
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import msgspec

from intarsia.exceptions import SettingError, quote
from intarsia.privacy.policy import ReleasePolicy

ANY = "any"
DEFAULT = ReleasePolicy()
RULES = tuple(entry.name for entry in fields(ReleasePolicy))
_LESS_IS_LOOSER = ("min_cluster_size", "round_counts_to")


def rules_from(table: Any, where: str, base: ReleasePolicy = DEFAULT) -> ReleasePolicy:
    """Return the rules of ``base``, changed by a table of a file; an error names ``where`` and the rule."""
    if not isinstance(table, dict):
        raise SettingError(f"{where} must be a table of rules: {', '.join(RULES)}.")
    if unknown := [name for name in table if name not in RULES]:
        raise SettingError(f"{where} has unknown rules: {quote(unknown)}. Known rules: {', '.join(RULES)}.")
    changed = {name: None if (name, value) == ("max_rounds", ANY) else value for name, value in table.items()}
    try:
        return msgspec.convert(asdict(base) | changed, ReleasePolicy)
    except msgspec.ValidationError as error:
        raise SettingError(f"{where}: {str(error).rstrip('.')}.") from None


def as_table(policy: ReleasePolicy) -> dict[str, Any]:
    """Return all rules as a file writes them."""
    return {name: ANY if value is None else value for name, value in asdict(policy).items()}


def looser(policy: ReleasePolicy) -> list[str]:
    """Return the names of the rules that let more leave than the default rules do."""
    return [name for name, value in as_table(policy).items() if _is_looser(name, value, as_table(DEFAULT)[name])]


def _is_looser(name: str, value: Any, default: Any) -> bool:
    if isinstance(value, bool):
        return value and not default
    if name in _LESS_IS_LOOSER:
        return bool(value < default)
    return name == "max_rounds" and (value == ANY or value > default)
