"""Telling several tables from one, and giving each participant a name."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, ValuesView
from typing import Any

from scipy.sparse import issparse

from intarsia.exceptions import InputError, SettingError, TableTypeError, quote
from intarsia.tables import AnyTable, is_parquet, take_in
from intarsia.tables.frame import column_names, is_table, is_writable


def is_many(tables: Any) -> bool:
    """Whether this is a mapping or collection of tables, rather than one table or matrix."""
    if issparse(tables) or is_table(tables) or is_parquet(tables):  # some sparse matrices are mappings, too
        return False
    if isinstance(tables, Mapping | ValuesView | Iterator):
        return True
    if not isinstance(tables, list | tuple):
        return False
    # a list of rows is a matrix; one with a table in it, or nothing that could be a row, is meant as a list of tables
    return not tables or any(_meant_as_table(thing) for thing in tables)


def _meant_as_table(thing: Any) -> bool:
    return (
        is_table(thing)
        or is_parquet(thing)
        or thing is None
        or isinstance(thing, str)
        or getattr(thing, "ndim", 0) == 2
    )


def has_text_names(table: Any) -> bool:
    """Whether this is one table, some column of which has a name. (pandas numbers the columns of a matrix.)"""
    return is_parquet(table) or (is_table(table) and any(isinstance(name, str) for name in column_names(table) or ()))


def check_one(table: Any) -> None:
    """Refuse what is neither tables nor a matrix before scikit-learn does so in its own words."""
    like_a_matrix = hasattr(table, "__array__") or hasattr(table, "shape") or isinstance(table, list | tuple)
    if not like_a_matrix and not is_table(table) and not is_parquet(table):
        raise TableTypeError(
            f"tables were expected, and a {type(table).__name__} was given. Hint: pass a mapping or a list of pandas, "
            "polars or pyarrow tables, one per participant, or one matrix."
        )


def keyed(tables: Any) -> dict[Hashable, Any]:
    """Participants by key: the mapping's own, or 0, 1, … of a sequence."""
    found = dict(tables) if isinstance(tables, Mapping) else dict(enumerate(tables))
    if not found:
        raise InputError("no table was given. Hint: pass a mapping such as {'clinic-a': table, 'clinic-b': table}.")
    names = [str(key) for key in found]
    if odd := [name for name in names if not is_writable(name)]:
        raise InputError(
            f"{len(odd)} participant(s) have names with halves of characters, which no file can hold: {quote(odd)}."
        )
    if len(set(names)) < len(names):
        raise InputError(
            f"two participants have the same name: {quote(sorted({n for n in names if names.count(n) > 1}))}."
        )
    return found


def read_tables(tables: Mapping[Hashable, Any], missing: Mapping[str, Any]) -> dict[Hashable, AnyTable]:
    """Every participant's table, through the gate."""
    return {key: take_in(table, str(key), missing[str(key)] or "observed") for key, table in tables.items()}


def for_each(setting: Any, keys: Sequence[Hashable], name: str) -> dict[str, Any]:
    """A setting by participant's name: the same for all, or looked up in a mapping (None where it has no entry)."""
    if not isinstance(setting, Mapping):
        return {str(key): setting for key in keys}
    strangers = [key for key in setting if key not in keys]
    if strangers:
        raise SettingError(f"{name} names {len(strangers)} participant(s) that have no table: {quote(strangers)}.")
    return {str(key): setting.get(key) for key in keys}
