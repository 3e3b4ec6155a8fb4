"""``intarsia participant label``: label new rows at home, with the public model of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.kit_options import Json
from intarsia.cli.label_options import ForceOption, MarginOption, NoneBeyondOption, OutputOption
from intarsia.cli.predict import predict
from intarsia.cli.study_folder import MODEL, model_in
from intarsia.cli.table_options import DatesOption, DecimalOption, EncodingOption, RenameOption
from intarsia.exceptions import SettingError


def label(
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", "-m", help="The study's public model, or its folder. Default: model.intarsia in the kit."
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="A file of new rows. Default: the table that the kit names.")
    ] = None,
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit: the folder that was made for you.")] = None,
    output: OutputOption = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column that identifies rows. Default: the one that the kit names.")
    ] = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    rename: RenameOption = None,
    margin: MarginOption = False,
    none_beyond: NoneBeyondOption = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Label new rows with the public model of a study. Nothing is sent: neither network nor coordinator is needed.

    With a kit, the table is read as the study's own, where options do not say otherwise.

    Example: [bold]intarsia participant label --model model.intarsia --table new.parquet -o labels.csv[/]
    """
    from intarsia.federation.site_settings import LocalSettings, read_settings

    settings = LocalSettings()
    if kit is not None:
        from intarsia.federation.kit_folder import ANALYST, SERVER, name_of

        if name_of(kit) in (SERVER, ANALYST):
            raise SettingError(f"{kit} is the kit of the {name_of(kit)}, not a participant's.")
        settings = read_settings(kit / "local")
        model = kit / MODEL if model is None else model
        table = Path(settings.table) if table is None and settings.table else table
        id_column = settings.id_column if id_column is None else id_column
    model = None if model is None else model_in(model)
    if model is None or not model.is_file():
        where = "no model was given" if model is None else f"{model} was not found"
        raise SettingError(
            f"{where}. Hint: --model, the public.intarsia of the study; whoever has the study writes it with "
            "intarsia federation run, intarsia fit, or result.save(path, public=True)."
        )
    if table is None:
        raise SettingError("no table was given. Hint: --table new.csv")
    predict(
        model,
        str(table),
        output,
        id_column,
        decimal or [each for each in (settings.decimal,) if each],
        encoding or [each for each in (settings.encoding,) if each],
        [*(f"{column}={day}" for column, day in settings.dates.items()), *(dates or ())],
        [*(f"{old}={new}" for old, new in settings.rename.items()), *(rename or ())],
        margin=margin,
        none_beyond=none_beyond,
        force=force,
        json=json,
    )
