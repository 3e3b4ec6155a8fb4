"""``intarsia federation``: kits, the server, and runs."""

from __future__ import annotations

import os
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.console import err, out, plain, print_json
from intarsia.cli.study_folder import REPORT
from intarsia.exceptions import FederationError, SettingError, quote

if TYPE_CHECKING:
    from intarsia.coordinator import Algorithm
    from intarsia.federation.study_file import Study

MODEL = "model.intarsia"
OF_THE_SITE = ("local", "missing")  # settings that each participant decides on its own
Kit = Annotated[Path, typer.Option("--kit", help="The folder that was made for you.")]

federation = typer.Typer(
    name="federation",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def algorithm_of(study: Study) -> tuple[Algorithm, dict[str, Any]]:
    """What the study runs, and its settings for the record."""
    from intarsia.estimators.clustering import estimator_for
    from intarsia.estimators.recording import plain as plain_setting

    settings = {"random_state": 0, **study.settings}
    if "release" in settings:
        raise SettingError("release rules are a table of the study, [release], not a setting of the method.")
    if own := [name for name in OF_THE_SITE if name in settings]:
        raise SettingError(
            f"each participant decides on {quote(own)} itself. Hint: intarsia participant serve --{own[0]} …"
        )
    if settings.get("scale") == "none":  # which TOML has no other word for
        settings["scale"] = None
    model = estimator_for(study.method, study.n_clusters, settings)
    described = {name: plain_setting(value) for name, value in model.get_params(deep=False).items()}
    return model.algorithm_for(study.participants), described


@federation.callback()
def about() -> None:
    """One clustering across machines: make kits, start the server, run.

    Example: [bold]intarsia federation run --kit kits/analyst -o study/[/]
    """


def engine() -> None:
    """Say what to install where the engine is missing."""
    import logging

    from intarsia.federation.flare.engine import check_engine

    check_engine()
    logging.getLogger().addHandler(logging.NullHandler())  # the engine's own words help nobody; ours say what is wrong


@federation.command()
def init(
    study: Annotated[Path, typer.Argument(help="study.toml: who takes part, method, K, where the server is.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the kits.")] = Path("kits"),
    keys_stay: Annotated[
        bool, typer.Option("--keys-stay", help="No kits for participants: they make keys and ask (join-request).")
    ] = False,
) -> None:
    """Make one kit for each participant, one for the server and one for the analyst, with keys and locks.

    Example: [bold]intarsia federation init study.toml -o kits/[/]
    """
    engine()
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.certificates.certificate import certificate_of
    from intarsia.federation.certificates.keys import fingerprint
    from intarsia.federation.flare.kit import write_kits
    from intarsia.federation.kit_folder import AUTHORITY
    from intarsia.federation.study_file import read_study

    agreed = read_study(study)
    _check_rules(agreed)
    kits = write_kits(agreed, output, keys_stay=keys_stay)
    for name, where in kits.items():
        out.print(plain(f"{name}: {where}"), soft_wrap=True)
    root = certificate_of(Authority.read(kits[AUTHORITY]).certificate)
    out.print(plain(f"fingerprint of the authority: {fingerprint(root.public_key())}"), soft_wrap=True)
    out.print(plain("Each folder goes to its party alone, over a way that you trust; README.md in it says what to do."))
    if keys_stay:
        out.print(
            plain(f"Participants get {study.name}, and ask: intarsia federation join-request {study.name} --name …")
        )


@federation.command("join-request")
def join_request(
    study: Annotated[Path | None, typer.Argument(help="study.toml, as the coordinator sent it.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Your name in the study.")] = None,
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit, to renew its certificate.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the key, which stays, and the request.")
    ] = Path("joining"),
) -> None:
    """Make a key that never leaves, and a request for a certificate, which goes to the coordinator.

    Example: [bold]intarsia federation join-request study.toml --name hungary[/]
    """
    engine()
    from intarsia.federation.certificates.enrolment import write_request
    from intarsia.federation.kit_folder import name_of, study_of
    from intarsia.federation.study_file import read_study

    if kit is not None and study is None:
        agreed, who = study_of(kit), name_of(kit)
    elif kit is None and study is not None and name is not None:
        agreed, who = read_study(study), name
    else:
        raise SettingError("whose key is it? Hint: study.toml --name hungary, or --kit kit/ to renew a certificate.")
    request, seen = write_request(agreed, who, output)
    out.print(plain(f"send to the coordinator: {request}"), soft_wrap=True)
    out.print(plain(f"fingerprint, to be told over another way: {seen}"), soft_wrap=True)
    out.print(plain(f"The key in {output} stays: intarsia federation join needs it."), soft_wrap=True)


@federation.command()
def approve(
    request: Annotated[Path, typer.Argument(help="NAME.request.pem, as it came.")],
    authority: Annotated[Path, typer.Option("--authority", help="The authority's folder.")] = Path("kits/authority"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what goes back.")] = Path("approved"),
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", help="As the participant told you; nobody is asked.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Renew: it has a certificate already.")] = False,
) -> None:
    """Sign a participant's request, once its fingerprint is what the participant says over another way.

    Example: [bold]intarsia federation approve hungary.request.pem[/]
    """
    engine()
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.certificates.enrolment import approve as sign
    from intarsia.federation.certificates.enrolment import approved_name, read_request
    from intarsia.federation.certificates.keys import same_fingerprint
    from intarsia.federation.kit_folder import study_of

    who, study = Authority.read(authority), study_of(authority)
    asked = read_request(request, study, who, again=again)
    out.print(
        plain(f"{asked.name} asks to take part in {study.name}; fingerprint: {asked.fingerprint}"), soft_wrap=True
    )
    if fingerprint is not None and not same_fingerprint(fingerprint, asked.fingerprint):
        raise FederationError(f"{request} has another fingerprint than you were told. Nothing was signed.")
    if fingerprint is None:
        if not sys.stdin.isatty():
            raise SettingError("nobody is there to compare the fingerprint. Hint: --fingerprint '…', or a terminal.")
        typer.confirm("Has the participant told you the same over another way?", abort=True)
    until = sign(asked, study, authority, who, output / approved_name(asked.name))
    out.print(plain(f"send back: {output / approved_name(asked.name)}, until {until:%Y-%m-%d}"), soft_wrap=True)


@federation.command()
def join(
    approved: Annotated[Path, typer.Argument(help="NAME.approved.json, as it came back.")],
    request: Annotated[Path, typer.Option("--request", help="The folder that join-request made.")] = Path("joining"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Your kit; one that is there is renewed.")] = Path(
        "kit"
    ),
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", help="Of the authority, as the coordinator told you.")
    ] = None,
) -> None:
    """Make your kit of the key that stayed and the certificate that came back, or renew the one that is there.

    Example: [bold]intarsia federation join hungary.approved.json -o kit/[/]
    """
    engine()
    from intarsia.federation.certificates.enrolment import join as enrol
    from intarsia.federation.flare.kit import make_kit

    done = enrol(approved, request, output, make_kit, fingerprint)
    out.print(plain(f"kit of {done.name}: {done.kit}, until {done.until:%Y-%m-%d}"), soft_wrap=True)
    out.print(plain(f"fingerprint of the authority: {done.authority}"), soft_wrap=True)
    out.print(plain(f"The key is in the kit now; {request} is not needed any more, and holds a copy: remove it."))


@federation.command()
def renew(
    kit: Kit,
    authority: Annotated[Path, typer.Option("--authority", help="The authority's folder.")] = Path("kits/authority"),
) -> None:
    """Renew the certificate in the server's or the analyst's kit. Participants ask: join-request --kit.

    Example: [bold]intarsia federation renew --kit kits/server[/]
    """
    engine()
    from intarsia.federation.certificates.authority import renew as sign
    from intarsia.federation.kit_folder import study_of

    out.print(plain(f"{kit} is good until {sign(kit, study_of(kit), authority):%Y-%m-%d}"), soft_wrap=True)


@federation.command()
def certificates(
    kit: Kit,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say when the certificates in a kit end.

    Example: [bold]intarsia federation certificates --kit kits/server[/]
    """
    engine()
    from intarsia.federation.certificates.lifetimes import lifetimes

    found = lifetimes(kit)
    if json:
        print_json([{"file": c.file, "name": c.name, "ends": c.ends.isoformat()} for c in found])
        return
    for held in found:
        out.print(plain(f"{held.name}: until {held.ends:%Y-%m-%d} ({held.file})"), soft_wrap=True)
    check_certificates(kit)


def check_certificates(kit: Path) -> None:
    """Warn where a certificate ends soon, and refuse where it has ended."""
    from intarsia.federation.certificates.lifetimes import check_lifetimes

    for told in check_lifetimes(kit):
        _tell(f"Warning: {told}")


def _check_rules(study: Study) -> None:
    """Refuse settings that make no sense, and rules under which the study could never run."""
    from intarsia.federation.release_rules import forbidden, rounds_beyond

    algorithm, _ = algorithm_of(study)
    if why := forbidden(algorithm, study.release):
        raise SettingError(
            f"the study's own release rules forbid what its settings ask for: {why} Hint: other settings, or the rule in "
            "[release]; participants see it before they agree, and may refuse."
        )
    if told := rounds_beyond(algorithm, study.release):
        _tell(f"Warning: {told}")


@federation.command()
def start(kit: Kit) -> None:
    """Start the server, until it is stopped.

    Example: [bold]intarsia federation start --kit kits/server[/]
    """
    engine()
    from intarsia.federation.flare.kit import command_of
    from intarsia.federation.kit_folder import SERVER, name_of

    if name_of(kit) != SERVER:
        raise SettingError(f"{kit} is not the server's kit, but that of {name_of(kit)!r}.")
    check_certificates(kit)
    become(*command_of(kit))


def become(command: list[str], environment: dict[str, str]) -> None:
    """Go on as another program, in the same process."""
    os.execve(command[0], command, environment)  # noqa: S606


Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the study.")]
Patience = Annotated[float, typer.Option(help="Seconds to wait for whoever is away.")]
Without = Annotated[list[str] | None, typer.Option("--without", help="A participant that is not waited for.")]
Seed = Annotated[int | None, typer.Option(help="Another seed than the study's: a run of its own.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@federation.command()
def run(
    kit: Kit,
    output: Output = Path("study"),
    patience: Patience = 600.0,
    without: Without = None,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Run the study, or go on with it: what was answered is not asked again. Writes the model and the report.

    Example: [bold]intarsia federation run --kit kits/analyst -o study/[/]
    """
    engine()
    from intarsia.federation.flare.driver import Driver

    check_certificates(kit)
    driver = Driver(kit, (lambda _: None) if quiet else _tell)
    own = {} if seed is None else {"random_state": seed}
    algorithm, settings = algorithm_of(replace(driver.study, settings=driver.study.settings | own))
    driver.run(algorithm, settings, output / MODEL, patience, without or ())
    _written(output)


@federation.command()
def resume(
    kit: Kit,
    output: Output = Path("study"),
    patience: Patience = 600.0,
    without: Without = None,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that paused or was cut off; the same as run.

    Example: [bold]intarsia federation resume --kit kits/analyst -o study/[/]
    """
    run(kit, output, patience, without, seed, quiet)


def _written(output: Path) -> None:
    from intarsia.estimators import load

    found = load(output / MODEL)
    found.report(output / REPORT)
    out.print(str(found), highlight=False)
    if found.run is not None:
        for note in found.run.notes:
            _tell(f"Note: {note}")
    out.print(f"written: {output}/ ({MODEL}, {REPORT})", highlight=False, markup=False, soft_wrap=True)


def _tell(text: str) -> None:
    err.print(plain(text), soft_wrap=True)


@federation.command()
def status(
    kit: Kit,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say who is connected, how far the run is, and whom it waits for.

    Example: [bold]intarsia federation status --kit kits/analyst[/]
    """
    engine()
    from intarsia.federation.flare.driver import AwayError, Driver

    check_certificates(kit)
    driver = Driver(kit)
    last = driver.last()
    try:
        now, going = driver.standing()
    except AwayError as error:
        if last and not json:
            out.print(plain(f"last run: {last['state']} at {last['at']}: {last['why']}"), soft_wrap=True)
        raise FederationError(f"{error} Hint: intarsia federation start, on the server.") from None
    away = [name for name in driver.study.participants if name not in now.connected]
    if json:
        print_json(
            {
                "connected": now.connected,
                "away": away,
                "needed": driver.study.needed,
                "jobs": now.jobs,
                "started": now.started,
                "progress": going,
                "last": last,
            }
        )
        return
    out.print(plain(f"connected: {', '.join(now.connected) or 'nobody'} ({driver.study.needed} needed)"))
    if away:
        out.print(plain(f"away: {', '.join(away)}"))
    if going.get("exchange"):
        round_ = f" {going['round']}" if going.get("round") else ""
        waiting = ", ".join(going["waiting"]) or "nobody"
        out.print(plain(f"running: {going['phase']}{round_}; waiting for {waiting}"))
    elif now.jobs:
        out.print(plain("running: starting"))
    elif last:
        out.print(plain(f"last run: {last['state']} at {last['at']}: {last['why']}"), soft_wrap=True)
    else:
        out.print(plain("nothing was run with this kit yet"))


@federation.command()
def result(kit: Kit, output: Output = Path("study")) -> None:
    """Fetch what the last run that ended found; nobody is asked anything.

    Example: [bold]intarsia federation result --kit kits/analyst -o study/[/]
    """
    engine()
    from intarsia.federation.flare.driver import Driver

    check_certificates(kit)
    Driver(kit).fetch(output / MODEL)
    _written(output)


@federation.command()
def report(
    kit: Kit,
    output: Output = Path("study"),
    open_it: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write the report of the study anew; the model is fetched from the server if it is not there.

    Example: [bold]intarsia federation report --kit kits/analyst -o study/ --open[/]
    """
    engine()
    from intarsia.federation.flare.driver import Driver

    if not (output / MODEL).is_file():
        Driver(kit).fetch(output / MODEL)
    _written(output)
    if open_it:
        webbrowser.open((output / REPORT).resolve().as_uri())
