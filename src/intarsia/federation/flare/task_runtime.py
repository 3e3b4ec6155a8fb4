"""The runtime of a federation: every request is one task of NVIDIA FLARE, sent from the server to one site."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from nvflare.apis.controller_spec import ClientTask, Task, TaskCompletionStatus
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from intarsia.exceptions import FederationError, ProtocolError, quote
from intarsia.federation.flare.job import MESSAGE, TASK
from intarsia.federation.flare.presence import Presence
from intarsia.protocol import (
    AskMasked,
    Assign,
    KeepLabels,
    Label,
    Reply,
    Request,
    decode_reply,
    encode,
    phase_of,
)
from intarsia.runtime.contract import OnReply, Runtime, check_known, check_unique

_CHECK_EVERY = 0.02  # seconds
_GONE = "its site is gone"
_REASONS = {TaskCompletionStatus.TIMEOUT: "no answer within the deadline", TaskCompletionStatus.CLIENT_DEAD: _GONE}


class ReturnedError(FederationError):
    """A participant that was away is connected again, and takes part from the next job on."""


class AbortedError(FederationError):
    """The job was aborted: by the analyst, or by the engine because it misses sites, ``absent``."""

    def __init__(self, absent: Sequence[str]) -> None:
        whom = f" because {quote(absent)} did not answer" if absent else ""
        super().__init__(f"the job was aborted{whom}.")
        self.absent = list(absent)


class FlareRuntime(Runtime):
    """Sends each participant a task of its own, because requests differ.

    A participant in this job has until the deadline to answer. One whose site died is not waited for. One that is not in
    this job is not asked; as soon as it is connected again, the runtime ends the job at the start of an exchange, so that
    the next job includes it.
    """

    def __init__(
        self,
        controller: Controller,
        participants: Sequence[str],
        deadline: int,
        context: tuple[FLContext, Signal],
        presence: Presence,
    ) -> None:
        check_unique(participants)
        self._participants, self._deadline = tuple(participants), deadline
        self._controller, self._presence = controller, presence
        self._fl_ctx, self._abort = context
        self._requests: Mapping[str, Request] = {}
        self._inbox = _Inbox(None)
        self._n_exchanges = 0
        self.reasons: Mapping[str, str] = {}
        """Why participants did not answer in the latest exchange, by name."""

    def participants(self) -> tuple[str, ...]:
        """Return the names of all participants."""
        return self._participants

    def exchange(self, requests: Mapping[str, Request], on_reply: OnReply | None = None) -> dict[str, Reply]:
        """Send each request to its participant and return the replies that came before the deadline.

        Raises
        ------
        ReturnedError
            A participant that is not in this job is connected again.
        """
        check_known(requests, self._participants)
        self._check_returned()
        inbox = self._inbox = _Inbox(on_reply)
        self._requests, self._n_exchanges = requests, self._n_exchanges + 1
        in_job = self._presence.in_job
        tasks = {name: self._send(name, request, inbox) for name, request in requests.items() if name in in_job}
        self._wait_for(tasks, inbox)
        replies = inbox.close()
        self.reasons = {
            name: inbox.reasons.get(name) or (_reason(tasks[name]) if name in tasks else "not connected")
            for name in requests
            if name not in replies
        }
        self._let_go([name for name, reason in self.reasons.items() if reason == _GONE], requests, inbox.started)
        return {name: replies[name] for name in requests if name in replies}

    def _send(self, name: str, request: Request, inbox: _Inbox) -> Task:
        data = Shareable()
        data[MESSAGE] = encode(request)
        self._presence.asked(name)

        def fetched(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001
            self._presence.works(name)

        task = Task(TASK, data, timeout=self._deadline, before_task_sent_cb=fetched, result_received_cb=inbox.receive)
        self._controller.send(task=task, fl_ctx=self._fl_ctx, targets=[name])
        return task

    def _wait_for(self, tasks: Mapping[str, Task], inbox: _Inbox) -> None:
        """Wait until each task is answered, past its deadline, or cancelled because its site is gone."""
        while waiting := [name for name, task in tasks.items() if task.completion_status is None]:
            self._check_aborted()
            inbox.check()
            for name in waiting:
                if self._presence.is_gone(name, inbox.started):
                    inbox.reasons[name] = _GONE
                    self._controller.cancel_task(tasks[name], fl_ctx=self._fl_ctx)
            time.sleep(_CHECK_EVERY)

    def _check_aborted(self) -> None:
        if self._abort.triggered:
            asked = self._requests if self._n_exchanges else {}
            raise AbortedError([name for name in asked if self._presence.is_gone(name, self._inbox.started)])

    def _check_returned(self) -> None:
        if returned := self._presence.returned:
            raise ReturnedError(f"{quote(returned)} came back.")

    def _let_go(self, gone: list[str], requests: Mapping[str, Request], started: float) -> None:
        """Remove sites that died from this job. Whoever is asked to label its rows has until the deadline to come back.

        The others go on at once if they are enough: the next exchange takes in whoever is back. After the request for
        labels there is no next exchange.
        """
        self._presence.lost(gone)
        while any(is_last(requests[name]) for name in gone) and time.monotonic() - started < self._deadline:
            self._check_aborted()
            self._check_returned()
            time.sleep(_CHECK_EVERY)

    def progress(self) -> dict[str, Any]:
        """Return how far the run is, for the analyst who asks while it runs."""
        requests = dict(self._requests)
        if not requests:
            return {"exchange": 0, "phase": "starting", "answered": [], "waiting": [], "away": []}
        request = next(iter(requests.values()))
        in_job, answered = self._presence.in_job, set(self._inbox.replies)
        return {
            "exchange": self._n_exchanges,
            "phase": phase_of(request),
            "round": getattr(request, "round", 0),
            "answered": sorted(answered),
            "waiting": sorted(name for name in requests if name not in answered and name in in_job),
            "away": sorted(name for name in self._participants if name not in in_job),
            "seconds": round(time.monotonic() - self._inbox.started, 1),
            "deadline": self._deadline,
            "seconds_away": {
                name: round(self._presence.seconds_away(name), 1) for name in self._participants if name not in in_job
            },
        }


def is_last(request: Request) -> bool:
    """Whether a participant that does not answer gets no labels."""
    question = request.question if isinstance(request, AskMasked) else request
    return isinstance(question, Label | Assign | KeepLabels)


class _Inbox:
    """The replies of one exchange. The engine delivers them from threads of its own."""

    def __init__(self, on_reply: OnReply | None) -> None:
        self.started = time.monotonic()
        self.reasons: dict[str, str] = {}
        self._on_reply, self._lock = on_reply, Lock()
        self.replies: dict[str, Reply] = {}
        self._error: Exception | None = None
        self._closed = False

    def receive(self, client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG002
        """Take the result of a task, unless the exchange is over."""
        name = client_task.client.name
        with self._lock:
            if self._closed or self._error is not None:
                return
            try:
                reply = reply_of(client_task.result)
            except ProtocolError as error:
                self.reasons[name] = str(error)
                return
            try:
                if self._on_reply is not None:
                    self._on_reply(name, reply, time.monotonic() - self.started)
            except Exception as error:  # noqa: BLE001  (the engine would only log it)
                self._error = error
            self.replies[name] = reply

    def check(self) -> None:
        """Raise what ``on_reply`` raised."""
        if self._error is not None:
            raise self._error

    def close(self) -> dict[str, Reply]:
        """Return all replies. Later ones are discarded."""
        with self._lock:
            self._closed = True
        self.check()
        return self.replies


def reply_of(result: Any) -> Reply:
    """Return the reply in the result of a task, or raise a ProtocolError."""
    code = result.get_return_code() if isinstance(result, Shareable) else ReturnCode.EXECUTION_RESULT_ERROR
    if code != ReturnCode.OK:
        raise ProtocolError(f"its site answered {code}")
    data = result.get(MESSAGE)
    if not isinstance(data, bytes):
        raise ProtocolError("its site did not answer with a message")
    return decode_reply(data)


def _reason(task: Task) -> str:
    status = task.completion_status
    return _REASONS.get(status, str(getattr(status, "value", status)))
