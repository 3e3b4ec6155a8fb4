"""``intarsia explain``: what makes a cluster one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from intarsia.cli.progress import out, plain, print_json


def explain(
    study: Annotated[Path, typer.Argument(help="study/model.intarsia, or the study's folder.")],
    top: Annotated[int, typer.Option(help="So many features for each cluster.", min=1)] = 5,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Show which features separate which cluster from the rest, the clearest first, and who measured them.

    Example: [bold]intarsia explain study/[/]
    """
    from intarsia.estimators import load

    result = load(study / "model.intarsia" if study.is_dir() else study)
    found = result.explain()
    if json:
        print_json([asdict(entry) for entry in found])
        return
    out.print(str(result), highlight=False)
    for k in range(result.n_clusters):
        view = Table(box=box.SIMPLE_HEAD, title=f"cluster {k}", title_justify="left", title_style="bold")
        for heading in ("feature", "mean", "mean of others", "difference", "measured by"):
            view.add_column(heading, justify="left" if heading in {"feature", "measured by"} else "right")
        for entry in [entry for entry in found if entry.cluster == k][:top]:
            view.add_row(
                plain(entry.feature), f"{entry.mean:.4g}", f"{entry.mean_of_others:.4g}", f"{entry.difference:+.2f}",
                plain(", ".join(entry.participants)),
            )  # fmt: skip
        out.print(view)
    out.print(Text("difference: in standard deviations within clusters", style="dim"))
