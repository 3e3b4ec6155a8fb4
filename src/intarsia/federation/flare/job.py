"""What is submitted: a folder of settings, no code. Classes are named, and every site has a list of those it allows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intarsia.coordinator import Algorithm
from intarsia.federation.algorithms import as_json, digest_of
from intarsia.federation.study_file import Study

TASK = "intarsia"
CONTROLLER = "intarsia.federation.flare.controller.Coordinating"
EXECUTOR = "intarsia.federation.flare.executor.Answering"
GATE = "intarsia.federation.flare.filter.Gate"
_ASK_EVERY = 0.05  # seconds between two looks of a site for work; 2 unless said
_HEARTBEAT = 5.0  # seconds; 10 unless said
_GONE_AFTER = 10.0  # seconds until a site that was reported dead counts as gone; 60 unless said


def run_of(study: Study, algorithm: Algorithm) -> str:
    """The name of the run."""
    return digest_of(as_json(algorithm), study.participants)


def write_job(
    folder: Path,
    study: Study,
    algorithm: Algorithm,
    settings: dict[str, Any],
    present: Sequence[str] | None = None,
    not_awaited: Sequence[str] = (),
) -> Path:
    """Write the folder of a job that runs this algorithm at those who are there; ``settings`` are for the record only.

    Whoever is not awaited does not end the job by coming back.
    """
    what = as_json(algorithm)
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    everybody = list(study.participants)
    there = everybody if present is None else [name for name in everybody if name in present]
    quorum = min(study.needed, len(there))
    meta = {
        "name": study.name,
        "resource_spec": {},
        "deploy_map": {"app": ["server", *there]},
        "min_clients": quorum,
        "mandatory_clients": there if quorum == len(there) else [],
    }
    arguments = {
        "algorithm": what,
        "participants": everybody,
        "quorum": quorum,
        "deadline": study.deadline,
        "settings": settings,
        "not_awaited": list(not_awaited),
    }
    server = {
        "format_version": 2,
        "server": {"task_request_interval": _ASK_EVERY},
        "dead_client_grace_period": _GONE_AFTER,
        "task_data_filters": [],
        "task_result_filters": [],
        "components": [],
        "workflows": [{"id": "intarsia", "path": CONTROLLER, "args": arguments}],
    }
    site = {
        "format_version": 2,
        "job_heartbeat_interval": _HEARTBEAT,
        "executors": [
            {
                "tasks": [TASK],
                "executor": {"path": EXECUTOR, "args": {"run": digest_of(what, study.participants)}},
            }
        ],
        "task_data_filters": [],
        "task_result_filters": [],
        "components": [],
    }
    for path, content in (
        (folder / "meta.json", meta),
        (config / "config_fed_server.json", server),
        (config / "config_fed_client.json", site),
    ):
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return folder
