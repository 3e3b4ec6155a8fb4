"""How somebody joins the model of a study: the study file of the newcomer, and the algorithm that asks it.

The newcomer agrees to an ordinary study with one participant, itself: the K of the model, plain rounds, no alternatives. So
its kit, its preview, its consent form and what it answers are those of every study. Nobody else is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from intarsia._files import write_atomically
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.coordinator.join import JoinAlgorithm, check_can_join, settings_of_join
from intarsia.coordinator.newcomers import united
from intarsia.exceptions import SettingError
from intarsia.federation.algorithms import algorithm_of
from intarsia.federation.settings_file import as_table
from intarsia.federation.site_settings import toml_lines
from intarsia.federation.study_file import Study, check_study
from intarsia.results import model_file
from intarsia.results.outcome import Outcome

_ROUNDS = (
    "step_size",
    "max_rounds",
    "tol",
    "min_points",
    "local_iterations",
    "refinement",
    "n_rivals",
    "model",
    "metric",
)


def invitation(study: Study, outcome: Outcome, name: str) -> Study:
    """Return the study that a newcomer agrees to, from that of the others and its outcome."""
    check_can_join(outcome, [name])
    known, _ = algorithm_of(study)
    assert isinstance(known, FederatedAlgorithm | OneShotAlgorithm)  # neither private nor secure
    settings = settings_of_join(known, outcome.model)
    chosen: dict[str, Any] = {each: getattr(settings, each) for each in _ROUNDS}
    chosen |= {"scale": settings.scale or "none", "random_state": settings.seed}
    if "n_local_clusters" in study.settings:
        chosen["n_local_clusters"] = study.settings["n_local_clusters"]
    if settings.feature_weights:
        chosen["feature_weights"] = dict(settings.feature_weights)
    joins = msgspec.structs.replace(
        study,
        participants=(name,),
        method="federated",
        n_clusters=len(outcome.model.centroids),
        quorum=None,
        settings=chosen,
        joins=True,
        feasibility=False,
    )
    check_study(joins)
    return joins


def joining(study: Study, outcome: Outcome) -> tuple[JoinAlgorithm, dict[str, Any]]:
    """Return the algorithm that asks the newcomer of an invitation, and its settings for the record."""
    if not study.joins:
        raise SettingError("the study has no newcomer. Hint: the file that intarsia federation invite wrote.")
    check_can_join(outcome, study.participants)
    algorithm, settings = algorithm_of(study)
    assert isinstance(algorithm, FederatedAlgorithm)
    k, model = len(outcome.model.centroids), outcome.model
    agreed = algorithm.n_clusters == k and algorithm.scale == (model.units or algorithm.scale)
    if not agreed or algorithm.metric != model.metric or (algorithm.model == "mixture") != (model.weights is not None):
        raise SettingError(
            f"the invitation was made for another model: it says {algorithm.n_clusters} clusters in the units "
            f"{algorithm.scale or 'none'!r}, and the model has {k} in {model.units or 'none'!r}. Hint: intarsia federation "
            "invite, with this model."
        )
    return JoinAlgorithm(algorithm, model), settings


def add_to(before: Path, newcomers: Path, target: Path) -> None:
    """Write the model file of a study with newcomers, whose own part is in the file ``newcomers``."""
    outcome, stored = model_file.load(before)
    late, of_late = model_file.load(newcomers)
    new = tuple(name for name in of_late.names_in_order if name not in stored.names_in_order)
    run = stored.run.with_newcomers(of_late.run, late.participants)
    target.parent.mkdir(parents=True, exist_ok=True)
    model_file.save(target, united(outcome, late), (*stored.names_in_order, *new), run)


def write_invitation(path: Path, study: Study) -> None:
    """Write the study file of a newcomer."""
    if path.exists():
        raise SettingError(f"{path} already exists. Hint: another --output.")
    top: dict[str, Any] = {"name": study.name, "participants": list(study.participants), "method": study.method}
    top |= {"n_clusters": study.n_clusters, "deadline": study.deadline, "joins": True}
    tables: dict[str, Any] = {"server": msgspec.structs.asdict(study.server), "settings": study.settings}
    lines = toml_lines(top)
    for name, table in (tables | {"release": as_table(study.release)}).items():
        lines += ["", f"[{name}]", *toml_lines(table)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join(lines) + "\n").encode())
