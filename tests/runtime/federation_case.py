"""Two federations of real processes, without and with a quorum, as one case of the conformance suite."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter

import intarsia
from intarsia.exceptions import FederationError
from tests.e2e.federations import Federation
from tests.runtime import cases
from tests.runtime.cases import NAMES, Run

DEADLINES = {None: 30, 2: 8}  # seconds, by quorum


class RealFederation:
    """Runs the study by the commands that users type."""

    def __init__(self, folder):
        self._folder, self._federations, self._last = folder, {}, None

    def _federation(self, quorum, absent):
        if quorum not in self._federations:
            self.close()  # one at a time
            folder = self._folder / f"quorum-{quorum}"
            folder.mkdir()
            settings = "\n".join(
                f"{name} = {json.dumps(value)}" for name, value in cases.SETTINGS.items() if name != "random_state"
            )
            self._federations[quorum] = Federation(
                folder, cases.tables(), k=2, settings=settings, quorum=quorum, deadline=DEADLINES[quorum], late=absent,
                release='max_rounds = "any"',
                head="share_model = false\n",  # one exchange more, which other runtimes do not have
            ).__enter__()  # fmt: skip
        federation = self._federations[quorum]
        for name in NAMES:
            if name not in federation.running and name not in absent:
                federation.start(name)
        if quorum is not None:  # it would begin as soon as the quorum is connected
            until(lambda: set(federation.connected()) == set(NAMES) - set(absent))
        return federation

    def run(self, quorum=None, failing=(), absent=(), late=(), folder=None):
        federation = self._federation(quorum, absent)
        if folder is None or folder != self._last:
            shutil.rmtree(federation.folder / "kits" / "server" / "runs", ignore_errors=True)
            federation.forget_releases()  # a participant agreed to one run
        self._last = folder
        before, log = released(federation), len(federation.log())
        if failing:
            federation.wait_connected(failing)
        for name in failing:  # its table disappears after it was checked
            (federation.folder / f"{name}.parquet").rename(federation.folder / f"{name}.away")
        try:
            process = federation.begin()
            if late:
                until(lambda: n_files(federation, "questions"), every=0.01)
                until(lambda: closed_while_held(federation, late))
                for name in late:
                    federation.hold(name, stop=False)
            code = process.wait(200)
        finally:
            for name in failing:
                (federation.folder / f"{name}.away").rename(federation.folder / f"{name}.parquet")
        if code:
            raise FederationError(" ".join(federation.log()[log:].split()))
        result = intarsia.load(federation.model)
        answering = [name for name in NAMES if name not in (*absent, *failing)]
        labels = {name: federation.labels(name).tolist() for name in answering}
        return Run(result.outcome, result.run, labels, released(federation) - before)

    def close(self):
        for federation in self._federations.values():
            federation.__exit__()
        self._federations.clear()


def released(federation):
    """How often each participant answered which request."""
    answered = Counter()
    for name in NAMES:
        if (federation.folder / "kits" / name / "releases.jsonl").exists():
            answered.update((name, digest) for digest in federation.released(name))
    return answered


def n_files(federation, name):
    return len(list(federation.folder.glob(f"kits/server/runs/*/[0-9]*/{name}")))


def closed_while_held(federation, late):
    """Whether an exchange was closed; until then these sites are held, also a job process that starts only now."""
    for name in late:
        federation.hold(name)
    return n_files(federation, "closed")


def until(is_true, seconds=200.0, every=0.2):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end
        time.sleep(every)
