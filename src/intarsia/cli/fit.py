"""``intarsia fit``: from files to a study."""

from __future__ import annotations

import json as jsonlib
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Hashable, Sequence
from dataclasses import asdict
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia._files import read_toml
from intarsia._version import __version__
from intarsia.cli.forecast import forecast_for
from intarsia.cli.interrupts import uninterrupted, written
from intarsia.cli.labels import in_parts
from intarsia.cli.progress import Watch, err, out, plain, print_json
from intarsia.cli.report import REPORT
from intarsia.exceptions import InputError, IntarsiaError, NonNumericError, SettingError, quote
from intarsia.tables.files import NEED_ALL_ROWS, Source, check_left_out, large, like_ids, read, sources

if TYPE_CHECKING:
    from intarsia.estimators import ClusteringResult
    from intarsia.tables import AnyTable, ParquetTable, StreamedTable
    from intarsia.tables.frame import Table

MODEL, RUN = "model.intarsia", "run.json"
STUDY = {MODEL, RUN, REPORT, "labels", "centroids.csv"}
DEFAULTS = {"scale": "auto", "missing": "observed", "random_state": 0}


def fit(
    files: Annotated[list[str] | None, typer.Argument(help="Files, one per party: a.csv, or name=path.")] = None,
    clusters: Annotated[int | None, typer.Option("--clusters", "-k", help="K; without it K is chosen.")] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Choose K, whatever the config says.")] = False,
    one_shot: Annotated[bool, typer.Option("--one-shot", help="One round of densities.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the study.")] = Path("study"),
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column that names rows; kept beside the labels.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", "-x", help="A column that takes no part.")
    ] = None,
    scale: Annotated[str | None, typer.Option(help="auto (default), standard, minmax, robust, none.")] = None,
    missing: Annotated[str | None, typer.Option(help="observed (default), impute, drop, error.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random (default 0).")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes that parties share (default 1; -1: all cores).")] = None,
    config: Annotated[Path | None, typer.Option(help=r"A TOML file with \[parties] and \[settings].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a study that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Cluster the tables of several parties together, and write the study: model, labels, centroids, report, run.

    Example: [bold]intarsia fit a.csv b.parquet -k 3 -o study/[/]
    """
    from intarsia.estimators.clustering import estimator_for

    parties, settings = _configured(config)
    given = sources([*parties, *(files or ())])
    if not given:
        raise InputError("no file was given. Hint: intarsia fit a.csv b.csv -k 3, or --config study.toml.")
    _check_place(output, force=force)
    # the command line goes before the config, and the config before what is usual
    configured_method, configured_k = settings.pop("method", "federated"), settings.pop("n_clusters", "auto")
    method = "one_shot" if one_shot else configured_method
    k = "auto" if auto else configured_k if clusters is None else clusters
    said = {"scale": scale, "missing": missing, "random_state": seed, "n_jobs": jobs}
    settings = DEFAULTS | settings | {name: value for name, value in said.items() if value is not None}
    if settings["scale"] == "none":  # which TOML has no other word for
        settings["scale"] = None
    model = estimator_for(method, k, settings)
    started = time.time()
    tables, ids = _tables(given, id_column, leave_out or (), str(settings["missing"]), quiet=quiet or json)
    with Watch(quiet=quiet or json, forecast=forecast_for(model)) as watch:
        result = model.fit_handed_over(tables, watch)
    record = _record(result, method, k, settings, {s.name: str(s.path) for s in given}, started)
    _write(result, output, ids, record)
    if json:
        print_json(record)
        return
    out.print(str(result), highlight=False)
    made = f"written: {output}/ ({MODEL}, labels/, {REPORT}, centroids.csv, {RUN})"
    out.print(made, highlight=False, markup=False, soft_wrap=True)


def _configured(path: Path | None) -> tuple[list[str], dict[str, Any]]:
    if path is None:
        return [], {}
    found = read_toml(path)
    strange = [key for key in found if key not in {"parties", "settings"}]
    if strange or not all(isinstance(part, dict) for part in found.values()):
        raise InputError(f"{path} has parts that mean nothing: {quote(strange)}. There are [parties] and [settings].")
    beside = path.parent
    parties = [f"{name}={beside / str(where)}" for name, where in found.get("parties", {}).items()]
    return parties, dict(found.get("settings", {}))


def _tables(
    given: Sequence[Source], id_column: str | None, left_out: Sequence[str], missing: str, *, quiet: bool
) -> tuple[dict[Hashable, AnyTable], dict[str, Any]]:
    """Everybody's columns that take part, and those that name the rows; what cannot take part is named for all at once."""
    tables: dict[Hashable, AnyTable] = {}
    ids: dict[str, Any] = {}
    seen: set[str] = set()
    numbered, problems = [], []
    for source in given:
        stored = None if missing in NEED_ALL_ROWS else large(source)
        columns: dict[str, Any] = read(source, id_column) if stored is None else dict.fromkeys(stored)
        seen |= set(columns)
        try:
            if stored is None:
                ids[source.name] = _ids(columns, source, id_column)
                part = {name: column for name, column in columns.items() if name not in set(left_out)}
                numbered += like_ids(source.name, part)
                tables[source.name] = _table(part, source)
            else:
                ids[source.name] = None if id_column is None else stored.only([_named(columns, source, id_column)])
                if not quiet:
                    err.print(plain(f"{source.path.name} is read piece by piece: {len(stored):,} rows."))
                kept = [name for name in columns if name not in {*left_out, id_column}]
                tables[source.name] = held = _stored(stored.only(kept), source, missing)
                numbered += like_ids(source.name, {name: held.sample.column(name) for name in held.names})
        except NonNumericError as error:
            problems.append(str(error))
    check_left_out(left_out, seen)
    if problems:
        raise NonNumericError(" ".join(problems) + " Hint: -x leaves a column out, --id keeps it beside the labels.")
    if numbered:
        hint = "Hint: -x leaves a column out, --id keeps it beside the labels."
        err.print(plain(f"Columns that look like numbers of rows take part: {', '.join(numbered)}. {hint}"))
    return tables, ids


def _ids(columns: dict[str, Any], source: Source, id_column: str | None) -> Any:
    """The column that names rows, taken out of the others."""
    return None if id_column is None else columns.pop(_named(columns, source, id_column)).to_native()


def _named(columns: Collection[str], source: Source, id_column: str) -> str:
    if id_column not in columns:
        raise InputError(f"{source.name!r} has no column {id_column!r}. It has {quote(columns)}.")
    return id_column


def _stored(table: ParquetTable, source: Source, missing: str) -> StreamedTable:
    from intarsia.tables import open_stream

    if not table.column_names:
        raise InputError(f"no column of {source.name!r} is left to take part.")
    return open_stream(table, source.name, missing)


def _table(columns: dict[str, Any], source: Source) -> Table:
    from intarsia.tables.frame import read_table

    if not columns:
        raise InputError(f"no column of {source.name!r} is left to take part.")
    return read_table(columns, source.name)


def _record(
    result: ClusteringResult,
    method: str,
    k: Any,
    settings: dict[str, Any],
    files: dict[str, str],
    started: float,
) -> dict[str, Any]:
    return {
        "intarsia": __version__,
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in ("numpy", "scipy", "scikit-learn", "narwhals", "polars")},
        "command": sys.argv[1:],
        "method": method,
        "asked_for": k,
        "settings": settings,
        "files": files,
        "n_clusters": result.n_clusters,
        "units": result.units,
        "sizes": {str(name): sizes.tolist() for name, sizes in result.sizes.items()},
        "confidence": None if result.confidence != result.confidence else result.confidence,
        "rounds": [{"number": r.number, "movement": r.movement, "kind": r.kind} for r in result.rounds],
        "seed": result.run.seed,
        "exchanges": [asdict(exchange) for exchange in result.run.exchanges],
        "sent": [asdict(entry) for entry in result.run.sent],
        "seconds": round(time.time() - started, 3),
    }


def _write(result: ClusteringResult, output: Path, ids: dict[str, Any], record: dict[str, Any]) -> None:
    """A whole study or none: beside the place first, then into it. A study that is there is put back should that fail."""
    from intarsia._files import umask

    output = output.resolve()
    beside: Path | None = None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".intarsia-", dir=output.parent))
        result.save(beside / MODEL)
        _write_labels(result, beside / "labels", ids)
        result.to_frame("polars").write_csv(beside / "centroids.csv")
        _report(result, beside / REPORT)
        (beside / RUN).write_text(jsonlib.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        beside.chmod(0o777 & ~umask())
        with uninterrupted():
            _replace(output, beside)
            written(output)
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}.") from error
    finally:
        if beside is not None:
            with uninterrupted():
                shutil.rmtree(beside, ignore_errors=True)


def _replace(output: Path, beside: Path) -> None:
    if not output.exists():
        beside.rename(output)
        return
    old = beside.with_name(beside.name + "-old")
    output.rename(old)
    try:
        beside.rename(output)
    except BaseException:
        old.rename(output)
        raise
    shutil.rmtree(old)


def _check_place(output: Path, *, force: bool) -> None:
    """Nothing may be there, or, by force, a study and nothing else: a folder of somebody's files is never replaced."""
    if not output.exists():
        return
    if not force:
        raise SettingError(f"{output} is there already. Hint: another --output, or --force to replace it.")
    inside = {path.name for path in output.iterdir()} if output.is_dir() else set()
    if MODEL not in inside or not inside <= STUDY:
        raise SettingError(f"{output} is there already, and is not a study alone, so that --force does not replace it.")


def _report(result: ClusteringResult, path: Path) -> None:
    """A study without its report is still a study."""
    try:
        result.report(path)
    except Exception as error:  # noqa: BLE001  (the run is done, and must not be lost for a page)
        what = str(error) if isinstance(error, IntarsiaError) else type(error).__name__
        err.print(plain(f"the report could not be made: {what} Hint: intarsia report tries again."))


def _write_labels(result: ClusteringResult, folder: Path, ids: dict[str, Any]) -> None:
    folder.mkdir()
    for name, labels in result.labels.items():
        with (folder / f"{name}.csv").open("wb") as file:
            for part in in_parts({"cluster": labels}, ids[str(name)]):
                file.write(part)
