"""The command line: one module per command, each of which parses, calls the library and prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from intarsia.cli.interrupts import INTERRUPTED, message_when_interrupted
from intarsia.exceptions import install


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; after Ctrl-C, say whether anything was written."""
    try:
        _run(arguments)
    except KeyboardInterrupt:
        sys.stderr.write(message_when_interrupted() + "\n")
        sys.exit(INTERRUPTED)


def _run(arguments: Sequence[str] | None) -> None:
    """Run a command if the libraries of the command line are installed."""
    try:
        import polars as pl  # noqa: F401
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(f"The command line needs {error.name}, which is not installed. {install('cli')}")
    from intarsia.cli.app import main as run

    run(arguments)


__all__ = ["main"]
