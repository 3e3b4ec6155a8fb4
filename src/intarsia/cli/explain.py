"""``intarsia explain``: the features that separate each cluster from the others."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from intarsia.cli.console import out, plain, print_json
from intarsia.cli.study_folder import model_in


def explain(
    study: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    top: Annotated[int, typer.Option(help="Number of features for each cluster.", min=1)] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the features that separate each cluster from the others, the clearest first, and who measured them.

    Example: [bold]intarsia explain study/[/]
    """
    from intarsia.estimators import load

    result = load(model_in(study))
    separations = result.explain()
    if json:
        print_json([asdict(entry) for entry in separations])
        return
    out.print(str(result), highlight=False)
    for k in range(result.n_clusters):
        view = Table(
            box=box.SIMPLE_HEAD, title=plain(result.global_model.called(k)), title_justify="left", title_style="bold"
        )
        for heading in ("feature", "mean", "mean of others", "difference", "measured by"):
            view.add_column(heading, justify="left" if heading in {"feature", "measured by"} else "right")
        for entry in [entry for entry in separations if entry.cluster == k][:top]:
            view.add_row(
                plain(entry.feature), f"{entry.mean:.4g}", f"{entry.mean_of_others:.4g}", f"{entry.difference:+.2f}",
                plain(", ".join(entry.participants)),
            )  # fmt: skip
        out.print(view)
    out.print(Text("difference: in standard deviations within clusters", style="dim"))
