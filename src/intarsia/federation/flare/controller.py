"""The controller at the server: it runs an algorithm by tasks of the engine, with a transcript that outlives the job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.defs import ReturnCode as CellCode
from nvflare.fuel.f3.message import Message
from nvflare.widgets.info_collector import InfoCollector

from intarsia._files import write_atomically
from intarsia.coordinator.feasibility import ColumnsQuestion
from intarsia.exceptions import FederationError, IntarsiaError, SettingError
from intarsia.federation.algorithms import asks_columns, digest_of, from_json
from intarsia.federation.exclusions import excluded_in
from intarsia.federation.flare.engine import check_engine
from intarsia.federation.flare.presence import Connection, Presence
from intarsia.federation.flare.starter import CHANNEL, TOPIC
from intarsia.federation.flare.task_runtime import AbortedError, FlareRuntime, ReturnedError
from intarsia.results import model_file
from intarsia.runtime.contract import AbsentError
from intarsia.runtime.drive import drive
from intarsia.runtime.recorder import VERSIONS, Recorder
from intarsia.runtime.transcript import InUseError, Transcript

MODEL, ENDED, COLUMNS = "model.intarsia", "ended.json", "columns.json"
RUNS = "runs"  # folder of transcripts in the server's kit
PROGRESS, HOW = "intarsia", "ended"
_ANSWER = 2.0  # seconds in which the server's main process says who is connected
_UNTIL_TOLD = 3.0  # seconds that a job that ended without a result waits for the analyst's command to ask how it goes


class FailedError(IntarsiaError):
    """An unforeseen error at the server."""


class Coordinating(Controller):
    """The engine's controller. A job gives it an algorithm by name, its settings, and the participants."""

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
        self._algorithm, self._settings = algorithm, settings
        self._participants, self._quorum, self._deadline = tuple(participants), quorum, deadline
        self._presence = Presence([name for name in participants if name not in not_awaited], self._connections)
        self._runtime: FlareRuntime | None = None
        self._cell: Any = None
        self._job, self._kit = "", Path()
        self._ended: dict[str, Any] = {}
        self._told = Event()
        self._n_kept = 0

    def set_communicator(self, communicator: Any) -> None:
        """Listen to all signs of life of sites (tasks fetched, heartbeats): the engine does not report a killed site."""
        super().set_communicator(communicator)
        client_is_active = communicator.client_is_active

        def active(client_name: str, *arguments: Any, **named: Any) -> None:
            self._presence.sign(client_name)
            client_is_active(client_name, *arguments, **named)

        communicator.client_is_active = active

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to clean up: the transcript is complete at any moment."""

    def process_result_of_unknown_task(self, *_: Any, **__: Any) -> None:
        """Discard a reply to a request of an exchange that is over."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Report the progress of the run when an administrator asks for it."""
        super().handle_event(event_type, fl_ctx)
        collector = fl_ctx.get_prop(InfoCollector.CTX_KEY_STATS_COLLECTOR)
        if event_type == InfoCollector.EVENT_TYPE_GET_STATS and collector is not None and self._runtime is not None:
            how = {HOW: self._ended} if self._ended else {}
            collector.set_info(PROGRESS, self._runtime.progress() | {"excluded": list(self._excluded())} | how)
            if how:
                self._told.set()

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the study, and write its result, or why it failed, to the job's folder."""
        engine = fl_ctx.get_engine()
        workspace, self._cell, self._job = engine.get_workspace(), engine.server.cell, fl_ctx.get_job_id()
        out = Path(workspace.get_run_dir(self._job)) / "intarsia"
        out.mkdir(exist_ok=True)
        self._kit = Path(workspace.get_root_dir())
        transcripts = self._kit / RUNS
        self._presence.begin(client.name for client in engine.get_clients())
        try:
            if asks_columns(self._algorithm):
                self._ask_columns(out, (fl_ctx, abort_signal))
            else:
                self._run(transcripts, out, (fl_ctx, abort_signal))
            ended: dict[str, Any] = {"done": True}
        except Exception as error:  # noqa: BLE001  (the analyst's command must learn that the run is over)
            self.log_exception(fl_ctx, "the run ended without a result")
            ended = self._described(error)
        finally:
            self._presence.end()
        write_atomically(out / ENDED, json.dumps(ended).encode())
        if not ended["done"]:  # the next job need not wait until the processes of this one have ended
            self._ended = ended
            self._told.wait(_UNTIL_TOLD)

    def _described(self, error: Exception) -> dict[str, Any]:
        """What the analyst's command is told of an error that ended the run."""
        if not isinstance(error, IntarsiaError):
            error = FailedError(f"the server failed with a {type(error).__name__}. Hint: see the log of the server.")
        ended = {"done": False, "error": type(error).__name__, "message": str(error), "kept": self._n_kept}
        if isinstance(error, AbortedError | AbsentError | ReturnedError | InUseError):  # another job may succeed
            absent = getattr(error, "absent", ())
            ended |= {"error": FederationError.__name__, "absent": list(absent)}
            ended["returned"] = self._presence.returned if isinstance(error, ReturnedError) else []
            ended["message"] = f"{error}{self._reasons(absent)}"
        if error.participant is not None:
            ended["participant"] = error.participant
        return ended

    def _reasons(self, absent: Sequence[str]) -> str:
        """Why participants did not answer, as far as known."""
        reasons = {} if self._runtime is None else dict(self._runtime.reasons)
        reasons |= dict.fromkeys(self._excluded(), "the coordinator has shut it out")
        text = "; ".join(f"{name!r}: {reasons[name]}" for name in absent if name in reasons)
        return f" ({text})" if text else ""

    def _connections(self, names: Sequence[str]) -> dict[str, Connection]:
        """Ask the server's main process for its connections to sites, and to the processes of this job there."""
        if self._cell is None:
            return {}
        reply = self._cell.core_cell.send_request(
            channel=CHANNEL, topic=TOPIC, target="server", request=Message(payload=b""), timeout=_ANSWER, optional=True
        )
        if reply is None or reply.get_header(MessageHeaderKey.RETURN_CODE) != CellCode.OK:
            return {name: Connection(site=None, job=None) for name in names}
        known = set(json.loads(reply.payload))
        return {name: Connection(name in known, f"{name}.{self._job}" in known) for name in names}

    def _excluded(self) -> tuple[str, ...]:
        """Return the participants that the coordinator shut out; nobody can be asked if that is not known."""
        try:
            return excluded_in(self._kit)
        except SettingError:
            return self._participants

    def _ask_columns(self, out: Path, context: tuple[FLContext, Signal]) -> None:
        """Ask for names and kinds of columns, and write the answers. No transcript: this belongs to no run."""
        runtime = self._runtime = FlareRuntime(self, self._participants, self._deadline, context, self._presence)
        question = ColumnsQuestion()
        replies = runtime.exchange(question.requests(self._participants))
        told = question.told(replies, runtime.reasons)
        write_atomically(out / COLUMNS, json.dumps(asdict(told)).encode())

    def _run(self, transcripts: Path, out: Path, context: tuple[FLContext, Signal]) -> None:
        run, recorder = digest_of(self._algorithm, self._participants), Recorder()
        algorithm = from_json(self._algorithm, run)
        self._runtime = FlareRuntime(self, self._participants, self._deadline, context, self._presence)
        transcripts.mkdir(exist_ok=True)
        with Transcript(transcripts / run) as transcript:
            try:
                outcome = drive(algorithm, self._runtime, recorder, transcript, self._quorum)
            finally:
                self._n_kept = transcript.n_answers
        method, seed = str(self._algorithm["method"]), int(self._algorithm["settings"]["seed"])
        record = recorder.record(method, self._settings, seed, VERSIONS, outcome.remarks, outcome.participants)
        model_file.save(out / MODEL, outcome, outcome.model.space.names, record)
