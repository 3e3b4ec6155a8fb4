"""``intarsia predict``: label new rows with a study that was saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from intarsia.cli.labels import in_parts, write_parts
from intarsia.cli.progress import err, plain, print_json
from intarsia.exceptions import InputError, SettingError
from intarsia.tables.files import large, read, sources


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
    stored = large(source)
    columns: dict[str, Any] = read(source, id_column) if stored is None else dict.fromkeys(stored)
    if output is not None and output.exists():
        raise SettingError(f"{output} is there already. Hint: another --output.")
    if id_column is not None and id_column not in columns:
        raise InputError(f"the file has no column {id_column!r}.")
    ids: Any = None
    if id_column is not None:
        column = columns.pop(id_column)
        ids = column.to_native() if stored is None else stored.only([id_column])
    known = {*study.feature_names, *study.levels}
    unknown = [column for column in columns if column not in known]
    if unknown:
        err.print(plain(f"left out, because the study never saw them: {', '.join(unknown)}"))
    rows: Any = {name: column for name, column in columns.items() if name in known}
    if not rows:
        raise InputError(f"the file has none of the study's {len(known)} columns. Hint: intarsia explain names them.")
    if stored is not None:
        rows = stored.only(list(rows))
    found = {"cluster": study.predict(rows)}
    if margin:
        found["margin"] = study.predict_margin(rows)
    _show(found, ids, output, json=json)


def _show(found: dict[str, Any], ids: Any, output: Path | None, *, json: bool) -> None:
    if json:
        print_json(_named(ids, len(found["cluster"])) | {name: column.tolist() for name, column in found.items()})
    elif output is None:
        for part in in_parts(found, ids):
            sys.stdout.write(part.decode())
    else:
        write_parts(output, in_parts(found, ids))
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
