"""The job that is submitted: a folder of settings, no code. Classes are named; every site has a list of those it allows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intarsia.coordinator import Algorithm
from intarsia.coordinator.feasibility import ColumnsQuestion
from intarsia.federation.algorithms import as_json, digest_of
from intarsia.federation.study_file import Study

TASK = "intarsia"
MESSAGE, REQUEST = "intarsia.message", "intarsia.request"  # what a task and its result carry
CONTROLLER = "intarsia.federation.flare.controller.Coordinating"
EXECUTOR = "intarsia.federation.flare.executor.Answering"
GATE = "intarsia.federation.flare.filter.Gate"
_POLL_INTERVAL = 0.05  # seconds between two requests of a site for a task; the engine's default is 2
_HEARTBEAT = 5.0  # seconds; the engine's default is 10
_GRACE_PERIOD = 10.0  # seconds until a site that was reported dead counts as gone; the engine's default is 60
_APP = "app"
_NO_FILTERS: dict[str, Any] = {"task_data_filters": [], "task_result_filters": [], "components": []}


def write_job(
    folder: Path,
    study: Study,
    algorithm: Algorithm | ColumnsQuestion,
    settings: dict[str, Any],
    present: Sequence[str] | None = None,
    not_awaited: Sequence[str] = (),
) -> Path:
    """Write the folder of a job that runs an algorithm at the participants that are present (all by default).

    ``settings`` are for the record only. The return of a participant in ``not_awaited`` does not end the job.
    """
    names = [name for name in study.participants if present is None or name in present]
    quorum = min(study.needed, len(names))
    description = as_json(algorithm)
    arguments = {
        "algorithm": description,
        "participants": list(study.participants),
        "quorum": quorum,
        "deadline": study.deadline,
        "settings": settings,
        "not_awaited": list(not_awaited),
    }
    files = {
        "meta.json": _meta(study, names, quorum, _prefix(study, algorithm)),
        f"{_at_server(study)}/config/config_fed_server.json": _server(arguments),
        f"{_APP}/config/config_fed_client.json": _site(digest_of(description, study.participants)),
    }
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return folder


def _at_server(study: Study) -> str:
    """Return the folder of what only the server gets: the model that is joined does not go to the newcomer's site."""
    return "coordinator" if study.joins else _APP


def _prefix(study: Study, algorithm: Algorithm | ColumnsQuestion) -> str:
    """Return what the name of a job begins with: other names are other results. No name of a study begins with _."""
    return "_columns-" if isinstance(algorithm, ColumnsQuestion) else "join-" if study.joins else ""


def _meta(study: Study, names: list[str], quorum: int, prefix: str) -> dict[str, Any]:
    return {
        "name": f"{prefix}{study.name}",
        "resource_spec": {},
        "deploy_map": {_APP: names, _at_server(study): ["server"]} if study.joins else {_APP: ["server", *names]},
        "min_clients": quorum,
        "mandatory_clients": names if quorum == len(names) else [],
    }


def _server(arguments: dict[str, Any]) -> dict[str, Any]:
    return _NO_FILTERS | {
        "format_version": 2,
        "server": {"task_request_interval": _POLL_INTERVAL},
        "dead_client_grace_period": _GRACE_PERIOD,
        "workflows": [{"id": "intarsia", "path": CONTROLLER, "args": arguments}],
    }


def _site(run: str) -> dict[str, Any]:
    executor = {"path": EXECUTOR, "args": {"run": run}}
    return _NO_FILTERS | {
        "format_version": 2,
        "job_heartbeat_interval": _HEARTBEAT,
        "executors": [{"tasks": [TASK], "executor": executor}],
    }
