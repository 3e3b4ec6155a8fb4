"""A server may lie about the model: what is not a public model of the study is refused, and nothing is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

import intarsia
from intarsia.coordinator import OneShotAlgorithm
from intarsia.coordinator.sharing import SharingAlgorithm
from intarsia.exceptions import OutputError
from intarsia.participant import Participant
from intarsia.participant.copies import keep_model
from intarsia.privacy.journal import LEFT, Journal
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import Failure, KeepModel, ModelKept
from intarsia.protocol.keep_model import MOST_BYTES
from intarsia.results.model_file import public_to_bytes
from intarsia.results.public import public_from
from intarsia.tables.frame import read_table

TABLE = {"x": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 9.0, 9.1, 9.2, 9.3, 9.4, 9.5]}
TERMS = SharingAlgorithm(OneShotAlgorithm(2)).terms("a")


def raw(name="x", k=2):
    tables = {key: {name: TABLE["x"]} for key in "ab"}
    result = intarsia.cluster(tables, k, random_state=0)
    return public_to_bytes(public_from(result.outcome, result.feature_names))


def kept(data, terms=TERMS, write=None, journal=None):
    """The reply, and what was written."""
    written = []
    participant = Participant(read_table(TABLE, "a"), pipeline=Pipeline(terms=terms, journal=journal))
    reply = keep_model(participant, KeepModel(model=data), terms, written.append if write is None else write)
    return reply, written, participant.last_error


def test_the_public_model_of_the_study_is_kept_as_it_came(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    reply, written, error = kept(raw(), journal=journal)
    assert isinstance(reply, ModelKept)
    assert written == [raw()]
    assert error is None
    (line,) = journal.entries(LEFT)
    assert line["fields"] == []  # nothing leaves


def flipped():
    data = bytearray(raw())
    data[len(data) // 2] ^= 1
    return bytes(data)


def full(tmp_path):
    path = tmp_path / "full.intarsia"
    intarsia.cluster({"a": TABLE, "b": TABLE}, 2, random_state=0).save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (lambda _: b"", "1 to 32 MiB"),
        (lambda _: bytes(MOST_BYTES + 1), "1 to 32 MiB"),
        (lambda _: b"no model at all", "damaged, or of another version"),
        (lambda _: raw()[:-7], "damaged"),
        (lambda _: flipped(), "damaged"),
        (full, "damaged, or of another version"),
        (lambda _: raw("quite_another"), "no column of this participant"),
        (lambda _: raw("x", 3), "not that of the study, so that it is not kept: n_clusters is 3"),
    ],
    ids=["empty", "huge", "words", "cut off", "flipped", "the study's own file", "other columns", "another K"],
)
def test_a_lie_is_refused_and_nothing_is_written(lie, why, tmp_path):
    reply, written, error = kept(lie(tmp_path))
    assert isinstance(reply, Failure)
    assert reply.error == "ProtocolError"
    assert why in reply.message
    assert "'a'" in reply.message
    assert written == []
    assert error is not None


def test_a_participant_that_did_not_agree_keeps_no_model():
    reply, written, _ = kept(raw(), replace(TERMS, share_model=False))
    assert reply.error == "ReleaseError"
    assert "share_model is True, and the study says False" in reply.message
    assert written == []


def test_a_model_that_shows_more_than_the_study_says_is_refused():
    reply, written, _ = kept(raw(), replace(TERMS, share_min_holders=2))
    assert reply.error == "ProtocolError"
    assert "share_min_holders = 2" in reply.message
    assert written == []


def test_a_full_disk_is_told_without_the_name_of_a_folder():
    def write(_):
        raise OutputError("/secret/place cannot be written: No space left on device.")

    reply, _, error = kept(raw(), write=write)
    assert reply.error == "ReleaseError"
    assert "cannot be written" in reply.message
    assert "secret" not in reply.message
    assert "secret" in str(error.__cause__)
