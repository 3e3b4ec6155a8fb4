"""``intarsia version``: the versions of the package and its libraries."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from intarsia._version import __version__
from intarsia.cli.console import out, print_json

ENGINE = "nvflare"  # only where federations run
LIBRARIES = ("numpy", "scipy", "scikit-learn", "narwhals", "msgspec", "polars")


def version(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the version of intarsia, of Python and of the libraries it uses.

    Example: [bold]intarsia version --json[/]
    """
    versions = {name: version_of(name) for name in LIBRARIES}
    with suppress(PackageNotFoundError):
        versions[ENGINE] = version_of(ENGINE)
    if json:
        print_json({"intarsia": __version__, "python": platform.python_version(), **versions})
        return
    out.print(f"intarsia {__version__}, Python {platform.python_version()}", highlight=False)
    out.print(", ".join(f"{name} {number}" for name, number in versions.items()), highlight=False)
