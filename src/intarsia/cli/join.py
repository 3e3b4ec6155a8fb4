"""``intarsia join``: newcomers to a study, without the tables of the others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from intarsia.cli.console import err, out, plain, print_json
from intarsia.cli.fit import show, tables_of
from intarsia.cli.progress import Watch
from intarsia.cli.run_record import record_of
from intarsia.cli.study_folder import check_free, label_files, model_in, write_study
from intarsia.cli.table_options import DatesOption, DecimalOption, EncodingOption, IdOption, TableOptions
from intarsia.exceptions import InputError


def join(
    study: Annotated[Path, typer.Argument(help="The study's folder, or its model.intarsia.")],
    files: Annotated[list[str], typer.Argument(help="Files, one per newcomer: new.csv, or name=path.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the study with newcomers.")] = Path(
        "joined"
    ),
    id_column: IdOption = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", "-x", help="A column to exclude; can be repeated.")
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="Missing values: observed (default), impute, drop, error.")
    ] = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing study folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add participants to a study. Only their files are read; labels of the others stay, and are copied if they are there.

    Example: [bold]intarsia join study/ new.csv -o study2/[/]
    """
    from intarsia.estimators import load_result
    from intarsia.tables.open import named_paths

    given = named_paths(files)
    check_free(output, force=force)
    before = load_result(model_in(study))
    if all(isinstance(key, int) for key in before.keys.values()):
        raise InputError(
            "the participants of this study are numbered, and files have names. Hint: result.join([table])."
        )
    started = time.time()
    how = before.run.settings.get("missing") if missing is None else missing
    how = how if isinstance(how, str) else "observed"
    reading = TableOptions.of(given, id_column, decimal, encoding, dates)
    tables, ids = tables_of(given, reading, leave_out or (), how, None, quiet=quiet or json)
    with Watch(quiet=quiet or json) as watch:
        result = before.join(tables, missing=how, watcher=watch)
    seconds = time.time() - started
    record: dict[str, Any] = record_of(result, result.run.method, result.n_clusters, {"missing": how}, given, seconds)
    copied = label_files(study) if study.is_dir() else []
    write_study(result, output, ids, record, copied[0].suffix if copied else ".csv", copied)
    if json:
        print_json(record)
        return
    show(result, output)
    absent = [name for name in before.outcome.participants if name not in {path.stem for path in copied}]
    if absent:
        err.print(
            plain(f"{study} has no labels of {', '.join(absent)}: they are with these participants, and still hold.")
        )
    names = ", ".join(map(str, tables))
    out.print(plain(f"joined: {names}. Clusters and labels of all others are unchanged."), highlight=False)
