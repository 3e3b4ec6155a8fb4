"""Participants that the coordinator shut out: a list in the server's kit, which only the server reads.

It is the engine's own file, so that a server that starts refuses these sites before anything else. A running server reads it
every second. The list blocks names: whoever has the key of a name in it cannot connect as anybody else.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from intarsia._files import write_atomically
from intarsia.exceptions import SettingError, quote
from intarsia.federation.kit_folder import SERVER, name_of, study_of

EXCLUDED = "disabled_clients.json"  # in the server's kit; the engine's name for it
_NAMES = "disabled_clients"


def excluded_in(kit: Path) -> tuple[str, ...]:
    """Return the names of the participants that are shut out."""
    path = kit / EXCLUDED
    try:
        return tuple(sorted(set(msgspec.json.decode(path.read_bytes(), type=dict[str, list[str]])[_NAMES])))
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError, KeyError, RecursionError) as error:
        raise SettingError(
            f"{path} cannot be read ({type(error).__name__}), so nobody knows who is shut out. "
            f'Hint: write {{"{_NAMES}": ["name", …]}} with all their names. Without the file everybody can connect.'
        ) from None


def exclude(kit: Path, name: str) -> tuple[str, ...]:
    """Shut a participant out; return all that are shut out now."""
    _check_server(kit)
    names = study_of(kit).participants
    if name not in names:
        raise SettingError(f"{name!r} is not in this study. Participants: {quote(names)}.")
    return _write(kit, {*excluded_in(kit), name})


def admit(kit: Path, name: str) -> tuple[str, ...]:
    """Let a participant in again; return all that are still shut out."""
    _check_server(kit)
    excluded = excluded_in(kit)
    if name not in excluded:
        raise SettingError(f"{name!r} is not shut out. Shut out: {quote(excluded) if excluded else 'nobody'}.")
    return _write(kit, set(excluded) - {name})


def _check_server(kit: Path) -> None:
    if name_of(kit) != SERVER:
        raise SettingError(
            f"{kit} is the kit of {name_of(kit)!r}. Only the coordinator decides who is shut out. "
            "Hint: on the server's machine, with the server's kit."
        )


def _write(kit: Path, names: set[str]) -> tuple[str, ...]:
    listed = sorted(names)
    write_atomically(kit / EXCLUDED, json.dumps({_NAMES: listed}, indent=2, ensure_ascii=False).encode())
    return tuple(listed)
