"""``intarsia demo``: cluster four real hospitals and show the result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

WIDE = 112  # columns from which on the descriptions of measurements are shown
_PICTURE_WIDTH = 116


def demo(
    svg: Annotated[Path | None, typer.Option(help="Also save the output as an SVG picture.", hidden=True)] = None,
) -> None:
    """Cluster four real hospitals that measured different things, and show the result.

    Example: [bold]intarsia demo[/]
    """
    from intarsia.cli.demo_view import SEED, show
    from intarsia.datasets import load_heart_disease
    from intarsia.estimators import cluster

    console = Console(width=None if svg is None else _PICTURE_WIDTH, record=svg is not None)
    hospitals = load_heart_disease()
    settings: dict[str, Any] = {"scale": "standard", "missing": "observed", "random_state": SEED}
    federated = cluster(hospitals.tables, 2, **settings)
    one_shot = cluster(hospitals.tables, 2, method="one_shot", **settings)
    console.print(*show(hospitals, federated, one_shot, wide=console.width >= WIDE), sep="\n")
    if svg is not None:
        svg.write_text(_without_web_fonts(console.export_svg(title="intarsia demo")), encoding="utf-8")


def _without_web_fonts(picture: str) -> str:
    """Remove the fonts that the picture would download; a monospaced font of the reader's machine is used instead."""
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
