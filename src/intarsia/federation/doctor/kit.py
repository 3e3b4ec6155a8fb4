"""The kit: whose it is, who can read it, its certificates, and the clock, by its times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from intarsia.exceptions import FederationError, InputError, IntarsiaError, quote
from intarsia.federation.certificates.keys import KeyPair, certificate_in, fingerprint, is_signed_by
from intarsia.federation.certificates.lifetimes import check_lifetimes, lifetimes
from intarsia.federation.doctor.finding import Finding, State
from intarsia.federation.doctor.reach import CLOCK
from intarsia.federation.exclusions import excluded_in
from intarsia.federation.kit_folder import ROOT, SERVER, STARTUP, name_of, open_keys, open_to_others
from intarsia.federation.study_file import Study

_ADMISSION, _LOG = "admission", "log.txt"
_REGISTERED, _UNHEARD = "Successfully registered client", "Failed to send heartbeat"  # the engine's words
_TIME, _TAIL = len("2026-11-19 01:22:54"), 100_000  # characters; bytes of the log that are read
_RECENT = timedelta(seconds=30)  # a site tries every five
_AHEAD = timedelta(days=1)  # files of the kit may have been made on another machine


def look_at_kit(kit: Path, study: Study, now: datetime) -> Iterator[Finding]:
    """Look at the permissions of a kit, at its certificates, and at the clock by its times."""
    name = name_of(kit)
    yield Finding("kit", State.FINE, f"of {name!r} in the study {study.name!r}")
    state = State.FAULT if open_keys(kit) else State.WARNING
    for warning in open_to_others(kit):
        yield Finding.of_error("permissions", InputError(warning), state)
    yield from _shut_out(kit) if name == SERVER else _admission(kit, name, now)
    try:
        yield from _clock(kit, now)
        warnings = check_lifetimes(kit, now)
        _check_pair(kit, name)
    except IntarsiaError as error:
        yield Finding.of_error("certificate", error)
        return
    for warning in warnings:
        yield Finding.of_error("certificate", FederationError(warning), State.WARNING)
    if not warnings:
        ends = min(life.ends for life in lifetimes(kit))
        yield Finding("certificate", State.FINE, f"signed by the study's authority, valid until {ends:%Y-%m-%d}")


def _shut_out(kit: Path) -> Iterator[Finding]:
    try:
        names = excluded_in(kit)
    except IntarsiaError as error:
        yield Finding.of_error(_ADMISSION, error)
        return
    if names:
        yield Finding(_ADMISSION, State.WARNING, f"shut out: {quote(names)}", "intarsia federation admit NAME")


def _admission(kit: Path, name: str, now: datetime) -> Iterator[Finding]:
    """Say what the log of a site says of the server's answers; nobody is asked over the network."""
    for line in reversed(_last_lines(kit / _LOG)):
        if _REGISTERED in line:
            return
        if f"the coordinator has shut {name!r} out" in line:
            seen = f"the coordinator had shut {name!r} out when its site last tried to connect ({line[:_TIME]})"
            yield Finding(
                _ADMISSION, State.FAULT, seen, "Ask the coordinator. If it was admitted since, start the site."
            )
            return
        if _UNHEARD in line and _is_recent(line, now):
            seen = "the server does not take this site's heartbeats: no connection, or the coordinator has shut it out"
            yield Finding(_ADMISSION, State.WARNING, seen, "Ask the coordinator, unless the server is restarting.")
            return


def _last_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _is_recent(line: str, now: datetime) -> bool:
    try:
        return now - datetime.fromisoformat(line[:_TIME]).astimezone() < _RECENT
    except ValueError:
        return False


def _clock(kit: Path, now: datetime) -> Iterator[Finding]:
    """Compare the clock with the times of the kit: nothing in it can be younger than now."""
    begins = [life.begins for life in lifetimes(kit)]
    written = datetime.fromtimestamp((kit / STARTUP / ROOT).stat().st_mtime, UTC)
    if max(begins) > now or written > now + _AHEAD:
        seen = (
            f"it is {now:%Y-%m-%d %H:%M} UTC here, and this kit was made later, {max(*begins, written):%Y-%m-%d %H:%M}"
        )
        yield Finding(CLOCK, State.FAULT, seen, "Set this machine's clock: use NTP.")


def _check_pair(kit: Path, name: str) -> None:
    """Raise an error unless the key fits the certificate, and the study's authority signed it."""
    which = "server" if name == SERVER else "client"
    pair = KeyPair.read(kit / STARTUP / f"{which}.key")
    certificate = certificate_in(kit / STARTUP / f"{which}.crt")
    if fingerprint(pair.public) != fingerprint(certificate.public_key()):
        raise FederationError(
            f"{which}.key is not the key of {which}.crt. Hint: restore the kit, or make a new key: "
            "intarsia federation join-request --kit …"
        )
    if not is_signed_by(certificate, certificate_in(kit / STARTUP / ROOT)):
        raise FederationError(
            f"{which}.crt was signed by another authority than {ROOT}. Hint: restore the kit, or ask for a new one."
        )
