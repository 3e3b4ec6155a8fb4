"""``intarsia federation invite`` and ``add``: a newcomer joins the model of a study; nobody else is asked."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.kit_options import Kit, check_certificates, engine, say, tell
from intarsia.cli.study_folder import MODEL, check_free, model_in, report_on
from intarsia.exceptions import SettingError

StudyFolder = Annotated[Path, typer.Option("--study", help="The folder of the finished study, or its model.intarsia.")]


def invite(
    name: Annotated[str, typer.Argument(help="The newcomer's name.")],
    kit: Kit,
    study: StudyFolder = Path("study"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the newcomer (NAME.study.toml).")
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority", help="Also make the newcomer's kit, beside this folder; else it makes its own key."
        ),
    ] = None,
) -> None:
    """Write the study file by which a newcomer joins a finished study: one summary, plain rounds, labels.

    Example: [bold]intarsia federation invite basel --kit kits/analyst --study study/[/]
    """
    engine()
    from intarsia.federation.invitation import invitation, write_invitation
    from intarsia.federation.kit_folder import ANALYST, AUTHORITY, name_of, study_of
    from intarsia.results import model_file

    if name_of(kit) != ANALYST:
        raise SettingError(f"{kit} is the kit of {name_of(kit)!r}, not the analyst's.")
    outcome, _ = model_file.load(model_in(study))
    invited = invitation(study_of(kit), outcome, name)
    made = None
    if authority is not None:
        from intarsia.federation.certificates.authority import Authority
        from intarsia.federation.flare.kit import make_kit

        made = authority.resolve().parent / name
        if made.exists():
            raise SettingError(f"{made} already exists. Hint: kits are made once; another name for the newcomer.")
        if study_of(authority).name != invited.name:
            raise SettingError(f"{authority} is the {AUTHORITY} of another study than {invited.name!r}.")
        signer = Authority.read(authority)
        make_kit(made, invited, name, signer.credentials(invited, name))
        signer.write_signed(authority)
    path = Path(f"{name}.study.toml") if output is None else output
    write_invitation(path, invited)
    say(f"written: {path}")
    if made is None:
        say(f"Send it to {name}, who makes a key: intarsia federation join-request {path.name} --name {name}")
        say(f"Then: intarsia federation approve {name}.request.pem --study {path}")
    else:
        say(f"kit of {name}: {made}. Send it over a safe channel: it contains a private key.")


def add(
    invited: Annotated[Path, typer.Argument(help="NAME.study.toml, from intarsia federation invite.")],
    kit: Kit,
    study: StudyFolder = Path("study"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the study with the newcomer.")] = Path(
        "joined"
    ),
    patience: Annotated[float, typer.Option(help="Seconds to wait for the newcomer before the run pauses.")] = 600.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
) -> None:
    """Add a newcomer to a finished study, or continue to. Only its site must be connected; nobody else is asked.

    Example: [bold]intarsia federation add basel.study.toml --kit kits/analyst --study study/ -o study2/[/]
    """
    engine()
    from intarsia.federation.flare.driver import Driver
    from intarsia.federation.invitation import add_to, joining
    from intarsia.federation.kit_folder import study_of
    from intarsia.federation.study_file import read_study
    from intarsia.results import model_file

    check_certificates(kit)
    newcomer, before = read_study(invited), model_in(study)
    if newcomer.name != study_of(kit).name:
        raise SettingError(
            f"{invited} is an invitation to {newcomer.name!r}, and the kit is of {study_of(kit).name!r}."
        )
    check_free(output, force=False)
    outcome, _ = model_file.load(before)
    algorithm, settings = joining(newcomer, outcome)
    with tempfile.TemporaryDirectory() as folder:
        late = Path(folder) / MODEL
        Driver(kit, (lambda _: None) if quiet else tell, newcomer).run(algorithm, settings, late, patience)
        add_to(before, late, output / MODEL)
    report_on(output)
