"""``intarsia``: the commands, and how errors and warnings are shown.

Exit codes: 0 done, 1 an error in the input or the run, 2 an error in the command line, 3 ``check`` or ``doctor`` says no,
130 interrupted.
Commands import what they need when they run, so that --help and the completion of a shell are quick.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from intarsia.cli.check import check
from intarsia.cli.console import err, plain
from intarsia.cli.datasets import datasets
from intarsia.cli.demo import demo
from intarsia.cli.doctor import doctor
from intarsia.cli.explain import explain
from intarsia.cli.federation import federation
from intarsia.cli.fit import fit
from intarsia.cli.interrupts import INTERRUPTED
from intarsia.cli.join import join
from intarsia.cli.participant import participant
from intarsia.cli.predict import predict
from intarsia.cli.rename import rename
from intarsia.cli.report import report
from intarsia.cli.schema import schema
from intarsia.cli.share import share
from intarsia.cli.version import version
from intarsia.exceptions import IntarsiaError, IntarsiaWarning

DEBUG = "--debug"

app = typer.Typer(
    name="intarsia",
    help="One clustering over tables that share only some of their columns and none of their rows.",
    epilog="Example: [bold]intarsia fit a.csv b.parquet -k 3 -o study/[/]\n\n"
    "Exit codes: 0 done, 1 an error in the input or the run, 2 an error in the command line, "
    "3 [bold]check[/] or [bold]doctor[/] says no, 130 interrupted.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error; anywhere on the line.")] = False,
) -> None:
    """List the option that :func:`main` removes before commands see it."""


for command in (check, fit, join, predict, explain, rename, share, report, demo, datasets, doctor, schema, version):
    app.command()(command)
for group in (federation, participant):
    app.add_typer(group)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error is printed as one message, with a traceback only for --debug."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    warnings.showwarning = _show  # type: ignore[assignment]
    warnings.simplefilter("always", IntarsiaWarning)
    try:
        code = app([text for text in given if text != DEBUG], prog_name="intarsia", standalone_mode=False)
    except IntarsiaError as error:
        if debug:
            raise
        _print("Error:", "bold red", as_typed(str(error)))
        sys.exit(1)
    except OSError as error:
        if debug or error.filename is None:
            raise
        _print("Error:", "bold red", f"{error.filename} cannot be used: {error.strerror}.")
        sys.exit(1)
    except typer.Abort:
        code = INTERRUPTED
    except Exception as error:
        if debug or not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()  # an error in the command line
        sys.exit(error.exit_code)
    if code == INTERRUPTED:
        raise KeyboardInterrupt  # typer returns it as an exit code
    sys.exit(code if isinstance(code, int) else 0)


def _show(message: Warning | str, *_: object) -> None:
    _print("Note:", "bold yellow", as_typed(str(message)))


def as_typed(message: str) -> str:
    """Return a message with the options of the command line in place of Python's arguments.

    >>> as_typed("Hint: scale='standard' if units differ.")
    'Hint: --scale standard if units differ.'
    """
    from intarsia.tables.categories import IN_PYTHON

    for part in IN_PYTHON:
        message = message.replace(part, "")
    return re.sub(r"\b(scale|missing)='(\w+)'", r"--\1 \2", message)


def _print(kind: str, style: str, message: str) -> None:
    err.print(Text.assemble((kind, style), " ", plain(message)), soft_wrap=True)
