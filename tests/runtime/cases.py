"""The runtimes that must keep the same laws, each with a way to make a participant fail, stay away or be late."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from intarsia import FederatedClustering, ReleasePolicy
from intarsia.protocol import Failure, Refine, decode_request, encode
from intarsia.results.outcome import Outcome, RunRecord
from intarsia.runtime.contract import Runtime
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime, WireRuntime
from intarsia.runtime.processes import Joining, ProcessRuntime
from intarsia.runtime.recorder import Recorder
from intarsia.runtime.transcript import Transcript
from intarsia.tables.frame import read_table

COLUMNS = {"a": "xy", "b": "yz", "c": "zxw"}  # a and b are connected without c
NAMES = tuple(COLUMNS)
N_ROWS = 40
SETTINGS = {"random_state": 0, "tol": 0, "max_rounds": 6, "stability": True}
RULES = ReleasePolicy(max_rounds=None)


class Broken:
    """A participant that fails whatever it is asked."""

    labels = local_labels = last_error = None

    def __init__(self, name):
        self.name = name

    def handle(self, request):
        self.last_error = RuntimeError("text that only the owner may read")
        return Failure(error="LocalAlgorithmError", message=f"participant {self.name!r} failed with a RuntimeError")


class BrokenJoining(Joining):
    def participant(self):
        return Broken(self.table.owner)


def tables():
    rng = np.random.default_rng(0)
    side = 9 * (np.arange(N_ROWS) % 2)
    return {
        name: pl.DataFrame({column: rng.normal(size=N_ROWS) + side for column in columns})
        for name, columns in COLUMNS.items()
    }


def joining(failing=(), names=NAMES):
    return [
        (BrokenJoining if name in failing else Joining)(read_table(table, name), None, "euclidean", "observed", RULES)
        for name, table in tables().items()
        if name in names
    ]


def algorithm(names=NAMES):
    return FederatedClustering(2, **SETTINGS).algorithm_for(names)


@dataclass
class Run:
    """What a run left: its outcome, its record, the labels, and how often a participant answered which request."""

    outcome: Outcome
    record: RunRecord
    labels: dict[str, list[int]]
    answered: Counter = field(default_factory=Counter)


class Between(Runtime):
    """Stands before a runtime: ``is_away(name, request)`` says who cannot be reached. Counts what is asked."""

    def __init__(self, runtime, is_away=lambda name, request: False):
        self._runtime, self._is_away, self.answered = runtime, is_away, Counter()

    def participants(self):
        return self._runtime.participants()

    def exchange(self, requests, on_reply=None):
        reached = {name: request for name, request in requests.items() if not self._is_away(name, request)}
        self.answered.update((name, encode(request)) for name, request in reached.items())
        return self._runtime.exchange(reached, on_reply)

    def cause_of(self, name):
        return self._runtime.cause_of(name)


class InProcess:
    """A case: a runtime over the participants of this module, and runs of one algorithm over it."""

    has_cause = True

    def __init__(self):
        self.opened = ExitStack()

    def over(self, joined):
        return InProcessRuntime([one.participant() for one in joined])

    def runtime(self, failing=(), names=NAMES):
        return self.over(joining(failing, names))

    def run(self, quorum=None, failing=(), absent=(), late=(), names=NAMES, folder=None):
        """Run with participants that fail, never answer, or miss the first round."""

        def is_away(name, request):
            return name in absent or (name in late and isinstance(request, Refine) and request.round == 1)

        inner = self.runtime(failing, names)
        runtime, recorder = Between(inner, is_away), Recorder()
        with ExitStack() as stack:
            transcript = None if folder is None else stack.enter_context(Transcript(folder))
            outcome = drive(algorithm(names), runtime, recorder, transcript, quorum)
        record = recorder.record("federated", {}, 0, {}, outcome.remarks, outcome.participants)
        labels = {name: found.labels.tolist() for name, found in self.labels(inner).items() if found.labels is not None}
        return Run(outcome, record, labels, runtime.answered)

    def labels(self, runtime):
        return runtime.labels()

    def close(self):
        self.opened.close()


class Wire(InProcess):
    def over(self, joined):
        return WireRuntime([one.participant() for one in joined])


class Processes(InProcess):
    """Processes take seconds to start, so that runs share them."""

    def __init__(self):
        super().__init__()
        self._runtimes = {}

    def runtime(self, failing=(), names=NAMES):
        if (failing, names) not in self._runtimes:
            self._runtimes[failing, names] = super().runtime(failing, names)
        return self._runtimes[failing, names]

    def over(self, joined):
        return self.opened.enter_context(ProcessRuntime(joined, 2))


class FlareTasks(InProcess):
    """The runtime of a federation over an engine of threads instead of machines."""

    has_cause = False

    def over(self, joined):
        return over_threads([one.participant() for one in joined])

    def labels(self, runtime):
        return InProcessRuntime(list(runtime.engine.participants.values())).labels()


class Engine:
    """Stands in for the engine: each task is answered in a thread, from bytes to bytes, ``delays`` seconds later."""

    def __init__(self, participants, delays=None):
        self.participants = {one.name: one for one in participants}
        self.delays, self._threads = delays or {}, []

    def send(self, task, fl_ctx, targets):
        self._threads.append(threading.Thread(target=self._work, args=(task, *targets)))
        self._threads[-1].start()

    def join(self):
        for thread in self._threads:
            thread.join()

    def cancel_task(self, task, fl_ctx):
        from nvflare.apis.controller_spec import TaskCompletionStatus

        task.completion_status = TaskCompletionStatus.CANCELLED

    def _work(self, task, name):
        from nvflare.apis.client import Client
        from nvflare.apis.controller_spec import ClientTask, TaskCompletionStatus
        from nvflare.apis.shareable import Shareable

        from intarsia.federation.flare.job import MESSAGE

        client_task = ClientTask(Client(name, ""), task)
        task.before_task_sent_cb(client_task, None)
        delay = self.delays.get(name, 0.0)
        time.sleep(min(delay, task.timeout))
        if delay >= task.timeout:
            task.completion_status = TaskCompletionStatus.TIMEOUT
            time.sleep(0.2)  # until nobody waits any more
        reply = self.participants[name].handle(decode_request(task.data[MESSAGE]))
        client_task.result = Shareable({MESSAGE: None if reply is None else encode(reply)})
        task.result_received_cb(client_task, None)
        task.completion_status = task.completion_status or TaskCompletionStatus.OK


def over_threads(participants, delays=None, deadline=20, in_job=None, connections=lambda _: {}):
    from nvflare.apis.signal import Signal

    from intarsia.federation.flare.presence import Presence
    from intarsia.federation.flare.task_runtime import FlareRuntime

    engine, names = Engine(participants, delays), tuple(one.name for one in participants)
    presence = Presence(names, connections)
    presence.begin(names if in_job is None else in_job)
    presence.end()
    abort = Signal()
    runtime = FlareRuntime(engine, names, deadline, (None, abort), presence)
    runtime.engine, runtime.abort, runtime.presence = engine, abort, presence
    return runtime
