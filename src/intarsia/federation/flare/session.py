"""The analyst's session at the server: who is connected, how a job goes, and its result."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from nvflare.fuel.flare_api.api_spec import TargetType
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from intarsia._files import write_atomically
from intarsia.exceptions import FederationError
from intarsia.federation.flare.controller import ENDED, MODEL, PROGRESS
from intarsia.federation.study_file import Study

FINISHED = "FINISHED"


class AwayError(FederationError):
    """The server does not answer."""


@dataclass(frozen=True)
class ServerStatus:
    """When the server started, which participants are connected, and the ids of jobs that are not finished."""

    started: float
    connected: tuple[str, ...]
    jobs: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True):
    """How a job ended, as the controller wrote it, or as far as the driver knows.

    Without a result, ``error`` names the class of the error; a FederationError means that another job may succeed.
    ``absent`` did not reply, ``returned`` are connected again, ``kept`` replies are at the server. ``away``: the server did
    not answer. ``unknown``: the job may have brought replies that nobody counted.
    """

    done: bool = False
    error: str = FederationError.__name__
    message: str = ""
    absent: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    kept: int | None = None
    participant: str | None = None
    away: bool = False
    unknown: bool = False


@contextmanager
def open_session(study: Study, kit: Path, patience: float) -> Iterator[Session]:
    """Log in with the analyst's kit; raise an AwayError if the server does not answer within ``patience`` seconds."""
    try:
        with redirect_stdout(io.StringIO()):  # the engine prints a greeting
            session = new_secure_session(study.analyst, str(kit), timeout=patience)
    except Exception as error:
        address = f"{study.host}:{study.port}"
        raise AwayError(f"the server at {address} does not answer ({type(error).__name__}).") from error
    try:
        yield session
    finally:
        quietly(session.close)


def status_of(session: Session) -> ServerStatus:
    """Return the status of the server."""
    info = session.get_system_info()
    return ServerStatus(
        float(info.server_info.start_time or 0.0),
        tuple(sorted(client.name for client in info.client_info)),
        tuple(job.job_id for job in info.job_info),
    )


def progress_of(session: Session, job: str) -> dict[str, Any]:
    """Return what the controller tells about a job; nothing while it starts."""
    try:
        progress = session.show_stats(job, TargetType.SERVER)["server"][PROGRESS]
    except Exception:  # noqa: BLE001  (it has not begun, or is over)
        return {}
    return progress if isinstance(progress, dict) else {}


def fetch(session: Session, job: str, target: Path, status: str, name: str = MODEL) -> Ended:
    """Return how a finished job ended; its file of this ``name``, if it has one, is copied to ``target``."""
    with tempfile.TemporaryDirectory() as folder:
        downloaded = Path(session.download_job_result(job, folder))
        path = next(downloaded.rglob(ENDED), None)
        if path is None:
            return Ended(message=f"the job ended without a result ({status}{_refusals(session, job)}).")
        try:
            ended = msgspec.json.decode(path.read_bytes(), type=Ended)
        except (msgspec.DecodeError, RecursionError):
            return Ended(message=f"the job ended, but its {ENDED} is invalid ({status}).")
        if ended.done:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                target, next(downloaded.rglob(name)).read_bytes(), secret=True
            )  # local centroids are in it
        return ended


def ended_from(described: Any) -> Ended:
    """Return how a job ended, from what its controller tells while its processes end."""
    try:
        return msgspec.convert(described, Ended)
    except msgspec.ValidationError:
        return Ended(message="the job ended, but how it ended cannot be read.")


def _refusals(session: Session, job: str) -> str:
    """Return what sites answered when they were given the job, in the engine's words."""
    try:
        answers = session.get_job_meta(job).get("job_deploy_detail") or []
    except Exception:  # noqa: BLE001
        return ""
    refused = [str(answer) for answer in answers if not str(answer).endswith(": OK")]
    return f": {'; '.join(refused)}" if refused else ""


def finished_jobs(session: Session, study: Study) -> list[tuple[str, str]]:
    """Return id and status of the finished jobs of a study, the latest first."""
    jobs = [meta for meta in session.list_jobs(name_prefix=study.name) if meta["status"].startswith(FINISHED)]
    jobs.sort(key=lambda meta: str(meta["submit_time"]), reverse=True)
    return [(meta["job_id"], meta["status"]) for meta in jobs]


def quietly(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function, and ignore that what it acts on is gone."""
    with suppress(Exception):
        function(*arguments)
