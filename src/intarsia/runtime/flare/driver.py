"""The analyst's side: submit a run, wait, submit it again when a job dies, bring the result home.

A job is cheap and knows nothing: what was answered is at the server, in the transcript. So whatever dies, the same is
submitted again, and goes on from there.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from intarsia import exceptions
from intarsia.algorithms import Algorithm
from intarsia.exceptions import FederationError, IntarsiaError
from intarsia.messages import Failure
from intarsia.runtime.base import exception_of
from intarsia.runtime.flare.controller import ENDED, MODEL
from intarsia.runtime.flare.job import write_job
from intarsia.runtime.flare.kit import study_of

_LOOK_EVERY = 0.5  # seconds
_FINISHED = "FINISHED"
_MOST_JOBS = 20  # for one run: each goes on where the last one died
_KEPT = "What was answered is kept: the same command goes on."
Tell = Callable[[str], None]


class AwayError(FederationError):
    """The server does not answer."""


@dataclass(frozen=True)
class Standing:
    """How a federation stands: when its server started, who is connected, and jobs that go on, by id."""

    started: float
    connected: tuple[str, ...]
    jobs: tuple[str, ...]


class Driver:
    """Whoever holds the analyst's kit."""

    def __init__(self, kit: Path, tell: Tell = lambda _: None) -> None:
        self.kit, self.study = kit.resolve(), study_of(kit)
        self._tell, self._last = tell, ""

    def standing(self, patience: float = 10.0) -> Standing:
        """Ask the server."""
        with self._session(patience) as session:
            return _standing(session)

    def run(self, algorithm: Algorithm, settings: dict[str, Any], target: Path, patience: float = 600.0) -> None:
        """Run to the end, whatever dies meanwhile, and put the model file at ``target``.

        Raises
        ------
        FederationError
            Somebody stayed away for ``patience`` seconds, or one job after the other died. The same call goes on from where
            it was.
        """
        until = time.monotonic() + patience
        for _ in range(_MOST_JOBS):
            ended = self._attempt(algorithm, settings, target, until)
            while ended.get("away"):
                if time.monotonic() > until:
                    raise FederationError(f"{ended['message']} {_KEPT}")
                self._say(f"{ended['message']} Waiting for it")
                time.sleep(_LOOK_EVERY)
                ended = self._attempt(algorithm, settings, target, until)
            if ended.get("done"):
                return
            if ended["error"] != FederationError.__name__:
                raise exception_of(Failure(error=ended["error"], message=ended["message"]))
            self._say(f"{ended['message']} Going on from what was answered")
            until = time.monotonic() + patience
        raise FederationError(f"{_MOST_JOBS} jobs ended without a result, the last one so: {ended['message']} {_KEPT}")

    def fetch(self, target: Path, patience: float = 20.0) -> None:
        """Bring home what the last run found."""
        with self._session(patience) as session:
            done = [
                meta for meta in session.list_jobs(name_prefix=self.study.name) if meta["status"].startswith(_FINISHED)
            ]
            for meta in sorted(done, key=lambda meta: str(meta["submit_time"]), reverse=True):
                if self._fetched(session, meta["job_id"], target, meta["status"]).get("done"):
                    return
        raise FederationError(f"no run of {self.study.name!r} has a result yet. Hint: intarsia federation run.")

    def _attempt(self, algorithm: Algorithm, settings: dict[str, Any], target: Path, until: float) -> dict[str, Any]:
        """One job, from waiting for everybody to how it ended."""
        submitted = False
        try:
            with self._session(20.0) as session:
                begun = self._everybody(session, until)
                for job in begun.jobs:
                    _quietly(session.abort_job, job)  # of ours, from before: its transcript is in use
                with tempfile.TemporaryDirectory() as folder:
                    job = session.submit_job(str(write_job(Path(folder) / "job", self.study, algorithm, settings)))
                submitted = True
                self._say(f"submitted to {', '.join(self.study.participants)}")
                status = self._finished(session, job, begun.started)
                if status is None:
                    return _lost("the server was restarted.")
                return self._fetched(session, job, target, status)
        except AwayError as error:
            return _lost(str(error)) | {"away": True}
        except IntarsiaError:
            raise
        except Exception as error:  # noqa: BLE001  (a session has no class of its own for a server that is gone)
            return _lost(f"the server went away ({type(error).__name__}).") | {"away": not submitted}

    def _everybody(self, session: Session, until: float) -> Standing:
        """Wait until all participants are there."""
        while True:
            now = _standing(session)
            away = [name for name in self.study.participants if name not in now.connected]
            if not away:
                return now
            if time.monotonic() > until:
                who = f"{len(away)} participant(s) are not connected: {exceptions.quote(away)}"
                raise FederationError(f"{who}. Hint: intarsia participant serve.")
            self._say(f"waiting for {', '.join(away)}")
            time.sleep(_LOOK_EVERY)

    def _finished(self, session: Session, job: str, started: float) -> str | None:
        """The status in which the job ended; None if the server is another than when it was submitted."""
        while True:
            status = str(session.get_job_status(job))
            if status.startswith(_FINISHED):
                return status
            if _standing(session).started != started:
                return None  # the job stays RUNNING for ever
            time.sleep(_LOOK_EVERY)

    def _fetched(self, session: Session, job: str, target: Path, status: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            where = Path(session.download_job_result(job, folder))
            said = next(where.rglob(ENDED), None)
            if said is None:
                return _lost(f"the job ended without a result ({status}).")
            ended: dict[str, Any] = json.loads(said.read_text(encoding="utf-8"))
            if ended.get("done"):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(next(where.rglob(MODEL)), target)
            return ended

    def _say(self, text: str) -> None:
        if text != self._last:
            self._tell(text)
            self._last = text

    @contextmanager
    def _session(self, patience: float) -> Iterator[Session]:
        try:
            with redirect_stdout(io.StringIO()):  # it greets whoever connects
                session = new_secure_session(self.study.analyst, str(self.kit), timeout=patience)
        except Exception as error:
            where = f"{self.study.host}:{self.study.port}"
            raise AwayError(f"the server at {where} does not answer ({type(error).__name__}).") from error
        try:
            yield session
        finally:
            _quietly(session.close)


def _standing(session: Session) -> Standing:
    info = session.get_system_info()
    return Standing(
        float(info.server_info.start_time or 0.0),
        tuple(sorted(client.name for client in info.client_info)),
        tuple(job.job_id for job in info.job_info),
    )


def _lost(why: str) -> dict[str, Any]:
    return {"done": False, "error": FederationError.__name__, "message": why}


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    with suppress(Exception):  # what is gone need not be closed
        function(*arguments)
