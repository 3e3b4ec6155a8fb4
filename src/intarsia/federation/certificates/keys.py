"""Keys and X.509 certificates: create, issue, read and compare them, with the names that the engine expects."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from intarsia.exceptions import InputError
from intarsia.federation.key_list import in_groups

KEY_SIZE = 2048  # bits; the engine's messages reserve space for signatures of exactly this length
_MAX_BYTES = 100_000  # of a file with a key or certificates
_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class KeyPair:
    """A private key as PEM, and its public key as an object of ``cryptography``."""

    pem: bytes
    public: Any

    @classmethod
    def create(cls) -> KeyPair:
        """Create a key pair."""
        return cls._of(rsa.generate_private_key(65537, KEY_SIZE))

    @classmethod
    def read(cls, path: Path) -> KeyPair:
        """Read a private key from a PEM file."""
        try:
            return cls._of(serialization.load_pem_private_key(read_small_file(path), None))
        except (ValueError, TypeError):
            raise InputError(f"{path} is not a private key.") from None

    @classmethod
    def _of(cls, private: Any) -> KeyPair:
        written = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        return cls(written, private.public_key())

    @property
    def private(self) -> Any:
        """The private key as an object of ``cryptography``."""
        return serialization.load_pem_private_key(self.pem, None)


def fingerprint(public: Any) -> str:
    """Return the SHA-256 of a public key in groups of four digits, which two people can compare on the phone."""
    written = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return in_groups(sha256(written).hexdigest())


def same_fingerprint(one: str, other: str) -> bool:
    """Return whether two fingerprints are equal, whatever their case and separators."""
    return _digits(one) == _digits(other)


def _digits(text: str) -> str:
    return "".join(text.replace(":", " ").split()).lower()


def read_small_file(path: Path) -> bytes:
    """Return the bytes of a file that holds a key or certificates, or raise an InputError."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > _MAX_BYTES:
        raise InputError(f"{path} is larger than {_MAX_BYTES} bytes, so it is neither a key nor a certificate.")
    return content


class Subject(NamedTuple):
    """Whom a certificate names; ``host`` is the address of a server."""

    name: str
    organisation: str | None = None
    role: str | None = None
    host: str | None = None

    def as_x509(self) -> x509.Name:
        """Return the distinguished name; the engine reads the role of an analyst from the unstructured name."""
        parts = (
            (NameOID.COMMON_NAME, self.name),
            (NameOID.ORGANIZATION_NAME, self.organisation),
            (NameOID.UNSTRUCTURED_NAME, self.role),
        )
        return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts if value is not None])


class Period(NamedTuple):
    """From when until when a certificate is valid."""

    start: datetime
    end: datetime


def issue(subject: Subject, public: Any, issuer: x509.Name, private: Any, period: Period, *, ca: bool = False) -> bytes:
    """Return a certificate for a public key as PEM, signed with the private key of the issuer."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject.as_x509())
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(period.start)
        .not_valid_after(period.end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(private.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(subject)]), critical=False)
    )
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_CA_USAGE, critical=True)
    signed: bytes = builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return signed


def _alternative_name(subject: Subject) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(subject.host or ""))
    except ValueError:
        return x509.DNSName(subject.host or subject.name)


def certificate_of(pem: bytes) -> Any:
    """Return the certificate in a PEM."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise InputError("a certificate is not valid PEM.") from None


def certificate_in(path: Path) -> Any:
    """Return the certificate in a file; an error names the file."""
    try:
        return certificate_of(read_small_file(path))
    except InputError as error:
        if path.name in str(error):
            raise
        raise InputError(
            f"{path} is not a valid certificate (PEM). Hint: was it copied completely? Restore the kit, or ask the "
            "coordinator for a new one."
        ) from None


def is_signed_by(certificate: Any, root: Any) -> bool:
    """Return whether the authority with the certificate ``root`` signed this certificate."""
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def common_name(certificate: Any) -> str:
    """Return the name in a certificate or certificate request, or "" if it has none or several."""
    return _only(certificate, NameOID.COMMON_NAME)


def organisation(certificate: Any) -> str:
    """Return the organisation in a certificate or certificate request, or "" if it has none or several."""
    return _only(certificate, NameOID.ORGANIZATION_NAME)


def _only(certificate: Any, oid: Any) -> str:
    names = certificate.subject.get_attributes_for_oid(oid)
    return str(names[0].value) if len(names) == 1 else ""


def end_of(certificate: Any) -> datetime:
    """Return the expiry date of a certificate."""
    end: datetime = certificate.not_valid_after_utc
    return end
