"""An exchange that is defined outside the package: registering it and its handler is all that it needs."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.coordinator import FederatedAlgorithm
from intarsia.exceptions import ProtocolError
from intarsia.participant import Participant
from intarsia.privacy.journal import Journal
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import Exchange, Failure, Reply, Request, decode_reply, decode_request, encode, phase_of, tag_of
from intarsia.protocol.catalogue import (
    exchanges,
    fields_of,
    meaning_of,
    register,
    rows_behind,
    title_of,
    unregister,
    words_of,
)
from intarsia.protocol.checks import require
from intarsia.protocol.facts import Fact, count
from intarsia.runtime.in_process import WireRuntime
from intarsia.tables.frame import read_table


class CountAbove(Request, frozen=True, tag="query.count_above"):
    """Asks how many values of a feature are above a threshold."""

    feature: Annotated[str, Fact("name of a feature")]
    threshold: Annotated[float, Fact("values above it are counted")]

    def check(self) -> None:
        require(bool(self.feature), "feature must not be empty")


class CountedAbove(Reply, frozen=True, tag="reply.counted_above"):
    """The number and the mean of the values above the threshold."""

    n_above: Annotated[int, count("values above the threshold")]
    mean: Annotated[float, Fact("mean of these values", rows="n_above")]


EXCHANGE = Exchange(CountAbove, CountedAbove, title="counting")


def count_above(participant, request, rows):
    """What a participant answers."""
    del participant
    values = rows.sample().values[:, rows.names.index(request.feature)]
    above = values[values > request.threshold]
    return CountedAbove(n_above=len(above), mean=float(above.mean()))


@pytest.fixture(autouse=True)
def registered():
    register(EXCHANGE)
    Participant.handlers[CountAbove] = count_above
    yield
    del Participant.handlers[CountAbove]
    unregister(EXCHANGE)


def _participant(policy=None, journal=None):
    table = read_table({"x": np.arange(100.0), "y": np.zeros(100)}, "a")
    return Participant(table, pipeline=Pipeline(policy or ReleasePolicy(), journal))


def test_wire():
    request = decode_request(encode(CountAbove(feature="x", threshold=3.0)))
    assert (request.feature, request.threshold) == ("x", 3.0)
    reply = decode_reply(encode(CountedAbove(n_above=7, mean=1.5)))
    assert (reply.n_above, reply.mean) == (7, 1.5)
    unregister(EXCHANGE)
    with pytest.raises(ProtocolError):
        decode_request(encode(CountAbove(feature="x", threshold=3.0)))
    register(EXCHANGE)


def test_catalogue_and_words():
    assert exchanges()[-1] is EXCHANGE
    assert phase_of(CountAbove(feature="x", threshold=3.0)) == "count_above"
    assert title_of("count_above") == "counting"
    assert words_of(tag_of(CountAbove)) == "Asks how many values of a feature are above a threshold."
    assert meaning_of(tag_of(CountedAbove), "mean") == "mean of these values"
    reply = CountedAbove(n_above=7, mean=1.5)
    assert [field.path for field in fields_of(reply)] == ["n_above", "mean"]
    assert rows_behind(reply) == {"n_above": 7, "mean": 7}


def test_a_participant_answers_and_writes_it_to_its_journal(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    runtime = WireRuntime([_participant(journal=journal)])
    request = CountAbove(feature="x", threshold=49.0)
    reply = runtime.exchange({"a": request})["a"]
    assert (reply.n_above, reply.mean) == (50, 74.5)
    asked, left = journal.entries()
    assert (asked["event"], asked["request"]) == ("asked", "query.count_above")
    assert [(field["field"], field["fewest_rows"]) for field in left["fields"]] == [
        ("n_above", 50),
        ("mean", 50),
    ]


def test_counts_are_rounded():
    reply = _participant(ReleasePolicy(round_counts_to=4)).handle(CountAbove(feature="x", threshold=92.0))
    assert reply.n_above == 4  # of 7


def test_the_last_check_stops_what_tells_of_few_rows():
    reply = _participant().handle(CountAbove(feature="x", threshold=96.0))
    assert isinstance(reply, Failure)
    assert reply.error == "ReleaseError"
    assert "'mean', 'n_above'" in reply.message


def test_a_study_does_not_ask_it_unless_the_request_says_so(monkeypatch):
    table = read_table({"x": np.arange(100.0)}, "a")
    participant = Participant(table, pipeline=Pipeline(terms=FederatedAlgorithm(n_clusters=2).terms("a")))
    request = CountAbove(feature="x", threshold=49.0)
    refused = participant.handle(request)
    assert (refused.error, "query.count_above is not among its requests" in refused.message) == ("ReleaseError", True)
    monkeypatch.setattr(CountAbove, "departures", lambda *_: iter(()))
    assert participant.handle(request).n_above == 50


def test_requests_are_checked_and_counted():
    participant = _participant(ReleasePolicy(max_rounds=5))
    assert participant.handle(CountAbove(feature="", threshold=1.0)).error == "ProtocolError"
    for k in (*range(5), 4):
        assert isinstance(participant.handle(CountAbove(feature="x", threshold=float(k))), CountedAbove)
    refused = participant.handle(CountAbove(feature="x", threshold=5.0))
    assert (refused.error, "max_rounds" in refused.message) == ("ReleaseError", True)
