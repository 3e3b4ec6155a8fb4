"""Where noise comes from, and in which order a private participant pays, draws noise and reads rows."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import ReleaseError
from intarsia.participant.private import PrivateParticipant
from intarsia.privacy import ledger_store
from intarsia.privacy.budget import Account
from intarsia.privacy.ledger import Ledger
from intarsia.protocol import AskSketch, AskSums, Failure, Sketched, encode
from intarsia.tables.open import open_table
from tests.private.neighbours import NoNoise

pytest.importorskip("opendp")
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.IntarsiaWarning")
PRIVACY = DifferentialPrivacy(2, bounds={"x": (0, 1), "y": (0, 1)})
SEED = 987_654_321
N_ROWS = 300


def columns(seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.random(N_ROWS) for name in "xy"}


def participant(account, kind=PrivateParticipant, table=None):
    return kind(
        open_table(columns() if table is None else table, "a", declared=PRIVACY).hold(declared=PRIVACY),
        PRIVACY,
        account,
    )


def a_round(n=0, shift=0.0):
    known = np.ones((2, 2), dtype=bool)
    return AskSums(round=n, centres=np.array([[-1.0, shift], [1.0, 0]]), known=known, scales=np.ones(2), radius=1.0)


class Spied:
    """Noise that writes down when it is drawn."""

    def __init__(self, events):
        self._events = events

    def draw(self, n, sensitivity, rho):
        self._events.append("noise")
        return np.zeros(n, dtype=np.int64)


class Reading(PrivateParticipant):
    """A participant that writes down when rows are read; overrides a private method, the only way to rows."""

    events: list[str]

    def _rows(self):
        self.events.append("rows")
        return super()._rows()


def test_a_debit_is_on_disk_before_noise_is_drawn_and_noise_is_drawn_before_rows_are_read(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{x},{x}\n" for x in np.linspace(0, 1, 50)))
    events: list[str] = []
    sync = ledger_store.os.fsync
    monkeypatch.setattr(ledger_store.os, "fsync", lambda file: (sync(file), events.append("disk"))[0])
    account = Account.of(PRIVACY, 1)
    account.ledger, account.noise = Ledger.beside(tmp_path / "t.csv"), Spied(events)
    asked = participant(account, Reading, tmp_path / "t.csv")
    asked.events = events
    for request in (AskSketch(n_clusters=2), a_round()):
        events.clear()
        assert not isinstance(asked.handle(request), Failure)
        seen = [event for k, event in enumerate(events) if not k or event != events[k - 1]]
        n_questions = seen.count("rows")
        assert seen == [*["disk", "noise", "rows"] * n_questions, "disk"]  # the last: the answer is kept
        assert n_questions == (1 if isinstance(request, AskSums) else 6)
    events.clear()
    asked.handle(a_round())
    assert events == []  # the same question again: neither noise nor rows


def test_nothing_that_leaves_follows_the_seed_of_the_study(monkeypatch):
    seeds, asked = set(), list[bool]()
    make, handle = np.random.default_rng, PrivateParticipant.handle

    def spied_rng(seed=None):
        if asked:
            seeds.add(seed[0] if isinstance(seed, list) else seed)
        return make(seed)

    def spied_handle(self, request):
        asked.append(True)
        try:
            return handle(self, request)
        finally:
            asked.pop()

    tables = {"a": columns(0), "b": columns(1)}
    monkeypatch.setattr(PrivateParticipant, "handle", spied_handle)
    monkeypatch.setattr(np.random, "default_rng", spied_rng)  # behind every stream
    both = [intarsia.cluster(tables, 2, privacy=PRIVACY, random_state=SEED) for _ in "12"]
    assert seeds == {0}  # k-means on the cells of a noisy grid: a constant, not the seed
    assert not np.array_equal(both[0].centroids, both[1].centroids)


def test_no_request_has_a_seed_and_two_participants_with_one_table_differ():
    assert not any("seed" in name for kind in (AskSketch, AskSums) for name in kind.__struct_fields__)
    replies = {encode(participant(Account.of(PRIVACY, 1)).handle(AskSketch(n_clusters=2))) for _ in range(5)}
    assert len(replies) == 5


def test_noise_comes_from_opendp_unless_a_test_says_otherwise():
    assert type(Account.of(PRIVACY, 1).noise).__name__ == "OpenDPNoise"


def test_a_coordinator_that_asks_on_and_on_gets_no_more_than_the_budget():
    account = Account.of(PRIVACY, 1)
    asked = participant(account)
    replies = [asked.handle(a_round(n % 3, shift=n / 50)) for n in range(40)]
    told = [reply for reply in replies if not isinstance(reply, Failure)]
    assert sum(reply.rho for reply in told) <= account.ledger.spent() <= account.rho
    assert 0 < len(told) <= 10
    assert {reply.error for reply in replies if isinstance(reply, Failure)} == {ReleaseError.__name__}


class Many(NoNoise):
    """Noise that makes a table look long."""

    def draw(self, n, sensitivity, rho):
        return super().draw(n, sensitivity, rho) + (1 << 40 if n == 1 else 0)


def test_the_noisy_number_of_rows_decides_how_many_passes_there_are():
    passes = {}
    for noise in (NoNoise(), Many()):
        account = Account.of(PRIVACY, 1)
        account.noise = noise
        assert isinstance(participant(account).handle(AskSketch(n_clusters=2)), Sketched)
        passes[type(noise).__name__] = len(account.ledger.entries()) - 1
    assert passes == {"NoNoise": 5, "Many": 3}


def test_an_error_that_could_tell_of_rows_or_of_files_is_not_told(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,1\n")
    (tmp_path / "t.csv.budget").write_text("nonsense\n")
    account = Account.of(PRIVACY, 1)
    account.ledger = Ledger.beside(tmp_path / "t.csv")
    reply = participant(account).handle(AskSketch(n_clusters=2))
    assert isinstance(reply, Failure)
    assert str(tmp_path) not in reply.message
    assert reply.message == "participant 'a': it could not answer. Its own log says why."
