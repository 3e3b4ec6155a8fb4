"""A participant's own settings: ``local/intarsia.toml`` in its kit. Nothing of this comes from a job. ::

table = "/data/patients.parquet"
columns = ["age", "chol"]       # all, unless said
id_column = "patient"           # kept beside the labels, takes no part
local = "HDBSCAN(min_cluster_size=20)"
missing = "observed"
metric = "euclidean"            # as agreed in the study

[release]                       # what may leave: as the study proposed, until the participant changes it
min_cluster_size = 10
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from intarsia._files import read_toml, write_atomically
from intarsia.exceptions import SettingError
from intarsia.federation.release_rules import as_table, rules_from
from intarsia.privacy.policy import ReleasePolicy

SETTINGS = "intarsia.toml"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``local/intarsia.toml`` says."""

    table: str = ""
    columns: tuple[str, ...] = ()
    id_column: str | None = None
    local: str | None = None
    missing: str = "observed"
    metric: str = "euclidean"
    release: ReleasePolicy = ReleasePolicy()


def read_settings(folder: Path) -> LocalSettings:
    """The settings in a kit's ``local`` folder."""
    path = folder / SETTINGS
    found = read_toml(path)
    try:
        rules = rules_from(found.pop("release", {}), f"[release] of {path}")
        return msgspec.structs.replace(msgspec.convert(found, LocalSettings), release=rules)
    except msgspec.ValidationError as error:
        raise SettingError(f"{path}: {error}.") from None


def write_settings(folder: Path, settings: LocalSettings) -> None:
    """Write ``local/intarsia.toml``."""
    said = msgspec.to_builtins(settings)
    said.pop("release", None)
    lines = [*entries(said), "", "[release]", *entries(as_table(settings.release)), ""]
    write_atomically(folder / SETTINGS, "\n".join(lines).encode())


def entries(said: Mapping[str, Any]) -> list[str]:
    """Lines of TOML."""
    return [f"{_key(key)} = {_toml(value)}" for key, value in said.items() if value is not None]


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml(key)


def _toml(value: Any) -> str:
    """A JSON string is a TOML string, but for one character; a table in a line looks otherwise."""
    if isinstance(value, dict):
        return "{" + ", ".join(entries(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
