"""Our runtime over FLARE's tasks: every request is a task of its own, every reply is told as it comes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from nvflare.apis.controller_spec import ClientTask, Task, TaskCompletionStatus
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReturnCode as Code
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from intarsia.exceptions import FederationError, ProtocolError, quote
from intarsia.federation.flare.filter import MESSAGE
from intarsia.federation.flare.job import TASK
from intarsia.federation.flare.presence import Presence
from intarsia.protocol import Reply, Request, decode_reply, encode
from intarsia.runtime.drive import Arrived, phase_of
from intarsia.runtime.recorder import Recorder

_LOOK_EVERY = 0.02  # seconds
_GONE = "its site is gone"


@dataclass(frozen=True)
class Terms:
    """What a job says of who takes part: all names, how many must answer, and how long they have."""

    participants: tuple[str, ...]
    quorum: int
    deadline: int


class ReturnedError(FederationError):
    """Somebody who was away is connected again, and takes part from the next job on."""


class FlareRuntime:
    """Asks every participant by a task of its own: requests differ.

    Whoever is in this job and does not answer is waited for until the deadline. Whoever is not in it was waited for before
    it began; once connected again, it joins by another job, which begins where this one ends: at the end of an exchange.
    """

    def __init__(
        self,
        controller: Controller,
        terms: Terms,
        context: tuple[FLContext, Signal],
        watcher: Recorder,
        presence: Presence,
    ) -> None:
        self._controller, self._terms = controller, terms
        self._fl_ctx, self._abort = context
        self._watcher, self._presence = watcher, presence
        self.why: Mapping[str, str] = {}
        self._answered: dict[str, float] = {}
        self._asked: Mapping[str, Request] = {}
        self._n = 0

    def participants(self) -> tuple[str, ...]:
        """Who can be asked."""
        return self._terms.participants

    def exchange(self, requests: Mapping[str, Request], arrived: Arrived | None = None) -> dict[str, Reply]:
        """Send every request to its participant, tell of every reply, and wait for all, or for the quorum and the deadline.

        ``why`` says then what kept the others.

        Raises
        ------
        ReturnedError
            Somebody came back who is not in this job.
        """
        self._check_returned()
        lock, started = Lock(), time.monotonic()
        replies: dict[str, Reply] = {}
        why: dict[str, str] = {}
        over: list[bool] = []
        self._asked, self._answered, self._n = requests, {}, self._n + 1

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001
            name, result = client_task.client.name, client_task.result
            with lock:
                if over:
                    return  # nobody waits for it any more
                try:
                    reply = _reply_of(result)
                except ProtocolError as error:
                    why[name] = str(error)
                    return
                seconds = time.monotonic() - started
                if arrived is not None:
                    arrived(name, reply, seconds)
                self._watcher.answered(phase_of(requests[name]), name, reply, seconds)
                self._answered[name] = seconds
                replies[name] = reply

        there = self._presence.in_job
        tasks = {name: self._ask(name, request, received) for name, request in requests.items() if name in there}
        while waiting := [name for name, task in tasks.items() if task.completion_status is None]:
            self._check_aborted()
            for name in waiting:
                if self._presence.is_gone(name, started):
                    why[name] = _GONE
                    self._controller.cancel_task(tasks[name], fl_ctx=self._fl_ctx)
            time.sleep(_LOOK_EVERY)
        with lock:
            over.append(True)
        self.why = {name: why.get(name, _why(tasks[name])) for name in tasks if name not in replies} | {
            name: "not connected" for name in requests if name not in tasks
        }
        self._await_return([name for name, reason in self.why.items() if reason == _GONE], started)
        return replies

    def _check_aborted(self) -> None:
        if self._abort.triggered:
            raise FederationError("the run was aborted. What was answered is kept: the same command goes on.")

    def _check_returned(self) -> None:
        if back := self._presence.returned:
            raise ReturnedError(f"{quote(back)} came back.")

    def _await_return(self, gone: list[str], started: float) -> None:
        """A site that died in this exchange has until the deadline to come back."""
        self._presence.lost(gone)
        while gone and time.monotonic() - started < self._terms.deadline:
            self._check_aborted()
            self._check_returned()
            time.sleep(_LOOK_EVERY)

    def _ask(self, name: str, request: Request, received: Any) -> Task:
        data = Shareable()
        data[MESSAGE] = encode(request)
        self._presence.asked(name)

        def fetched(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001
            self._presence.works(name)

        task = Task(TASK, data, timeout=self._terms.deadline, before_task_sent_cb=fetched, result_received_cb=received)
        self._controller.send(task=task, fl_ctx=self._fl_ctx, targets=[name])
        return task

    def progress(self) -> dict[str, Any]:
        """How far it is, for whoever asks while it runs."""
        asked = dict(self._asked)
        if not asked:
            return {"exchange": 0, "phase": "starting", "answered": [], "waiting": [], "away": []}
        request = next(iter(asked.values()))
        here, answered = self._presence.in_job, set(self._answered)
        return {
            "exchange": self._n,
            "phase": phase_of(request),
            "round": getattr(request, "round", 0),
            "answered": sorted(answered),
            "waiting": sorted(name for name in asked if name not in answered and name in here),
            "away": sorted(name for name in self._terms.participants if name not in here),
        }


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
            return _GONE
        case other:
            return str(getattr(other, "value", other))
