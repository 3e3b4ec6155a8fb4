"""The study file: who takes part, how the tables are clustered, and where the server is. Everybody agrees on it first.

::

    name = "heart"
    participants = ["cleveland", "hungary"]
    method = "federated"            # or "one_shot"
    n_clusters = 2                  # or "auto"
    quorum = 2                      # replies that are enough; default: from all participants
    deadline = 600                  # seconds that one exchange may take
    secure_sums = true              # the coordinator learns sums over participants only; participants make their own keys
    share_model = false             # participants get no copy of the public model at the end; default: each gets one
    share_min_holders = 2           # copies show only what so many participants have; default: 1 (of secure sums: theirs)
    feasibility = true              # names and kinds of columns may be asked for: intarsia federation check
    joins = true                    # only in an invitation: the participant joins the model of an earlier run

    [server]
    host = "coordinator.example.org"
    port = 8102

    [settings]                      # of the method, as in intarsia.cluster; preset = "paper" is possible, too
    scale = "auto"
    random_state = 0

    [release]                       # proposed for the kits; each participant's own rules win
    min_cluster_size = 10

    [previous]                      # the study may be repeated: a run may start from an earlier model
    model = "march/"                # at the analyst: what the first run starts from; later ones: federation run --previous

    [privacy]                       # only in a private study; see :mod:`intarsia.privacy.bounds_file`
    epsilon = 1
    [privacy.bounds]
    age = [0, 110]
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from intarsia._files import read_toml, write_atomically
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import SettingError, quote
from intarsia.federation.settings_file import DEFAULT, read_settings_file
from intarsia.privacy.bounds_file import privacy_from
from intarsia.privacy.policy import ReleasePolicy

METHODS = ("federated", "one_shot")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")  # it becomes a name in a certificate, and a folder
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,63}")
_RESERVED = {"server", "analyst", "authority", "safety_number"}  # the last is a line of consent forms, beside names
_FEWEST, _MOST = 3, 200  # participants of a secure sum


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address of the server, as all participants reach it."""

    host: str = "localhost"
    port: int = 8102


class Previous(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """That a study may be repeated, and the model or study folder that its first run starts from, at the analyst."""

    model: str | None = None


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a study file."""

    name: str
    participants: tuple[str, ...]
    method: str = "federated"
    n_clusters: int | str = "auto"
    server: Server = Server()
    deadline: int = 600
    settings: dict[str, Any] = {}
    quorum: int | None = None
    release: ReleasePolicy = ReleasePolicy()
    privacy: DifferentialPrivacy | None = None
    secure_sums: bool = False
    previous: Previous | None = None
    joins: bool = False
    share_model: bool = True
    share_min_holders: int = 1
    feasibility: bool = False

    @property
    def host(self) -> str:
        """The server's name or address."""
        return self.server.host

    @property
    def port(self) -> int:
        """The server's port."""
        return self.server.port

    @property
    def metric(self) -> str:
        """The distance, which is the same for all participants."""
        return str(self.settings.get("metric", "euclidean"))

    @property
    def needed(self) -> int:
        """The number of participants that must reply for a run to continue."""
        return len(self.participants) if self.quorum is None else self.quorum

    @property
    def analyst(self) -> str:
        """The analyst's name in certificates."""
        return f"analyst@{self.name}.study"


def read_study(path: Path) -> Study:
    """Read and check ``study.toml``."""
    study = read_settings_file(path, Study, privacy=privacy_from)
    check_study(study)
    return study


def make_secure(path: Path) -> Study:
    """Return the study of a file with secure sums; the file says so from now on, because all participants read it."""
    study = msgspec.structs.replace(read_study(path), secure_sums=True)
    check_study(study)
    if "secure_sums" not in (table := read_toml(path)):
        write_atomically(path, b"secure_sums = true\n" + path.read_bytes())
    elif not table["secure_sums"]:
        raise SettingError(f"{path} says secure_sums = false. Hint: change that line, or do without --secure.")
    return study


def smallest_quorum(n: int) -> int:
    """Return how many of ``n`` participants must answer for a secure sum to be opened: more than two thirds."""
    return 2 * n // 3 + 1


def check_study(study: Study) -> None:
    """Raise a SettingError that says what is wrong with a study."""
    names = study.participants
    invalid = [name for name in (study.name, *names) if not _NAME.fullmatch(name) or name in _RESERVED]
    if invalid:
        raise SettingError(
            f"{len(invalid)} name(s) are invalid: {quote(invalid)}. They become names in certificates: use letters, "
            f"digits, - and _, and none of {quote(sorted(_RESERVED))}."
        )
    if not names or len(set(names)) < len(names):
        raise SettingError("participants must be a list of different names, with at least one.")
    if not _HOST.fullmatch(study.host):
        raise SettingError("host must be a name or an address of at most 63 characters, for the server's certificate.")
    if study.method not in METHODS:
        raise SettingError(f"method must be one of {METHODS}. Got {study.method!r} instead.")
    if not 1 <= study.needed <= len(names):
        raise SettingError(f"quorum must be from 1 to {len(names)}, the number of participants. Got {study.needed}.")
    if study.release.min_cluster_size < DEFAULT.min_cluster_size:
        raise SettingError(
            f"min_cluster_size must be at least {DEFAULT.min_cluster_size} in a study: only a participant may choose less, "
            f"for itself. Got {study.release.min_cluster_size}."
        )
    if study.privacy is not None and not study.privacy.bounds and not study.privacy.levels:
        raise SettingError(
            "[privacy] declares no columns, which differential privacy needs and must not take from data. Hint: "
            "[privacy.bounds] with lines such as age = [0, 110], and [privacy.levels] with sex = ['f', 'm']."
        )
    _check_copies(study)
    _check_repeated(study)
    _check_invitation(study)
    _check_feasibility(study)
    if study.secure_sums:
        _check_secure(study)
    if not 1 <= study.port <= 65_535 or study.deadline < 1:
        raise SettingError("port must be from 1 to 65535, and deadline at least 1 second.")


def _check_copies(study: Study) -> None:
    most = max(len(study.participants), 2)
    if not 1 <= study.share_min_holders <= most:
        raise SettingError(
            f"share_min_holders must be from 1 to {most}. Got {study.share_min_holders}. Hint: with 2, copies of the public "
            "model hide what one participant alone has."
        )


def _check_invitation(study: Study) -> None:
    if study.joins and (study.secure_sums or study.privacy is not None or len(study.participants) > 1):
        raise SettingError(
            "joins = true is for one participant, without [privacy] and secure_sums: it joins the model of an earlier run. "
            "Hint: intarsia federation invite writes such a file."
        )


def _check_repeated(study: Study) -> None:
    if study.previous is None:
        return
    wrong = {
        "method = 'one_shot'": study.method != "federated",
        "[privacy]": study.privacy is not None,
        "secure_sums": study.secure_sums,
    }
    if named := [name for name, is_set in wrong.items() if is_set]:
        raise SettingError(
            f"[previous] cannot be set together with {named[0]}: clusters are compared with those of the previous model by "
            "exact sums of each participant, round by round. Hint: leave one of the two out."
        )


def _check_feasibility(study: Study) -> None:
    if not study.feasibility:
        return
    if study.privacy is not None:
        raise SettingError(
            "feasibility = true cannot be set together with [privacy]: a private study declares all columns, so that "
            "nothing is left to ask. Hint: leave it out."
        )
    if study.secure_sums:
        raise SettingError(
            "feasibility = true cannot be set together with secure_sums: their keys are for one run, and a question before "
            "it has none. Hint: leave it out; or first make kits of a study without secure_sums, for the check only."
        )


def _check_secure(study: Study) -> None:
    n = len(study.participants)
    if not _FEWEST <= n <= _MOST:
        raise SettingError(
            f"secure_sums needs {_FEWEST} to {_MOST} participants: in a sum over two, each can compute the other's part. "
            f"Got {n}."
        )
    if study.method != "federated":
        raise SettingError(
            "secure_sums needs method = 'federated': the one-shot method compares local summaries, and only sums can be "
            "secure. Hint: for a private method with one round, use secure_sums with [privacy] rounds = 1."
        )
    if study.needed < (least := smallest_quorum(n)):
        raise SettingError(
            f"quorum must be at least {least} of {n} with secure_sums: fewer participants cannot open a sum, so that the "
            f"coordinator cannot open two that overlap. Got {study.needed}."
        )
