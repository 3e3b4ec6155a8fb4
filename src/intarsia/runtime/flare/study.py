"""What everybody agrees on before anything is asked: who takes part, how it is clustered, and where the server is.

::

    name = "heart"
    participants = ["cleveland", "hungary"]
    method = "federated"            # or "one_shot"
    n_clusters = 2                  # or "auto"
    quorum = 2                      # so many answers are enough; all, unless said
    deadline = 600                  # seconds that one exchange may take

    [server]
    host = "coordinator.example.org"
    port = 8102

    [settings]                      # of the method, as in intarsia.cluster
    scale = "auto"
    random_state = 0
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from intarsia.algorithms import Algorithm, FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import InputError, ProtocolError, SettingError, quote

KINDS: dict[str, type[FederatedAlgorithm | OneShotAlgorithm]] = {
    "federated": FederatedAlgorithm,
    "one_shot": OneShotAlgorithm,
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")  # it becomes the name in a certificate, and of a folder
_TAKEN = {"server", "analyst", "authority"}


@dataclass(frozen=True)
class Study:
    """A study as its file says."""

    name: str
    participants: tuple[str, ...]
    method: str = "federated"
    n_clusters: int | str = "auto"
    host: str = "localhost"
    port: int = 8102
    deadline: int = 600
    quorum: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def needed(self) -> int:
        """How many must answer for a run to go on; all, unless said."""
        return len(self.participants) if self.quorum is None else self.quorum

    @property
    def analyst(self) -> str:
        """Who submits runs."""
        return f"analyst@{self.name}.study"


def read_study(path: Path) -> Study:
    """Read and check ``study.toml``."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {type(error).__name__}.") from error
    server = found.pop("server", {})
    flat = found | {key: server[key] for key in ("host", "port") if isinstance(server, dict) and key in server}
    try:
        study = msgspec.convert(flat, Study)
    except msgspec.ValidationError as error:
        raise SettingError(f"{path}: {error}.") from None
    known = set(Study.__dataclass_fields__)
    if strange := [key for key in flat if key not in known]:
        raise SettingError(f"{path} has entries that mean nothing: {quote(strange)}. There are {', '.join(known)}.")
    _check(study)
    return study


def _check(study: Study) -> None:
    names = study.participants
    odd = [name for name in (study.name, *names) if not _NAME.fullmatch(name) or name in _TAKEN]
    if odd:
        raise SettingError(
            f"{len(odd)} name(s) cannot be used: {quote(odd)}. They become names in certificates: letters, digits, - and _, "
            f"and none of {quote(sorted(_TAKEN))}."
        )
    if not names or len(set(names)) < len(names):
        raise SettingError("participants must be named, each once.")
    if study.method not in KINDS:
        raise SettingError(f"method must be one of {tuple(KINDS)}. Got {study.method!r} instead.")
    if not 1 <= study.needed <= len(names):
        raise SettingError(f"quorum must be from 1 to {len(names)}, the number of participants. Got {study.needed}.")
    if not 1 <= study.port <= 65_535 or study.deadline < 1:
        raise SettingError("port must be from 1 to 65535, and deadline a number of seconds from 1.")


def as_json(algorithm: Algorithm) -> dict[str, Any]:
    """An algorithm as its name and its settings: what a job holds of it."""
    kind = next((name for name, kind in KINDS.items() if type(algorithm) is kind), None)
    if kind is None:
        raise SettingError(f"a {type(algorithm).__name__} cannot be run in a federation.")
    settings = asdict(algorithm)  # type: ignore[call-overload]
    if not isinstance(settings["metric"], str):
        raise SettingError("a metric of your own cannot be used in a federation: no code travels.")
    return {"method": kind, "settings": settings}


def from_json(what: Any) -> Algorithm:
    """The algorithm that :func:`as_json` described, or a ProtocolError."""
    kind = KINDS.get(str(what.get("method"))) if isinstance(what, dict) else None
    settings = what.get("settings") if isinstance(what, dict) else None
    if kind is None or not isinstance(settings, dict) or not set(settings) <= {entry.name for entry in fields(kind)}:
        raise ProtocolError("the job names no algorithm that is known here, or settings that it does not have.")
    if not isinstance(settings.get("metric", ""), str) or not isinstance(settings.get("seed", 0), int):
        raise ProtocolError("the job's metric must be a name, and its seed a number.")
    return kind(**settings)


def digest_of(what: dict[str, Any], participants: tuple[str, ...]) -> str:
    """One run's name: the same algorithm with the same settings over the same participants goes on where it was."""
    return sha256(msgspec.json.encode([what, sorted(participants)], order="deterministic")).hexdigest()[:16]
