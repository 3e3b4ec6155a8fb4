"""Expiry dates of the certificates in a kit, and how to renew them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from intarsia.exceptions import FederationError, SettingError
from intarsia.federation.certificates.authority import CERTIFICATE
from intarsia.federation.certificates.keys import certificate_in, common_name, end_of
from intarsia.federation.kit_folder import ROOT, STARTUP

SOON = timedelta(days=30)  # before the expiry date: from then on commands warn


class Lifetime(msgspec.Struct, frozen=True):
    """A certificate file: whose name it certifies, and from when until when it is valid."""

    file: str
    name: str
    begins: datetime
    ends: datetime


def lifetimes(kit: Path) -> list[Lifetime]:
    """Return the lifetimes of all certificates in a kit, or in the authority's folder."""
    paths = (kit / CERTIFICATE, *sorted((kit / STARTUP).glob("*.crt")), kit / STARTUP / ROOT)
    certificates = {path: certificate_in(path) for path in paths if path.is_file()}
    if not certificates:
        raise SettingError(f"{kit} is not a kit: no certificate found in it.")
    return [
        Lifetime(str(path.relative_to(kit)), common_name(one), one.not_valid_before_utc, end_of(one))
        for path, one in certificates.items()
    ]


def check_lifetimes(kit: Path, now: datetime | None = None) -> list[str]:
    """Return a warning for each certificate that expires soon; raise a FederationError for one that is not valid."""
    now, warnings = datetime.now(UTC) if now is None else now, []
    for one in lifetimes(kit):
        what = f"the certificate of {one.name!r} ({one.file})"
        if one.ends <= now:
            raise FederationError(f"{what} expired on {one.ends:%Y-%m-%d}. {_how_to_renew(one)}")
        if one.begins > now:
            raise FederationError(
                f"{what} is not valid before {one.begins:%Y-%m-%d %H:%M} UTC. Hint: is this machine's clock right?"
            )
        if one.ends - now < SOON:
            days = (one.ends - now).days
            warnings.append(f"{what} expires in {days} days, on {one.ends:%Y-%m-%d}. {_how_to_renew(one)}")
    return warnings


def _how_to_renew(one: Lifetime) -> str:
    if one.file in (CERTIFICATE, f"{STARTUP}/{ROOT}"):
        return "It is the authority's: intarsia federation init makes a new authority and new kits."
    if one.file == f"{STARTUP}/client.crt" and "@" not in one.name:
        return "Hint: intarsia federation join-request --kit …, which the coordinator approves with --again."
    return "Hint: intarsia federation renew --kit … --authority …"
