"""The folder of a kit: whose it is, which study it belongs to, and where its key and certificates are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import msgspec

from intarsia._files import write_atomically
from intarsia.exceptions import SettingError
from intarsia.federation.study_file import Study

SERVER, ANALYST, AUTHORITY = "server", "analyst", "authority"
STUDY = "study.json"
STARTUP, ROOT = "startup", "rootCA.pem"


class Credentials(NamedTuple):
    """A private key, its certificate, and the certificate of the authority that signed it, each as PEM."""

    key: bytes
    certificate: bytes
    root: bytes


def study_of(kit: Path) -> Study:
    """Return the study that a kit belongs to."""
    try:
        return msgspec.json.decode((kit / STUDY).read_bytes(), type=Study)
    except (OSError, msgspec.DecodeError, RecursionError):
        raise SettingError(f"{kit} is not a kit: it has no readable {STUDY}.") from None


def write_study(kit: Path, study: Study) -> None:
    """Write the study into a kit."""
    write_atomically(kit / STUDY, msgspec.json.format(msgspec.json.encode(study)) + b"\n")


def name_of(kit: Path) -> str:
    """Return whose kit it is, by its connection settings; the folder itself may have any name."""
    if (kit / STARTUP / "fed_server.json").is_file():
        return SERVER
    if (kit / STARTUP / "fed_admin.json").is_file():
        return ANALYST
    try:
        connection = json.loads((kit / STARTUP / "fed_client.json").read_text(encoding="utf-8"))
        return str(connection["client"]["fqsn"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise SettingError(f"{kit} is not a kit: no file in {STARTUP}/ says whose it is.") from None


def install(kit: Path, credentials: Credentials) -> None:
    """Write a key and its certificates where the server or site of this kit reads them."""
    which = "server" if name_of(kit) == SERVER else "client"
    write_atomically(kit / STARTUP / f"{which}.key", credentials.key, secret=True)
    write_atomically(kit / STARTUP / f"{which}.crt", credentials.certificate)
    write_atomically(kit / STARTUP / ROOT, credentials.root)
