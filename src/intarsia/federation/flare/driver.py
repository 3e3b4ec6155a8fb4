"""The analyst's side: submit a job, wait for it, submit it again when something died, and fetch the result.

A job is cheap and has no state of its own: all replies are in the transcript at the server. So whatever dies, the same job
is submitted again and continues from there.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from nvflare.fuel.flare_api.flare_api import Session

from intarsia import exceptions
from intarsia._files import lock, write_atomically
from intarsia.coordinator import Algorithm
from intarsia.exceptions import FederationError, IntarsiaError, quote
from intarsia.federation.flare.attendance import Attendance
from intarsia.federation.flare.engine import check_engine, speak_tls_1_3
from intarsia.federation.flare.job import write_job
from intarsia.federation.flare.session import (
    FINISHED,
    AwayError,
    Ended,
    ServerStatus,
    fetch,
    finished_jobs,
    open_session,
    progress_of,
    quietly,
    status_of,
)
from intarsia.federation.kit_folder import study_of

_POLL_EVERY = 0.5  # seconds
_MAX_FRUITLESS = 4  # jobs in a row that brought no reply
_MAX_UNSCHEDULED = 60.0  # seconds that a job may wait for its sites
_LAST = "last.json"  # in the kit: the state of the last run
_KEPT = "All replies so far are kept: the same command continues."


@dataclass(frozen=True)
class Submission:
    """What to run, and where the model file goes."""

    algorithm: Algorithm
    settings: dict[str, Any]
    target: Path


class Driver:
    """Runs a study with the analyst's kit; ``tell`` gets lines about the progress."""

    def __init__(self, kit: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        check_engine()
        speak_tls_1_3()
        self.kit, self.study = kit.resolve(), study_of(kit)
        self._tell, self._last_told = tell, ""
        self._attendance = Attendance(self.study)

    def server_status(self, patience: float = 10.0) -> tuple[ServerStatus, dict[str, Any]]:
        """Return the status of the server, and the progress of the job that runs now."""
        with open_session(self.study, self.kit, patience) as session:
            status = status_of(session)
            return status, next((one for job in status.jobs if (one := progress_of(session, job))), {})

    def away(self, status: ServerStatus) -> list[str]:
        """Return the participants that are not connected."""
        return [name for name in self.study.participants if name not in status.connected]

    def run(
        self,
        algorithm: Algorithm,
        settings: dict[str, Any],
        target: Path,
        patience: float = 600.0,
        without: Sequence[str] = (),
    ) -> None:
        """Run a study to its end, whatever dies meanwhile, and write the model file to ``target``.

        Participants in ``without`` are not waited for, whatever the quorum.

        Raises
        ------
        FederationError
            If fewer participants than the quorum were connected for ``patience`` seconds, or one job after the other died.
            The same call continues the run.
        """
        self._attendance = Attendance(self.study, without)
        with self._locked():
            self._run(Submission(algorithm, settings, target), patience)

    def fetch(self, target: Path, patience: float = 20.0) -> None:
        """Fetch the result of the last run that has one."""
        with open_session(self.study, self.kit, patience) as session:
            for job, status in finished_jobs(session, self.study):
                if fetch(session, job, target, status).done:
                    return
        raise FederationError(f"no run of {self.study.name!r} has a result yet. Hint: intarsia federation run.")

    def last(self) -> dict[str, str]:
        """Return the state of the last run with this kit; empty if there was none."""
        try:
            note = json.loads((self.kit / _LAST).read_text(encoding="utf-8"))
            return {str(key): str(value) for key, value in note.items()}
        except (OSError, ValueError, AttributeError, RecursionError):
            return {}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Refuse a second command at the same time: the two would end each other's jobs."""
        with (self.kit / "lock").open("ab") as file:
            if not lock(file.fileno(), wait=False):
                raise FederationError(f"another command is running with {self.kit}. Hint: wait for it, or stop it.")
            yield

    def _run(self, wanted: Submission, patience: float) -> None:
        until, fruitless, kept = time.monotonic() + patience, 0, 0
        while not (ended := self._attempt(wanted, until)).done:
            if ended.error != FederationError.__name__:
                self._fail(ended)
            if ended.away:
                if time.monotonic() > until:
                    self._pause(ended.message)
                self._say(f"{ended.message} Waiting for it")
                time.sleep(_POLL_EVERY)
                continue
            progress = ended.kept is not None and ended.kept > kept
            if not ended.unknown:
                fruitless = 0 if progress else fruitless + 1
            self._attendance.update(ended, progress=progress)
            kept = max(kept, ended.kept or 0)
            if fruitless == _MAX_FRUITLESS:
                self._pause(f"{fruitless} jobs in a row brought no reply. The last one: {ended.message}")
            self._say(f"{ended.message} Continuing from the replies so far")
            self._attendance.require(ended.absent)
            until = time.monotonic() + patience
        self._note("done", f"the result is in {wanted.target}")

    def _attempt(self, wanted: Submission, until: float) -> Ended:
        """Run one job: wait for the participants, submit, wait for the end."""
        submitted = False
        try:
            with open_session(self.study, self.kit, 20.0) as session:
                status = self._wait_for_participants(session, until)
                for job in status.jobs:
                    quietly(session.abort_job, job)  # an earlier one of ours: it uses the same transcript
                job = self._submit(session, wanted, self._attendance.present(status.connected))
                submitted = True
                outcome = self._wait_for_job(session, job, status.started)
                if outcome is None:
                    return Ended(message="the server was restarted.", unknown=True)
                return fetch(session, job, wanted.target, outcome)
        except AwayError as error:
            return Ended(message=str(error), away=True)
        except IntarsiaError:
            raise
        except Exception as error:  # noqa: BLE001  (a session has no error class for a server that is gone)
            message = f"the connection to the server was lost ({type(error).__name__})."
            return Ended(message=message, away=not submitted, unknown=True)

    def _wait_for_participants(self, session: Session, until: float) -> ServerStatus:
        """Wait for everybody; once the deadline is over, for the quorum."""
        attendance, begun = self._attendance, time.monotonic()
        while True:
            status = status_of(session)
            away = attendance.away(status.connected, time.monotonic() - begun)
            if attendance.can_start(away):
                return status
            if time.monotonic() > until and not attendance.has_quorum(away):
                wanted, quorum = len(attendance.wanted), attendance.quorum
                need = f"; {quorum} of {wanted} are needed" if quorum < wanted else ""
                self._pause(
                    f"{len(away)} participant(s) are not connected: {quote(away)}{need}. "
                    "Hint: intarsia participant serve there, or go on without: --without."
                )
            self._say(f"waiting for {', '.join(away)}")
            time.sleep(_POLL_EVERY)

    def _submit(self, session: Session, wanted: Submission, present: list[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            job_folder = write_job(
                Path(folder) / "job",
                self.study,
                wanted.algorithm,
                wanted.settings,
                present,
                self._attendance.not_awaited,
            )
            job = str(session.submit_job(str(job_folder)))
        self._note("running", f"job {job}")
        self._say(f"submitted to {', '.join(present)}")
        return job

    def _wait_for_job(self, session: Session, job: str, started: float) -> str | None:
        """Return the status in which the job ended; None if the server was restarted since it was submitted."""
        submitted = time.monotonic()
        while True:
            status = str(session.get_job_status(job))
            if status.startswith(FINISHED):
                return status
            if status.startswith("SUBMITTED") and time.monotonic() - submitted > _MAX_UNSCHEDULED:
                quietly(session.abort_job, job)  # a participant has left since
                return "not begun"
            if status_of(session).started != started:
                return None  # the status of such a job stays RUNNING
            self._say_progress(progress_of(session, job))
            time.sleep(_POLL_EVERY)

    def _fail(self, ended: Ended) -> NoReturn:
        error = _error(ended.error, ended.message)
        self._note("failed", str(error))
        if ended.participant is None:
            raise error
        raise type(error)(f"{error} Hint: mend it there, or go on without it: --without {ended.participant}")

    def _pause(self, why: str) -> NoReturn:
        self._note("paused", why)
        raise FederationError(f"paused: {why} {_KEPT}")

    def _note(self, state: str, why: str) -> None:
        note = {"state": state, "why": why, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        write_atomically(self.kit / _LAST, json.dumps(note, ensure_ascii=False).encode())

    def _say_progress(self, progress: dict[str, Any]) -> None:
        if not progress.get("exchange"):
            return
        phase, answered, waiting = progress["phase"], progress["answered"], progress["waiting"]
        step = f"{phase} {progress['round']}" if progress.get("round") else str(phase)
        whom = f", waiting for {', '.join(waiting)}" if answered and waiting else ""
        away = f"; away: {', '.join(progress['away'])}" if progress["away"] else ""
        self._say(f"{step}: {len(answered)} of {len(answered) + len(waiting)} answered{whom}{away}")

    def _say(self, text: str) -> None:
        if text != self._last_told:
            self._tell(text)
            self._last_told = text


def _error(name: str, message: str) -> IntarsiaError:
    kind = getattr(exceptions, name, None)
    known = isinstance(kind, type) and issubclass(kind, IntarsiaError)
    return (kind if known else FederationError)(message)  # type: ignore[misc]
