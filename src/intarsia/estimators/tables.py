"""Telling several tables from one, and giving each participant a name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from scipy.sparse import issparse

from intarsia.exceptions import InputError, SettingError, quote
from intarsia.frames import Table, is_table, read_table, settle_missing


def is_many(tables: Any) -> bool:
    """Whether this is a mapping or sequence of tables, rather than one table or matrix."""
    if issparse(tables):  # some sparse matrices are mappings, too
        return False
    if isinstance(tables, Mapping):
        return not is_table(tables)
    return isinstance(tables, list | tuple) and bool(tables) and all(is_table(table) for table in tables)


def keyed(tables: Any) -> dict[Hashable, Any]:
    """Participants by key: the mapping's own, or 0, 1, … of a sequence."""
    found = dict(tables) if isinstance(tables, Mapping) else dict(enumerate(tables))
    if not found:
        raise InputError("no table was given. Hint: pass a mapping such as {'clinic-a': table, 'clinic-b': table}.")
    names = [str(key) for key in found]
    if len(set(names)) < len(names):
        raise InputError(
            f"two participants have the same name: {quote(sorted({n for n in names if names.count(n) > 1}))}."
        )
    return found


def read_tables(tables: Mapping[Hashable, Any], missing: str) -> dict[Hashable, Table]:
    """Every participant's table, through the gate."""
    return {key: settle_missing(read_table(table, str(key)), missing) for key, table in tables.items()}


def for_each(setting: Any, keys: Sequence[Hashable], name: str) -> dict[str, Any]:
    """A setting by participant's name: the same for all, or looked up in a mapping (None where it has no entry)."""
    if not isinstance(setting, Mapping):
        return {str(key): setting for key in keys}
    strangers = [key for key in setting if key not in keys]
    if strangers:
        raise SettingError(f"{name} names {len(strangers)} participant(s) that have no table: {quote(strangers)}.")
    return {str(key): setting.get(key) for key in keys}
