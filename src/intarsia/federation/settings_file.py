"""TOML files with typed settings and a table of release rules: one way to read them, one kind of error.

A study proposes the rules for its kits; a participant's own rules win. ::

    [release]
    min_cluster_size = 10
    small = "withhold"
    max_rounds = "any"              # any number; TOML has no null
    max_rounds_per = "month"        # rounds count by calendar month, and at most max_rounds_in_all over all months
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from intarsia._files import read_toml
from intarsia.exceptions import SettingError, quote
from intarsia.privacy.policy import ReleasePolicy

S = TypeVar("S", bound=msgspec.Struct)
ANY = "any"
DEFAULT = ReleasePolicy()
RULES = tuple(entry.name for entry in fields(ReleasePolicy))
_LESS_IS_LOOSER = ("min_cluster_size", "round_counts_to")


def read_settings_file(path: Path, kind: type[S], **readers: Callable[[Any, str], Any]) -> S:
    """Read a file into a settings class that has a field ``release``; other tables may have readers of their own.

    Raises
    ------
    SettingError
        If a setting is unknown, has the wrong type or an invalid value.
    InputError
        If the file cannot be read or is not TOML.
    """
    table = read_toml(path)
    parts = {"release": rules_from(table.pop("release", {}), f"[release] of {path}")}
    parts |= {name: read(table.pop(name), f"[{name}] of {path}") for name, read in readers.items() if name in table}
    return msgspec.structs.replace(typed(table, kind, str(path)), **parts)


def typed(table: dict[str, Any], kind: type[S], where: str) -> S:
    """Return a table as a settings class, or raise a SettingError that names ``where`` and the setting."""
    known = [name for name in kind.__struct_fields__ if not name.startswith("_")]
    if unknown := [name for name in table if name not in known]:
        raise SettingError(f"{where} has unknown settings: {quote(unknown)}. Known settings: {', '.join(known)}.")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise SettingError(f"{where}: {str(error).rstrip('.')}.") from None


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
    rules = {name: ANY if value is None else value for name, value in asdict(policy).items()}
    if policy.max_rounds_per is None:  # as in forms of older versions
        del rules["max_rounds_per"], rules["max_rounds_in_all"]
    return rules


def looser(policy: ReleasePolicy) -> list[str]:
    """Return the names of the rules that let more leave than the default rules do."""
    rules = as_table(policy)
    return [name for name, value in rules.items() if _is_looser(name, value, as_table(DEFAULT).get(name))]


def _is_looser(name: str, value: Any, default: Any) -> bool:
    if isinstance(value, bool):
        return value and not default
    if default is None:  # rounds by period: more in all than without
        return name == "max_rounds_per"
    if name in _LESS_IS_LOOSER:
        return bool(value < default)
    return name == "max_rounds" and (value == ANY or value > default)
