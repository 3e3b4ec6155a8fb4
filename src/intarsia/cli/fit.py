"""``intarsia fit``: from files to the folder of a study."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia._files import read_toml
from intarsia._version import __version__
from intarsia.cli.check import by_column
from intarsia.cli.console import err, out, plain, print_json
from intarsia.cli.forecast import forecast_for
from intarsia.cli.lights import print_lights
from intarsia.cli.private import Options, say_spent, spent_by, with_causes
from intarsia.cli.progress import Watch
from intarsia.cli.study_folder import CENTROIDS, LABELS, MODEL, REPORT, RUN, check_free, write_study
from intarsia.exceptions import InputError, quote

if TYPE_CHECKING:
    from intarsia.core.private.declared import DifferentialPrivacy
    from intarsia.estimators import ClusteringResult
    from intarsia.tables import AnyTable

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
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column that identifies rows; not clustered on, but written beside the labels."),
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", "-x", help="A column to exclude; can be repeated.")
    ] = None,
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
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers (default 0).")] = None,
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
    config: Annotated[Path | None, typer.Option(help=r"A TOML file with \[participants] and \[settings].")] = None,
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

    participants, configured = _configured(config)
    given = named_paths([*participants, *(files or ())])
    if not given:
        raise InputError("no file was given. Hint: intarsia fit a.csv b.csv -k 3, or --config study.toml.")
    check_free(output, force=force)
    options = {"scale": scale, "missing": missing, "merge": merge, "random_state": seed, "n_jobs": jobs}
    options["preset"] = preset
    # an option of the command line overrides the config, the config the preset, and the preset the defaults
    settings = configured | {name: value for name, value in options.items() if value is not None}
    method, n_clusters = settings.pop("method", "federated"), settings.pop("n_clusters", "auto")
    method = "one_shot" if one_shot else method
    n_clusters = "auto" if auto else n_clusters if clusters is None else clusters
    settings = with_preset(method, settings, DEFAULTS)
    if settings["scale"] == "none":  # TOML and the command line have no None
        settings["scale"] = None
    private = Options(epsilon, bounds, total_epsilon)
    settings |= private.settings(stability=stability)
    model = estimator_for(method, n_clusters, settings)
    started = time.time()
    declared = settings.get("privacy")
    tables, ids = _tables(given, id_column, leave_out or (), settings["missing"], declared, quiet=quiet or json)
    kept = dict(tables) if stability else {}
    charged = private.charged(given, {str(name): table.given_names for name, table in tables.items()})
    with with_causes(), Watch(quiet=quiet or json, forecast=forecast_for(model)) as watch:
        result = model.fit_handed_over(tables, watch, charged)
    if stability:
        result.stability(kept)
    record = _record(result, method, n_clusters, settings, given, started)
    record["privacy"] = None if result.privacy is None else spent_by(result.privacy, charged)
    write_study(result, output, ids, record)
    if json:
        print_json(record)
        return
    _show(result, output)
    if result.privacy is not None:
        say_spent(record["privacy"])


def _show(result: ClusteringResult, output: Path) -> None:
    out.print(str(result), highlight=False)
    if result.choices:
        out.print(str(result.choices), highlight=False, markup=False)
    if result.outcome.stability is not None:
        out.print(str(result.outcome.stability), highlight=False, markup=False)
    print_lights(result.findings)
    contents = f"written: {output}/ ({MODEL}, {LABELS}/, {REPORT}, {CENTROIDS}, {RUN})"
    out.print(contents, highlight=False, markup=False, soft_wrap=True)


def _configured(path: Path | None) -> tuple[list[str], dict[str, Any]]:
    """Return the files and the settings that a configuration names."""
    if path is None:
        return [], {}
    tables = read_toml(path)
    unknown = [key for key in tables if key not in {"participants", "settings"}]
    if unknown or not all(isinstance(part, dict) for part in tables.values()):
        raise InputError(
            f"{path} has unknown entries: {quote(unknown)}. It can have [participants] and [settings]. Hint: settings of "
            "the method stand below a line [settings]."
        )
    files = [f"{name}={path.parent / str(file)}" for name, file in tables.get("participants", {}).items()]
    return files, dict(tables.get("settings", {}))


def _tables(
    paths: Mapping[str, str],
    id_column: str | None,
    left_out: Sequence[str],
    missing: Any,
    declared: DifferentialPrivacy | None,
    *,
    quiet: bool,
) -> tuple[dict[Hashable, AnyTable], dict[str, Any]]:
    """Return what every participant holds, and its row IDs; faults of several tables are named at once."""
    from intarsia.estimators.settings import for_each
    from intarsia.privacy.bounds_file import undeclared
    from intarsia.tables.open import needs_all_rows, open_table
    from intarsia.tables.participants import Errors, check_left_out

    tables: dict[Hashable, AnyTable] = {}
    ids: dict[str, Any] = {}
    known: set[str] = set()
    row_ids: dict[str, list[str]] = {}
    errors = Errors()
    for name, how in for_each(missing, list(paths), "missing").items():
        with errors.collected(name):
            options: Any = {"id_column": id_column, "leave_out": left_out, "all_rows": needs_all_rows(how)}
            opened, as_declared = open_table(paths[name], name, declared=declared, **options), declared
            if declared is not None and undeclared(declared, {name: opened.columns}):  # it is said later
                opened, as_declared = open_table(paths[name], name, **options), None
            known |= set(opened.all_columns)
            if opened.is_streamed and not quiet:
                err.print(plain(f"{Path(paths[name]).name} is read in batches: {opened.n_rows:,} rows."))
            row_ids[name] = opened.row_id_columns()
            tables[name] = opened.hold(how or "observed", as_declared)
            ids[name] = opened.ids
    errors.raise_all(f" {_LEAVE_OUT}")
    check_left_out(left_out, known)
    if any(row_ids.values()):
        columns = ", ".join(by_column(row_ids))
        err.print(plain(f"These columns look like row IDs and will be clustered on: {columns}. Hint: {_LEAVE_OUT}"))
    return tables, ids


def _record(
    result: ClusteringResult,
    method: str,
    n_clusters: Any,
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
        "asked_for": n_clusters,
        "settings": {name: value for name, value in settings.items() if name != "privacy"},
        "files": files,
        "n_clusters": result.n_clusters,
        "units": result.units,
        "sizes": {str(name): sizes.tolist() for name, sizes in result.sizes.items()},
        "total_sizes": result.outcome.total_sizes.tolist(),
        "aggregation": result.outcome.aggregation.grouped_by,
        "confidence": None if result.confidence != result.confidence else result.confidence,
        "stability": None if result.outcome.stability is None else result.outcome.stability.columns,
        "rounds": [{"number": r.number, "movement": r.movement, "kind": r.kind} for r in result.rounds],
        "seed": result.run.seed,
        "exchanges": [asdict(exchange) for exchange in result.run.exchanges],
        "sent": [asdict(entry) for entry in result.run.sent],
        "seconds": round(time.time() - started, 3),
    }
