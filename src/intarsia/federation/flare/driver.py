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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace
from nvflare.fuel.flare_api.flare_api import Session

from intarsia import exceptions
from intarsia._files import lock, write_atomically
from intarsia.coordinator import Algorithm
from intarsia.coordinator.feasibility import ColumnsQuestion, ColumnsTold
from intarsia.exceptions import FederationError, IntarsiaError, SettingError, quote
from intarsia.federation.flare.attendance import Attendance
from intarsia.federation.flare.controller import COLUMNS, HOW
from intarsia.federation.flare.engine import check_engine, speak_tls_1_3
from intarsia.federation.flare.job import write_job
from intarsia.federation.flare.session import (
    FINISHED,
    AwayError,
    Ended,
    ServerStatus,
    ended_from,
    fetch,
    finished_jobs,
    open_session,
    progress_of,
    quietly,
    status_of,
)
from intarsia.federation.kit_folder import study_of
from intarsia.federation.study_file import Study
from intarsia.protocol import AskColumns, phase_of

_POLL_EVERY = 0.5  # seconds
_MAX_FRUITLESS = 4  # jobs in a row that brought no reply
_MAX_UNSCHEDULED = 10.0  # seconds that a job may wait for its sites
_MOST_SECONDS = 60  # that a question for columns waits for a site
_LAST = "last.json"  # in the kit: the state of the last run
_KEPT = "All replies so far are kept: the same command continues."


@dataclass(frozen=True)
class Submission:
    """What to run, and where the model file goes."""

    algorithm: Algorithm
    settings: dict[str, Any]
    target: Path


class Driver:
    """Runs a study with the analyst's kit (default: its own); ``tell`` gets lines about the progress."""

    def __init__(self, kit: Path, tell: Callable[[str], None] = lambda _: None, study: Study | None = None) -> None:
        check_engine()
        speak_tls_1_3()
        self.kit, self.study = kit.resolve(), study_of(kit) if study is None else study
        self._tell, self._last_told = tell, ""
        self._attendance = Attendance(self.study)
        self._away: set[str] = set()  # for whom it was said what to do

    def server_status(self, patience: float = 10.0) -> tuple[ServerStatus, dict[str, Any]]:
        """Return the status of the server, and the progress of the job that runs now."""
        with open_session(self.study, self.kit, patience) as session:
            status = status_of(session)
            return status, next((one for job in status.jobs if (one := progress_of(session, job))), {})

    def described(self, status: ServerStatus, progress: dict[str, Any]) -> dict[str, Any]:
        """Return all that is known, as ``federation status --json`` prints it."""
        return {
            "connected": status.connected,
            "away": self.away(status),
            "needed": self.study.needed,
            "jobs": status.jobs,
            "started": datetime.fromtimestamp(status.started, UTC).astimezone().isoformat(timespec="seconds"),
            "progress": progress,
            "last": self.last(),
        }

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

    def ask_columns(self, patience: float = 20.0) -> ColumnsTold:
        """Ask the participants that are connected for names and kinds of their columns. No run is begun or continued.

        Raises
        ------
        SettingError
            The study does not say that this may be asked.
        FederationError
            Nobody is connected, a run is going on, or the job died.
        """
        if not self.study.feasibility:
            raise SettingError(
                f"participants of {self.study.name!r} have not agreed to tell which columns they have before a run. Hint: "
                "feasibility = true in the study file, above all tables, then new kits and new consent forms."
            )
        try:
            with self._locked(), open_session(self.study, self.kit, patience) as session:
                return self._ask_columns(session, time.monotonic() + patience)
        except IntarsiaError:
            raise
        except Exception as error:
            why = f"the connection to the server was lost ({type(error).__name__})."
            raise FederationError(f"{why} Hint: the same command asks again.") from error

    def _ask_columns(self, session: Session, until: float) -> ColumnsTold:
        while (status := status_of(session)).jobs:  # also one that is just ending
            if time.monotonic() > until:
                raise FederationError("a run is going on. Hint: federation status; check when it is over.")
            time.sleep(_POLL_EVERY)
        if not (present := [name for name in self.study.participants if name in status.connected]):
            raise FederationError("no participant is connected. Hint: intarsia participant serve, at the sites.")
        study = replace(self.study, quorum=1, deadline=min(self.study.deadline, _MOST_SECONDS))
        away = self.away(status)
        with tempfile.TemporaryDirectory() as folder:
            write_job(Path(folder) / "job", study, ColumnsQuestion(), {}, present, away)
            job = str(session.submit_job(str(Path(folder) / "job")))
            self._say(f"asking {', '.join(present)}")
            path = Path(folder) / COLUMNS
            outcome = self._wait_for_job(session, job, status.started)
            ended = outcome if isinstance(outcome, Ended) else fetch(session, job, path, outcome, COLUMNS)
            if not ended.done:
                raise FederationError(f"{ended.message} Hint: the same command asks again.")
            told = msgspec.json.decode(path.read_bytes(), type=ColumnsTold)
        n_answered = len(told.kinds) + len(told.refused)
        self._say(f"{phase_of(AskColumns())}: {n_answered} of {len(present)} answered{_away(away)}")
        return ColumnsTold(told.kinds, told.refused, dict.fromkeys(away, "not connected") | dict(told.silent))

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
            self._say(f"{ended.message} All replies are kept, and the next job goes on from them")
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
                return outcome if isinstance(outcome, Ended) else fetch(session, job, wanted.target, outcome)
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
        since: dict[str, str] = {}
        while True:
            status = status_of(session)
            away = attendance.away(status.connected, time.monotonic() - begun)
            since = {name: since.get(name) or _clock() for name in away}
            if attendance.can_start(away):
                return status
            if time.monotonic() > until and not attendance.has_quorum(away):
                wanted, quorum = len(attendance.wanted), attendance.quorum
                need = f"; {quorum} of {wanted} are needed" if quorum < wanted else ""
                self._pause(
                    f"{len(away)} participant(s) are not connected: {quote(away)}{need}. "
                    "Hint: intarsia participant serve there, or go on without: --without."
                )
            self._say_waiting(since, begun, until)
            time.sleep(_POLL_EVERY)

    def _say_waiting(self, since: dict[str, str], begun: float, until: float) -> None:
        """Say who is waited for, since when, and what happens if nobody comes."""
        away = list(since)
        if self._attendance.has_quorum(away):
            end, then = begun + self.study.deadline, "then the run goes on without (the quorum is there)"
        else:
            end, then = until, "then the run pauses"
        seconds = end - time.monotonic()
        whom = ", ".join(f"{name} (not connected at {at})" for name, at in since.items())
        text = f"waiting for {whom}, until {_clock(seconds)}; {then}"
        if self._say(text, key=f"waiting {away} {then}"):
            self._note("waiting", text)
            self._say_remedy(away)

    def _say_remedy(self, away: Sequence[str]) -> None:
        """Say what to do about participants that are away, once per absence."""
        if new := [name for name in away if name in self._attendance.wanted and name not in self._away]:
            self._tell(f"    {remedy_for(new)}")
        self._away = set(away)

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

    def _wait_for_job(self, session: Session, job: str, started: float) -> str | Ended:
        """Return the status in which the job ended, or how it ended if it has no result to fetch."""
        submitted = time.monotonic()
        while True:
            status = str(session.get_job_status(job))
            if status.startswith(FINISHED):
                return status
            if status.startswith("SUBMITTED") and time.monotonic() - submitted > _MAX_UNSCHEDULED:
                quietly(session.abort_job, job)  # a participant has left since
                return "not begun"
            if status_of(session).started != started:
                return Ended(message="the server was restarted.", unknown=True)  # such a job stays RUNNING
            progress = progress_of(session, job)
            if HOW in progress:
                return ended_from(progress[HOW])
            self._say_progress(progress)
            time.sleep(_POLL_EVERY)

    def _fail(self, ended: Ended) -> NoReturn:
        error = _error(ended.error, ended.message)
        self._note("failed", str(error))
        if ended.participant is None:
            raise error
        raise type(error)(f"{error} Hint: correct it at that site, or go on without it: --without {ended.participant}")

    def _pause(self, why: str) -> NoReturn:
        self._note("paused", why)
        raise FederationError(f"paused: {why} {_KEPT}")

    def _note(self, state: str, why: str) -> None:
        note = {"state": state, "why": why, "at": datetime.now().astimezone().isoformat(timespec="seconds")}
        write_atomically(self.kit / _LAST, json.dumps(note, ensure_ascii=False).encode())

    def _say_progress(self, progress: dict[str, Any]) -> None:
        if not progress.get("exchange"):
            return
        phase, answered, waiting = progress["phase"], progress["answered"], progress["waiting"]
        step = f"{phase} {progress['round']}" if progress.get("round") else str(phase)
        whom = f", waiting for {', '.join(waiting)}" if answered and waiting else ""
        away = _away(progress["away"])
        text = f"{step}: {len(answered)} of {len(answered) + len(waiting)} answered{whom}"
        until = (
            f" until {_clock(progress['deadline'] - progress['seconds'])}" if whom and "deadline" in progress else ""
        )
        self._say(f"{text}{until}{away}", key=f"{text}{away}")
        self._say_remedy([name for name in progress["away"] if name not in progress.get("excluded", ())])

    def _say(self, text: str, key: str | None = None) -> bool:
        """Tell a text, unless the last one had the same key (by default: was the same); return whether it was told."""
        if (new := (key or text) != self._last_told) is True:
            self._tell(text)
            self._last_told = key or text
        return new


def remedy_for(away: Sequence[str], *, is_running: bool = True) -> str:
    """Return what to do about participants whose sites are not connected.

    Only a job tells who is shut out, so that without one (``is_running``) this may be the reason.
    """
    without = " ".join(f"--without {name}" for name in away)
    start = "→ start the site there (intarsia participant serve)"
    if is_running:
        return f"{start}, or stop this run and use {without}"
    return f"{start}, or run with {without}. A site that was shut out needs intarsia federation admit, on the server"


def _away(names: Sequence[str]) -> str:
    """Return who is away, to be appended to a line about progress."""
    return f"; away: {', '.join(names)}" if names else ""


def _clock(seconds: float = 0.0) -> str:
    """Return the time of day in so many seconds, with the time zone of this machine."""
    return (datetime.now().astimezone() + timedelta(seconds=seconds)).timetz().isoformat(timespec="seconds")


def _error(name: str, message: str) -> IntarsiaError:
    kind = getattr(exceptions, name, None)
    known = isinstance(kind, type) and issubclass(kind, IntarsiaError)
    return (kind if known else FederationError)(message)  # type: ignore[misc]
