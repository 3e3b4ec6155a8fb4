"""Shared noise: each participant adds a share to its masked sums, so that the total has what a round needs."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("opendp")
pytest.importorskip("Crypto")
import intarsia
from intarsia.core.private.conversion import epsilon_of_rho
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.private.questions import GRAINS
from intarsia.estimators.federated import FederatedClustering
from intarsia.exceptions import InputError
from intarsia.participant.private import PrivateParticipant
from intarsia.participant.secure import SecureParticipant
from intarsia.participant.vault import new_credentials
from intarsia.privacy import ledger_store
from intarsia.privacy.budget import ROUND_SHARE, Account
from intarsia.privacy.ledger import Ledger
from intarsia.privacy.noise import epsilon_of, rho_of
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import AskMasked, AskSums, AskUnmask, encode
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import WireRuntime
from intarsia.tables.open import open_table
from tests.private.neighbours import NoNoise
from tests.private.test_order import Reading, Spied

pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.IntarsiaWarning")
COLUMNS = {"a": "xy", "b": "yz", "c": "xz", "d": "xyz"}
PRIVACY = DifferentialPrivacy(8, bounds=dict.fromkeys("xyz", (-5.0, 9.0)), rounds=2)
N_ROWS, THRESHOLD = 300, 3


def table(name, declared=PRIVACY, seed=0):
    rng = np.random.default_rng([ord(name), seed])
    ill = rng.integers(2, size=N_ROWS)
    return open_table({each: 4.0 * ill + rng.normal(size=N_ROWS) for each in COLUMNS[name]}, name).hold(
        declared=declared
    )


def question(n_features, k=2, n=0):
    centres = np.linspace(-1, 1, k)[:, None] * np.ones(n_features)
    return AskSums(round=n, centres=centres, known=np.ones(centres.shape, bool), scales=np.ones(n_features), radius=2.0)


def shared(name, noise=None, k=2, n_features=3, run=b"run"):
    """Return the sums of a round of one participant, with its share of the noise."""
    account = Account.of(PRIVACY, 2)
    account.noise = account.noise if noise is None else noise
    places = np.array(["xyz".index(each) for each in COLUMNS[name]], dtype=np.intp)
    one = PrivateParticipant(table(name), PRIVACY, account)
    return one.shared_sums(question(len(places), k), THRESHOLD, n_features, places, run), account


def test_the_noise_of_a_total_has_the_variance_that_is_claimed():
    """Of 10,000 sums and more: that of one round, times participants over those whose shares are enough."""
    k, n_features = 500, 80
    noisy = sum(shared(name, k=k, n_features=n_features)[0] for name in COLUMNS)
    exact = sum(shared(name, NoNoise(), k=k, n_features=n_features)[0] for name in COLUMNS)
    noise = (noisy - exact).astype(float)
    assert noise.shape == (k * (n_features + 1),)
    norm = np.sqrt(1.25) * GRAINS
    variance = norm**2 / (2 * Account.of(PRIVACY, 2).for_round) * len(COLUMNS) / THRESHOLD
    assert noise.var() == pytest.approx(variance, rel=0.03)
    assert abs(noise.mean()) < 5 * np.sqrt(variance / noise.size)
    by_feature = noise.reshape(k, -1).var(axis=0)  # all numbers have noise, also of features that most tables lack
    assert by_feature.min() > 0.5 * variance


def test_a_share_is_charged_and_drawn_before_rows_are_read(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{x},{x}\n" for x in np.linspace(0, 1, 50)))
    events: list[str] = []
    sync = ledger_store.os.fsync
    monkeypatch.setattr(ledger_store.os, "fsync", lambda file: (sync(file), events.append("disk"))[0])
    account = Account.of(PRIVACY, 2)
    account.ledger, account.noise = Ledger.beside(tmp_path / "t.csv"), Spied(events)
    one = Reading(open_table(tmp_path / "t.csv", "a", declared=PRIVACY).hold(declared=PRIVACY), PRIVACY, account)
    one.events = events
    ask = (question(2), THRESHOLD, 3, np.array([0, 1]))
    first = one.shared_sums(*ask, b"run")
    assert [event for k, event in enumerate(events) if not k or event != events[k - 1]] == [
        "disk",
        "noise",
        "rows",
        "disk",
    ]
    assert len(account.ledger.entries()) == 1
    assert account.ledger.spent() == pytest.approx(account.for_round)
    events.clear()
    np.testing.assert_array_equal(one.shared_sums(*ask, b"run"), first)
    assert events == []


def test_the_same_question_in_another_run_has_new_noise_and_is_charged_again():
    """With the same noise in both, totals with and without a participant would differ by its sums and a share of noise."""
    account = Account.of(PRIVACY, 2)
    one = PrivateParticipant(table("d"), PRIVACY, account)
    first, second, again = (
        one.shared_sums(question(3), THRESHOLD, 3, np.arange(3), run) for run in (b"run", b"run 2", b"run")
    )
    assert (first != second).all()
    np.testing.assert_array_equal(first, again)
    assert account.ledger.spent() == pytest.approx(2 * account.for_round)


class Failing(PrivateParticipant):
    """A participant whose table cannot be read any more."""

    def _rows(self):
        raise InputError("row 17 of the table has 3 values")


class People(WireRuntime):
    """Participants of a private study on secure sums, and all that was asked and told."""

    ends_at: tuple[type, ...] | type = ()
    kind: type | None = None  # what participants are from the first sum on

    def __init__(self, algorithm):
        self.accounts, people, credentials = {}, [], new_credentials(sorted(COLUMNS))
        for name in COLUMNS:
            terms = algorithm.terms(name)
            self.accounts[name] = Account.of(PRIVACY, terms.noisy_rounds)
            pipeline = Pipeline(terms=terms)
            inner = PrivateParticipant(table(name), PRIVACY, self.accounts[name], pipeline=pipeline)
            people.append(SecureParticipant(inner, credentials[name], terms))
        super().__init__(people)
        self.said = []

    def _ask(self, name, request):
        if isinstance(request, AskMasked):
            inner = self._participants[name]._inner
            inner.__class__ = self.kind or inner.__class__
        if isinstance(request, self.ends_at):
            raise KeyboardInterrupt
        reply = super()._ask(name, request)
        self.said.append((name, request, reply))
        return reply


def algorithm():
    return FederatedClustering(2, secure_sums=True, privacy=PRIVACY, random_state=0).algorithm_for(list(COLUMNS))


@pytest.fixture(scope="module")
def ran():
    people = People(algorithm())
    return people, drive(algorithm(), people)


def test_both_epsilons_of_a_study_fit_their_formulas(ran):
    people, outcome = ran
    rho = rho_of(PRIVACY.epsilon, PRIVACY.delta)
    for account in people.accounts.values():
        assert account.ledger.spent() <= rho
        assert epsilon_of(account.ledger.spent(), PRIVACY.delta) == pytest.approx(PRIVACY.epsilon, rel=1e-3)
    worst = rho * (1 - 2 * ROUND_SHARE) + 2 * THRESHOLD * rho * ROUND_SHARE
    told = outcome.secure.epsilon_if_all_collude
    assert told == pytest.approx(epsilon_of_rho(worst, PRIVACY.delta), rel=1e-3)
    assert told >= epsilon_of(worst * (1 - 1e-6), PRIVACY.delta) * (1 - 1e-3)
    assert told > PRIVACY.epsilon


def test_a_round_is_in_one_sum_also_with_another_layout():
    """Other layouts would have got other noise, and their mean less of it; the same one in another total, the same noise."""
    people = People(algorithm())
    people.ends_at = AskUnmask
    with pytest.raises(KeyboardInterrupt):
        drive(algorithm(), people)
    name, request, reply = next(each for each in people.said if isinstance(each[1], AskMasked) and each[0] == "d")
    spent = people.accounts[name].ledger.spent()
    layout = replace(request.layout, features=request.layout.features[::-1], told=request.layout.told[::-1])
    for other, why in (
        (replace(request, layout=layout), "each sum is answered once"),
        (replace(request, index=1), "round 0: asked for in another sum of this run"),
        (replace(request, index=1, layout=layout), "round 0: asked for in another sum of this run"),
    ):
        assert why in people._participants[name].handle(other).message
    assert encode(people._participants[name].handle(request)) == encode(reply)
    assert people.accounts[name].ledger.spent() == spent


def test_how_reading_rows_fails_is_not_told():
    people = People(algorithm())
    people.kind = Failing
    with pytest.raises(intarsia.IntarsiaError) as caught:
        drive(algorithm(), people)
    assert "17" not in str(caught.value)
    assert "it could not answer. Its own log says why." in str(caught.value)
