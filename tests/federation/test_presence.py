"""Which sites are present: from connections and signs of life, with a clock of the test."""

from __future__ import annotations

import pytest

pytest.importorskip("nvflare")

from intarsia.federation.flare import presence as module
from intarsia.federation.flare.presence import Connection, Presence

BOTH, SITE_ONLY, NOBODY, NO_HEARTBEAT, UNKNOWN = (
    Connection(True, True),
    Connection(True, False),
    Connection(False, False),
    Connection(False, True),
    Connection(None, None),
)


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Network:
    """Three sites in a job, and what the server knows of each."""

    def __init__(self, clock, awaited="abc", in_job="abc"):
        self.clock, self.answers = clock, dict.fromkeys("abc", BOTH)
        self.presence = Presence(tuple(awaited), lambda names: {name: self.answers[name] for name in names})
        self.presence.begin(in_job)
        self.presence.end()  # the test looks by itself

    def passes(self, seconds, *signs):
        """Seconds in which all sites are asked once each, and some give signs of life themselves."""
        for _ in range(round(seconds)):
            self.clock.now += 1
            self.presence.look()
            for name in signs:
                self.presence.sign(name)

    def gone(self):
        return [name for name in "abc" if self.presence.is_gone(name, 0.0)]


def test_a_killed_site_is_gone_after_three_seconds_while_it_computes(clock):
    network = Network(clock)
    network.passes(5, *"abc")
    network.presence.works("b")
    network.answers["b"] = NOBODY
    network.passes(2, *"ac")
    assert network.gone() == []
    network.passes(1, *"ac")
    assert network.gone() == ["b"]


def test_a_site_that_was_restarted_is_gone_from_the_job_and_has_returned(clock):
    network = Network(clock)
    network.passes(5, *"abc")
    network.presence.works("b")
    network.answers["b"] = SITE_ONLY  # the new process knows nothing of the job
    network.passes(3, *"ac")
    assert network.gone() == ["b"]
    network.presence.lost(["b"])
    assert network.presence.returned == []
    network.passes(1, *"ac")
    assert network.presence.returned == ["b"]
    assert network.presence.in_job == {"a", "c"}


def test_a_site_that_returned_and_left_again_is_not_waited_for_as_if_it_were_there(clock):
    network = Network(clock, in_job="ac")
    network.passes(1)
    assert network.presence.returned == ["b"]
    network.answers["b"] = NOBODY
    network.passes(1)
    assert network.presence.returned == []


def test_a_site_that_computes_in_silence_is_not_gone_while_it_is_connected(clock):
    network = Network(clock)
    network.passes(5, *"abc")
    network.presence.works("b")
    network.passes(500, *"ac")
    assert network.gone() == []


def test_a_machine_without_power_is_gone_after_twenty_seconds_without_a_heartbeat(clock):
    network = Network(clock)
    network.passes(5, *"abc")
    network.presence.works("b")
    network.answers["b"] = NO_HEARTBEAT
    network.passes(20, *"ac")
    assert network.gone() == []
    network.passes(1, *"ac")
    assert network.gone() == ["b"]


def test_an_idle_site_that_does_not_fetch_its_task_is_gone_after_twelve_seconds(clock):
    network = Network(clock)
    network.passes(5, *"abc")
    network.presence.asked("b")
    network.passes(12, *"ac")
    assert network.gone() == []
    network.passes(1, *"ac")
    assert network.gone() == ["b"]


@pytest.mark.parametrize(("answer", "seconds"), [(NOBODY, 2), (SITE_ONLY, 11), (UNKNOWN, 90)])
def test_a_site_that_died_while_the_job_started_is_gone(clock, answer, seconds):
    """Its machine is away; it was restarted before the job began; nothing is known of it."""
    network = Network(clock)
    network.answers["b"] = answer
    network.passes(seconds, *"ac")
    assert network.gone() == []
    network.passes(1, *"ac")
    assert network.gone() == ["b"]


def test_a_slow_start_of_all_is_no_absence(clock):
    network = Network(clock)
    network.answers = dict.fromkeys("abc", SITE_ONLY)
    network.passes(60)
    assert network.gone() == []
    for name in "abc":  # their processes have begun, and nobody has looked since
        network.presence.sign(name)
    assert network.gone() == []
    network.passes(2, *"abc")  # a look may have begun before the sign
    assert network.gone() == []
    network.answers = dict.fromkeys("abc", BOTH)
    network.passes(1)
    assert network.gone() == []


def test_a_site_that_died_right_after_its_first_sign_is_gone_three_looks_later(clock):
    network = Network(clock)
    network.answers["b"] = SITE_ONLY
    network.passes(5, *"ac")
    network.presence.sign("b")
    network.passes(2, *"ac")
    assert network.gone() == []
    network.passes(1, *"ac")
    assert network.gone() == ["b"]
