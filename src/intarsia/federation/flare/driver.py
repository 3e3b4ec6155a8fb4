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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from nvflare.fuel.flare_api.api_spec import TargetType
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from intarsia import exceptions
from intarsia._files import lock, write_atomically
from intarsia.coordinator import Algorithm
from intarsia.exceptions import FederationError, IntarsiaError, SettingError, quote
from intarsia.federation.flare.controller import ENDED, MODEL, PROGRESS
from intarsia.federation.flare.engine import check_engine
from intarsia.federation.flare.job import write_job
from intarsia.federation.kit_folder import study_of

_LOOK_EVERY = 0.5  # seconds
_FINISHED = "FINISHED"
_MOST_FRUITLESS = 4  # jobs in a row that brought no answer
_UNSTEADY = 2  # times that a site comes back without an answer, until a job no longer ends for it
_NOT_SCHEDULED = 60.0  # seconds that a job may wait for its sites
_LAST = "last.json"  # in the kit: how the last run stands
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


@dataclass(frozen=True)
class Submission:
    """What to run, and where the model file goes."""

    algorithm: Algorithm
    settings: dict[str, Any]
    target: Path


class Driver:
    """Whoever holds the analyst's kit."""

    def __init__(self, kit: Path, tell: Tell = lambda _: None) -> None:
        check_engine()
        self.kit, self.study = kit.resolve(), study_of(kit)
        self._tell, self._last = tell, ""
        self._without: set[str] = set()
        self._stayed_away: set[str] = set()  # waited for once, in vain
        self._needed: set[str] = set()  # the others cannot do without
        self._returned: Counter[str] = Counter()  # came back, and brought no answer

    def standing(self, patience: float = 10.0) -> tuple[Standing, dict[str, Any]]:
        """Ask the server who is there, and how far the run is that goes on now."""
        with self._session(patience) as session:
            now = _standing(session)
            return now, next((found for job in now.jobs if (found := _progress(session, job))), {})

    def run(
        self,
        algorithm: Algorithm,
        settings: dict[str, Any],
        target: Path,
        patience: float = 600.0,
        without: Sequence[str] = (),
    ) -> None:
        """Run to the end, whatever dies meanwhile, and put the model file at ``target``.

        ``without`` are participants that are not waited for, whatever the quorum.

        Raises
        ------
        FederationError
            Fewer than the quorum were there for ``patience`` seconds, or one job after the other died. The same call goes on
            from where it was.
        """
        if strange := [name for name in without if name not in self.study.participants]:
            raise SettingError(f"{quote(strange)} is not in this study, which has {quote(self.study.participants)}.")
        self._without = set(without)
        with self._alone():
            self._run(Submission(algorithm, settings, target), patience)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One command at a time: two would end each other's jobs."""
        with (self.kit / "lock").open("ab") as held:
            if not lock(held.fileno(), wait=False):
                raise FederationError(f"another command runs with {self.kit}. Hint: wait for it, or stop it.")
            yield

    def _run(self, wanted: Submission, patience: float) -> None:
        until, fruitless, kept = time.monotonic() + patience, 0, 0
        while True:
            ended = self._attempt(wanted, until)
            if ended.get("done"):
                self._note("done", f"the result is in {wanted.target}")
                return
            if ended["error"] != FederationError.__name__:
                error = _error(ended["error"], ended["message"])
                self._note("failed", str(error))
                raise self._with_hint(error, ended.get("participant"))
            if ended.get("away"):
                if time.monotonic() > until:
                    self._pause(ended["message"])
                self._say(f"{ended['message']} Waiting for it")
                time.sleep(_LOOK_EVERY)
                continue
            if not ended.get("unknown"):
                fruitless = fruitless + 1 if ended.get("kept", kept) <= kept else 0
            if ended.get("kept", 0) > kept:
                self._returned.clear()
            self._returned.update(ended.get("returned", ()))
            kept = max(kept, ended.get("kept", kept))
            if fruitless == _MOST_FRUITLESS:
                self._pause(f"{fruitless} jobs in a row brought no answer, the last one so: {ended['message']}")
            self._say(f"{ended['message']} Going on from what was answered")
            self._needed |= set(ended.get("absent", ()))
            until = time.monotonic() + patience

    def _pause(self, why: str) -> NoReturn:
        self._note("paused", why)
        raise FederationError(f"paused: {why} {_KEPT}")

    def _with_hint(self, error: IntarsiaError, participant: str | None) -> IntarsiaError:
        if participant is None:
            return error
        return type(error)(f"{error} Hint: mend it there, or go on without it: --without {participant}")

    def last(self) -> dict[str, str]:
        """How the last run of this kit ended, or stands."""
        try:
            found = json.loads((self.kit / _LAST).read_text(encoding="utf-8"))
            return {str(key): str(value) for key, value in found.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def _note(self, state: str, why: str) -> None:
        said = {"state": state, "why": why, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        write_atomically(self.kit / _LAST, json.dumps(said, ensure_ascii=False).encode())

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

    def _attempt(self, wanted: Submission, until: float) -> dict[str, Any]:
        """One job, from waiting for everybody to how it ended."""
        submitted = False
        try:
            with self._session(20.0) as session:
                begun = self._enough(session, until)
                for job in begun.jobs:
                    _quietly(session.abort_job, job)  # of ours, from before: its transcript is in use
                there = [name for name in begun.connected if name not in self._without]
                with tempfile.TemporaryDirectory() as folder:
                    unsteady = {name for name, times in self._returned.items() if times >= _UNSTEADY}
                    what = write_job(
                        Path(folder) / "job",
                        self.study,
                        wanted.algorithm,
                        wanted.settings,
                        there,
                        sorted(self._without | unsteady),
                    )
                    job = session.submit_job(str(what))
                submitted = True
                self._note("running", f"job {job}")
                self._say(f"submitted to {', '.join(there)}")
                status = self._finished(session, job, begun.started)
                if status is None:
                    return _lost("the server was restarted.") | {"unknown": True}
                return self._fetched(session, job, wanted.target, status)
        except AwayError as error:
            return _lost(str(error)) | {"away": True}
        except IntarsiaError:
            raise
        except Exception as error:  # noqa: BLE001  (a session has no class of its own for a server that is gone)
            return _lost(f"the server went away ({type(error).__name__}).") | {"away": not submitted, "unknown": True}

    def _enough(self, session: Session, until: float) -> Standing:
        """Wait for everybody; once the deadline is over, for the quorum.

        Whoever was waited for once, and stayed away, is not waited for again; whoever the others cannot do without is.
        """
        wanted = [name for name in self.study.participants if name not in self._without]
        fewest = min(self.study.needed, len(wanted))
        begun = time.monotonic()
        while True:
            now = _standing(session)
            away = [name for name in wanted if name not in now.connected]
            self._needed -= set(now.connected)
            self._stayed_away -= set(now.connected)
            if time.monotonic() - begun > self.study.deadline:
                self._stayed_away |= set(away)
            if not away or (
                len(wanted) - len(away) >= fewest and set(away) <= self._stayed_away and not self._needed & set(away)
            ):
                return now
            waits_for_more = len(wanted) - len(away) >= fewest and not self._needed & set(away)  # until the deadline
            if time.monotonic() > until and not waits_for_more:
                who = f"{len(away)} participant(s) are not connected: {quote(away)}"
                need = f"; {fewest} of {len(wanted)} are needed" if fewest < len(wanted) else ""
                self._pause(f"{who}{need}. Hint: intarsia participant serve there, or go on without: --without.")
            self._say(f"waiting for {', '.join(away)}")
            time.sleep(_LOOK_EVERY)

    def _finished(self, session: Session, job: str, started: float) -> str | None:
        """The status in which the job ended; None if the server is another than when it was submitted."""
        submitted = time.monotonic()
        while True:
            status = str(session.get_job_status(job))
            if status.startswith(_FINISHED):
                return status
            if status.startswith("SUBMITTED") and time.monotonic() - submitted > _NOT_SCHEDULED:
                _quietly(session.abort_job, job)  # somebody left since
                return "not begun"
            if _standing(session).started != started:
                return None  # the job stays RUNNING for ever
            self._say_progress(_progress(session, job))
            time.sleep(_LOOK_EVERY)

    def _say_progress(self, now: dict[str, Any]) -> None:
        if not now.get("exchange"):
            return
        what = f"{now['phase']} {now['round']}" if now.get("round") else str(now["phase"])
        n = len(now["answered"]) + len(now["waiting"])
        waiting = f", waiting for {', '.join(now['waiting'])}" if now["answered"] and now["waiting"] else ""
        away = f"; away: {', '.join(now['away'])}" if now["away"] else ""
        self._say(f"{what}: {len(now['answered'])} of {n} answered{waiting}{away}")

    def _fetched(self, session: Session, job: str, target: Path, status: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            where = Path(session.download_job_result(job, folder))
            said = next(where.rglob(ENDED), None)
            if said is None:
                detail = _refusals(session, job)
                return _lost(f"the job ended without a result ({status}{detail}).")
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


def _progress(session: Session, job: str) -> dict[str, Any]:
    """What the controller says of itself; nothing while it starts."""
    try:
        found = session.show_stats(job, TargetType.SERVER)["server"][PROGRESS]
    except Exception:  # noqa: BLE001  (it has not begun, or is over)
        return {}
    return found if isinstance(found, dict) else {}


def _refusals(session: Session, job: str) -> str:
    """What sites said when they were given the job, in the engine's words."""
    try:
        said = session.get_job_meta(job).get("job_deploy_detail") or []
    except Exception:  # noqa: BLE001
        return ""
    refused = [str(line) for line in said if not str(line).endswith(": OK")]
    return f": {'; '.join(refused)}" if refused else ""


def _error(name: str, message: str) -> IntarsiaError:
    kind = getattr(exceptions, name, None)
    known = isinstance(kind, type) and issubclass(kind, IntarsiaError)
    return (kind if known else FederationError)(message)  # type: ignore[misc]


def _lost(why: str) -> dict[str, Any]:
    return {"done": False, "error": FederationError.__name__, "message": why}


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    with suppress(Exception):  # what is gone need not be closed
        function(*arguments)
