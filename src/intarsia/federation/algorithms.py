"""The algorithm of a study: from its settings, as a job carries it, and whether release rules allow it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import MISSING, asdict, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec

from intarsia.coordinator import Algorithm, FederatedAlgorithm, OneShotAlgorithm
from intarsia.coordinator.feasibility import ColumnsQuestion
from intarsia.coordinator.join import JoinAlgorithm
from intarsia.coordinator.secure import SecureAlgorithm
from intarsia.coordinator.sharing import SharingAlgorithm
from intarsia.exceptions import ModelFileError, ProtocolError, ReleaseError, SettingError, quote
from intarsia.federation.study_file import Study
from intarsia.privacy.bounds_file import privacy_from
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import StudyTerms
from intarsia.results.packed_model import packed, unpacked_model

_KINDS: dict[str, type[FederatedAlgorithm | OneShotAlgorithm]] = {
    "federated": FederatedAlgorithm,
    "one_shot": OneShotAlgorithm,
}

_UNLESS_REPEATED = {"previous": None, "repeats": False}  # not in a job: runs of older versions keep their names
_S = TypeVar("_S", bound=msgspec.Struct)
_JOIN, _OTHERS, _COLUMNS = "join", "the others", "columns"
_OF_A_PARTICIPANT = ("local", "missing")  # settings that each participant chooses itself


def algorithm_of(study: Study, previous: Path | None = None) -> tuple[Algorithm, dict[str, Any]]:
    """Return the algorithm that a study runs, and all its settings for the record.

    ``previous`` is where the model is that the run starts from, in a study that may be repeated.
    """
    from intarsia.estimators.clustering import estimator_for  # which a server need not load
    from intarsia.estimators.presets import with_preset
    from intarsia.estimators.recording import settings_of

    defaults = {"random_state": 0}
    settings = with_preset(study.method, study.settings, defaults)
    _check_names(settings)
    if settings.get("scale") == "none":  # TOML has no null
        settings["scale"] = None
    if study.privacy is not None:
        settings["privacy"] = study.privacy
    if study.secure_sums:
        settings["secure_sums"] = True
    if previous is not None and study.previous is None:
        raise SettingError(
            "participants of this study have not agreed that it is repeated. Hint: a study file with [previous], and new "
            "consent forms."
        )
    if previous is not None:
        settings["previous"] = previous
    model = estimator_for(study.method, study.n_clusters, settings)
    described = settings_of(model)
    others = (_OTHERS,) if study.joins else ()  # a newcomer is clustered as one of several
    algorithm = model.algorithm_for((*study.participants, *others))
    if study.previous is not None and isinstance(algorithm, FederatedAlgorithm):
        algorithm = replace(algorithm, repeats=True)
    return replace(algorithm, quorum=study.needed) if isinstance(algorithm, SecureAlgorithm) else algorithm, described


def _check_names(settings: dict[str, Any]) -> None:
    """Raise a SettingError about settings that do not belong into [settings] of a study file."""
    if own := [name for name in ("release", "privacy", "previous") if name in settings]:
        raise SettingError(f"{own[0]} must be a table of its own, [{own[0]}], not a setting of the method.")
    if "verbose" in settings:
        raise SettingError("verbose is no setting of a study. Hint: the command line shows progress unless --quiet.")
    if "secure_sums" in settings:
        raise SettingError(
            "secure_sums must stand at the top of the study file, above all tables, not in [settings]: it also decides "
            "who makes keys."
        )
    if local := [name for name in _OF_A_PARTICIPANT if name in settings]:
        raise SettingError(
            f"each participant chooses {quote(local)} itself. Hint: intarsia participant serve --{local[0]} …"
        )


def terms_for(study: Study, name: str) -> StudyTerms:
    """Return which requests a participant of a study can get."""
    terms = with_copies(study, algorithm_of(study)[0]).terms(name)
    return replace(terms, feasibility=study.feasibility)


def with_copies(study: Study, algorithm: Algorithm) -> Algorithm:
    """Return an algorithm of a study as it runs in a federation: at the end each participant gets the public model.

    Newcomers to a finished model get none: the file of the study that they join is the analyst's to give.
    """
    if study.joins or not study.share_model:
        return algorithm
    return SharingAlgorithm(algorithm, holders_of(study))


def holders_of(study: Study) -> int:
    """Return the number of participants below which public models of a study hide an entry."""
    of_sums = int(study.settings.get("min_holders", SecureAlgorithm.min_holders)) if study.secure_sums else 1
    return max(study.share_min_holders, of_sums)


def as_json(algorithm: Algorithm | ColumnsQuestion) -> dict[str, Any]:
    """Return an algorithm as its name and its settings, as a job contains it.

    A private one also says what is declared, and one on secure sums over whom.
    """
    from intarsia.private.algorithm import PrivateAlgorithm  # which most servers need not load

    if isinstance(algorithm, SharingAlgorithm):
        return as_json(algorithm.inner) | {"copies": {"min_holders": algorithm.min_holders}}
    if isinstance(algorithm, ColumnsQuestion):
        return {"method": _COLUMNS, "settings": {}}
    if isinstance(algorithm, SecureAlgorithm):
        return as_json(algorithm.inner) | {"secure": {"min_holders": algorithm.min_holders, "quorum": algorithm.quorum}}
    if isinstance(algorithm, PrivateAlgorithm):
        return as_json(algorithm.inner) | {"privacy": asdict(algorithm.privacy)}
    if isinstance(algorithm, JoinAlgorithm):
        settings = asdict(algorithm.settings)
        return {"method": _JOIN, "settings": settings, "into": b64encode(packed(algorithm.into)).decode()}
    return _as_json_in_the_clear(algorithm)


def _as_json_in_the_clear(algorithm: Algorithm) -> dict[str, Any]:
    """Return an algorithm that no other is around as its name and its settings."""
    kind = next((name for name, kind in _KINDS.items() if type(algorithm) is kind), None)
    if kind is None:
        raise SettingError(f"{type(algorithm).__name__} cannot run in a federation.")
    return {"method": kind, "settings": _settings_of(algorithm)}


def _settings_of(algorithm: Algorithm) -> dict[str, Any]:
    """Return the settings of an algorithm, without those of repeats where a study repeats none."""
    settings: dict[str, Any] = asdict(algorithm)  # type: ignore[call-overload]
    for name, absent in _UNLESS_REPEATED.items():
        if settings.get(name) is absent:
            settings.pop(name, None)
    if settings.get("previous") and not settings["previous"]["names"]:
        del settings["previous"]["names"]
    if not isinstance(settings["metric"], str):
        raise SettingError(
            "metric must be a name: a function of your own cannot be used in a federation, because no code travels."
        )
    return settings


def asks_columns(description: Any) -> bool:
    """Whether a job asks for names and kinds of columns only."""
    return bool(description == as_json(ColumnsQuestion()))


def from_json(description: Any, run: str = "run") -> Algorithm:
    """Return the algorithm that :func:`as_json` described, or raise a ProtocolError: a job may come from anybody.

    ``run`` is the name of the run (:func:`digest_of`), which keys of secure sums are signed for.
    """
    described = description if isinstance(description, dict) else {}
    if "copies" in described:
        copies = _converted(described["copies"], _Copies, "copies of the model")
        rest = {name: value for name, value in described.items() if name != "copies"}
        return SharingAlgorithm(from_json(rest, run), copies.min_holders)
    if not set(described) <= {"method", "settings", "privacy", "secure", "into"}:
        raise ProtocolError("the job names an unknown algorithm.")
    if described.get("method") == _JOIN:
        return _join(described)
    algorithm = _in_the_clear(described)
    if "secure" not in described:
        return algorithm
    asked = _converted(described["secure"], _Secure, "secure sums")
    if described["method"] != "federated":
        raise ProtocolError("the job asks for secure sums of a method that has none.")
    return SecureAlgorithm(algorithm, asked.min_holders, asked.quorum, run)


def _join(described: dict[str, Any]) -> JoinAlgorithm:
    """Return the algorithm of a job by which newcomers join a model."""
    if set(described) != {"method", "settings", "into"}:
        raise ProtocolError("the job joins a model in an unknown way.")
    settings = _in_the_clear({"method": "federated", "settings": described["settings"]})
    assert isinstance(settings, FederatedAlgorithm)
    try:
        into = unpacked_model(b64decode(str(described["into"]), validate=True))
    except (ModelFileError, ValueError) as error:
        raise ProtocolError(str(error)) from None
    if settings.n_clusters != len(into.centroids):
        raise ProtocolError("the job joins a model with another number of clusters than its settings say.")
    return JoinAlgorithm(settings, into)


class _Secure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of secure sums in a job."""

    min_holders: Annotated[int, msgspec.Meta(ge=2, le=200)]
    quorum: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None


class _Copies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the copies of the public model in a job."""

    min_holders: Annotated[int, msgspec.Meta(ge=1, le=200)]


def _converted(settings: Any, kind: type[_S], of: str) -> _S:
    """Return settings in a job as an object that checks them."""
    try:
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError:
        raise ProtocolError(f"the job has invalid settings of {of}.") from None


def _in_the_clear(described: dict[str, Any]) -> Algorithm:
    """Return the algorithm of a job without secure sums."""
    kind, settings = _KINDS.get(str(described.get("method"))), described.get("settings")
    if kind is None or not isinstance(settings, dict):
        raise ProtocolError("the job names an unknown algorithm.")
    try:
        algorithm = kind(**msgspec.structs.asdict(msgspec.convert(settings, _TYPES[kind])))
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise ProtocolError(
            f"the job has settings that the algorithm does not have ({type(error).__name__})."
        ) from None
    if "privacy" not in described:
        return algorithm
    from intarsia.private.algorithm import PrivateAlgorithm

    try:
        return PrivateAlgorithm(algorithm, privacy_from(described["privacy"], "the job"))
    except SettingError as error:
        raise ProtocolError(str(error)) from None


def _types_of(kind: type[FederatedAlgorithm | OneShotAlgorithm]) -> type[msgspec.Struct]:
    """Return the settings of an algorithm as a class that checks the type of each; of a metric, only names travel."""
    hints = get_type_hints(kind) | {"metric": str}
    entries = [
        (entry.name, hints[entry.name]) if entry.default is MISSING else (entry.name, hints[entry.name], entry.default)
        for entry in fields(kind)
    ]
    return msgspec.defstruct("Settings", entries, forbid_unknown_fields=True, kw_only=True)


_TYPES = {kind: _types_of(kind) for kind in _KINDS.values()}


def run_of(study: Study) -> str:
    """Return the name of the run of a study, as the server names it, too."""
    return digest_of(as_json(with_copies(study, algorithm_of(study)[0])), study.participants)


def digest_of(description: dict[str, Any], participants: tuple[str, ...]) -> str:
    """Return the name of a run: the same algorithm, settings and participants continue the same run."""
    return sha256(msgspec.json.encode([description, sorted(participants)], order="deterministic")).hexdigest()[:16]


def forbidden(algorithm: Algorithm, policy: ReleasePolicy) -> str | None:
    """Return why a study would be refused under a policy; None if its requests would be answered."""
    terms, pipeline = (
        algorithm.terms("you"),
        Pipeline(policy),
    )  # a private study has neither rivals nor crosswise rounds
    if terms.n_rivals > policy.max_rivals:
        return f"n_rivals is {terms.n_rivals} in the study, and max_rivals {policy.max_rivals} in the release rules."
    if terms.crosswise and terms.max_rounds and not policy.allow_crosswise:
        return "rounds of the study may be crosswise, unless it says refinement = 'plain'. Hint: allow_crosswise."
    try:
        for request in without_secure(algorithm).start(("you",)).requests.values():
            pipeline.admit(request)
    except ReleaseError as error:
        return str(error)
    return None


def without_secure(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm that runs on secure sums, or the algorithm itself if it needs none."""
    return algorithm.inner if isinstance(algorithm, SecureAlgorithm) else algorithm


def rounds_beyond(algorithm: Algorithm, policy: ReleasePolicy) -> str | None:
    """Return a warning if a study may ask for more rounds than a policy allows, else None."""
    most, terms = policy.max_rounds, algorithm.terms("you")
    rounds = terms.max_rounds if terms.privacy is None else terms.noisy_rounds
    if most is None or rounds <= most:
        return None
    return (
        f"the study takes up to {rounds} rounds, and the release rules allow {most}: "
        "if it needs more, it ends without a result."
    )


def check_rules(study: Study) -> str | None:
    """Raise a SettingError if a study's own release rules forbid its settings; return a warning if they may not suffice."""
    algorithm, _ = algorithm_of(study)
    if why := forbidden(algorithm, study.release):
        raise SettingError(
            f"the study's own release rules forbid what its settings ask for: {why} Hint: change the settings, or the rule "
            "in [release]; participants see it before they agree, and may refuse."
        )
    return rounds_beyond(algorithm, study.release)
