"""``intarsia report``: the report of a study as one page."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.console import err, out
from intarsia.cli.study_folder import REPORT, model_in
from intarsia.exceptions import SettingError


def report(
    study: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A new file (default: report.html in the study's folder)."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Write JSON, not HTML: to standard output, or to --output (.json).")
    ] = False,
) -> None:
    """Write the report of a study: one HTML file that needs no network, without rows or labels.

    Example: [bold]intarsia report study/ --open[/]
    """
    from intarsia.estimators import load_result

    result = load_result(model_in(study))
    if json and output is None:
        sys.stdout.buffer.write(result.summarise(title).to_json().encode() + b"\n")
        return
    target = output or (study / REPORT if study.is_dir() else study.with_suffix(".html"))
    own = output is None and study.is_dir() and target.is_file() and not target.is_symlink()
    if (target.exists() or target.is_symlink()) and not own:  # only a study's own report may be replaced
        raise SettingError(f"{target} already exists. Hint: another --output.")
    if json and target.suffix != ".json":
        raise SettingError(f"--json writes a file whose name ends in .json. Got {target.name!r} instead.")
    result.report(target, title=title)
    out.print(f"written: {target}", highlight=False, markup=False, soft_wrap=True)
    if open_it and not webbrowser.open(target.resolve().as_uri()):
        err.print(f"no browser could be started. Hint: open {target} in one.", highlight=False, markup=False)
