"""``intarsia participant extract``: from a query to a table that stays as it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.console import print_json
from intarsia.cli.interrupts import terminable, uninterrupted, written
from intarsia.cli.kit_options import Json, say, tell
from intarsia.exceptions import SettingError


def extract(
    query: Annotated[Path, typer.Option(help="A file with one SELECT, which has an ORDER BY.")],
    database: Annotated[
        str, typer.Option(help="postgresql://user@host/database; the password from PGPASSWORD or ~/.pgpass.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The Parquet file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: Json = False,
) -> None:
    """Write the rows of a query as a Parquet file that only you can read; the database is only read.

    Example: [bold]intarsia participant extract --query cohort.sql --database postgresql://me@db/clinic -o cohort.parquet[/]
    """
    # before pyarrow is imported, whose own pools keep some 30 MB that they do not use
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from intarsia.tables.extract import write_extract
    from intarsia.tables.parquet import SUFFIXES

    if output.suffix.lower() not in SUFFIXES:
        raise SettingError(f"{output} must end with .parquet.")
    if (output.exists() or output.is_symlink()) and not force:
        raise SettingError(f"{output} already exists. Hint: another --output, or --force to replace it.")
    with terminable():
        result = write_extract(query, database, output)
    with uninterrupted():
        written(output)
    if json:
        print_json(result.extract._asdict() | {"columns": result.n_columns, "rounded": result.rounded})
        return
    for name, n in result.rounded.items():
        tell(f"{n:,} values of {name!r} have more digits than a number of 64 bits keeps, and are rounded to 15 to 17.")
    for name, n in result.infinite.items():
        tell(f"{n:,} values of {name!r} are infinite, and missing in the extract.")
    if result.numeric:
        say(f"Exact numbers (numeric) are now numbers of 64 bits: {', '.join(result.numeric)}.")
    facts = result.extract
    say(f"written: {output}, {facts.n_rows:,} rows, {result.n_columns} columns; nobody else can read it.")
    say(f"SHA-256 of the query: {facts.query_sha256}")
    say(f"SHA-256 of the rows:  {facts.rows_sha256}")
    say(f"Next: intarsia participant preview --kit kit/ --table {output} --id COLUMN --form consent.toml")
