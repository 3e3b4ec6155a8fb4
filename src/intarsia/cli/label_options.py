"""The options that ``intarsia predict`` and ``intarsia participant label`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.exceptions import SettingError
from intarsia.results.label_file import SUFFIXES

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="A CSV or Parquet file (default: standard output).")
]
MarginOption = Annotated[
    bool,
    typer.Option("--margin", "--margins", help="Also write how clearly each row belongs to a cluster: 0 tie, 1 clear."),
]
NoneBeyondOption = Annotated[
    float | None,
    typer.Option(
        "--none-beyond",
        help="0.5 to 0.999: −1 for rows farther from every cluster than this share of the study's rows.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing file of labels.")]


def check_output(output: Path | None, table: Path, *, force: bool) -> None:
    """Raise a SettingError unless labels can be written: as CSV or Parquet, to a new file or by force, not to the table."""
    if output is None:
        return
    if not force and (output.exists() or output.is_symlink()):
        raise SettingError(f"{output} already exists. Hint: another --output, or --force to replace it.")
    if output.suffix.lower() not in SUFFIXES:
        raise SettingError(f"{output} is neither .csv nor .parquet. Hint: --output {output.with_suffix('.csv')}.")
    if output.resolve() == table.resolve():
        raise SettingError(f"{output} is the file of new rows. Hint: another --output.")
