"""``intarsia predict``: label new rows with a study that was saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from intarsia.cli.console import err, plain, print_json
from intarsia.cli.files import read, sources, write_text
from intarsia.exceptions import InputError, SettingError


def predict(
    model: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    file: Annotated[str, typer.Argument(help="New rows, with any of the known columns.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A CSV file (default: standard output).")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column that names rows; kept beside the labels.")
    ] = None,
    margin: Annotated[bool, typer.Option("--margin", help="Also how far ahead the likeliest cluster is.")] = False,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Give every row of a file the label of its cluster. Columns that the study never saw are left out, and named.

    Example: [bold]intarsia predict study/ new.csv -o labels.csv[/]
    """
    from intarsia.estimators import load

    study = load(model / "model.intarsia" if model.is_dir() else model)
    (source,) = sources([file])
    table = read(source)
    if output is not None and output.exists():
        raise SettingError(f"{output} is there already. Hint: another --output.")
    if id_column is not None and id_column not in table.columns:
        raise InputError(f"the file has no column {id_column!r}.")
    named = {"row": list(range(table.height))} if id_column is None else {"id": table[id_column].to_list()}
    known = {*study.feature_names, *study.levels}
    unknown = [column for column in table.columns if column not in known and column != id_column]
    if unknown:
        err.print(plain(f"left out, because the study never saw them: {', '.join(unknown)}"))
    rows = table.select([column for column in table.columns if column in known and column != id_column])
    if not rows.columns:
        raise InputError(f"the file has none of the study's {len(known)} columns. Hint: intarsia explain names them.")
    columns = named | {"cluster": study.predict(rows).tolist()}
    if margin:
        columns["margin"] = study.predict_margin(rows).tolist()
    if json:
        print_json(columns)
        return
    text = pl.DataFrame(columns).write_csv()
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
        err.print(plain(f"written: {output}"))
