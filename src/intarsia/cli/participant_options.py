"""The options of ``intarsia participant preview`` and ``serve``: what is not given comes from the kit's own settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from intarsia.cli.table_options import (
    DatesOption,
    DecimalOption,
    EncodingOption,
    RenameOption,
    dates_of,
    renamed,
)
from intarsia.exceptions import SettingError, quote

if TYPE_CHECKING:
    from intarsia.federation.site_settings import LocalSettings

_PRIVACY = "Differential privacy"
_RULES = "What may leave (release rules)"


@dataclass(frozen=True)
class Options:
    """The options that preview and serve share: what is not given comes from the kit's own settings."""

    table: Annotated[Path | None, typer.Option("--table", help="CSV, TSV, Parquet, Feather, Arrow or Excel file.")] = (
        None
    )
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column to cluster on; can be repeated. Default: all.")
    ] = None
    columns: Annotated[str | None, typer.Option("--columns", help="Several columns at once: age,chol,thalach.")] = None
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column that identifies rows; not clustered on, but written beside the labels."),
    ] = None
    decimal: DecimalOption = None
    encoding: EncodingOption = None
    dates: DatesOption = None
    rename: RenameOption = None
    local: Annotated[
        str | None,
        typer.Option(help="Local algorithm: 'HDBSCAN(min_cluster_size=20)', 'GaussianMixture(n_components=3)'."),
    ] = None
    missing: Annotated[str | None, typer.Option(help="Missing values: observed, impute, drop or error.")] = None
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            help="The record of what was told of the table, one for all its studies. Default: beside it, <table>.told.",
        ),
    ] = None
    keys: Annotated[
        Path | None,
        typer.Option("--keys", help="Secure sums: the list of all participants' keys, from the coordinator."),
    ] = None
    epsilon: Annotated[
        float | None,
        typer.Option(help="Private study: spend at most this; not more than the study says.", rich_help_panel=_PRIVACY),
    ] = None
    total_epsilon: Annotated[
        float | None,
        typer.Option(
            help="What all studies over the table may spend. Default: that of the study.", rich_help_panel=_PRIVACY
        ),
    ] = None
    min_cluster_size: Annotated[
        int | None, typer.Option(min=1, help="No number that describes fewer rows leaves.", rich_help_panel=_RULES)
    ] = None
    small: Annotated[
        str | None, typer.Option(help="Local clusters below it: merge or withhold.", rich_help_panel=_RULES)
    ] = None
    round_counts_to: Annotated[
        int | None, typer.Option(min=1, help="Round counts down to multiples of this number.", rich_help_panel=_RULES)
    ] = None
    allow_extremes: Annotated[
        bool | None,
        typer.Option(
            "--allow-extremes/--no-extremes", help="Smallest and largest values may leave.", rich_help_panel=_RULES
        ),
    ] = None
    allow_discrete: Annotated[
        bool | None,
        typer.Option("--allow-discrete/--no-discrete", help="Discrete densities may leave.", rich_help_panel=_RULES),
    ] = None
    allow_any_covariance: Annotated[
        bool | None,
        typer.Option(
            "--allow-any-covariance/--no-any-covariance",
            help="Covariances with many parameters for few rows may leave.",
            rich_help_panel=_RULES,
        ),
    ] = None
    max_rounds: Annotated[
        str | None, typer.Option(help="Most rounds to answer in a study, or any (no limit).", rich_help_panel=_RULES)
    ] = None
    max_rounds_per: Annotated[
        str | None,
        typer.Option(help="Count rounds by day, week, month, quarter or year (UTC).", rich_help_panel=_RULES),
    ] = None
    max_rounds_in_all: Annotated[
        int | None,
        typer.Option(min=0, help="With --max-rounds-per: most rounds over all periods.", rich_help_panel=_RULES),
    ] = None
    max_rivals: Annotated[
        int | None,
        typer.Option(min=0, help="Most alternative sets of centroids to answer in a round.", rich_help_panel=_RULES),
    ] = None
    allow_crosswise: Annotated[
        bool | None,
        typer.Option("--allow-crosswise/--no-crosswise", help="Answer crosswise rounds.", rich_help_panel=_RULES),
    ] = None

    def settings(self, kit: Path | None) -> LocalSettings:
        """Return the settings of the kit, changed by the options that were given."""
        from msgspec.structs import replace

        from intarsia.federation.settings_file import rules_from

        table = None if self.table is None else str(self.table.resolve())
        given = {
            "table": table,
            "columns": self._columns() or None,
            "id_column": self.id_column,
            "local": self.local,
            "missing": self.missing,
            "record": None if self.record is None else str(self.record.resolve()),
            **self._reading(),
        }
        settings = settings_of(kit)
        settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
        budget = {"epsilon": self.epsilon, "total_epsilon": self.total_epsilon}
        own = replace(settings.privacy, **{name: value for name, value in budget.items() if value is not None})
        settings = replace(settings, privacy=own)
        if not settings.table:
            raise SettingError("no table was given. Hint: --table data.csv")
        return replace(settings, release=rules_from(self._rules(), "the command line", settings.release))

    def _columns(self) -> tuple[str, ...]:
        several = [] if self.columns is None else [name.strip() for name in self.columns.split(",")]
        if "" in several:
            raise SettingError(
                "--columns contains an empty name. Hint: --columns age,chol; for a name with a comma use -c."
            )
        return tuple(dict.fromkeys([*(self.column or ()), *several]))

    def _reading(self) -> dict[str, Any]:
        own = {"decimal": self.decimal, "encoding": self.encoding}
        if several := [f"--{name}" for name, values in own.items() if len(values or ()) > 1]:
            raise SettingError(f"{quote(several)} can be given once: there is one table.")
        days = {column: str(day) for column, day in dates_of(self.dates).items()}
        return {
            **{name: values[0].rpartition("=")[2] for name, values in own.items() if values},  # name=, as hints have it
            "dates": days or None,
            "rename": renamed(self.rename) or None,
        }

    def _rules(self) -> dict[str, Any]:
        from intarsia.federation.settings_file import RULES

        rules = {name: getattr(self, name) for name in RULES if getattr(self, name) is not None}
        rounds = rules.get("max_rounds", "")
        return rules | ({"max_rounds": int(rounds)} if rounds.isdecimal() else {})


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all :class:`Options` on its command line; it gets them as one argument ``options``."""
    shared = list(inspect.signature(Options).parameters.values())
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != "options"]

    @wraps(command)
    def run(**values: Any) -> None:
        options = Options(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        command(options=options, **values)

    hints = get_type_hints(command, include_extras=True) | get_type_hints(Options, include_extras=True)
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in (*own, *shared)
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def settings_of(kit: Path | None) -> LocalSettings:
    """Return the settings in a participant's kit; the default ones without a kit."""
    from intarsia.federation.kit_folder import ANALYST, SERVER, name_of
    from intarsia.federation.site_settings import LocalSettings, read_settings

    if kit is None:
        return LocalSettings()
    if name_of(kit) in (SERVER, ANALYST):
        raise SettingError(f"{kit} is the kit of the {name_of(kit)}, not a participant's.")
    return read_settings(kit / "local")
