"""The command line: parse, call the library, print."""

from intarsia.cli.app import main

__all__ = ["main"]
