"""Runs an algorithm at the server: our own loop, FLARE's tasks, and a transcript that outlives both."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import numpy as np
import scipy
from nvflare.apis.controller_spec import ClientTask, Task, TaskCompletionStatus
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReturnCode as Code
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from intarsia import storage
from intarsia._version import __version__
from intarsia.exceptions import FederationError, IntarsiaError, ProtocolError
from intarsia.messages import Reply, Request, decode_reply, encode
from intarsia.results import RunRecord
from intarsia.runtime.base import Arrived, drive, phase_of
from intarsia.runtime.flare.executor import TASK
from intarsia.runtime.flare.gate import MESSAGE
from intarsia.runtime.flare.study import digest_of, from_json
from intarsia.runtime.log import Recorder
from intarsia.runtime.transcript import InUseError, Transcript

MODEL, ENDED = "model.intarsia", "ended.json"
RUNS = "runs"  # in the server's kit: what outlives a job
_LOOK_EVERY = 0.02  # seconds
_GONE = 20.0  # an idle site looks for work many times a second; so long without a look, its job process is gone
_GONE_AT_WORK = 90.0  # one that computes has a heartbeat, which may have to wait for what is computed


class FlareRuntime:
    """Asks every participant by a task of its own: requests differ."""

    def __init__(
        self,
        controller: Controller,
        participants: tuple[str, ...],
        deadline: int,
        context: tuple[FLContext, Signal],
        watcher: Recorder,
        seen: Mapping[str, float],
    ) -> None:
        self._controller, self._names, self._deadline = controller, participants, deadline
        self._fl_ctx, self._abort = context
        self._watcher, self._seen = watcher, seen
        self._at_work: set[str] = set(participants)  # starting up

    def participants(self) -> tuple[str, ...]:
        """Who can be asked."""
        return self._names

    def exchange(self, requests: Mapping[str, Request], arrived: Arrived | None = None) -> dict[str, Reply]:
        """Send every request to its participant, tell of every reply, and wait for all of them.

        Raises
        ------
        FederationError
            Somebody did not answer. What the others said was told.
        """
        lock, started = Lock(), time.monotonic()
        replies: dict[str, Reply] = {}
        refused: dict[str, str] = {}

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001
            name, result = client_task.client.name, client_task.result
            with lock:
                try:
                    reply = _reply_of(result)
                except ProtocolError as error:
                    refused[name] = str(error)
                    return
                seconds = time.monotonic() - started
                if arrived is not None:
                    arrived(name, reply, seconds)
                self._watcher.answered(phase_of(requests[name]), name, reply, seconds)
                replies[name] = reply

        tasks = {name: self._ask(name, request, received) for name, request in requests.items()}
        while waiting := [name for name, task in tasks.items() if task.completion_status is None]:
            if self._abort.triggered:
                raise FederationError("the run was aborted. What was answered is kept: the same command goes on.")
            for name in waiting:
                if self._is_gone(name, started):
                    refused[name] = "its site is gone"
                    self._controller.cancel_task(tasks[name], fl_ctx=self._fl_ctx)
            time.sleep(_LOOK_EVERY)
        if silent := [name for name in requests if name not in replies]:
            why = {name: refused.get(name, _why(tasks[name])) for name in silent}
            said = "; ".join(f"{name!r}: {text}" for name, text in why.items())
            raise NoAnswerError(f"{len(silent)} of {len(requests)} participant(s) did not answer ({said}).", silent)
        return replies

    def _is_gone(self, name: str, asked: float) -> bool:
        quiet = time.monotonic() - max(self._seen.get(name, asked), asked)
        return quiet > (_GONE_AT_WORK if name in self._at_work else _GONE)

    def _ask(self, name: str, request: Request, received: Any) -> Task:
        data = Shareable()
        data[MESSAGE] = encode(request)
        self._at_work -= {name} & self._seen.keys()

        def fetched(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001
            self._at_work.add(name)

        task = Task(TASK, data, timeout=self._deadline, before_task_sent_cb=fetched, result_received_cb=received)
        self._controller.send(task=task, fl_ctx=self._fl_ctx, targets=[name])
        return task


class NoAnswerError(FederationError):
    """Somebody did not answer; ``silent`` says who."""

    def __init__(self, message: str, silent: list[str]) -> None:
        super().__init__(message)
        self.silent = silent


def _reply_of(result: Any) -> Reply:
    code = result.get_return_code() if isinstance(result, Shareable) else ReturnCode.EXECUTION_RESULT_ERROR
    if code != Code.OK:
        raise ProtocolError(f"its site answered {code}")
    data = result.get(MESSAGE)
    if not isinstance(data, bytes):
        raise ProtocolError("its site answered with something else than a message")
    return decode_reply(data)


def _why(task: Task) -> str:
    match task.completion_status:
        case TaskCompletionStatus.TIMEOUT:
            return "not within the deadline"
        case TaskCompletionStatus.CLIENT_DEAD:
            return "its site is gone"
        case other:
            return str(getattr(other, "value", other))


class Coordinating(Controller):
    """FLARE's controller: what the job says is an algorithm and its settings, by name."""

    def __init__(
        self, algorithm: dict[str, Any], participants: list[str], deadline: int, settings: dict[str, Any]
    ) -> None:
        super().__init__(task_check_period=0.05)
        self._what, self._participants, self._deadline = algorithm, tuple(participants), deadline
        self._settings = settings
        self._seen: dict[str, float] = {}

    def set_communicator(self, communicator: Any) -> None:
        """Note every sign of life of a site: a task fetched, a heartbeat. Nobody tells when a site was killed."""
        super().set_communicator(communicator)
        note = communicator.client_is_active

        def active(client_name: str, *arguments: Any, **named: Any) -> None:
            self._seen[client_name] = time.monotonic()
            note(client_name, *arguments, **named)

        communicator.client_is_active = active

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to clean up: the transcript is whole at any moment."""

    def process_result_of_unknown_task(self, *_: Any, **__: Any) -> None:
        """A reply to a question that nobody waits for any more."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """The whole run; how it ended is left in the job's folder."""
        workspace = fl_ctx.get_engine().get_workspace()
        out = Path(workspace.get_run_dir(fl_ctx.get_job_id())) / "intarsia"
        out.mkdir(exist_ok=True)
        kept = Path(workspace.get_root_dir()) / RUNS
        try:
            self._run(kept, out, (fl_ctx, abort_signal))
            ended: dict[str, Any] = {"done": True}
        except IntarsiaError as error:
            self.log_exception(fl_ctx, "the run ended without a result")
            ended = {"done": False, "error": type(error).__name__, "message": str(error)}
            if isinstance(error, NoAnswerError | InUseError):  # another job may do better, and is cheap
                ended |= {"error": FederationError.__name__, "silent": getattr(error, "silent", [])}
        storage.write_whole(out / ENDED, json.dumps(ended).encode())

    def _run(self, kept: Path, out: Path, context: tuple[FLContext, Signal]) -> None:
        algorithm, started, clock = from_json(self._what), time.time(), time.perf_counter()
        recorder = Recorder()
        runtime = FlareRuntime(self, self._participants, self._deadline, context, recorder, self._seen)
        kept.mkdir(exist_ok=True)
        with Transcript(kept / digest_of(self._what, self._participants)) as transcript:
            outcome = drive(algorithm, runtime, recorder, transcript)
        record = RunRecord(
            method=str(self._what["method"]),
            settings=self._settings,
            seed=int(self._what["settings"]["seed"]),
            versions={
                "intarsia": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "scipy": scipy.__version__,
                "msgspec": msgspec.__version__,
            },
            started=datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
            seconds=time.perf_counter() - clock,
            exchanges=recorder.exchanges,
            sent=recorder.sent,
            differences=recorder.differences,
            suppressed=recorder.suppressed,
        )
        storage.save(out / MODEL, outcome, outcome.model.space.names, run=record)
