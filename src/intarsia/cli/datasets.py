"""``intarsia datasets``: list the datasets that the package can load."""

from __future__ import annotations

from typing import Annotated

import typer

from intarsia.cli.console import out, print_json


def datasets(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the datasets that the package can load, and where their files are.

    Example: [bold]intarsia datasets[/]
    """
    from intarsia.datasets.fetching import known

    entries = known()
    if json:
        print_json(entries)
        return
    for entry in entries:
        out.print(f"{entry['name']}: {entry['where']}", highlight=False, markup=False, soft_wrap=True)
