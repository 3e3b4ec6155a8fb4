"""The rows of one query to PostgreSQL, batch by batch, in a transaction that only reads.

The driver's own errors quote rows and parts of the query. They are replaced by what kind of error it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from intarsia.exceptions import InputError, SettingError, install, quote

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_SCHEMES = ("postgresql", "postgres")
_BATCH = 1 << 20  # bytes that the driver gathers
_READS_ONLY = "set transaction isolation level repeatable read read only"
_STATES = {  # by SQLSTATE or its first two characters, the class
    "22": "a value does not fit what the query does with it",
    "22003": "a number is too large for its type",
    "22012": "the query divides by zero",
    "22P02": "a value cannot be converted as the query asks",
    "22007": "a value cannot be converted as the query asks",
    "23": "the query breaks a rule of the database",
    "25006": "the query tries to write, and the transaction only reads",
    "28": "the database refuses this user or password",
    "42501": "this user may not read a table of the query",
    "42P01": "the query names a table that does not exist, or that this user does not see",
    "42703": "the query names a column that does not exist",
    "42601": "the query has a syntax error",
    "42": "the query is not valid",
    "53": "the database has not enough disk, memory or connections",
    "57014": "the query was cancelled, or took longer than the database allows",
    "57": "the database was shut down, or ended the connection",
    "08": "the connection was lost",
}
_CONNECTING = {  # parts of the driver's text, which is about the server and no row
    "password authentication failed": "the database refuses this user or password. Hint: PGPASSWORD, or ~/.pgpass",
    "no password supplied": "the database wants a password. Hint: PGPASSWORD, or ~/.pgpass",
    "Connection refused": "nothing answers at this host and port. Hint: is the database running, and the port right?",
    "could not translate host name": "the host has no address. Hint: check its name",
    "No such file or directory": "there is no socket. Hint: name the host: postgresql://user@host/database",
    "does not exist": "the database has no such database or user. Hint: check both names",
    "SSL": "no secure connection could be made. Hint: sslmode and sslrootcert in the address",
    "certificate": "no secure connection could be made. Hint: sslmode and sslrootcert in the address",
    "timeout": "the host does not answer. Hint: check its name and the firewall",
    "definition of service": "the service is not in the service file. Hint: ~/.pg_service.conf",
}

_READING = {  # parts of texts without an SQLSTATE, while rows are read
    "read-only transaction": _STATES["25006"],
    "terminating connection": _STATES["57"],
    "server closed the connection": _STATES["08"],
    "canceling statement": _STATES["57014"],
    "No space left on device": _STATES["53"],
    "invalid input syntax": _STATES["22P02"],
    "division by zero": _STATES["22012"],
    "out of range": _STATES["22003"],
}


def check_address(address: str) -> None:
    """Raise an error for an address that is not one of PostgreSQL, or that has a password in it."""
    try:
        parts = urlsplit(address)
        has_password = parts.password is not None or "password" in unquote(address).lower()
    except ValueError:
        raise SettingError("the address of the database is not valid. Hint: postgresql://user@host/database") from None
    if has_password:
        raise SettingError(
            "the address of the database has a password in it, which others can read in lists of processes and in the "
            "history of a shell. Hint: leave it out, and use the environment variable PGPASSWORD or the file ~/.pgpass."
        )
    if "#" in address:
        raise SettingError(
            "the address of the database has a # in it, which has no meaning there. Hint: write it as %23."
        )
    if parts.scheme not in _SCHEMES:
        raise SettingError(
            "the address of the database must begin with postgresql://, as in postgresql://user@host/database. Other "
            "databases are not supported: export from them to Parquet or CSV."
        )


@contextmanager
def batches_of(query: str, address: str) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Connect, and give the columns of a query and its rows. Nothing is read twice, and nothing is written.

    Raises
    ------
    InputError
        If the database cannot be reached, refuses the query, or ends the connection; without any part of a row.
    """
    check_address(address)
    if find_spec("adbc_driver_postgresql") is None:
        raise InputError(f"databases need adbc-driver-postgresql. {install('postgres')}")
    from adbc_driver_postgresql import dbapi

    connection = _asked("connecting", lambda: dbapi.connect(address))
    cursor = None
    try:
        _asked("the query", lambda: _begin(connection))
        cursor = connection.cursor()
        reader = _asked("the query", lambda: _started(cursor, query))
        yield reader.schema, _rows(reader, cursor)
    finally:
        _close(cursor)
        _close(connection)


def _begin(connection: Any) -> None:
    """Begin a transaction that only reads, all of it at one moment."""
    setting = connection.cursor()
    try:
        setting.execute(_READS_ONLY)
        setting.execute("set client_encoding to 'UTF8'")
    finally:
        _close(setting)


def _started(cursor: Any, query: str) -> Any:
    """Start a query, and return the reader of its rows."""
    cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH)})
    cursor.execute(query + "\n")  # it may end with a comment
    return cursor.fetch_record_batch()


def _rows(reader: Any, cursor: Any = None) -> Iterator[pa.RecordBatch]:
    while (batch := _asked("reading rows", lambda: _next(reader, cursor))) is not None:
        yield batch


def _next(reader: Any, cursor: Any) -> pa.RecordBatch | None:
    """Return the next rows. pyarrow's error has no SQLSTATE; the driver keeps its own error, which has one."""
    import pyarrow as pa

    try:
        return next(reader, None)
    except (pa.ArrowException, OSError) as error:
        kept = getattr(getattr(getattr(cursor, "_results", None), "reader", None), "_helper", None)  # no public way
        if kept is not None:
            kept.check_error(error)
        raise


def _close(opened: Any) -> None:
    """Close a cursor or a connection, which may be broken; what was read does not depend on it."""
    import adbc_driver_manager

    try:
        if opened is not None:
            opened.close()
    except (adbc_driver_manager.Error, OSError, RuntimeError):
        return


def _asked(step: str, action: Callable[[], T]) -> T:
    """Return what an action returns; the driver's errors, whose texts quote rows, are replaced."""
    import adbc_driver_manager
    import pyarrow as pa

    try:
        return action()
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
        failure = _failure(step, error)
    raise failure  # outside of the handler: its context would quote rows


def _failure(step: str, error: Exception) -> InputError:
    state = getattr(error, "sqlstate", None) or ""
    kind = type(error).__name__ + (f", SQLSTATE {state}" if state else "")
    if step == "connecting" and not state:
        known = (words for part, words in _CONNECTING.items() if part in str(error))
        return InputError(f"the database cannot be reached: {next(known, 'the driver failed')} ({kind}).")
    why = _STATES.get(state) or _STATES.get(state[:2])
    why = why or next((words for part, words in _READING.items() if part in str(error)), None)
    if why is None:
        why = "the connection was lost, or a row cannot be read" if step == "reading rows" else "the database failed"
    hint = "Hint: try the query in psql; its messages are not shown here, because they quote rows."
    return InputError(f"{step} failed: {why} ({kind}). {hint}")


def check_types(schema: pa.Schema, file: str) -> None:
    """Raise an error about columns of types that are neither numbers, truth values, texts nor dates."""
    refused: Mapping[str, str] = {field.name: words for field in schema if (words := _unsupported(field))}
    if refused:
        named = quote((f"{name} ({kind})" for name, kind in refused.items()), 20)
        raise InputError(
            f"{len(refused)} column(s) of {file} have types that cannot be clustered: {named}. Hint: cast them in the "
            "query, as in column::text or column::numeric, or leave them out."
        )


def kind_of(field: pa.Field) -> str:
    """Return the name of a column's type in the database."""
    metadata = field.metadata or {}
    kind: bytes = metadata.get(b"ADBC:postgresql:typname") or metadata.get(b"POSTGRESQL:type") or b""
    return kind.decode()


def _unsupported(field: pa.Field) -> str | None:
    import pyarrow as pa

    kind, types = kind_of(field), pa.types
    if kind in {"numeric", "uuid"}:
        return None
    known = (
        types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)
        or types.is_string(field.type) or types.is_large_string(field.type)
        or types.is_date(field.type) or types.is_timestamp(field.type)
    )  # fmt: skip
    return None if known and kind not in {"money", "json", "jsonb", "oid"} else kind or str(field.type)
