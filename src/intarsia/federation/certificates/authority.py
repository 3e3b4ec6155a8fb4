"""The authority of a study: it signs the certificates of the server, the analyst and the participants.

Its folder holds its key and certificate and, in ``approved.json``, whom it has signed. The authority's certificate is valid
for ten years, those that it signs for two.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from intarsia._files import write_atomically
from intarsia.exceptions import FederationError, InputError, SettingError, quote
from intarsia.federation.certificates.keys import (
    KeyPair,
    Period,
    Subject,
    certificate_of,
    end_of,
    fingerprint,
    issue,
    read_small_file,
)
from intarsia.federation.kit_folder import ANALYST, ROOT, SERVER, STARTUP, Credentials, install, name_of
from intarsia.federation.study_file import Study
from intarsia.privacy.secure.identity import digits_of

CERTIFICATE = "authority.crt"
LIFETIME = timedelta(days=365 * 2)
_OWN_LIFETIME = timedelta(days=365 * 10)
_SKEW = timedelta(hours=1)  # by which clocks of two machines may differ
_KEY, _APPROVED = "authority.key", "approved.json"


class Signed(msgspec.Struct, frozen=True):
    """The last certificate signed for a name: the key's fingerprint, the expiry date, and whether its owner made the key."""

    fingerprint: str
    until: str
    requested: bool = False


@dataclass(frozen=True)
class Authority:
    """Signs certificates for the names in a study."""

    pair: KeyPair
    certificate: bytes
    signed: dict[str, Signed]

    @classmethod
    def create(cls, study_name: str) -> Authority:
        """Create an authority for the study of this name."""
        pair, now, subject = KeyPair.create(), datetime.now(UTC), Subject(study_name)
        period = Period(now - _SKEW, now + _OWN_LIFETIME)
        return cls(pair, issue(subject, pair.public, subject.as_x509(), pair.private, period, ca=True), {})

    @classmethod
    def read(cls, folder: Path) -> Authority:
        """Read the authority from a folder that :meth:`write` wrote."""
        if not (folder / _KEY).is_file():
            raise SettingError(
                f"{folder} is not an authority's folder: {_KEY} not found. Hint: --authority kits/authority"
            )
        try:
            signed = msgspec.json.decode(read_small_file(folder / _APPROVED), type=dict[str, Signed])
        except (msgspec.DecodeError, RecursionError):
            raise InputError(f"{folder / _APPROVED} is not a list of approved certificates.") from None
        return cls(KeyPair.read(folder / _KEY), read_small_file(folder / CERTIFICATE), signed)

    def write(self, folder: Path) -> None:
        """Write the authority into a folder of its own."""
        write_atomically(folder / _KEY, self.pair.pem, secret=True)
        write_atomically(folder / CERTIFICATE, self.certificate)
        self.write_signed(folder)

    def write_signed(self, folder: Path) -> None:
        """Write the list of certificates that were signed."""
        write_atomically(folder / _APPROVED, msgspec.json.format(msgspec.json.encode(self.signed)) + b"\n")

    def sign(
        self, study: Study, name: str, public: Any, lifetime: timedelta = LIFETIME, *, requested: bool = False
    ) -> bytes:
        """Return a certificate for a public key. All names in it come from the study, none from a request."""
        root, now = certificate_of(self.certificate), datetime.now(UTC)
        if end_of(root) <= now:
            raise FederationError(
                f"the authority's certificate expired on {end_of(root):%Y-%m-%d}. Hint: intarsia federation init makes "
                "a new authority and new kits."
            )
        period = Period(max(now - _SKEW, root.not_valid_before_utc), min(now + lifetime, end_of(root)))
        self.signed[name] = Signed(fingerprint(public), f"{period.end:%Y-%m-%d}", requested)
        return issue(_subject(study, name), public, root.subject, self.pair.private, period)

    def credentials(self, study: Study, name: str, lifetime: timedelta = LIFETIME) -> Credentials:
        """Create a key pair and sign it."""
        pair = KeyPair.create()
        return Credentials(pair.pem, self.sign(study, name, pair.public, lifetime), self.certificate)

    def keys(self, study: Study) -> dict[str, str]:
        """Return the digits of all participants' fingerprints, or raise an error that names who has no key of its own."""
        missing = [name for name in study.participants if name not in self.signed or not self.signed[name].requested]
        if missing:
            raise FederationError(
                f"{len(missing)} participant(s) were not approved with keys of their own yet: {quote(missing, 20)}. Hint: "
                "intarsia federation join-request there, then approve here."
            )
        return {name: digits_of(name, self.signed[name].fingerprint) for name in sorted(study.participants)}


def _subject(study: Study, name: str) -> Subject:
    if name == SERVER:
        return Subject(study.host, study.name, host=study.host)
    if name == ANALYST:
        return Subject(study.analyst, study.name, role="lead")
    return Subject(name, name)


def renew(kit: Path, study: Study, folder: Path, lifetime: timedelta = LIFETIME) -> datetime:
    """Replace key and certificate in the server's or analyst's kit, and return the new expiry date."""
    name, authority = name_of(kit), Authority.read(folder)
    if name not in (SERVER, ANALYST):
        raise SettingError(
            f"only {name!r} itself can replace its key. Hint: intarsia federation join-request --kit … at {name!r}, "
            "then intarsia federation approve --again."
        )
    check_root(kit, authority.certificate)
    credentials = authority.credentials(study, name, lifetime)
    install(kit, credentials)
    authority.write_signed(folder)
    return end_of(certificate_of(credentials.certificate))


def check_root(kit: Path, root: bytes) -> None:
    """Refuse an authority other than the one that a kit was made by."""
    if certificate_of(read_small_file(kit / STARTUP / ROOT)) != certificate_of(root):
        raise FederationError(f"{kit} was made by another authority, so the others in the study would not accept it.")
