"""``intarsia predict``: label new rows with a saved study."""

from __future__ import annotations

import sys
import warnings
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.console import err, plain, print_json
from intarsia.cli.interrupts import uninterrupted, written
from intarsia.cli.label_options import ForceOption, MarginOption, NoneBeyondOption, OutputOption, check_output
from intarsia.cli.study_folder import model_in
from intarsia.cli.table_options import (
    DatesOption,
    DecimalOption,
    EncodingOption,
    RenameOption,
    TableOptions,
    read_config,
    renamed,
    say_remarks,
)
from intarsia.exceptions import InputError, UnknownLevelsWarning, quote
from intarsia.results.label_file import columns_of, label_lines, write_labels

if TYPE_CHECKING:
    from intarsia.tables.open import Ids


def predict(
    model: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    file: Annotated[str, typer.Argument(help="A file of new rows, with any of the study's columns.")],
    output: OutputOption = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column that identifies rows; not clustered on, but written beside the labels."),
    ] = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    rename: RenameOption = None,
    config: Annotated[
        Path | None,
        typer.Option(help=r"The file of fit --config: names of columns, for name=file as in \[columns.name]."),
    ] = None,
    margin: MarginOption = False,
    none_beyond: NoneBeyondOption = None,
    force: ForceOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Label every row of a file with its cluster. Columns that the study does not have are ignored and listed.

    Example: [bold]intarsia predict study/ new.csv -o labels.csv[/]
    """
    from intarsia.estimators import load
    from intarsia.estimators.model import check_none_beyond
    from intarsia.estimators.predict import unknown_columns
    from intarsia.tables.open import named_paths, open_table

    study = load(model_in(model))
    ((name, path),) = named_paths([file]).items()
    check_output(output, Path(path), force=force)
    check_none_beyond(study.global_model, none_beyond)
    names = _names_of_columns(config, name) | renamed(rename)
    options = TableOptions.of([name], None, decimal, encoding, dates, {name: names})
    opened = open_table(path, name, id_column=id_column, how=options.reading(name))
    options.check({name: opened})
    say_remarks({name: opened})
    unknown, hint = unknown_columns(study.global_model, opened.columns, name)
    if unknown:
        err.print(plain(f"ignored, because the study does not know them: {', '.join(unknown)}"))
    if hint:
        err.print(plain(f"hint: {hint}"))
    if len(unknown) == len(opened.columns):
        n_known = len({*study.feature_names, *study.levels})
        raise InputError(
            f"the file has no column of the study, which has {n_known}. Hint: intarsia explain names them."
        )
    rows = opened.only([column for column in opened.columns if column not in unknown])
    labels, margins = study.predict(rows, none_beyond=none_beyond), None
    if n_none := int((labels < 0).sum()):
        err.print(plain(f"{n_none} of {len(labels)} rows have no cluster (-1)."))
    if margin:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownLevelsWarning)  # it was said with the labels
            margins = study.predict_margin(rows)
    _show(columns_of(labels, study.cluster_names, margins), opened.ids, output, json=json)


def _names_of_columns(config: Path | None, name: str) -> dict[str, str]:
    """Return the names of the study by those in the table that the configuration of a fit has for a participant."""
    participants, _, columns = read_config(config)
    known = dict.fromkeys([*(text.partition("=")[0] for text in participants), *columns])
    if config is not None and name not in known:
        raise InputError(
            f"{config} names no participant {name!r}, but {quote(known, 20)}. Hint: name the file as one of them, as in "
            "nord=new.csv."
        )
    return columns.get(name, {})


def _show(columns: dict[str, Any], ids: Ids | None, output: Path | None, *, json: bool) -> None:
    if json:
        rows = {"row": list(range(len(columns["cluster"])))} if ids is None else {"id": list(ids)}
        cells: dict[str, list[Any]] = {name: column.tolist() for name, column in columns.items()}
        if margins := cells.get("margin"):
            cells["margin"] = [None if isnan(margin) else margin for margin in margins]
        print_json(rows | cells)
    elif output is None:
        for lines in label_lines(columns, ids):
            sys.stdout.write(lines.decode())
    if output is not None:
        with uninterrupted():
            write_labels(output, columns, ids)
            written(output)
        err.print(plain(f"written: {output}"))
