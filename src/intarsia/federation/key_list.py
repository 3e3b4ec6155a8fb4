"""The list of all participants' keys in a study with secure sums, and the key of a kit.

=====================  ======================================================================================
``keys.json``          the fingerprint of every participant's key; consent forms list it, and a safety number
``own_key.json``       the fingerprint of the kit's own key, written where ``join-request`` made that key
=====================  ======================================================================================

Whoever has a participant's key can read what secure sums hide. So participants make their own keys, and a kit whose key was
made by somebody else is refused. That finds mistakes: whoever makes a key could also write ``own_key.json``. A key that
somebody else put in the place of a participant's is found when participants compare the safety number by phone: if it is
the same for all, all have the same list, and each site has found its own key in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from intarsia._files import write_atomically
from intarsia.exceptions import InputError, SettingError, quote
from intarsia.federation.kit_folder import STARTUP, name_of, study_of
from intarsia.federation.study_file import Study, check_study
from intarsia.privacy.secure.identity import Identity, digits_of, fingerprint_of, safety_number

KEYS, OWN_KEY = "keys.json", "own_key.json"
SAFETY_NUMBER = "safety_number"
_MAX_BYTES = 1_000_000  # of a list of keys


def in_groups(digits: str) -> str:
    """Return a fingerprint in groups of four digits, which two people can compare on the phone."""
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def read_keys(path: Path) -> dict[str, str]:
    """Read a list of keys: the digits of each participant's fingerprint, by name."""
    try:
        with path.open("rb") as file:
            keys = msgspec.json.decode(file.read(_MAX_BYTES), type=dict[str, str])
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f"{path} is not a list of keys. Hint: the file that intarsia federation keys wrote.") from None
    return {name: digits_of(name, fingerprint) for name, fingerprint in sorted(keys.items())}


def write_keys(path: Path, keys: Mapping[str, str]) -> None:
    """Write a list of keys, with fingerprints in groups of four digits."""
    listed = {name: in_groups(digits) for name, digits in sorted(keys.items())}
    write_atomically(path, msgspec.json.format(msgspec.json.encode(listed)) + b"\n")


def check_keys(keys: Mapping[str, str], study: Study, where: str) -> None:
    """Raise a SettingError unless a list has exactly the participants of a study, each with a key of its own."""
    wanted = set(study.participants)
    missing, unknown = sorted(wanted - set(keys)), sorted(set(keys) - wanted)
    if missing or unknown:
        parts = [f"{word}: {quote(names, 20)}" for word, names in (("missing", missing), ("unknown", unknown)) if names]
        raise SettingError(f"{where} does not list the participants of {study.name!r}: {'; '.join(parts)}.")
    if shared := [name for name, digits in keys.items() if list(keys.values()).count(digits) > 1]:
        raise SettingError(
            f"{where} has the same key for {quote(shared, 20)}: every participant needs a key of its own."
        )


def listed(keys: Mapping[str, str]) -> dict[str, str]:
    """Return a list of keys as consent forms show it."""
    return {SAFETY_NUMBER: safety_number(keys)} | {name: in_groups(digits) for name, digits in keys.items()}


def keys_of(kit: Path, given: Path | None = None) -> dict[str, str] | None:
    """Return the list of keys that a participant gives, or that its kit has; None in a study without secure sums.

    Raises
    ------
    SettingError
        If there is no list, if it is not that of the study, or if the key of the kit is not in it or was made elsewhere.
    """
    study, name = study_of(kit), name_of(kit)
    if not study.secure_sums:
        if given is not None:
            raise SettingError(f"--keys is for a study with secure_sums, and {study.name!r} has none.")
        return None
    check_study(study)
    own, path = own_fingerprint(kit), kit / KEYS if given is None else given
    if given is None and not path.is_file():
        raise SettingError(
            f"the study {study.name!r} has secure sums, and {kit} has no list of the participants' keys yet. Hint: --keys "
            "keys.json, the file that the coordinator sends when everybody was approved (intarsia federation keys)."
        )
    keys = read_keys(path)
    check_keys(keys, study, str(path))
    if keys[name] != own:
        raise SettingError(
            f"{path} has another key for {name!r} than this kit: {in_groups(keys[name])} instead of {in_groups(own)}. "
            "Hint: after a renewal all participants need a new list; otherwise call the coordinator, and the others."
        )
    return keys


def install_keys(kit: Path, keys: Mapping[str, str] | None) -> None:
    """Keep the list that was agreed to in the kit."""
    if keys is not None:
        write_keys(kit / KEYS, keys)


def own_key(kit: Path) -> bytes:
    """Return the private key of a participant's kit, as PEM."""
    try:
        return (kit / STARTUP / "client.key").read_bytes()
    except OSError as error:
        raise InputError(f"the private key in {kit} cannot be read: {error.strerror}.") from error


def record_own_key(kit: Path) -> None:
    """Write into a kit that its key was made here, by ``join-request``."""
    write_keys(kit / OWN_KEY, {name_of(kit): _fingerprint(kit)})


def own_fingerprint(kit: Path) -> str:
    """Return the digits of the fingerprint of a kit's own key, or raise a SettingError if it was not made here."""
    name, digits = name_of(kit), _fingerprint(kit)
    try:
        recorded = read_keys(kit / OWN_KEY).get(name)
    except InputError:
        recorded = None
    if recorded != digits:
        raise SettingError(
            f"the key in {kit} was not made by its own participant, so others may have it, and secure sums would hide "
            f"nothing from them. Hint: intarsia federation join-request study.toml --name {name}, then approve and join."
        )
    return digits


def _fingerprint(kit: Path) -> str:
    return fingerprint_of(Identity.from_pem(own_key(kit)).public)
