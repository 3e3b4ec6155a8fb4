"""``intarsia demo``, ``datasets``, ``version``."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from intarsia._version import __version__
from intarsia.cli.progress import out, print_json


def demo() -> None:
    """Cluster four real hospitals that measured different things, and show the result.

    Example: [bold]intarsia demo[/]
    """
    from intarsia.cli.demo import main

    main([])


def datasets(
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List the datasets that the package knows, and whether they are there.

    Example: [bold]intarsia datasets[/]
    """
    from intarsia.datasets.fetching import known

    found = known()
    if json:
        print_json(found)
        return
    for entry in found:
        out.print(f"{entry['name']}: {entry['where']}", highlight=False, markup=False, soft_wrap=True)


def version(
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say which version this is, and of what it relies on.

    Example: [bold]intarsia version --json[/]
    """
    versions = {name: version_of(name) for name in ("numpy", "scipy", "scikit-learn", "narwhals", "msgspec", "polars")}
    if json:
        print_json({"intarsia": __version__, "python": platform.python_version(), **versions})
        return
    out.print(f"intarsia {__version__}, Python {platform.python_version()}", highlight=False)
    out.print(", ".join(f"{name} {number}" for name, number in versions.items()), highlight=False)
