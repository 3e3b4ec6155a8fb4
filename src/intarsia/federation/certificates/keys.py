"""Keys and certificates: an authority that signs, and parties whose names it vouches for.

The authority's folder holds its key and certificate and, in ``approved.json``, whom it has signed. Certificates of the
authority last ten years, those of parties two; all are made by the engine's own function, so that it takes them for its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from intarsia._files import write_atomically
from intarsia.exceptions import FederationError, InputError, SettingError
from intarsia.federation.flare.kit import ANALYST, AUTHORITY, SERVER, name_of
from intarsia.federation.study_file import Study

KEY_SIZE = 2048  # bits; the engine's messages have place for signatures of such keys and no others
YEARS = {AUTHORITY: 10, "party": 2}
SOON = timedelta(days=30)
_SKEW = timedelta(hours=1)  # so far clocks of parties may be apart
_MOST = 100_000  # bytes of a file with certificates
_ROOT, _APPROVED = "rootCA.pem", "approved.json"
_CERTIFICATE, _KEY = "authority.crt", "authority.key"


@dataclass(frozen=True)
class Pair:
    """A private key, as it is written, and the public one."""

    key: bytes
    public: Any

    @classmethod
    def make(cls) -> Pair:
        """A new one."""
        return cls.of(rsa.generate_private_key(65537, KEY_SIZE))

    @classmethod
    def read(cls, path: Path) -> Pair:
        """The one in a file."""
        try:
            return cls.of(serialization.load_pem_private_key(read_bytes(path), None))
        except (ValueError, TypeError):
            raise InputError(f"{path} is not a private key.") from None

    @classmethod
    def of(cls, private: Any) -> Pair:
        """Of the library's object."""
        kind = serialization.PrivateFormat.TraditionalOpenSSL
        written = private.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
        return cls(written, private.public_key())

    @property
    def private(self) -> Any:
        """The library's object."""
        return serialization.load_pem_private_key(self.key, None)


class Signed(msgspec.Struct, frozen=True):
    """Whom the authority has signed last: the key's fingerprint, and until when."""

    fingerprint: str
    until: str


@dataclass(frozen=True)
class Authority:
    """Who vouches for names in a study."""

    pair: Pair
    certificate: bytes
    signed: dict[str, Signed]

    @classmethod
    def make(cls, name: str) -> Authority:
        """A new one, for the study of this name."""
        from nvflare.lighter.utils import Identity, generate_cert, serialize_cert

        pair, now = Pair.make(), datetime.now(UTC)
        who, until = Identity(name), now + timedelta(days=365 * YEARS[AUTHORITY])
        made = generate_cert(
            who, who, pair.private, pair.public, ca=True, not_valid_before=now - _SKEW, not_valid_after=until
        )
        return cls(pair, bytes(serialize_cert(made)), {})

    @classmethod
    def read(cls, folder: Path) -> Authority:
        """The one in a folder that :meth:`write` wrote."""
        if not (folder / _KEY).is_file():
            raise SettingError(
                f"{folder} is not an authority's folder: it has no {_KEY}. Hint: --authority kits/authority"
            )
        try:
            signed = msgspec.json.decode(read_bytes(folder / _APPROVED), type=dict[str, Signed])
        except msgspec.DecodeError:
            raise InputError(f"{folder / _APPROVED} cannot be understood.") from None
        return cls(Pair.read(folder / _KEY), read_bytes(folder / _CERTIFICATE), signed)

    def write(self, folder: Path) -> None:
        """Into a folder of its own."""
        write_atomically(folder / _KEY, self.pair.key, secret=True)
        write_atomically(folder / _CERTIFICATE, self.certificate)
        self.write_signed(folder)

    def write_signed(self, folder: Path) -> None:
        """Whom it has signed."""
        write_atomically(folder / _APPROVED, msgspec.json.format(msgspec.json.encode(self.signed)) + b"\n")

    def sign(self, study: Study, name: str, public: Any) -> bytes:
        """A certificate that says whose key it is: names come from the study, nothing from whoever asks."""
        from nvflare.lighter.utils import Identity, generate_cert, serialize_cert

        root, now = certificate_of(self.certificate), datetime.now(UTC)
        if root.not_valid_after_utc <= now:
            raise FederationError(
                f"the authority ended on {root.not_valid_after_utc:%Y-%m-%d}. Hint: new kits for all."
            )
        until = min(now + timedelta(days=365 * YEARS["party"]), root.not_valid_after_utc)
        who, host = Identity(name, name), None
        if name == SERVER:
            who, host = Identity(study.host, study.name), study.host
        elif name == ANALYST:
            who = Identity(study.analyst, study.name, "lead")
        made = generate_cert(
            who,
            Identity(common_name(root)),
            self.pair.private,
            public,
            server_default_host=host,
            not_valid_before=max(now - _SKEW, root.not_valid_before_utc),
            not_valid_after=until,
        )
        self.signed[name] = Signed(fingerprint(public), f"{until:%Y-%m-%d}")
        return bytes(serialize_cert(made))


def install(kit: Path, key: bytes, certificate: bytes, root: bytes) -> None:
    """Put key and certificates where the engine looks for them."""
    startup = kit / "startup"
    which = "server" if name_of(kit) == SERVER else "client"
    write_atomically(startup / f"{which}.key", key, secret=True)
    write_atomically(startup / f"{which}.crt", certificate)
    write_atomically(startup / _ROOT, root)


def renew(kit: Path, study: Study, folder: Path) -> datetime:
    """A new key and certificate in the server's or analyst's kit, by the same authority; until when."""
    name, authority = name_of(kit), Authority.read(folder)
    if name not in (SERVER, ANALYST):
        raise SettingError(
            f"the key of {name!r} is its own. Hint: intarsia federation join-request --kit … there, then approve --again."
        )
    check_root(kit, authority.certificate)
    pair = Pair.make()
    made = authority.sign(study, name, pair.public)
    install(kit, pair.key, made, authority.certificate)
    authority.write_signed(folder)
    return end_of(certificate_of(made))


def check_root(kit: Path, root: bytes) -> None:
    """Only the authority that a kit knows can renew it."""
    if certificate_of(read_bytes(kit / "startup" / _ROOT)) != certificate_of(root):
        raise FederationError(f"{kit} knows another authority, so nobody else in the study would believe it.")


class Lifetime(msgspec.Struct, frozen=True):
    """A certificate: whose it is, and from when until when it counts."""

    file: str
    name: str
    begins: datetime
    ends: datetime


def lifetimes(kit: Path) -> list[Lifetime]:
    """Of all certificates in a kit, or in the authority's folder."""
    paths = (kit / _CERTIFICATE, *sorted((kit / "startup").glob("*.crt")), kit / "startup" / _ROOT)
    found = [(path, certificate_of(read_bytes(path))) for path in paths if path.is_file()]
    if not found:
        raise SettingError(f"{kit} is not a kit of a federation: there is no certificate in it.")
    return [
        Lifetime(str(path.relative_to(kit)), common_name(held), held.not_valid_before_utc, end_of(held))
        for path, held in found
    ]


def check_lifetimes(kit: Path, now: datetime | None = None) -> list[str]:
    """What to know before it is too late; an error where it is."""
    now, soon = datetime.now(UTC) if now is None else now, []
    for held in lifetimes(kit):
        what = f"the certificate of {held.name!r} ({held.file})"
        if held.ends <= now:
            raise FederationError(f"{what} ended on {held.ends:%Y-%m-%d}. {_how_to_renew(held)}")
        if held.begins > now:
            raise FederationError(
                f"{what} begins on {held.begins:%Y-%m-%d %H:%M} UTC. Hint: is this machine's clock right?"
            )
        if held.ends - now < SOON:
            soon.append(f"{what} ends in {(held.ends - now).days} days, on {held.ends:%Y-%m-%d}. {_how_to_renew(held)}")
    return soon


def _how_to_renew(held: Lifetime) -> str:
    if held.file in (_CERTIFICATE, f"startup/{_ROOT}"):
        return "It is the authority's: intarsia federation init makes a new one, and new kits for all."
    if held.file == "startup/client.crt" and "@" not in held.name:
        return "Hint: intarsia federation join-request --kit …, which the coordinator approves with --again."
    return "Hint: intarsia federation renew --kit … --authority …"


def fingerprint(public: Any) -> str:
    """What two people compare on the phone."""
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = sha256(public.public_bytes(serialization.Encoding.DER, kind)).hexdigest()
    return " ".join(digest[i : i + 4] for i in range(0, 64, 4))


def same_fingerprint(one: str, other: str) -> bool:
    """However it was written down."""
    return _hex(one) == _hex(other)


def _hex(text: str) -> str:
    return "".join(text.replace(":", " ").split()).lower()


def certificate_of(written: bytes) -> Any:
    """The certificate in a PEM."""
    try:
        return x509.load_pem_x509_certificate(written)
    except ValueError:
        raise InputError("a certificate cannot be understood.") from None


def is_signed_by(certificate: Any, root: Any) -> bool:
    """Whether the root has signed it."""
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def common_name(held: Any) -> str:
    """The name in a certificate, or in a request for one."""
    names = held.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def organisation(held: Any) -> str:
    """The organisation in a certificate, or in a request for one."""
    names = held.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def end_of(certificate: Any) -> datetime:
    """When it ends."""
    ends: datetime = certificate.not_valid_after_utc
    return ends


def read_bytes(path: Path) -> bytes:
    """A small file."""
    try:
        with path.open("rb") as file:
            found = file.read(_MOST + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if len(found) > _MOST:
        raise InputError(f"{path} is too large to be what it should be.")
    return found
