"""Kits and keys: making, joining, renewing, and who is shut out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.console import print_json
from intarsia.cli.kit_options import Json, Kit, check_certificates, engine, say, tell
from intarsia.exceptions import FederationError, SettingError

ServerKit = Annotated[Path, typer.Option("--kit", help="The server's kit.")]
AuthorityFolder = Annotated[Path, typer.Option("--authority", help="Folder of the authority, made by init.")]


def init(
    study: Annotated[Path, typer.Argument(help="study.toml: participants, method, number of clusters, server.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the kits.")] = Path("kits"),
    keys_stay: Annotated[
        bool,
        typer.Option("--keys-stay", help="Make no kits for participants: they create their own keys (join-request)."),
    ] = False,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Secure sums: write secure_sums = true into study.toml; implies --keys-stay."),
    ] = False,
) -> None:
    """Make the kits: a folder with key, certificate and settings for each participant, the server and the analyst.

    Example: [bold]intarsia federation init study.toml -o kits/[/]
    """
    engine()
    from intarsia.federation.algorithms import check_rules
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.certificates.keys import certificate_of, fingerprint
    from intarsia.federation.flare.kit import write_kits
    from intarsia.federation.kit_folder import AUTHORITY
    from intarsia.federation.study_file import make_secure, read_study

    agreed = make_secure(study) if secure else read_study(study)
    if warning := check_rules(agreed):
        tell(f"Warning: {warning}")
    kits = write_kits(agreed, output, keys_stay=keys_stay)
    for name, where in kits.items():
        say(f"{name}: {where}")
    root = certificate_of(Authority.read(kits[AUTHORITY]).certificate)
    say(f"fingerprint of the authority: {fingerprint(root.public_key())}")
    say("Give each folder to its owner alone, over a secure channel; README.md in it says what to do.")
    if agreed.secure_sums:
        _say_how_to_join(study, output)
    elif keys_stay:
        say(f"Send {study.name} to the participants: intarsia federation join-request {study.name} --name …")


def _say_how_to_join(study: Path, kits: Path) -> None:
    """Print what everybody does next in a study with secure sums."""
    authority = kits / "authority"
    say(
        f"""Secure sums: no kits were made for participants. Each makes its own key, so that nobody else can read its part.
1. Send {study.name} to each participant, which runs: intarsia federation join-request {study.name} --name …
2. You, for each request: intarsia federation approve NAME.request.pem --authority {authority}
3. Each participant: intarsia federation join NAME.approved.json -o kit/
4. You, when all have joined: intarsia federation keys --authority {authority} -o keys.json; send that file to all.
5. Each participant: intarsia participant preview --kit kit/ --table … --keys keys.json --form consent.toml,
   and a phone call with the others to compare the safety number on the form."""
    )


def join_request(
    study: Annotated[Path | None, typer.Argument(help="study.toml, from the coordinator.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Your name in the study.")] = None,
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit, to renew its certificate.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the key, which stays, and the request.")
    ] = Path("joining"),
) -> None:
    """Create a private key, which stays on this machine, and a certificate request to send to the coordinator.

    Example: [bold]intarsia federation join-request study.toml --name hungary[/]
    """
    engine()
    from intarsia.federation.certificates.enrolment import write_request
    from intarsia.federation.kit_folder import name_of, study_of
    from intarsia.federation.study_file import read_study

    if kit is not None and study is None:
        agreed, participant = study_of(kit), name_of(kit)
    elif kit is None and study is not None and name is not None:
        agreed, participant = read_study(study), name
    else:
        raise SettingError("give either study.toml and --name, or --kit to renew a certificate.")
    request, fingerprint = write_request(agreed, participant, output)
    say(f"send to the coordinator: {request}")
    say(f"fingerprint, to be confirmed by phone or in person: {fingerprint}")
    say(f"The key in {output} stays there: intarsia federation join needs it.")


def approve(
    request: Annotated[Path, typer.Argument(help="NAME.request.pem, from the participant.")],
    authority: AuthorityFolder = Path("kits/authority"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the reply.")] = Path("approved"),
    fingerprint: Annotated[
        str | None,
        typer.Option("--fingerprint", help="The fingerprint that the participant told you; asks no question."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Renew a certificate that already exists.")] = False,
    study_file: Annotated[
        Path | None, typer.Option("--study", help="For a newcomer: the file that intarsia federation invite wrote.")
    ] = None,
) -> None:
    """Sign a participant's request, after its fingerprint was confirmed by phone or in person.

    Example: [bold]intarsia federation approve hungary.request.pem[/]
    """
    engine()
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.certificates.enrolment import approve as sign
    from intarsia.federation.certificates.enrolment import approved_name, read_request
    from intarsia.federation.kit_folder import study_of
    from intarsia.federation.study_file import read_study

    signer, study = Authority.read(authority), study_of(authority)
    if study_file is not None:
        invited = read_study(study_file)
        if not invited.joins or invited.name != study.name:
            raise SettingError(f"{study_file} is no invitation to {study.name!r}. Hint: intarsia federation invite.")
        study = invited
    enrolment = read_request(request, study, signer, again=again)
    say(f"{enrolment.name} asks to take part in {study.name}; fingerprint: {enrolment.fingerprint}")
    _confirm(request, enrolment.fingerprint, fingerprint)
    reply = output / approved_name(enrolment.name)
    until = sign(enrolment, study, authority, signer, reply)
    say(f"send back: {reply}, valid until {until:%Y-%m-%d}")


def _confirm(request: Path, seen: str, expected: str | None) -> None:
    from intarsia.federation.certificates.keys import same_fingerprint

    if expected is not None:
        if not same_fingerprint(expected, seen):
            raise FederationError(f"{request} has another fingerprint than --fingerprint says. Nothing was signed.")
        return
    if not sys.stdin.isatty():
        raise SettingError("the fingerprint must be confirmed. Hint: use --fingerprint '…', or a terminal.")
    typer.confirm("Did the participant confirm the same fingerprint by phone or in person?", abort=True)


def join(
    approved: Annotated[Path, typer.Argument(help="NAME.approved.json, from the coordinator.")],
    request: Annotated[Path, typer.Option("--request", help="The folder that join-request made.")] = Path("joining"),
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of your kit; if it exists, its certificate is renewed.")
    ] = Path("kit"),
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", help="The authority's fingerprint that the coordinator told you.")
    ] = None,
) -> None:
    """Make your kit from your key and the coordinator's reply, or renew its certificate.

    Example: [bold]intarsia federation join hungary.approved.json -o kit/[/]
    """
    engine()
    from intarsia.federation.certificates.enrolment import join as enrol
    from intarsia.federation.flare.kit import make_kit

    joined = enrol(approved, request, output, make_kit, fingerprint)
    say(f"kit of {joined.name}: {joined.kit}, valid until {joined.until:%Y-%m-%d}")
    say(f"fingerprint of the authority: {joined.authority}")
    say(f"The key is now in the kit. Remove {request}: it contains a copy of it.")


def keys(
    authority: AuthorityFolder = Path("kits/authority"),
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the list.")] = Path("keys.json"),
) -> None:
    """Write the list of all participants' keys for a study with secure sums, and print its safety number.

    Example: [bold]intarsia federation keys --authority kits/authority -o keys.json[/]
    """
    engine()
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.key_list import check_keys, in_groups, write_keys
    from intarsia.federation.kit_folder import study_of
    from intarsia.privacy.secure.identity import safety_number

    study = study_of(authority)
    if not study.secure_sums:
        raise SettingError(f"the study {study.name!r} has no secure sums. Hint: intarsia federation init --secure")
    fingerprints = Authority.read(authority).keys(study)
    check_keys(fingerprints, study, str(authority))
    write_keys(output, fingerprints)
    for name, digits in fingerprints.items():
        say(f"{name}: {in_groups(digits)}")
    say(f"safety number: {safety_number(fingerprints)}")
    say(f"written: {output}. Send it to all participants, for preview and serve: --keys {output.name}")
    say("Each compares the safety number with the other participants by phone or in person before it agrees.")


def renew(
    kit: Kit,
    authority: AuthorityFolder = Path("kits/authority"),
    lost: Annotated[
        str | None,
        typer.Option("--lost", help="The kit of this role, server or analyst, is lost: make --kit, a new folder."),
    ] = None,
) -> None:
    """Renew the certificate in the kit of the server or the analyst. Participants use join-request --kit.

    Example: [bold]intarsia federation renew --kit kits/server[/]
    """
    engine()
    from intarsia.federation.certificates.authority import renew as renewed
    from intarsia.federation.flare.kit import make_again
    from intarsia.federation.kit_folder import SERVER, study_of

    if lost is not None:
        say(f"{kit} is the new kit of the {lost}, valid until {make_again(kit, lost, authority):%Y-%m-%d}")
        if lost == SERVER:
            say(
                "Nobody is shut out in it: whoever was shut out before can connect as soon as this server starts. "
                f"So before that: intarsia federation exclude NAME --kit {kit}"
            )
        return
    say(f"{kit} is valid until {renewed(kit, study_of(kit), authority):%Y-%m-%d}")


def certificates(kit: Kit, json: Json = False) -> None:
    """Print the expiry dates of the certificates in a kit.

    Example: [bold]intarsia federation certificates --kit kits/server[/]
    """
    engine()
    from intarsia.federation.certificates.authority import CERTIFICATE
    from intarsia.federation.certificates.lifetimes import lifetimes
    from intarsia.federation.kit_folder import ROOT, STARTUP

    lives = lifetimes(kit)
    if json:
        print_json([{"file": life.file, "name": life.name, "ends": life.ends.isoformat()} for life in lives])
        return
    for life in lives:
        name = "authority" if life.file in (CERTIFICATE, f"{STARTUP}/{ROOT}") else life.name
        say(f"{name}: until {life.ends:%Y-%m-%d} ({life.file})")
    check_certificates(kit)


def exclude(
    name: Annotated[str, typer.Argument(help="The participant to shut out.")], kit: ServerKit = Path("kits/server")
) -> None:
    """Shut a participant out: its site is disconnected within seconds, and cannot connect again. The others go on.

    Run it on the server's machine. It blocks the participant's name, and so everybody who has its key, until admit.

    Example: [bold]intarsia federation exclude hungary --kit kits/server[/]
    """
    from intarsia.federation.exclusions import exclude as shut_out

    _say_excluded(shut_out(kit, name))
    say(
        "A running server disconnects it within five seconds. What it has sent before stays in the transcript of the run."
    )
    say(f"A run that needs it waits. Without it: intarsia federation run --without {name}")


def admit(
    name: Annotated[str, typer.Argument(help="The participant to let in again.")], kit: ServerKit = Path("kits/server")
) -> None:
    """Let a participant in again that was shut out. Its site connects by itself, or when it is started again.

    Example: [bold]intarsia federation admit hungary --kit kits/server[/]
    """
    from intarsia.federation.exclusions import admit as let_in

    _say_excluded(let_in(kit, name))
    say(f"{name} can connect again, and so can everybody who has a copy of its key.")


def _say_excluded(names: Sequence[str]) -> None:
    say(f"shut out: {', '.join(names) or 'nobody'}")
