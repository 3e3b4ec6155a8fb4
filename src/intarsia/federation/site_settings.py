"""A participant's own settings, ``local/intarsia.toml`` in its kit. No job can change them.

::

    table = "/data/patients.parquet"
    columns = ["age", "chol"]       # default: all columns
    id_column = "patient"           # written beside the labels, not clustered on
    local = "HDBSCAN(min_cluster_size=20)"
    missing = "observed"
    metric = "euclidean"            # as agreed in the study

    [release]                       # as the study proposed, until the participant changes it
    min_cluster_size = 10
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from intarsia._files import write_atomically
from intarsia.federation.settings_file import as_table, read_settings_file
from intarsia.privacy.policy import ReleasePolicy

SETTINGS = "intarsia.toml"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The contents of ``local/intarsia.toml``."""

    table: str = ""
    columns: tuple[str, ...] = ()
    id_column: str | None = None
    local: str | None = None
    missing: str = "observed"
    metric: str = "euclidean"
    release: ReleasePolicy = ReleasePolicy()


def read_settings(folder: Path) -> LocalSettings:
    """Read the settings in a kit's ``local`` folder."""
    return read_settings_file(folder / SETTINGS, LocalSettings)


def write_settings(folder: Path, settings: LocalSettings) -> None:
    """Write ``local/intarsia.toml``."""
    table = msgspec.to_builtins(settings)
    table.pop("release", None)
    lines = [*toml_lines(table), "", "[release]", *toml_lines(as_table(settings.release)), ""]
    write_atomically(folder / SETTINGS, "\n".join(lines).encode())


def toml_lines(table: Mapping[str, Any]) -> list[str]:
    """Return a table as lines of TOML, without entries that are None."""
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    """Return a value as TOML: JSON, but for one control character and for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(toml_lines(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
