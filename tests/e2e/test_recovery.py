"""A site dies and comes back: who is gone is told within ten seconds, and the run goes on within thirty of its return.

``make recovery`` kills thirty sites and prints how long each took. In ``make e2e``, which keeps all cores busy, two are
killed and the limits are three times as long. The same federation then shuts sites out and admits them.
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
SLOWER = 1 if KILLS > 2 else 3
GONE, BACK = 10.0 * SLOWER, 30.0 * SLOWER  # seconds
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


def test_a_run_goes_on_soon_after_a_killed_site_is_back(federation, rng):
    gone, back, connected_again = [], [], []
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
            wait_until(lambda name=name: name not in connected(federation, name))
            gone.append(time.monotonic() - killed)
            time.sleep(max(0.0, CALM - gone[-1]))
        else:
            time.sleep(float(rng.uniform(0, 2)))
        before, registered = told_by(federation, name), federation.log(name).count(REGISTERED)
        started = time.monotonic()
        federation.start(name)
        wait_until(lambda n=name, r=registered: federation.log(n).count(REGISTERED) > r, every=0.1)
        returned = time.monotonic()
        connected_again.append(returned - started)
        wait_until(lambda n=name, b=before, p=process: told_by(federation, n) > b or p.poll() is not None, every=0.1)
        back.append(time.monotonic() - returned)
        print(f"{k}: {name}: {connected_again[-1]:.1f} s to connect, {back[-1]:.1f} s to go on", flush=True)  # noqa: T201
        assert process.wait(PATIENCE) == 0, federation.log()
    assert_told(federation.log())
    measured = (
        ("status tells who is gone", gone, GONE),
        ("a started site is connected", connected_again, PATIENCE),  # its own work: it checks its table first
        ("the run goes on once it is connected", back, BACK),
    )
    for what, seconds, limit in measured:
        quantiles = ", ".join(f"{value:.1f}" for value in np.quantile(seconds, [0, 0.5, 0.9, 1]))
        print(f"{what}: {len(seconds)} times; least, median, 90 %, most: {quantiles} s")  # noqa: T201
        assert max(seconds) <= limit


def test_whoever_is_shut_out_cannot_connect_and_the_others_go_on_until_it_is_admitted(federation):
    """In the middle of a run, when it is started again, and without starting it again."""
    federation.forget_releases()
    federation.reseed(1000)
    so_far = federation.answered()
    process = federation.begin()
    federation.wait_for(so_far + 1)
    federation.hold("c")  # so that the run does not end meanwhile
    coordinator(federation, "exclude", "b")
    wait_until(lambda: "b" not in connected(federation, "b"), 10 * GONE)
    federation.hold("c", stop=False)
    assert {"a", "c"} <= set(federation.connected())
    answers = told_by(federation, "b")
    page = federation.folder / "kits" / "b" / "status.html"
    wait_until(lambda: "No answer from the server since" in page.read_text(), 10 * GONE)
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
    wait_until(lambda: "c" not in connected(federation, "c"), 10 * GONE)
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
