"""Runs an algorithm at the server: our own loop, FLARE's tasks, and a transcript that outlives both."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import scipy
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.defs import ReturnCode as CellCode
from nvflare.fuel.f3.message import Message
from nvflare.widgets.info_collector import InfoCollector

from intarsia._files import write_atomically
from intarsia._version import __version__
from intarsia.exceptions import FederationError, IntarsiaError
from intarsia.federation.flare.engine import ECHO_TOPIC, NETWORK_CHANNEL, check_engine
from intarsia.federation.flare.presence import Presence
from intarsia.federation.flare.task_runtime import FlareRuntime, ReturnedError, Terms
from intarsia.federation.study_file import digest_of, from_json
from intarsia.results import model_file
from intarsia.results.outcome import RunRecord
from intarsia.runtime.drive import AbsentError, drive
from intarsia.runtime.recorder import Recorder
from intarsia.runtime.transcript import InUseError, Transcript

MODEL, ENDED = "model.intarsia", "ended.json"
RUNS = "runs"  # in the server's kit: what outlives a job
_NOBODY = {CellCode.TIMEOUT, CellCode.TARGET_UNREACHABLE, CellCode.COMM_ERROR}
PROGRESS = "intarsia"


class FailedError(IntarsiaError):
    """A mistake of ours, at the server."""


class Coordinating(Controller):
    """FLARE's controller: what the job says is an algorithm and its settings, by name."""

    def __init__(
        self,
        algorithm: dict[str, Any],
        participants: list[str],
        quorum: int,
        deadline: int,
        settings: dict[str, Any],
        not_awaited: list[str],
    ) -> None:
        check_engine()
        super().__init__(task_check_period=0.05)
        self._what, self._settings = algorithm, settings
        self._terms = Terms(tuple(participants), quorum, deadline)
        self._presence = Presence([name for name in participants if name not in not_awaited], self._is_connected)
        self._runtime: FlareRuntime | None = None
        self._cell: Any = None
        self._kept = 0

    def set_communicator(self, communicator: Any) -> None:
        """Note every sign of life of a site: a task fetched, a heartbeat. Nobody tells when a site was killed."""
        super().set_communicator(communicator)
        note = communicator.client_is_active

        def active(client_name: str, *arguments: Any, **named: Any) -> None:
            self._presence.sign(client_name)
            note(client_name, *arguments, **named)

        communicator.client_is_active = active

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to clean up: the transcript is whole at any moment."""

    def process_result_of_unknown_task(self, *_: Any, **__: Any) -> None:
        """A reply to a question that nobody waits for any more."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Say how far it is, to whoever may ask."""
        super().handle_event(event_type, fl_ctx)
        collector = fl_ctx.get_prop(InfoCollector.CTX_KEY_STATS_COLLECTOR)
        if event_type == InfoCollector.EVENT_TYPE_GET_STATS and collector is not None and self._runtime is not None:
            collector.set_info(PROGRESS, self._runtime.progress())

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """The whole run; how it ended is left in the job's folder."""
        engine = fl_ctx.get_engine()
        workspace, self._cell = engine.get_workspace(), engine.server.cell
        out = Path(workspace.get_run_dir(fl_ctx.get_job_id())) / "intarsia"
        out.mkdir(exist_ok=True)
        kept = Path(workspace.get_root_dir()) / RUNS
        self._presence.begin(client.name for client in engine.get_clients())
        try:
            self._run(kept, out, (fl_ctx, abort_signal))
            ended: dict[str, Any] = {"done": True}
        except Exception as error:  # noqa: BLE001  (whoever waits must know that it is over)
            self.log_exception(fl_ctx, "the run ended without a result")
            if not isinstance(error, IntarsiaError):
                error = FailedError(f"the server failed with a {type(error).__name__}; its log says more.")
            ended = {"done": False, "error": type(error).__name__, "message": str(error)}
            if isinstance(error, AbsentError | ReturnedError | InUseError):  # another job may do better, and is cheap
                ended |= {"error": FederationError.__name__, "absent": list(getattr(error, "absent", ()))}
                ended["returned"] = self._presence.returned if isinstance(error, ReturnedError) else []
                ended["message"] += self._reasons(getattr(error, "absent", ()))
            if error.participant is not None:
                ended["participant"] = error.participant
            ended["kept"] = self._kept
        finally:
            self._presence.end()
        write_atomically(out / ENDED, json.dumps(ended).encode())

    def _reasons(self, absent: Sequence[str]) -> str:
        """Why they did not answer, as far as that is known."""
        known = {} if self._runtime is None else self._runtime.why
        said = "; ".join(f"{name!r}: {known[name]}" for name in absent if name in known)
        return f" ({said})" if said else ""

    def _is_connected(self, name: str) -> bool:
        """Whether a site's own process, not that of a job, answers anything at all."""
        if self._cell is None:
            return False
        reply = self._cell.core_cell.send_request(
            channel=NETWORK_CHANNEL,
            topic=ECHO_TOPIC,
            target=name,
            request=Message(payload=b""),
            timeout=2.0,
            optional=True,
        )
        code = None if reply is None else reply.get_header(MessageHeaderKey.RETURN_CODE)
        return code is not None and code not in _NOBODY

    def _run(self, kept: Path, out: Path, context: tuple[FLContext, Signal]) -> None:
        algorithm, started, clock = from_json(self._what), time.time(), time.perf_counter()
        recorder = Recorder()
        self._runtime = runtime = FlareRuntime(self, self._terms, context, recorder, self._presence)
        kept.mkdir(exist_ok=True)
        with Transcript(kept / digest_of(self._what, self._terms.participants)) as transcript:
            try:
                outcome = drive(algorithm, runtime, recorder, transcript, self._terms.quorum)
            finally:
                self._kept = transcript.n_answers
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
            notes=outcome.remarks,
            absent=recorder.missed(self._terms.participants, outcome.participants),
        )
        model_file.save(out / MODEL, outcome, outcome.model.space.names, run=record)
