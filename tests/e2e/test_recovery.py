"""A site dies and comes back: who is gone is told within ten seconds, and the run goes on within thirty of its return.

``make recovery`` kills thirty sites and prints how long each took. In ``make e2e`` two are killed. Other tests may keep all
cores busy meanwhile: a measurement on a machine that is measured to be overloaded has three times as long, and the output
says so; all others have the limits that are promised. The same federation then shuts sites out and admits them.
"""

from __future__ import annotations

import json
import os
import re
import time

import numpy as np
import pytest

pytest.importorskip("nvflare")
pytest.importorskip("psutil")
from tests.e2e.federations import PATIENCE, Federation, wait_until
from tests.e2e.test_soak import tables

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
KILLS = int(os.environ.get("INTARSIA_RECOVERY", "2"))
GONE, BACK = 10.0, 30.0  # seconds
SLOWER = 1 if KILLS > 2 else 3  # times as long, above this load average per core
OVERLOAD = 1.5
SHUT_OUT = 300.0  # seconds until a site is disconnected and says so, which is not measured here
REGISTERED = "Successfully registered client"
CALM = 12.0  # seconds of absence in every second run, so that somebody can ask who is gone


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(int(os.environ.get("INTARSIA_SEED", "22")))


@pytest.fixture(scope="module")
def federation(rng, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recovery")
    with Federation(folder, tables(rng), k=3, release='max_rounds = "any"', deadline=600) as federation:
        federation.wait_connected()
        yield federation


class Measured:
    """How long something took, each time, and how long it may take at the load of the machine meanwhile."""

    def __init__(self, limit):
        self.limit, self.seconds, self.loads = limit, [], []

    def __enter__(self):
        self._began, self._load = time.monotonic(), load()

    def __exit__(self, *_):
        self.seconds.append(time.monotonic() - self._began)
        self.loads.append(max(self._load, load()))

    def limit_at(self, load):
        return min(self.limit * (SLOWER if load > OVERLOAD else 1), PATIENCE)

    @property
    def too_long(self):
        return [
            f"{seconds:.1f} s at a load of {load:.1f} per core"
            for seconds, load in zip(self.seconds, self.loads, strict=True)
            if seconds > self.limit_at(load)
        ]

    def __str__(self):
        load, limit = self.loads[-1], self.limit_at(self.loads[-1])
        return f"{self.seconds[-1]:.1f} s (load {load:.1f} per core: at most {limit:.0f} s)"


def load():
    """The load average of the last minute per core that this process may use."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def test_a_run_goes_on_soon_after_a_killed_site_is_back(federation, rng):
    gone, back, connected_again = Measured(GONE), Measured(BACK), Measured(PATIENCE)
    for k in range(KILLS):
        federation.forget_releases()
        federation.reseed(k)
        so_far, name = federation.answered(), str(rng.choice(federation.names))
        process = federation.begin()
        federation.wait_for(so_far + int(rng.integers(1, 9)))
        time.sleep(float(rng.uniform(0, 0.3)))
        federation.kill(name)
        killed = time.monotonic()
        if k % 2 == 0:
            with gone:
                wait_until(lambda name=name: name not in connected(federation, name))
            time.sleep(max(0.0, CALM - (time.monotonic() - killed)))
        else:
            time.sleep(float(rng.uniform(0, 2)))
        before, registered = told_by(federation, name), federation.log(name).count(REGISTERED)
        with connected_again:
            federation.start(name)
            wait_until(lambda n=name, r=registered: federation.log(n).count(REGISTERED) > r, every=0.1)
        with back:
            wait_until(
                lambda n=name, b=before, p=process: told_by(federation, n) > b or p.poll() is not None, every=0.1
            )
        print(f"{k}: {name}: {connected_again}; goes on: {back}", flush=True)  # noqa: T201
        assert process.wait(PATIENCE) == 0, federation.log()
    assert_told(federation.log())
    measured = {
        "status tells who is gone": gone,
        "a started site is connected": connected_again,  # its own work: it checks its table first
        "the run goes on once it is connected": back,
    }
    for what, one in measured.items():
        quantiles = ", ".join(f"{value:.1f}" for value in np.quantile(one.seconds, [0, 0.5, 0.9, 1]))
        print(f"{what}: {len(one.seconds)} times; least, median, 90 %, most: {quantiles} s; {one}")  # noqa: T201
    for what, one in measured.items():
        assert not one.too_long, f"{what}: {one.too_long}"


def test_whoever_is_shut_out_cannot_connect_and_the_others_go_on_until_it_is_admitted(federation):
    """In the middle of a run, when it is started again, and without starting it again."""
    federation.forget_releases()
    federation.reseed(1000)
    so_far = federation.answered()
    process = federation.begin()
    federation.wait_for(so_far + 1)
    federation.hold("c")  # so that the run does not end meanwhile
    coordinator(federation, "exclude", "b")
    wait_until(lambda: "b" not in connected(federation, "b"), SHUT_OUT)
    federation.hold("c", stop=False)
    assert {"a", "c"} <= set(federation.connected())
    answers = told_by(federation, "b")
    page = federation.folder / "kits" / "b" / "status.html"
    wait_until(lambda: "No answer from the server since" in page.read_text(), SHUT_OUT)
    wait_until(lambda: "waiting for b (not connected at" in flat(federation.log()) or process.poll() is not None)

    federation.kill("b")  # whoever starts it again is told why it cannot connect
    lines = len(federation.log("b").splitlines())
    federation.start("b")
    assert federation.running["b"].wait(PATIENCE) == 1
    del federation.running["b"]
    ending = federation.log("b").splitlines()[lines:]
    assert "Error: the coordinator has shut this site out." in ending[-1]
    assert not any("Traceback" in line for line in ending)
    assert "the coordinator has shut 'b' out" in federation.log("b")
    fault = json.loads(federation.command("doctor", "--kit", "kits/b", "--json").stdout)
    assert ("admission", "fault") in {(finding["about"], finding["state"]) for finding in fault}
    assert "b" not in federation.connected()
    process.kill()
    process.wait()
    others = federation.begin(PATIENCE, "--without", "b")
    assert others.wait(PATIENCE) == 0, federation.log()
    assert told_by(federation, "b") == answers

    coordinator(federation, "admit", "b")
    federation.start("b")
    federation.wait_connected()
    coordinator(federation, "exclude", "c")
    wait_until(lambda: "c" not in connected(federation, "c"), SHUT_OUT)
    coordinator(federation, "admit", "c")
    federation.wait_connected()  # c connects by itself
    federation.forget_releases()
    federation.reseed(1001)
    assert federation.begin().wait(PATIENCE) == 0, federation.log()
    for name in "abc":
        assert "http://" not in federation.log(name)


def told_by(federation, name):
    """How many replies of a participant the server keeps."""
    return sum(who == name for who, _ in federation.kept())


def coordinator(federation, *words):
    assert "shut out:" in federation.here("federation", *words, "--kit", str(federation.folder / "kits" / "server"))


def flat(text):
    return " ".join(text.split())


def connected(federation, name):
    """Who is connected; ``name``, too, while the server does not answer."""
    return federation.connected() or (name,)


def assert_told(log):
    """Somebody who reads what the command printed knows who was waited for, since when and until when."""
    clock = r"\d\d:\d\d:\d\d[+-]\d\d:\d\d"
    line = rf"waiting for [abc] \(not connected at {clock}\), until {clock}; then the run pauses"
    assert re.search(line, flat(log))
