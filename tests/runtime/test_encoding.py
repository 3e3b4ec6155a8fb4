"""How often messages become bytes: once at the participant, never again at the coordinator."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from intarsia.protocol import Reply, decode_reply, encode, wire
from intarsia.runtime.drive import drive
from intarsia.runtime.recorder import Recorder
from intarsia.runtime.transcript import Answer, Transcript, read_file
from tests.runtime import cases


@pytest.fixture
def encoded(monkeypatch):
    """How often each message was encoded, by the message itself."""
    times, messages, encoder = Counter(), [], wire._ENCODER

    class Counting:
        def encode(self, message):
            messages.append(message)  # so that its id stays its own
            times[id(message)] += 1
            return encoder.encode(message)

    # the encoder is private because nobody should go round the bytes that are kept, which is what is tested here
    monkeypatch.setattr(wire, "_ENCODER", Counting())
    return lambda kind: [times[id(message)] for message in messages if isinstance(message, kind)]


@pytest.mark.parametrize("kind", ["wire", "flare_tasks"])
def test_a_reply_is_encoded_once_by_its_participant_and_never_by_the_coordinator(kind, encoded, tmp_path):
    if kind == "flare_tasks":
        pytest.importorskip("nvflare")
    runtime, recorder = (cases.Wire() if kind == "wire" else cases.FlareTasks()).runtime(), Recorder()
    with Transcript(tmp_path / "t") as transcript:
        drive(cases.algorithm(), runtime, recorder, transcript)
    replies = sum(len(exchange.bytes_out) for exchange in recorder.exchanges)
    assert encoded(Reply) == [1] * replies


def test_a_transcript_keeps_the_bytes_that_arrived(tmp_path):
    """Bytes that another library wrote differ from ours for the same reply; no copy is made of them."""
    (runtime, request) = cases.InProcess().runtime(), cases.algorithm().start(cases.NAMES).requests["a"]
    reply = runtime.exchange({"a": request})["a"]
    fields = msgspec.msgpack.decode(encode(reply))
    raw = msgspec.msgpack.encode(dict(sorted(fields.items())))
    assert raw != encode(reply)
    with Transcript(tmp_path / "t") as transcript:
        transcript.opened(0, {"a": request})
        transcript.keep(0, {"a": request}, "a", decode_reply(raw), 0.0)
    assert read_file(tmp_path / "t" / "0000" / "00.reply", Answer).reply == raw
