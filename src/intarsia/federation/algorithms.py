"""The algorithm of a study: from its settings, as a job carries it, and whether release rules allow it."""

from __future__ import annotations

from dataclasses import asdict, fields
from hashlib import sha256
from typing import Any

import msgspec

from intarsia.coordinator import Algorithm, FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import ProtocolError, ReleaseError, SettingError, quote
from intarsia.federation.study_file import Study
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import StudyTerms

_KINDS: dict[str, type[FederatedAlgorithm | OneShotAlgorithm]] = {
    "federated": FederatedAlgorithm,
    "one_shot": OneShotAlgorithm,
}

_OF_A_PARTICIPANT = ("local", "missing")  # settings that each participant chooses itself


def algorithm_of(study: Study) -> tuple[Algorithm, dict[str, Any]]:
    """Return the algorithm that a study runs, and all its settings for the record."""
    from intarsia.estimators.clustering import estimator_for  # which a server need not load
    from intarsia.estimators.presets import with_preset
    from intarsia.estimators.recording import plain

    defaults = {"random_state": 0}
    settings = with_preset(study.method, study.settings, defaults)
    if "release" in settings:
        raise SettingError("release must be a table of its own, [release], not a setting of the method.")
    if local := [name for name in _OF_A_PARTICIPANT if name in settings]:
        raise SettingError(
            f"each participant chooses {quote(local)} itself. Hint: intarsia participant serve --{local[0]} …"
        )
    if settings.get("scale") == "none":  # TOML has no null
        settings["scale"] = None
    model = estimator_for(study.method, study.n_clusters, settings)
    described = {name: plain(value) for name, value in model.get_params(deep=False).items()}
    return model.algorithm_for(study.participants), described


def terms_for(study: Study, name: str) -> StudyTerms:
    """Return which requests a participant of a study can get."""
    return algorithm_of(study)[0].terms(name)


def as_json(algorithm: Algorithm) -> dict[str, Any]:
    """Return an algorithm as its name and its settings, as a job contains it."""
    kind = next((name for name, kind in _KINDS.items() if type(algorithm) is kind), None)
    if kind is None:
        raise SettingError(f"{type(algorithm).__name__} cannot run in a federation.")
    settings = asdict(algorithm)  # type: ignore[call-overload]
    if not isinstance(settings["metric"], str):
        raise SettingError(
            "metric must be a name: a function of your own cannot be used in a federation, because no code travels."
        )
    return {"method": kind, "settings": settings}


def from_json(description: Any) -> Algorithm:
    """Return the algorithm that :func:`as_json` described, or raise a ProtocolError."""
    described = description if isinstance(description, dict) else {}
    kind, settings = _KINDS.get(str(described.get("method"))), described.get("settings")
    if kind is None or not isinstance(settings, dict) or not set(settings) <= {entry.name for entry in fields(kind)}:
        raise ProtocolError("the job names an unknown algorithm, or settings that the algorithm does not have.")
    if not isinstance(settings.get("metric", ""), str) or not isinstance(settings.get("seed", 0), int):
        raise ProtocolError("the job's metric must be a name, and its seed an integer.")
    return kind(**settings)


def digest_of(description: dict[str, Any], participants: tuple[str, ...]) -> str:
    """Return the name of a run: the same algorithm, settings and participants continue the same run."""
    return sha256(msgspec.json.encode([description, sorted(participants)], order="deterministic")).hexdigest()[:16]


def forbidden(algorithm: Algorithm, policy: ReleasePolicy) -> str | None:
    """Return why a study would be refused under a policy; None if its requests would be answered."""
    terms, pipeline = algorithm.terms("you"), Pipeline(policy)
    if terms.n_rivals > policy.max_rivals:
        return f"n_rivals is {terms.n_rivals} in the study, and max_rivals {policy.max_rivals} in the release rules."
    if terms.crosswise and terms.max_rounds and not policy.allow_crosswise:
        return "rounds of the study may be crosswise, unless it says refinement = 'plain'. Hint: allow_crosswise."
    try:
        for request in algorithm.start(("you",)).requests.values():
            pipeline.admit(request)
    except ReleaseError as error:
        return str(error)
    return None


def rounds_beyond(algorithm: Algorithm, policy: ReleasePolicy) -> str | None:
    """Return a warning if a study may ask for more rounds than a policy allows, else None."""
    most = policy.max_rounds
    if not isinstance(algorithm, FederatedAlgorithm) or most is None or algorithm.max_rounds <= most:
        return None
    return (
        f"the study takes up to {algorithm.max_rounds} rounds, and the release rules allow {most}: "
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
