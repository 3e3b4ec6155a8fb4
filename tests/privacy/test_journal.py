"""The journal: one line per counted request and per reply, complete on disk before anything leaves."""

import json
import multiprocessing
from hashlib import sha256

import numpy as np

from intarsia.privacy.journal import ASKED, LEFT, Journal, digest_of, entry_of
from intarsia.protocol import Assign, Failure, Labelled, encode, tag_of

REQUEST = Assign(groups=np.array([0, 1]), n_groups=2)
REPLY = Labelled(sizes=np.array([30, 12]), audited=5)


def test_a_line_tells_what_left_and_no_value(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    journal.write_reply(REPLY, REQUEST, {"clusters": 1, "levels": 0})
    (entry,) = journal.entries()
    assert (entry["event"], entry["request"], entry["reply"]) == (LEFT, "query.assign", "reply.labelled")
    assert (entry["digest"], entry["sha256"]) == (digest_of(REQUEST), sha256(encode(REPLY)).hexdigest())
    assert (entry["bytes"], entry["suppressed"]) == (len(encode(REPLY)), {"clusters": 1})
    assert entry["fields"] == [
        {"field": "sizes", "entries": 2, "bytes": 16, "fewest_rows": 12},
        {"field": "audited", "entries": 1, "bytes": 8, "fewest_rows": None},
    ]


def test_a_request_that_nobody_could_read_has_no_tag(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    journal.write_reply(Failure(error="ProtocolError", message="unreadable"), None)
    (entry,) = journal.entries(LEFT)
    assert (entry["request"], entry["digest"], entry["reply"]) == (None, None, "reply.failure")


def test_a_line_that_was_cut_off_is_skipped_and_the_next_is_complete(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    assert list(journal.entries()) == []
    for _ in range(2):
        journal.write_reply(REPLY, REQUEST)
    journal.path.write_bytes(journal.path.read_bytes()[:-20])
    journal.write_reply(REPLY, REQUEST)
    assert len(list(journal.entries())) == 2
    assert all(line.startswith(b"{") for line in journal.path.read_bytes().splitlines())


def _write(path, n):
    for k in range(n):
        with Journal(path).locked() as journal:
            journal.append(
                {"event": ASKED, "number": 1 + max((e["number"] for e in journal.entries()), default=0), "k": k}
            )


def test_processes_write_one_after_the_other(tmp_path):
    path = tmp_path / "releases.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(path, 20)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == list(range(1, 41))


def test_an_entry_is_the_same_for_the_same_bytes():
    assert entry_of(REPLY, REQUEST, {}, encode(REPLY)) == entry_of(REPLY, REQUEST, {}, encode(REPLY))
    assert tag_of(REPLY) == "reply.labelled"
