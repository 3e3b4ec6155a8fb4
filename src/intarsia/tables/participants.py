"""The tables of several participants: telling them from one table, naming them, and holding them all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, ValuesView
from contextlib import contextmanager
from typing import Any

from scipy.sparse import issparse

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import InputError, NonNumericError, TableTypeError, quote
from intarsia.tables.categories import unusable_columns
from intarsia.tables.frame import is_table
from intarsia.tables.names import check_participants, column_names, is_valid_text
from intarsia.tables.open import AnyTable, exists, is_openable, open_table

_MOST_ERRORS = 5


def is_many(tables: Any) -> bool:
    """Return whether this is a mapping or collection of tables, rather than one table or matrix."""
    if issparse(tables) or is_openable(tables):  # some sparse matrices are mappings, too
        return False
    if isinstance(tables, Mapping | ValuesView | Iterator):
        return True
    if not isinstance(tables, list | tuple):
        return False
    # a list of rows is a matrix; one with a table in it, or nothing that could be a row, is meant as a list of tables
    return not tables or any(_is_meant_as_table(table) for table in tables)


def _is_meant_as_table(table: Any) -> bool:
    return is_openable(table) or table is None or isinstance(table, str) or getattr(table, "ndim", 0) == 2


def has_text_names(table: Any) -> bool:
    """Return whether this is one table with a column that has a name. (pandas numbers the columns of a matrix.)"""
    if is_table(table):
        return any(isinstance(name, str) for name in column_names(table) or ())
    return is_openable(table)


def check_one(table: Any) -> None:
    """Raise an error for an object that is neither a table nor a matrix, before scikit-learn does."""
    is_matrix = hasattr(table, "__array__") or hasattr(table, "shape") or isinstance(table, list | tuple)
    if not is_matrix and not is_openable(table):
        raise TableTypeError(
            f"tables are needed, and an object of type {type(table).__name__} was given. Hint: pass a mapping or a list of "
            "pandas, polars or pyarrow tables or of paths, one per participant, or one matrix."
        )


def keyed(tables: Any) -> dict[Hashable, Any]:
    """Return tables by participant: with the keys of a mapping, or 0, 1, … for a sequence."""
    by_key = dict(tables) if isinstance(tables, Mapping) else dict(enumerate(tables))
    if not by_key:
        raise InputError("no table was given. Hint: pass a mapping such as {'clinic-a': table, 'clinic-b': table}.")
    _check_not_cells(by_key)
    names = [str(key) for key in by_key]
    if invalid := [name for name in names if not is_valid_text(name)]:
        raise InputError(
            f"{len(invalid)} participant(s) have names with characters that are not valid UTF-8: {quote(invalid)}."
        )
    if len(set(names)) < len(names):
        raise InputError(
            f"two participants have the same name: {quote(sorted({n for n in names if names.count(n) > 1}))}."
        )
    check_participants(names)
    return by_key


def _check_not_cells(by_key: Mapping[Hashable, Any]) -> None:
    """Raise an error for a mapping of columns to single values, which is meant as one table."""
    single = [key for key, value in by_key.items() if _is_single_value(value)]
    if single and not any(is_openable(value) for value in by_key.values()):
        types = sorted({type(by_key[key]).__name__ for key in single})
        raise TableTypeError(
            f"{len(single)} of {len(by_key)} entries are single values ({', '.join(types)}): {quote(single)}. "
            "One table needs a list or an array for each column, even for one row; several tables need a table for each "
            f"participant. Hint: pass {{{quote(single[:1])}: [value]}}, or {{'clinic-a': table}}."
        )


def _is_single_value(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and not exists(value))


def check_left_out(columns: Iterable[str], known: Collection[str]) -> None:
    """Raise an error if a column to leave out is in no table."""
    if unknown := [column for column in columns if column not in known]:
        raise InputError(f"{len(unknown)} column(s) to leave out are in no table: {quote(unknown)}.")


def for_all(tables: Mapping[Any, Any], action: Callable[[Hashable, Any], Any]) -> dict[Hashable, Any]:
    """Return the result of an action by participant; errors about several participants are raised as one."""
    results, errors = {}, Errors()
    for key, table in tables.items():
        with errors.collected(str(key)):
            results[key] = action(key, table)
    errors.raise_all()
    return results


def hold_all(
    tables: Mapping[Hashable, Any], missing: Mapping[str, str | None], declared: DifferentialPrivacy | None = None
) -> dict[Hashable, AnyTable]:
    """Return what every participant holds; ``missing`` says by participant how its missing values are treated.

    In a private study columns are read as they are ``declared``.
    """

    def held(key: Hashable, table: Any) -> AnyTable:
        return open_table(table, str(key), declared=declared).hold(missing[str(key)] or "observed", declared)

    return for_all(tables, held)


class Errors:
    """Errors about tables of several participants, which are raised as one, so that all can be mended at once."""

    def __init__(self) -> None:
        self._errors: dict[str, InputError] = {}

    @contextmanager
    def collected(self, owner: str) -> Iterator[None]:
        """Keep an error about a participant's table instead of raising it."""
        try:
            yield
        except InputError as error:
            self._errors[owner] = error

    def raise_all(self, hint: str = "") -> None:
        """Raise the errors that were collected as one, with every hint once; ``hint`` is one more for unusable columns."""
        if not self._errors:
            return
        errors = list(self._errors.values())
        unusable = {
            owner: e.columns for owner, e in self._errors.items() if isinstance(e, NonNumericError) and e.columns
        }
        if len(unusable) == len(errors):
            reasons = {owner: reasons for columns in unusable.values() for owner, reasons in columns.items()}
            raise NonNumericError(str(unusable_columns(reasons)) + hint) from errors[0]
        if len(errors) == 1:
            raise errors[0]
        parts = [str(error).partition(" Hint: ")[::2] for error in errors]
        more = (
            f" {len(errors) - _MOST_ERRORS} more participants have such errors." if len(errors) > _MOST_ERRORS else ""
        )
        hints = dict.fromkeys(text for _, text in parts[:_MOST_ERRORS] if text)
        kinds = {type(error) for error in errors}
        kind = kinds.pop() if len(kinds) == 1 else InputError
        text = " ".join(body for body, _ in parts[:_MOST_ERRORS]) + more
        raise kind(text + (f" Hint: {' '.join(hints)}" if hints else "")) from errors[0]
