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

    [release]                       # what kits start with; each participant's own rules win
    min_cluster_size = 10
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from intarsia._files import read_toml
from intarsia.coordinator import Algorithm, FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import ProtocolError, SettingError, quote
from intarsia.federation.release_rules import rules_from
from intarsia.privacy.policy import ReleasePolicy

KINDS: dict[str, type[FederatedAlgorithm | OneShotAlgorithm]] = {
    "federated": FederatedAlgorithm,
    "one_shot": OneShotAlgorithm,
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")  # it becomes the name in a certificate, and of a folder
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,63}")
_TAKEN = {"server", "analyst", "authority"}
_SERVER = ("host", "port")


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
    settings: dict[str, Any] = field(default_factory=dict)
    quorum: int | None = None
    release: ReleasePolicy = field(default_factory=ReleasePolicy)

    @property
    def metric(self) -> str:
        """How distances are measured; every participant must do the same."""
        return str(self.settings.get("metric", "euclidean"))

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
    found = read_toml(path)
    server, release = found.pop("server", {}), found.pop("release", {})
    if not isinstance(server, dict):
        raise SettingError(f"{path}: server must be a table with host and port.")
    _known(path, found, [*(name for name in Study.__dataclass_fields__ if name not in _SERVER), "server"])
    _known(f"[server] of {path}", server, _SERVER)
    try:
        study = msgspec.convert(found | server, Study)
    except msgspec.ValidationError as error:
        raise SettingError(f"{path}: {error}.") from None
    study = replace(study, release=rules_from(release, f"[release] of {path}"))
    _check(study)
    return study


def _known(where: object, said: dict[str, Any], names: Sequence[str]) -> None:
    if strange := [key for key in said if key not in names]:
        raise SettingError(f"{where} has entries that mean nothing: {quote(strange)}. There are {', '.join(names)}.")


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
    if not _HOST.fullmatch(study.host):
        raise SettingError(
            "host must be a name or an address of at most 63 characters: it is in the server's certificate."
        )
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
