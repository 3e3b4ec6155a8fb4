"""Keys that never leave a participant: it creates one and a request, the authority signs, and the reply becomes a kit.

==========================  ====================================================================================
``NAME.request.pem``        participant to coordinator: its name and public key, signed with its private key
``NAME.approved.json``      coordinator to participant: the certificate, the authority's certificate, and the study
==========================  ====================================================================================

Neither file is secret. Before approving, the coordinator compares the key's fingerprint with the participant by phone or in
person, so that nobody else can enrol under its name. Locks and release rules are written at the participant, by its own
installation.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from intarsia._files import write_atomically
from intarsia.exceptions import FederationError, InputError, SettingError, quote
from intarsia.federation.certificates.authority import Authority, check_root
from intarsia.federation.certificates.keys import (
    KEY_SIZE,
    KeyPair,
    Subject,
    certificate_of,
    common_name,
    end_of,
    fingerprint,
    is_signed_by,
    organisation,
    read_small_file,
    same_fingerprint,
)
from intarsia.federation.key_list import record_own_key
from intarsia.federation.kit_folder import Credentials, install, name_of, study_of, write_study
from intarsia.federation.study_file import Study

MakeKit = Callable[[Path, Study, str, Credentials], None]
"""Writes the kit of a participant into a new folder: the engine's part of :func:`join`."""

_KEY = "private.key"
_REQUEST, _APPROVED = ".request.pem", ".approved.json"


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the coordinator sends back."""

    name: str
    study: Study
    certificate: str
    authority: str


class Enrolment(msgspec.Struct, frozen=True):
    """A valid request: whose it is, and the key."""

    name: str
    public: Any
    fingerprint: str


def write_request(study: Study, name: str, folder: Path) -> tuple[Path, str]:
    """Create a key and a request without it in a new folder; return the request's path and the key's fingerprint."""
    if name not in study.participants:
        raise SettingError(
            f"{name!r} is not a participant of {study.name!r}. Participants: {quote(study.participants, 20)}."
        )
    if folder.exists():
        raise SettingError(f"{folder} already exists. Hint: use another --output; a key is created once.")
    pair = KeyPair.create()
    builder = x509.CertificateSigningRequestBuilder(Subject(name, study.name).as_x509())
    request = builder.sign(pair.private, hashes.SHA256())
    folder.mkdir(mode=0o700, parents=True)
    write_atomically(folder / _KEY, pair.pem, secret=True)
    write_study(folder, study)
    path = folder / f"{name}{_REQUEST}"
    write_atomically(path, request.public_bytes(serialization.Encoding.PEM))
    return path, fingerprint(pair.public)


def read_request(path: Path, study: Study, authority: Authority, *, again: bool = False) -> Enrolment:
    """Return a request that may be approved, or raise an error that says why it may not."""
    try:
        request = x509.load_pem_x509_csr(read_small_file(path))
        valid, public = request.is_signature_valid, request.public_key()
    except (ValueError, TypeError):
        raise InputError(f"{path} is not a request. Hint: NAME{_REQUEST}, as join-request wrote it.") from None
    if not valid:
        raise FederationError(f"{path} is not signed with its own key: it was changed on the way.")
    if not isinstance(public, rsa.RSAPublicKey) or public.key_size != KEY_SIZE:
        raise FederationError(f"{path} must have an RSA key with {KEY_SIZE} bits.")
    name, print_ = common_name(request), fingerprint(public)
    if organisation(request) != study.name:
        raise FederationError(f"{path} is for another study than {study.name!r}.")
    if name not in study.participants:
        raise FederationError(
            f"{path} names somebody who is not a participant of {study.name!r}. "
            f"Participants: {quote(study.participants, 20)}."
        )
    if owners := [other for other, had in authority.signed.items() if other != name and had.fingerprint == print_]:
        raise FederationError(f"{path} has the key of {quote(owners)}: every participant needs a key of its own.")
    if (before := authority.signed.get(name)) is not None and not again:
        raise FederationError(
            f"{name!r} already has a certificate, valid until {before.until}. Hint: --again renews it; the old one stays "
            "valid until it expires."
        )
    return Enrolment(name, public, print_)


def approve(enrolment: Enrolment, study: Study, folder: Path, authority: Authority, target: Path) -> datetime:
    """Sign a request, record it in the authority's folder, write the reply, and return the expiry date."""
    certificate = authority.sign(study, enrolment.name, enrolment.public, requested=True)
    authority.write_signed(folder)
    reply = Approval(enrolment.name, study, certificate.decode(), authority.certificate.decode())
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, msgspec.json.format(msgspec.json.encode(reply)) + b"\n")
    return end_of(certificate_of(certificate))


def approved_name(name: str) -> str:
    """Return the name of the file that the coordinator sends back."""
    return f"{name}{_APPROVED}"


class Joined(msgspec.Struct, frozen=True):
    """A kit: whose it is, its expiry date, and the fingerprint of the authority that signed it."""

    kit: Path
    name: str
    until: datetime
    authority: str


def join(reply: Path, request: Path, kit: Path, make_kit: MakeKit, authority: str | None = None) -> Joined:
    """Make a kit of the coordinator's reply and the key in the folder ``request``, or renew the certificate of a kit."""
    try:
        approval = msgspec.json.decode(read_small_file(reply), type=Approval)
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f"{reply} is not the reply of a coordinator. Hint: the file NAME{_APPROVED}.") from None
    pair = KeyPair.read(request / _KEY)
    credentials = Credentials(pair.pem, approval.certificate.encode(), approval.authority.encode())
    root = certificate_of(credentials.root)
    _check_reply(approval, pair, root, study_of(request))
    seen = fingerprint(root.public_key())
    if authority is not None and not same_fingerprint(authority, seen):
        raise FederationError(f"{reply} comes from another authority: its fingerprint is {seen}.")
    if kit.exists():
        _check_same(kit, approval)
        check_root(kit, credentials.root)
        install(kit, credentials)
    else:
        make_kit(kit, approval.study, approval.name, credentials)
    if approval.study.secure_sums:
        record_own_key(kit)  # the key comes from the folder of join-request, not from the coordinator
    return Joined(kit, approval.name, end_of(certificate_of(credentials.certificate)), seen)


def _check_reply(approval: Approval, pair: KeyPair, root: Any, study: Study) -> None:
    certificate = certificate_of(approval.certificate.encode())
    if not is_signed_by(certificate, root):
        raise FederationError("the certificate is not signed by the authority that came with it.")
    if fingerprint(certificate.public_key()) != fingerprint(pair.public):
        raise FederationError("the certificate is for another key. Hint: --request, the folder that join-request made.")
    if approval.name not in study.participants or common_name(certificate) != approval.name:
        raise FederationError("the certificate has another name than the request.")
    if changed := [name for name in Study.__struct_fields__ if getattr(approval.study, name) != getattr(study, name)]:
        raise FederationError(
            f"the study differs from that of the request in {quote(changed, 20)}. Hint: ask the coordinator, then make a "
            "new join-request with the new study."
        )


def _check_same(kit: Path, approval: Approval) -> None:
    if name_of(kit) != approval.name or study_of(kit).name != approval.study.name:
        raise SettingError(f"{kit} already exists and is not the kit of {approval.name!r} in {approval.study.name!r}.")
