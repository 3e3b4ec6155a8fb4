"""Participants in other processes of this machine. Each stays in one process from its table to its labels."""

from __future__ import annotations

import os
import pickle
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, NamedTuple, Self

from joblib import cpu_count
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool

from intarsia.core.distances import Metric
from intarsia.exceptions import LocalAlgorithmError, SettingError
from intarsia.participant import Participant
from intarsia.participant.private import PrivateParticipant
from intarsia.participant.secure import SecureParticipant
from intarsia.participant.vault import Credentials
from intarsia.privacy.budget import Account, Charged
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Failure, Reply, Request, StudyTerms
from intarsia.runtime.contract import OnReply, Runtime, check_known, check_unique
from intarsia.runtime.in_process import Labels
from intarsia.tables import AnyTable

_PARTS = 16  # tasks that the requests to one process are divided into, so that replies arrive one by one
_AHEAD = 2  # tasks that a process has at a time, so that it need not wait for the next
_LATEST = 5.0  # seconds to wait for tasks that are on their way to a process before it is ended
_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
_ENDED = "its process ended before it answered, perhaps because memory ran out. Hint: use fewer processes (n_jobs)."


class Joining(NamedTuple):
    """What a participant is made from."""

    table: AnyTable
    local: Any
    metric: Metric
    missing: str
    rules: ReleasePolicy
    terms: StudyTerms | None = None
    charged: Charged | None = None
    credentials: Credentials | None = None

    def participant(self) -> Participant | PrivateParticipant | SecureParticipant:
        """Create the participant; a private one, or one that answers under masks, if the terms of the study say so."""
        inner = self._inner()
        if self.credentials is None or self.terms is None:
            return inner
        return SecureParticipant(inner, self.credentials, self.terms)

    def _inner(self) -> Participant | PrivateParticipant:
        pipeline = Pipeline(self.rules, terms=self.terms)
        if self.terms is not None and (privacy := self.terms.privacy) is not None:
            account = Account.of(privacy, self.terms.noisy_rounds, self.charged)
            return PrivateParticipant(self.table, privacy, account, self.metric, pipeline)
        return Participant(self.table, self.local, self.metric, self.missing, pipeline)


class _Task(NamedTuple):
    worker: ProcessPoolExecutor
    names: Sequence[str]
    function: Callable[[Any], Any]
    argument: Any


class _Answer(NamedTuple):
    reply: Reply
    seconds: float
    error: Exception | None


class Workers:
    """Processes that import the package while this one goes on, for example to read tables.

    Leaving the context ends them, whatever happened in it.
    """

    def __init__(self, n_jobs: int) -> None:
        self.executors = [ProcessPoolExecutor(1, env=thread_limits(n_jobs)) for _ in range(n_jobs)]
        for executor in self.executors:
            executor.submit(_started)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for executor in self.executors:
            executor.shutdown(wait=True, kill_workers=True)


class ProcessRuntime(Runtime):
    """Participants in other processes. A table is sent to its process once; after that only messages travel.

    Leaving the context ends the processes, whatever happened in it.
    """

    def __init__(self, joining: Iterable[Joining], processes: Workers | int) -> None:
        self._errors: dict[str, BaseException | None] = {}
        self._processes = Workers(processes) if isinstance(processes, int) else processes
        self._workers = self._processes.executors
        self._running: dict[Future[Any], _Task] = {}
        try:
            self._create(joining)
        except BaseException:
            self._end()
            raise

    def _create(self, joining: Iterable[Joining]) -> None:
        """Create each participant in the process with the fewest cells so far."""
        cells, tasks = dict.fromkeys(self._workers, 0), list[_Task]()
        for one in joining:
            worker = min(self._workers, key=cells.__getitem__)
            cells[worker] += len(one.table) * max(len(one.table.given_names), 1)
            tasks.append(_Task(worker, [one.table.owner], _join, one))
        check_unique(task.names[0] for task in tasks)
        self._worker_of = {task.names[0]: task.worker for task in tasks}
        for _, future in self._completed(tasks):
            _result(future)

    def _completed(self, tasks: list[_Task]) -> Iterator[tuple[Sequence[str], Future[Any]]]:
        """Run tasks; yield the participants and the future of each when it is done. The list is emptied as they are sent."""
        wait(self._running)  # of an exchange that was interrupted
        self._running.clear()
        queues = {worker: deque(task for task in tasks if task.worker is worker) for worker in self._workers}
        tasks.clear()
        while self._running or any(queues.values()):
            for worker, queue in queues.items():
                busy = sum(task.worker is worker for task in self._running.values())
                for _ in range(min(len(queue), _AHEAD - busy)):
                    future = _submitted(queue[0])
                    self._running[future] = queue.popleft()._replace(argument=None)
            for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                yield self._running.pop(future).names, future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        # a task that is on its way to a process cannot be called back; that takes no more than a moment
        latest = time.monotonic() + _LATEST
        while not all(future.running() or future.done() for future in self._running) and time.monotonic() < latest:
            time.sleep(0.001)
        self._processes.__exit__()

    def participants(self) -> tuple[str, ...]:
        """Return the names of all participants."""
        return tuple(self._worker_of)

    def exchange(self, requests: Mapping[str, Request], on_reply: OnReply | None = None) -> dict[str, Reply]:
        """Ask all participants at the same time and return their replies."""
        check_known(requests, self._worker_of)
        tasks, replies = list[_Task](), dict[str, Reply]()
        for worker in self._workers:
            its_names = [name for name in requests if self._worker_of[name] is worker]
            size = max(1, -(-len(its_names) // _PARTS))
            for part in (its_names[k : k + size] for k in range(0, len(its_names), size)):
                tasks.append(_Task(worker, part, _ask, {name: requests[name] for name in part}))
        for names, future in self._completed(tasks):
            for name, answer in zip(names, _answers(names, future), strict=True):
                replies[name], self._errors[name] = answer.reply, answer.error
                if on_reply is not None:
                    on_reply(name, answer.reply, answer.seconds)
        return {name: replies[name] for name in requests}

    def cause_of(self, name: str) -> BaseException | None:
        """Return the exception behind the latest Failure of a participant, as far as it can be sent to this process."""
        return self._errors.get(name)

    def labels(self) -> dict[str, Labels]:
        """Return the labels of all participants; those of a process that ended are None."""
        labels = dict.fromkeys(self._worker_of, Labels(None, None))
        for _, future in self._completed([_Task(worker, (), _labels, None) for worker in self._workers]):
            if not isinstance(future.exception(), BrokenProcessPool):
                labels |= future.result()
        return labels


def _submitted(task: _Task) -> Future[Any]:
    """Give a task to its process. If the process has ended, the future says so."""
    future: Future[Any]
    try:
        future = task.worker.submit(task.function, task.argument)
    except BrokenProcessPool as error:
        future = Future()
        future.set_exception(error)
    return future


def _answers(names: Sequence[str], future: Future[list[_Answer]]) -> list[_Answer]:
    """The answers of the participants of one task: failures if their process has ended."""
    if isinstance(error := future.exception(), BrokenProcessPool):
        texts = [f"participant {name!r}: {_ENDED}" for name in names]
        return [_Answer(Failure(error=LocalAlgorithmError.__name__, message=text), 0.0, error) for text in texts]
    answers: list[_Answer] = _result(future)
    return answers


def thread_limits(n_jobs: int, n_cores: int | None = None) -> dict[str, str]:
    """Environment variables that limit threads, so that all processes together have at most one per core."""
    limits = {}
    share = max(1, (cpu_count() if n_cores is None else n_cores) // n_jobs)
    for library in _THREADS:
        name = f"{library}_NUM_THREADS"
        allowed = os.environ.get(name, "")
        limits[name] = str(min(share, int(allowed)) if allowed.isdigit() and int(allowed) else share)
    return limits


def _result(future: Future[Any]) -> Any:
    """Return the result of a task; an error between processes gets a hint."""
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise LocalAlgorithmError(f"a participant could not be created: {_ENDED}") from error
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        if not isinstance(error, pickle.PicklingError) and "pickle" not in str(error):
            raise
        raise SettingError(
            "a local algorithm or a metric cannot be sent to another process. "
            "Hint: use n_jobs=1, or define it without open files, locks and the like."
        ) from error


_participants: dict[str, Participant | PrivateParticipant | SecureParticipant] = {}  # of a worker process


def _started() -> None:
    """Do nothing: to find this function, a process has imported what participants need."""


def _join(one: Joining) -> None:
    _participants[one.table.owner] = one.participant()


def _ask(requests: Mapping[str, Request]) -> list[_Answer]:
    answers = []
    for name, request in requests.items():
        started = time.perf_counter()
        reply = _participants[name].handle(request)
        answers.append(_Answer(reply, time.perf_counter() - started, _sendable(_participants[name].last_error)))
    return answers


def _labels(_: None) -> dict[str, Labels]:
    return {name: Labels(one.labels, one.local_labels) for name, one in _participants.items()}


def _sendable(error: Exception | None) -> Exception | None:
    """Return an error that can be sent, with its traceback as a note; only its text if it cannot be sent itself."""
    if error is None:
        return None
    note = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (it was made here)
    except Exception:  # noqa: BLE001  (any)
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error
