"""X.509 certificates: issue and read them. Names and extensions are those that the engine expects."""

from __future__ import annotations

import ipaddress
from datetime import datetime
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from intarsia.exceptions import InputError

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
    return builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


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
