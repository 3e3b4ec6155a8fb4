"""``intarsia federation``: kits, the server, and runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.console import err, out, plain, print_json
from intarsia.cli.report import REPORT
from intarsia.exceptions import SettingError, quote

if TYPE_CHECKING:
    from intarsia.algorithms import Algorithm
    from intarsia.runtime.flare.study import Study

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
    from intarsia.estimators.one_call import estimator_for
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

    from intarsia.runtime.flare import need_engine

    need_engine()
    logging.getLogger().addHandler(logging.NullHandler())  # the engine's own words help nobody; ours say what is wrong


@federation.command()
def init(
    study: Annotated[Path, typer.Argument(help="study.toml: who takes part, method, K, where the server is.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the kits.")] = Path("kits"),
) -> None:
    """Make one kit for each participant, one for the server and one for the analyst, with keys and locks.

    Example: [bold]intarsia federation init study.toml -o kits/[/]
    """
    engine()
    from intarsia.runtime.flare.kit import write_kits
    from intarsia.runtime.flare.study import read_study

    agreed = read_study(study)
    _check_rules(agreed)
    kits = write_kits(agreed, output, metric=str(agreed.settings.get("metric", "euclidean")))
    for name, where in kits.items():
        out.print(plain(f"{name}: {where}"), soft_wrap=True)
    out.print(plain("Each folder goes to its party alone, over a way that you trust; README.md in it says what to do."))


def _check_rules(study: Study) -> None:
    """Refuse settings that make no sense, and rules under which the study could never run."""
    from intarsia.runtime.flare.rules import forbidden, rounds_beyond

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
    from intarsia.runtime.flare.kit import SERVER, command_of, name_of

    if name_of(kit) != SERVER:
        raise SettingError(f"{kit} is not the server's kit, but that of {name_of(kit)!r}.")
    become(*command_of(kit))


def become(command: list[str], environment: dict[str, str]) -> None:
    """Go on as another program, in the same process."""
    os.execve(command[0], command, environment)  # noqa: S606


@federation.command()
def run(
    kit: Kit,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the study.")] = Path("study"),
    patience: Annotated[float, typer.Option(help="Seconds to wait for whoever is away.")] = 600.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run the study, or go on with it: what was answered is not asked again. Writes the model and the report.

    Example: [bold]intarsia federation run --kit kits/analyst -o study/[/]
    """
    engine()
    from intarsia.estimators import load
    from intarsia.runtime.flare.driver import Driver

    driver = Driver(kit, (lambda _: None) if quiet else _tell)
    algorithm, settings = algorithm_of(driver.study)
    driver.run(algorithm, settings, output / MODEL, patience)
    result = load(output / MODEL)
    result.report(output / REPORT)
    out.print(str(result), highlight=False)
    out.print(f"written: {output}/ ({MODEL}, {REPORT})", highlight=False, markup=False, soft_wrap=True)


def _tell(text: str) -> None:
    err.print(plain(text), soft_wrap=True)


@federation.command()
def status(
    kit: Kit,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say whether the server answers, and who is connected.

    Example: [bold]intarsia federation status --kit kits/analyst[/]
    """
    engine()
    from intarsia.runtime.flare.driver import Driver

    driver = Driver(kit)
    now = driver.standing()
    away = [name for name in driver.study.participants if name not in now.connected]
    if json:
        print_json({"connected": now.connected, "away": away, "jobs": now.jobs, "started": now.started})
        return
    out.print(plain(f"connected: {', '.join(now.connected) or 'nobody'}"))
    if away:
        out.print(plain(f"away: {', '.join(away)}"))
    out.print(plain(f"runs going on: {len(now.jobs)}"))


@federation.command()
def result(
    kit: Kit,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the study.")] = Path("study"),
) -> None:
    """Fetch what the last run that ended found; nobody is asked anything.

    Example: [bold]intarsia federation result --kit kits/analyst -o study/[/]
    """
    engine()
    from intarsia.estimators import load
    from intarsia.runtime.flare.driver import Driver

    Driver(kit).fetch(output / MODEL)
    found = load(output / MODEL)
    found.report(output / REPORT)
    out.print(str(found), highlight=False)
    out.print(f"written: {output}/ ({MODEL}, {REPORT})", highlight=False, markup=False, soft_wrap=True)
