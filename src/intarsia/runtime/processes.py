"""Participants in other processes of this machine: each lives in one of a few from its table to its labels."""

from __future__ import annotations

import os
import pickle
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from joblib import cpu_count
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool

from intarsia.core.distances import Metric
from intarsia.exceptions import LocalAlgorithmError, SettingError
from intarsia.participant import Gate, Responder, participant_for
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Failure, Reply, Request
from intarsia.runtime.drive import Arrived, Watcher, exception_of, phase_of
from intarsia.runtime.in_process import Labels
from intarsia.tables import AnyTable

_AT_ONCE = 16  # parts of what a process is asked in an exchange, so that whoever watches sees how it goes
_AHEAD = 2  # tasks that a process has, so that the next is there when one is done
_MOMENT = 5.0  # seconds
_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")


class Joining(NamedTuple):
    """What a participant is made of."""

    table: AnyTable
    local: Any
    metric: Metric
    missing: str
    rules: ReleasePolicy

    def participant(self) -> Responder:
        """One that can be asked."""
        return participant_for(self.table, self.local, self.metric, self.missing, Gate(self.rules))


class _Task(NamedTuple):
    worker: Any
    work: Callable[[Any], Any]
    given: Any


_NOTHING = _Task(None, lambda _: None, None)


class _Answer(NamedTuple):
    reply: Reply
    seconds: float
    error: Exception | None


class ParallelRuntime:
    """Participants in ``n_jobs`` processes. Rows go there once and are held nowhere else; then only messages travel.

    Answers are the same as in one process, and are told of in the order of the requests. Leaving the context ends the
    processes, whatever happened in it.
    """

    def __init__(self, joining: Iterable[Joining], n_jobs: int, watcher: Watcher | None = None) -> None:
        self._watcher = watcher
        self._home: dict[str, ProcessPoolExecutor] = {}
        self._workers = [ProcessPoolExecutor(1, env=_few_threads(n_jobs)) for _ in range(n_jobs)]
        self._busy: dict[ProcessPoolExecutor, list[Future[Any]]] = {worker: [] for worker in self._workers}
        try:
            self._settle(joining)
        except BaseException:
            self._end()
            raise

    def _settle(self, joining: Iterable[Joining]) -> None:
        load, tasks = dict.fromkeys(self._workers, 0), list[_Task]()
        for one in joining:
            worker = min(self._workers, key=load.__getitem__)
            self._home[one.table.owner] = worker
            load[worker] += len(one.table) * max(len(one.table.given_names), 1)
            tasks.append(_Task(worker, _join, one))
        with _understood():
            for _ in self._results(tasks):
                pass

    def _results(self, tasks: list[_Task]) -> Iterator[Any]:
        """What comes of each, in their order. A task is given out, and let go, when its process has little else to do."""
        waiting = {worker: deque[int]() for worker in self._workers}
        for k, task in enumerate(tasks):
            waiting[task.worker].append(k)
        futures: dict[int, Future[Any]] = {}
        for k in range(len(tasks)):
            while True:
                for worker, queue in waiting.items():
                    busy = self._busy[worker] = [future for future in self._busy[worker] if not future.done()]
                    while queue and len(busy) < _AHEAD:
                        task, tasks[queue[0]] = tasks[queue[0]], _NOTHING
                        futures[queue.popleft()] = future = worker.submit(task.work, task.given)
                        busy.append(future)
                if k in futures and futures[k].done():
                    break
                wait([future for busy in self._busy.values() for future in busy], return_when=FIRST_COMPLETED)
            yield futures.pop(k).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        # what is still on its way there cannot be called back; it takes no more than a moment
        latest, given_out = time.monotonic() + _MOMENT, [future for busy in self._busy.values() for future in busy]
        while not all(future.running() or future.done() for future in given_out) and time.monotonic() < latest:
            time.sleep(0.001)
        for worker in self._workers:
            worker.shutdown(wait=True, kill_workers=True)

    def participants(self) -> tuple[str, ...]:
        """Who can be asked."""
        return tuple(self._home)

    def exchange(self, requests: Mapping[str, Request], arrived: Arrived | None = None) -> dict[str, Reply]:
        """Ask all at the same time; the first failure, in the order of the requests, is raised with its cause."""
        replies: dict[str, Reply] = {}
        with _understood():
            for name, answer in self._answers(requests):
                if isinstance(answer.reply, Failure):
                    raise exception_of(answer.reply) from answer.error
                replies[name] = answer.reply
                if arrived is not None:
                    arrived(name, answer.reply, answer.seconds)
                if self._watcher is not None:
                    self._watcher.answered(phase_of(requests[name]), name, answer.reply, answer.seconds)
        return replies

    def _answers(self, requests: Mapping[str, Request]) -> Iterator[tuple[str, _Answer]]:
        parts = [
            (worker, part)
            for worker in self._workers
            for part in _parts([name for name in requests if self._home[name] is worker])
        ]
        order = {name: k for k, name in enumerate(requests)}
        parts.sort(key=lambda part: order[part[1][0]])
        results = self._results(
            [_Task(worker, _ask, {name: requests[name] for name in some}) for worker, some in parts]
        )
        untold, there = deque(requests), dict[str, _Answer]()
        for (_, some), answers in zip(parts, results, strict=True):
            there |= zip(some, answers, strict=True)
            while untold and untold[0] in there:
                name = untold.popleft()
                yield name, there.pop(name)

    def labels(self) -> dict[str, Labels]:
        """What everybody would know of its own rows."""
        with _understood():
            told = self._results([_Task(worker, _labels, None) for worker in self._workers])
            found = {name: labels for each in told for name, labels in each.items()}
        return {name: found[name] for name in self._home}


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    size = max(1, -(-len(names) // _AT_ONCE))
    return (names[k : k + size] for k in range(0, len(names), size))


def _few_threads(n_jobs: int) -> dict[str, str]:
    """So many that all processes together have no more than there are cores."""
    found = {}
    for library in _THREADS:
        name = f"{library}_NUM_THREADS"
        allowed = os.environ.get(name, "")
        most = max(1, cpu_count() // n_jobs)
        found[name] = str(min(most, int(allowed)) if allowed.isdigit() and int(allowed) else most)
    return found


@contextmanager
def _understood() -> Iterator[None]:
    """What goes wrong between processes, in words."""
    try:
        yield
    except BrokenProcessPool as error:
        raise LocalAlgorithmError(
            "a process that participants were in has ended before it answered, perhaps for want of memory. "
            "Hint: fewer processes (n_jobs)."
        ) from error
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        if isinstance(error, pickle.PicklingError) or "pickle" in str(error):
            raise SettingError(
                "a local algorithm or a metric cannot be sent to another process. "
                "Hint: n_jobs=1, or define it without open files, locks and the like."
            ) from error
        raise


_here: dict[str, Responder] = {}  # of this process


def _join(one: Joining) -> None:
    _here[one.table.owner] = one.participant()


def _ask(requests: Mapping[str, Request]) -> list[_Answer]:
    answers = []
    for name, request in requests.items():
        started = time.perf_counter()
        reply = _here[name].handle(request)
        answers.append(_Answer(reply, time.perf_counter() - started, _sendable(_here[name].last_error)))
    return answers


def _labels(_: None) -> dict[str, Labels]:
    return {name: Labels(one.labels, one.local_labels) for name, one in _here.items()}


def _sendable(error: Exception | None) -> Exception | None:
    """An error with its traceback as a note, which is lost on the way, or its words if it cannot be sent."""
    if error is None:
        return None
    note = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (it was made here)
    except Exception:  # noqa: BLE001  (any)
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(note)
    return error
