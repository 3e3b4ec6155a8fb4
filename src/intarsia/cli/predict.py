"""``intarsia predict``: label new rows with a saved study."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from intarsia.cli.console import err, plain, print_json
from intarsia.cli.interrupts import uninterrupted, written
from intarsia.cli.study_folder import model_in
from intarsia.exceptions import InputError, SettingError
from intarsia.results.label_file import label_lines, write_labels
from intarsia.tables.files import large, read, sources


def predict(
    model: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    file: Annotated[str, typer.Argument(help="A file of new rows, with any of the study's columns.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A CSV file (default: standard output).")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column of row names; it is written beside the labels.")
    ] = None,
    margin: Annotated[
        bool, typer.Option("--margin", help="Also write how far ahead the most likely cluster is.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Label every row of a file with its cluster. Columns that the study does not know are ignored, and named.

    Example: [bold]intarsia predict study/ new.csv -o labels.csv[/]
    """
    from intarsia.estimators import load

    study = load(model_in(model))
    (source,) = sources([file])
    stored = large(source)
    columns: dict[str, Any] = read(source, id_column) if stored is None else dict.fromkeys(stored)
    if output is not None and output.exists():
        raise SettingError(f"{output} already exists. Hint: another --output.")
    if id_column is not None and id_column not in columns:
        raise InputError(f"the file has no column {id_column!r}.")
    ids: Any = None
    if id_column is not None:
        column = columns.pop(id_column)
        ids = column.to_native() if stored is None else stored.only([id_column])
    known = {*study.feature_names, *study.levels}
    unknown = [column for column in columns if column not in known]
    if unknown:
        err.print(plain(f"ignored, because the study does not know them: {', '.join(unknown)}"))
    rows: Any = {name: column for name, column in columns.items() if name in known}
    if not rows:
        raise InputError(
            f"the file has no column of the study, which has {len(known)}. Hint: intarsia explain names them."
        )
    if stored is not None:
        rows = stored.only(list(rows))
    result = {"cluster": study.predict(rows)}
    if margin:
        result["margin"] = study.predict_margin(rows)
    _show(result, ids, output, json=json)


def _show(columns: dict[str, Any], ids: Any, output: Path | None, *, json: bool) -> None:
    if json:
        print_json(_named(ids, len(columns["cluster"])) | {name: column.tolist() for name, column in columns.items()})
    elif output is None:
        for lines in label_lines(columns, ids):
            sys.stdout.write(lines.decode())
    else:
        with uninterrupted():
            write_labels(output, columns, ids)
            written(output)
        err.print(plain(f"written: {output}"))


def _named(ids: Any, n: int) -> dict[str, Any]:
    from intarsia.tables import ParquetTable

    if ids is None:
        return {"row": list(range(n))}
    return {
        "id": [name for part in ids.batches() for name in part.column(0).to_pylist()]
        if isinstance(ids, ParquetTable)
        else ids.to_list()
    }
