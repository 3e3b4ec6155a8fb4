"""TOML files with typed settings and a ``[release]`` table: one way to read them, one kind of error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from intarsia._files import read_toml
from intarsia.exceptions import SettingError, quote
from intarsia.federation.release_rules import rules_from

S = TypeVar("S", bound=msgspec.Struct)


def read_settings_file(path: Path, kind: type[S]) -> S:
    """Read a file into a settings class that has a field ``release``.

    Raises
    ------
    SettingError
        If a setting is unknown, has the wrong type or an invalid value.
    InputError
        If the file cannot be read or is not TOML.
    """
    table = read_toml(path)
    release = rules_from(table.pop("release", {}), f"[release] of {path}")
    return msgspec.structs.replace(typed(table, kind, str(path)), release=release)


def typed(table: dict[str, Any], kind: type[S], where: str) -> S:
    """Return a table as a settings class, or raise a SettingError that names ``where`` and the setting."""
    known = [name for name in kind.__struct_fields__ if not name.startswith("_")]
    if unknown := [name for name in table if name not in known]:
        raise SettingError(f"{where} has unknown settings: {quote(unknown)}. Known settings: {', '.join(known)}.")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise SettingError(f"{where}: {str(error).rstrip('.')}.") from None
