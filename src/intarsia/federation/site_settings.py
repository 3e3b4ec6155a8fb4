"""A participant's own settings, ``local/intarsia.toml`` in its kit. No job can change them.

::

    table = "/data/patients.parquet"
    columns = ["age", "chol"]       # default: all columns
    id_column = "patient"           # written beside the labels, not clustered on
    local = "HDBSCAN(min_cluster_size=20)"
    missing = "observed"
    metric = "euclidean"            # as agreed in the study
    record = "/data/patients.told"  # what was told of the table; default: beside it
    decimal = ","                   # of a CSV file, where its cells do not decide it
    encoding = "windows-1252"       # of a CSV file that is neither UTF-8 nor UTF-16

    [dates]                         # columns of dates become days since these days
    visit = "2020-01-01"

    [rename]                        # names in the study by names in the table
    "Alter (Jahre)" = "age"

    [privacy]                       # in a private study
    epsilon = 0.5                   # at most that of the study, the default
    total_epsilon = 2               # over all studies of the table; default: that of the study

    [release]                       # as the study proposed, until the participant changes it
    min_cluster_size = 10

The file comes with the kit, which others made. So a ``min_cluster_size`` below ``FLOOR`` in it counts only if the
participant says so on its own machine: by ``--min-cluster-size`` or by the environment variable ``INTARSIA_FLOOR``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from intarsia._files import write_atomically
from intarsia.exceptions import SettingError
from intarsia.federation.settings_file import DEFAULT, as_table, read_settings_file
from intarsia.privacy.policy import ReleasePolicy

SETTINGS = "intarsia.toml"
FLOOR = "INTARSIA_FLOOR"
_TABLES = ("dates", "rename")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class OwnPrivacy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant allows to be spent on its table: in this study, and in all; None: the epsilon of the study."""

    epsilon: float | None = None
    total_epsilon: float | None = None


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The contents of ``local/intarsia.toml``."""

    table: str = ""
    columns: tuple[str, ...] = ()
    id_column: str | None = None
    local: str | None = None
    missing: str = "observed"
    metric: str = "euclidean"
    record: str = ""
    decimal: str | None = None
    encoding: str | None = None
    dates: dict[str, str] = {}
    rename: dict[str, str] = {}
    release: ReleasePolicy = ReleasePolicy()
    privacy: OwnPrivacy = OwnPrivacy()


def read_settings(folder: Path) -> LocalSettings:
    """Read the settings in a kit's ``local`` folder; ``min_cluster_size`` is at least the participant's own floor."""
    settings = read_settings_file(folder / SETTINGS, LocalSettings)
    least = max(settings.release.min_cluster_size, own_floor())
    return msgspec.structs.replace(settings, release=replace(settings.release, min_cluster_size=least))


def own_floor() -> int:
    """Return the smallest ``min_cluster_size`` that a file may set: that of the environment, or the default."""
    text = os.environ.get(FLOOR, str(DEFAULT.min_cluster_size))
    if not text.isdecimal() or int(text) < 1:
        raise SettingError(f"{FLOOR} must be a whole number from 1. Got {text!r} instead.")
    return int(text)


def environment_of(settings: LocalSettings) -> dict[str, str]:
    """Return what tells a process that the participant itself chose a ``min_cluster_size`` below the default."""
    chosen = settings.release.min_cluster_size
    return {FLOOR: str(chosen)} if chosen < DEFAULT.min_cluster_size else {}


def write_settings(folder: Path, settings: LocalSettings) -> None:
    """Write ``local/intarsia.toml``."""
    table = msgspec.to_builtins(settings)
    for name in ("release", "privacy", *_TABLES):
        table.pop(name, None)
    lines = [*toml_lines(table), "", "[release]", *toml_lines(as_table(settings.release)), ""]
    for name in _TABLES:
        if entries := toml_lines(getattr(settings, name)):
            lines += [f"[{name}]", *entries, ""]
    if own := toml_lines(msgspec.structs.asdict(settings.privacy)):
        lines += ["[privacy]", *own, ""]
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
