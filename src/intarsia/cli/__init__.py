"""The command line: parse, call the library, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, if what it needs is installed."""
    try:
        import polars as pl  # noqa: F401
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(f"The command line needs {error.name}, which is not installed. Try: pip install 'intarsia[cli]'")
    from intarsia.cli.app import main as run

    run(arguments)


__all__ = ["main"]
