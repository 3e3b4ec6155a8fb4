"""Keys that never leave a participant: it makes one and asks, the authority signs, and the answer becomes a kit.

==========================  ====================================================================================
``NAME.request.pem``        from the participant to the coordinator: its name and public key, signed with the key
``NAME.approved.json``      back: the certificate, the authority's own, and the study
==========================  ====================================================================================

Neither is secret. Whoever approves compares the fingerprint with the participant over another way, so that nobody on the
way can ask in its name. Locks and rules of the kit are written at the participant, by its own software.
"""

from __future__ import annotations

import tempfile
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from intarsia._files import write_atomically
from intarsia.exceptions import FederationError, InputError, SettingError, quote
from intarsia.federation.certificates.keys import (
    KEY_SIZE,
    Authority,
    Pair,
    certificate_of,
    check_root,
    common_name,
    end_of,
    fingerprint,
    install,
    is_signed_by,
    organisation,
    read_bytes,
    same_fingerprint,
)
from intarsia.federation.flare.kit import STUDY, finish_kit, name_of, provisioned, study_of
from intarsia.federation.study_file import Study

_KEY = "private.key"
_REQUEST, _APPROVED = ".request.pem", ".approved.json"


class Approved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the coordinator sends back."""

    name: str
    study: Study
    certificate: str
    authority: str


class Asked(msgspec.Struct, frozen=True):
    """A request that holds: whose, and which key."""

    name: str
    public: Any
    fingerprint: str


def ask(study: Study, name: str, folder: Path) -> tuple[Path, str]:
    """Make a key, and a request without it: where it is, and the key's fingerprint."""
    if name not in study.participants:
        raise SettingError(f"{name!r} takes no part in {study.name!r}. Those who do: {quote(study.participants, 20)}.")
    if folder.exists():
        raise SettingError(f"{folder} is there already. Hint: another --output; a key is made once.")
    pair = Pair.make()
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, study.name)]
    request = x509.CertificateSigningRequestBuilder(x509.Name(subject)).sign(pair.private, hashes.SHA256())
    folder.mkdir(mode=0o700, parents=True)
    write_atomically(folder / _KEY, pair.key, secret=True)
    write_atomically(folder / STUDY, msgspec.json.encode(study))
    path = folder / f"{name}{_REQUEST}"
    write_atomically(path, request.public_bytes(serialization.Encoding.PEM))
    return path, fingerprint(pair.public)


def read_request(path: Path, study: Study, authority: Authority, *, again: bool = False) -> Asked:
    """A request that may be approved; why not, otherwise."""
    try:
        request = x509.load_pem_x509_csr(read_bytes(path))
        valid = request.is_signature_valid
        public = request.public_key()
    except (ValueError, TypeError):
        raise InputError(f"{path} is not a request. Hint: the file NAME{_REQUEST} of join-request.") from None
    if not valid:
        raise FederationError(f"{path} is not signed with the key that it is for; it was changed, or is not theirs.")
    if not isinstance(public, rsa.RSAPublicKey) or public.key_size != KEY_SIZE:
        raise FederationError(
            f"{path} has a key of another kind than RSA with {KEY_SIZE} bits, which the engine needs."
        )
    name = common_name(request)
    if organisation(request) != study.name:
        raise FederationError(f"{path} is for another study than {study.name!r}.")
    if name not in study.participants:
        raise FederationError(
            f"{path} is of somebody who takes no part in {study.name!r}. Those who do: {quote(study.participants, 20)}."
        )
    seen = fingerprint(public)
    if shared := [other for other, had in authority.signed.items() if other != name and had.fingerprint == seen]:
        raise FederationError(f"{path} has the key of {quote(shared)}: each needs its own.")
    if (before := authority.signed.get(name)) is not None and not again:
        raise FederationError(
            f"{name!r} has a certificate until {before.until}. Hint: --again renews it; the old one counts until it ends."
        )
    return Asked(name, public, seen)


def approve(asked: Asked, study: Study, folder: Path, authority: Authority, target: Path) -> datetime:
    """Sign, write down that it was, and write what goes back; until when it counts."""
    made = authority.sign(study, asked.name, asked.public)
    authority.write_signed(folder)
    answer = Approved(asked.name, study, made.decode(), authority.certificate.decode())
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, msgspec.json.format(msgspec.json.encode(answer)) + b"\n")
    return end_of(certificate_of(made))


def approved_name(name: str) -> str:
    """What the file that goes back is called."""
    return f"{name}{_APPROVED}"


class Joined(msgspec.Struct, frozen=True):
    """A kit, whose, until when, and by whose authority."""

    kit: Path
    name: str
    until: datetime
    authority: str


def join(answer: Path, asked: Path, kit: Path, authority: str | None = None) -> Joined:
    """Make a kit of the answer and the key that stayed; in a kit of the same participant, renew its certificate."""
    try:
        said = msgspec.json.decode(read_bytes(answer), type=Approved)
    except msgspec.DecodeError:
        raise InputError(f"{answer} is not what a coordinator sends back. Hint: the file NAME{_APPROVED}.") from None
    pair, root = Pair.read(asked / _KEY), certificate_of(said.authority.encode())
    _check_answer(said, pair, root, study_of(asked))
    seen = fingerprint(root.public_key())
    if authority is not None and not same_fingerprint(authority, seen):
        raise FederationError(f"{answer} is of another authority: its fingerprint is {seen}.")
    written = (pair.key, said.certificate.encode(), said.authority.encode())
    if kit.exists():
        _check_same(kit, said)
        check_root(kit, said.authority.encode())
        install(kit, *written)
    else:
        _make(kit.resolve(), said, *written)
    return Joined(kit, said.name, end_of(certificate_of(said.certificate.encode())), seen)


def _make(kit: Path, said: Approved, key: bytes, certificate: bytes, root: bytes) -> None:
    kit.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".intarsia-", dir=kit.parent) as beside:
        own = provisioned(said.study, Path(beside))[said.name]
        finish_kit(own, said.study, said.name, key, certificate, root)
        own.rename(kit)


def _check_answer(said: Approved, pair: Pair, root: Any, study: Study) -> None:
    certificate = certificate_of(said.certificate.encode())
    if not is_signed_by(certificate, root):
        raise FederationError("the certificate is not signed by the authority that came with it.")
    if fingerprint(certificate.public_key()) != fingerprint(pair.public):
        raise FederationError("the certificate is for another key. Hint: --request, the folder that join-request made.")
    if said.name not in study.participants or common_name(certificate) != said.name:
        raise FederationError("the certificate is in another name than was asked for.")
    if changed := [
        entry.name for entry in fields(Study) if getattr(said.study, entry.name) != getattr(study, entry.name)
    ]:
        raise FederationError(
            f"the study is another than was asked for; what differs: {quote(changed, 20)}. Hint: talk to the coordinator, "
            "then join-request again with the new study."
        )


def _check_same(kit: Path, said: Approved) -> None:
    if name_of(kit) != said.name or study_of(kit).name != said.study.name:
        raise SettingError(f"{kit} is there already, and is not the kit of {said.name!r} in {said.study.name!r}.")
