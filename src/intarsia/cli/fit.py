"""``intarsia fit``: from files to the folder of a study."""

from __future__ import annotations

import time
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli import weights
from intarsia.cli.check import by_column
from intarsia.cli.console import err, out, plain, print_json
from intarsia.cli.lights import print_lights
from intarsia.cli.private import Options, say_spent, spent_by, with_causes
from intarsia.cli.progress import Watch
from intarsia.cli.run_record import record_of
from intarsia.cli.study_folder import CENTROIDS, LABELS, MODEL, PUBLIC, REPORT, RUN, LabelFile, check_free, write_study
from intarsia.cli.table_options import (
    DatesOption,
    DecimalOption,
    EncodingOption,
    IdOption,
    TableOptions,
    read_config,
    say_remarks,
)
from intarsia.exceptions import InputError, IntarsiaError
from intarsia.runtime.forecast import forecast_for

if TYPE_CHECKING:
    from intarsia.core.private.declared import DifferentialPrivacy
    from intarsia.core.types import FloatArray
    from intarsia.estimators import ClusteringResult
    from intarsia.tables import AnyTable, Opened

DEFAULTS: dict[str, Any] = {"scale": "auto", "missing": "observed", "random_state": 0}
_P = "Differential privacy"
_LEAVE_OUT = "-x leaves a column out, --id writes it beside the labels."


def fit(
    files: Annotated[list[str] | None, typer.Argument(help="Files, one per participant: a.csv, or name=path.")] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", help="Number of clusters. Chosen automatically if omitted.")
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Choose the number of clusters, even if --config gives it.")
    ] = False,
    one_shot: Annotated[bool, typer.Option("--one-shot", help="One-shot method: a single round.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the study.")] = Path("study"),
    id_column: IdOption = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", "-x", help="A column to exclude; can be repeated.")
    ] = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    preset: Annotated[
        str | None, typer.Option(help="A named set of settings: paper (every parameter as the paper has it).")
    ] = None,
    scale: Annotated[str | None, typer.Option(help="Units: auto (default), standard, minmax, robust, none.")] = None,
    missing: Annotated[
        str | None, typer.Option(help="Missing values: observed (default), impute, drop, error.")
    ] = None,
    merge: Annotated[
        str | None, typer.Option(help="How centroids are merged: mean (default), robust (a participant may lie).")
    ] = None,
    feature_weight: Annotated[
        list[str] | None,
        typer.Option(help="How much a column counts in distances, e.g. age=2 (default 1); can be repeated."),
    ] = None,
    participant_weights: Annotated[
        list[str] | None,
        typer.Option(
            help="How much participants count in centroids: rows (default), equal, capped; or what a row of one counts, "
            "e.g. north=2, which can be repeated."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers (default 0).")] = None,
    previous: Annotated[
        Path | None,
        typer.Option(help="The study to repeat: its folder or model file. Clusters keep their numbers."),
    ] = None,
    stability: Annotated[
        bool, typer.Option("--stability", help="Resample the rows, and show how surely each cluster comes back.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Differential privacy: what this run may spend on each table. Needs --bounds.", rich_help_panel=_P
        ),
    ] = None,
    bounds: Annotated[
        Path | None,
        typer.Option(help=r"A TOML file with \[bounds] and \[levels] of the columns.", rich_help_panel=_P),
    ] = None,
    total_epsilon: Annotated[
        float | None,
        typer.Option(help="Refuse beyond this epsilon over all runs on a table.", rich_help_panel=_P),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes (default 1; -1: all cores).")] = None,
    config: Annotated[
        Path | None, typer.Option(help=r"A TOML file with \[participants], \[columns] and \[settings].")
    ] = None,
    labels: Annotated[LabelFile, typer.Option(help="Files of labels.")] = LabelFile.CSV,
    margins: Annotated[
        bool, typer.Option("--margins", help="Label files also say how clearly each row belongs: 0 tie, 1 clear.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing study folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Cluster the tables of several participants together, and write a folder with model, labels, centroids and report.

    Example: [bold]intarsia fit a.csv b.parquet -k 3 -o study/[/]
    """
    from intarsia.estimators.clustering import estimator_for
    from intarsia.estimators.presets import with_preset
    from intarsia.tables.open import named_paths

    participants, configured, columns = read_config(config)
    given = named_paths([*participants, *(files or ())])
    if not given:
        raise InputError("no file was given. Hint: intarsia fit a.csv b.csv -k 3, or --config study.toml.")
    check_free(output, force=force)
    options: dict[str, Any] = {"scale": scale, "missing": missing, "merge": merge, "random_state": seed, "n_jobs": jobs}
    options |= {"preset": preset, "feature_weights": weights.feature_weights(feature_weight), "previous": previous}
    options["participant_weights"] = weights.participant_weights(participant_weights)
    # an option of the command line overrides the config, the config the preset, and the preset the defaults
    settings = configured | {name: value for name, value in options.items() if value is not None}
    method, n_clusters = settings.pop("method", "federated"), settings.pop("n_clusters", "auto")
    method = "one_shot" if one_shot else method
    n_clusters = "auto" if auto else n_clusters if clusters is None else clusters
    settings = with_preset(method, settings, DEFAULTS)
    settings["scale"] = None if settings["scale"] == "none" else settings["scale"]  # TOML has no None
    private = Options(epsilon, bounds, total_epsilon)
    reading = TableOptions.of(given, id_column, decimal, encoding, dates, columns)
    settings |= private.settings(stability=stability)
    model = estimator_for(method, n_clusters, settings)
    started = time.time()
    declared = settings.get("privacy")
    tables, ids = tables_of(given, reading, leave_out or (), settings["missing"], declared, quiet=quiet or json)
    kept = dict(tables) if stability else {}
    charged = private.charged(given, {str(name): table.given_names for name, table in tables.items()})
    with with_causes(), Watch(quiet=quiet or json, forecast=forecast_for(model)) as watch:
        result = model.fit_handed_over(tables, watch, charged)
    if stability:
        result.stability(kept)
    record = record_of(result, method, n_clusters, settings, given, time.time() - started)
    record["privacy"] = None if result.privacy is None else spent_by(result.privacy, charged)
    clear = margins_of(result, given, reading, leave_out or ()) if margins else {}
    write_study(result, output, ids, record, f".{labels.value}", margins=clear)
    if json:
        print_json(record)
        return
    show(result, output)
    if result.privacy is not None:
        say_spent(record["privacy"])


def margins_of(
    result: ClusteringResult, paths: Mapping[str, str], options: TableOptions, left_out: Sequence[str]
) -> dict[str, FloatArray]:
    """Return the margin of each row of each file, which is read once more; none if the result has no margins.

    The run is done, and its result must not be lost: why there are no margins is said, not raised.
    """
    from intarsia.exceptions import UnknownColumnsWarning
    from intarsia.tables.open import open_table

    found = {}
    try:
        for name, path in paths.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnknownColumnsWarning)  # columns that the run left out, and said so
                table = open_table(path, name, leave_out=left_out, **options.opening(name))
                found[name] = result.predict_margin(table)
    except IntarsiaError as error:
        err.print(plain(f"margins are not written: {error}"))
        return {}
    return found


def show(result: ClusteringResult, output: Path) -> None:
    """Print a result and the folder that it is in."""
    out.print(str(result), highlight=False)
    if result.choices:
        out.print(str(result.choices), highlight=False, markup=False)
    if result.repeat is not None and not result.run.joined:  # a join changes nothing of it
        out.print(str(result.repeat), highlight=False, markup=False)
    if result.outcome.stability is not None:
        out.print(str(result.outcome.stability), highlight=False, markup=False)
    print_lights(result.findings)
    contents = f"written: {output}/ ({MODEL}, {PUBLIC}, {LABELS}/, {REPORT}, {CENTROIDS}, {RUN})"
    out.print(contents, highlight=False, markup=False, soft_wrap=True)


def tables_of(
    paths: Mapping[str, str],
    options: TableOptions,
    left_out: Sequence[str],
    missing: Any,
    declared: DifferentialPrivacy | None,
    *,
    quiet: bool,
) -> tuple[dict[Hashable, AnyTable], dict[str, Any]]:
    """Return what every participant holds, and its row IDs; faults of several tables are named at once."""
    from intarsia.estimators.settings import for_each
    from intarsia.privacy.bounds_file import undeclared
    from intarsia.tables.open import check_commas, needs_all_rows, open_table
    from intarsia.tables.participants import Errors, check_left_out

    tables: dict[Hashable, AnyTable] = {}
    opened: dict[str, Opened] = {}
    row_ids: dict[str, list[str]] = {}
    errors = Errors()
    for name, how in for_each(missing, list(paths), "missing").items():
        with errors.collected(name):
            ways = options.opening(name) | {"leave_out": left_out, "all_rows": needs_all_rows(how)}
            if declared is not None:
                check_commas(paths[name], name, ways["how"])
            table, as_declared = open_table(paths[name], name, declared=declared, **ways), declared
            if declared is not None and undeclared(declared, {name: table.columns}):  # it is said later
                table, as_declared = open_table(paths[name], name, **ways), None
            if table.is_streamed and not quiet:
                err.print(plain(f"{Path(paths[name]).name} is read in batches: {table.n_rows:,} rows."))
            opened[name] = replace(table, table=None)  # the rows are handed over
            row_ids[name] = table.row_id_columns()
            tables[name] = table.hold(how or "observed", as_declared)
    say_remarks(opened)
    if len(opened) == len(paths):
        options.check(opened)
    errors.raise_all(f" {_LEAVE_OUT}")
    check_left_out(left_out, {column for table in opened.values() for column in table.all_columns})
    if any(row_ids.values()):
        columns = ", ".join(by_column(row_ids))
        err.print(plain(f"These columns look like row IDs and will be clustered on: {columns}. Hint: {_LEAVE_OUT}"))
    return tables, {name: table.ids for name, table in opened.items()}
