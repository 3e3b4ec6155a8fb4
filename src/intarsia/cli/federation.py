"""``intarsia federation``: start the server, run a study, see how it is going."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.columns import check
from intarsia.cli.console import print_json
from intarsia.cli.kit_options import Json, Kit, become, check_certificates, engine, say, tell
from intarsia.cli.kits import admit, approve, certificates, exclude, init, join, join_request, keys, renew
from intarsia.cli.newcomers import add, invite
from intarsia.cli.study_folder import MODEL, REPORT, model_in, report_on, unlabelled
from intarsia.exceptions import FederationError, SettingError

if TYPE_CHECKING:
    from intarsia.federation.flare.driver import Driver
    from intarsia.federation.flare.session import ServerStatus

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the study.")]
Patience = Annotated[float, typer.Option(help="Seconds to wait for absent participants before the run pauses.")]
Without = Annotated[
    list[str] | None, typer.Option("--without", help="Continue without this participant; can be repeated.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]

federation = typer.Typer(
    name="federation",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@federation.callback()
def about() -> None:
    """Cluster tables on several machines: make kits, start the server, run the study.

    Example: [bold]intarsia federation run --kit kits/analyst -o study/[/]
    """


for command in (init, join_request, approve, join, invite, add, keys, renew, certificates, exclude, admit, check):
    federation.command(command.__name__.replace("_", "-"))(command)


@federation.command()
def start(kit: Kit) -> None:
    """Start the server. It runs until it is stopped.

    Example: [bold]intarsia federation start --kit kits/server[/]
    """
    engine()
    from intarsia.federation.flare.kit import command_of
    from intarsia.federation.kit_folder import SERVER, name_of

    if name_of(kit) != SERVER:
        raise SettingError(f"{kit} is the kit of {name_of(kit)!r}, not the server's.")
    check_certificates(kit)
    become(*command_of(kit))


@federation.command()
def run(
    kit: Kit,
    output: Output = Path("study"),
    patience: Patience = 600.0,
    without: Without = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            help="The study or model that this run repeats; default: that of the study file, if it names one."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run the study, or continue it from the replies so far. Writes the model and the report.

    Example: [bold]intarsia federation run --kit kits/analyst -o study/[/]
    """
    engine()
    from intarsia.federation.algorithms import algorithm_of, as_json, digest_of, holders_of, with_copies
    from intarsia.federation.flare.driver import Driver

    check_certificates(kit)
    driver = Driver(kit, (lambda _: None) if quiet else tell)
    named = driver.study.previous.model if driver.study.previous is not None else None
    start_from = previous if previous is not None else None if named is None else Path(named)
    algorithm, settings = algorithm_of(driver.study, None if start_from is None else model_in(start_from))
    driver.run(with_copies(driver.study, algorithm), settings, output / MODEL, patience, without or ())
    report_on(output, holders_of(driver.study))
    if never := unlabelled(output):
        run_folder = digest_of(as_json(with_copies(driver.study, algorithm)), driver.study.participants)
        tell(
            f"{', '.join(never)} labelled no rows: the run ended without, and the same command gives this result again. To "
            f"begin anew with everybody: stop the server, remove runs/{run_folder} in its kit, start it, run again. Sites "
            "that refuse need a new consent form."
        )


federation.command(
    "resume",
    help="Continue a run that paused or was interrupted; the same as run.\n\n"
    "Example: [bold]intarsia federation resume --kit kits/analyst -o study/[/]",
)(run)


@federation.command()
def status(
    kit: Kit,
    json: Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write it as a page to this file, anew every second until Ctrl-C.")
    ] = None,
) -> None:
    """Print which participants are connected, how far the run is, and which replies are missing.

    Example: [bold]intarsia federation status --kit kits/analyst[/]
    """
    engine()
    from intarsia.federation.flare.driver import Driver
    from intarsia.federation.flare.session import AwayError

    check_certificates(kit)
    driver = Driver(kit)
    if html is not None:
        from intarsia.cli.status_page import keep_writing

        say(f"writing {html} every second until Ctrl-C; open it in a browser")
        keep_writing(driver, html)
    try:
        server, progress = driver.server_status()
    except AwayError as error:
        if not json:
            _say_last(driver.last())
        raise FederationError(f"{error} Hint: intarsia federation start, on the server.") from None
    if json:
        print_json(driver.described(server, progress))
    else:
        _say_status(driver, server, progress)


def _say_status(driver: Driver, server: ServerStatus, progress: dict[str, Any]) -> None:
    from intarsia.federation.flare.driver import remedy_for
    from intarsia.federation.operator_page import step_of

    say(f"connected: {', '.join(server.connected) or 'nobody'} ({driver.study.needed} needed)")
    if away := driver.away(server):
        seconds = progress.get("seconds_away", {})
        gone = {name: f" (gone for {seconds[name]:.0f} s)" if name in seconds else "" for name in away}
        say(f"away: {', '.join(f'{name}{gone[name]}' for name in away)}")
        if startable := [name for name in away if name not in progress.get("excluded", ())]:
            say(f"    {remedy_for(startable, is_running=bool(server.jobs))}")
    if excluded := progress.get("excluded"):
        say(f"shut out by the coordinator: {', '.join(excluded)}")
    if progress.get("exchange"):
        waiting = progress["waiting"]
        left = progress.get("deadline", 0) - progress.get("seconds", 0)
        until = f", for {max(left, 0):.0f} s more at most" if waiting and "deadline" in progress else ""
        say(f"running: {step_of(progress)}; waiting for {', '.join(waiting) or 'nobody'}{until}")
    elif server.jobs:
        say("running: a job starts or ends")
    elif last := driver.last():
        _say_last(last)
    else:
        say("nothing was run with this kit yet")


def _say_last(last: dict[str, str]) -> None:
    from intarsia.federation.operator_page import about_last

    if last:
        say(about_last(last))


@federation.command()
def result(kit: Kit, output: Output = Path("study")) -> None:
    """Fetch the result of the last finished run, and write the report. Nothing is sent to participants.

    Example: [bold]intarsia federation result --kit kits/analyst -o study/[/]
    """
    engine()
    from intarsia.federation.algorithms import holders_of
    from intarsia.federation.flare.driver import Driver

    check_certificates(kit)
    driver = Driver(kit)
    driver.fetch(output / MODEL)
    report_on(output, holders_of(driver.study))


@federation.command()
def report(
    kit: Kit,
    output: Output = Path("study"),
    open_it: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
) -> None:
    """Write the report of the study again; the model is fetched from the server if it is not in the folder.

    Example: [bold]intarsia federation report --kit kits/analyst -o study/ --open[/]
    """
    engine()
    from intarsia.federation.algorithms import holders_of
    from intarsia.federation.flare.driver import Driver
    from intarsia.federation.kit_folder import study_of

    if not (output / MODEL).is_file():
        Driver(kit).fetch(output / MODEL)
    report_on(output, holders_of(study_of(kit)))
    if open_it:
        webbrowser.open((output / REPORT).resolve().as_uri())
