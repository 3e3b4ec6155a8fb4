"""The command line: parse, call the library, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from intarsia.cli.interrupts import INTERRUPTED, farewell


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, and should it be interrupted, say what is there."""
    try:
        _run(arguments)
    except KeyboardInterrupt:
        sys.stderr.write(farewell() + "\n")
        sys.exit(INTERRUPTED)


def _run(arguments: Sequence[str] | None) -> None:
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
