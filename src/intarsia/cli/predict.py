"""``intarsia predict``: label new rows with a study that was saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from intarsia.cli.console import err, plain, print_json
from intarsia.cli.files import write_text
from intarsia.exceptions import InputError, SettingError
from intarsia.files import read, sources


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
    columns = read(source, id_column)
    if output is not None and output.exists():
        raise SettingError(f"{output} is there already. Hint: another --output.")
    if id_column is not None and id_column not in columns:
        raise InputError(f"the file has no column {id_column!r}.")
    ids = None if id_column is None else columns.pop(id_column).to_list()
    known = {*study.feature_names, *study.levels}
    unknown = [column for column in columns if column not in known]
    if unknown:
        err.print(plain(f"left out, because the study never saw them: {', '.join(unknown)}"))
    rows = {name: column for name, column in columns.items() if name in known}
    if not rows:
        raise InputError(f"the file has none of the study's {len(known)} columns. Hint: intarsia explain names them.")
    labels = study.predict(rows).tolist()
    found = {"row": list(range(len(labels)))} if ids is None else {"id": ids}
    found["cluster"] = labels
    if margin:
        found["margin"] = study.predict_margin(rows).tolist()
    if json:
        print_json(found)
        return
    text = pl.DataFrame(found).write_csv()
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
        err.print(plain(f"written: {output}"))
