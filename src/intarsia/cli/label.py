"""``intarsia participant label``: label new rows at home, with the public model of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.kit_options import Json
from intarsia.cli.predict import predict
from intarsia.exceptions import SettingError

MODEL = "model.intarsia"


def label(
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The study's public model. Default: model.intarsia in the kit.")
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="A file of new rows. Default: the table that the kit names.")
    ] = None,
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit: the folder that was made for you.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A CSV or Parquet file (default: standard output).")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column that identifies rows. Default: the one that the kit names.")
    ] = None,
    margin: Annotated[
        bool,
        typer.Option(
            "--margin", "--margins", help="Also write how clearly each row belongs to a cluster: 0 tie, 1 clear."
        ),
    ] = False,
    none_beyond: Annotated[
        float | None,
        typer.Option(
            "--none-beyond",
            help="0.5 to 0.999: −1 for rows farther from every cluster than this share of the study's rows.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Label new rows with the public model of a study. Nothing is sent: neither network nor coordinator is needed.

    With a kit, the table is read as the study's own: decimal sign, encoding, dates and names of columns.

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
        [settings.decimal] if settings.decimal else [],
        [settings.encoding] if settings.encoding else [],
        [f"{column}={day}" for column, day in settings.dates.items()],
        [f"{old}={new}" for old, new in settings.rename.items()],
        margin=margin,
        none_beyond=none_beyond,
        json=json,
    )
