"""``intarsia``: every command, and what happens when one fails.

Exit codes: 0 done, 1 something about the input or the run, 2 the command line itself, 3 ``check`` says no, 130 interrupted.
Commands load what they work with when they run, so that --help and the completion of a word in a shell do not wait for it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import typer
from rich.text import Text

from intarsia.cli.check import check
from intarsia.cli.explain import explain
from intarsia.cli.federation import federation
from intarsia.cli.fit import fit
from intarsia.cli.interrupts import INTERRUPTED
from intarsia.cli.more import datasets, demo, version
from intarsia.cli.participant import participant
from intarsia.cli.predict import predict
from intarsia.cli.progress import err, plain
from intarsia.cli.report import report
from intarsia.exceptions import IntarsiaError, IntarsiaWarning

DEBUG = "--debug"

app = typer.Typer(
    name="intarsia",
    help="One clustering over tables that share only some of their columns and none of their rows. "
    f"{DEBUG} anywhere shows where an error came from.",
    epilog="Example: [bold]intarsia fit a.csv b.parquet -k 3 -o study/[/]\n\n"
    "Exit codes: 0 done, 1 something about the input or the run, 2 the command line itself, "
    "3 [bold]check[/] says no, 130 interrupted.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (check, fit, predict, explain, report, demo, datasets, version):
    app.command()(command)
for several in (federation, participant):
    app.add_typer(several)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error is one message, without a traceback unless asked for."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    warnings.showwarning = _show  # type: ignore[assignment]
    warnings.simplefilter("always", IntarsiaWarning)
    try:
        code = app([text for text in given if text != DEBUG], prog_name="intarsia", standalone_mode=False)
    except IntarsiaError as error:
        if debug:
            raise
        _say("Error:", "bold red", str(error))
        sys.exit(1)
    except typer.Abort:
        code = INTERRUPTED
    except Exception as error:
        if debug or not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()  # the command line itself is wrong
        sys.exit(error.exit_code)
    if code == INTERRUPTED:
        raise KeyboardInterrupt  # which typer takes for an exit code
    sys.exit(code if isinstance(code, int) else 0)


def _show(message: Warning | str, *_: object) -> None:
    _say("Note:", "bold yellow", str(message))


def _say(kind: str, style: str, message: str) -> None:
    err.print(Text.assemble((kind, style), " ", plain(message)), soft_wrap=True)
