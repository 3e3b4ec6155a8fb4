"""The folder of a kit: whose it is, which study it belongs to, and where its key and certificates are."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import NamedTuple

import msgspec

from intarsia._files import write_atomically
from intarsia.exceptions import SettingError, quote
from intarsia.federation.study_file import Study

SERVER, ANALYST, AUTHORITY = "server", "analyst", "authority"
STUDY = "study.json"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
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


def open_to_others(kit: Path) -> list[str]:
    """Return a warning if other users can enter a kit, and one if they can read or change its keys."""
    if os.name != "posix":  # elsewhere, permissions are not in the mode
        return []
    warnings, mode = [], stat.S_IMODE(kit.stat().st_mode)
    if mode & _OTHERS:
        warnings.append(
            f"other users of this machine can enter {kit} (mode {mode:o}), which holds keys, labels or replies. "
            f"Hint: chmod -R go= {kit}"
        )
    if keys := open_keys(kit):
        names = quote(sorted(str(path.relative_to(kit)) for path in keys))
        warnings.append(
            f"{len(keys)} private key(s) in {kit} can be read or changed by other users: {names}. "
            f"Hint: chmod -R go= {kit}, and a new key if one may have been read."
        )
    return warnings


def open_keys(kit: Path) -> list[Path]:
    """Return the private keys in a kit that other users can read or change, as far as the modes of the files say."""
    if os.name != "posix":
        return []
    return [path for path in (*kit.glob("*.key"), *(kit / STARTUP).glob("*.key")) if path.stat().st_mode & _OTHERS]


def install(kit: Path, credentials: Credentials) -> None:
    """Write a key and its certificates where the server or site of this kit reads them."""
    which = "server" if name_of(kit) == SERVER else "client"
    write_atomically(kit / STARTUP / f"{which}.key", credentials.key, secret=True)
    write_atomically(kit / STARTUP / f"{which}.crt", credentials.certificate)
    write_atomically(kit / STARTUP / ROOT, credentials.root)
