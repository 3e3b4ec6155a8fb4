"""What a whole run says on the wire: no cell, no label, no rare level, no id, no text of an exception."""

from __future__ import annotations

import pkgutil
import shutil

import numpy as np
import polars as pl
import pytest

import intarsia

pytest.importorskip("nvflare")
pytest.importorskip("psutil")

from intarsia.protocol import Reply, tag_of
from intarsia.protocol.catalogue import replies, requests
from intarsia.runtime.transcript import Answer, read_file
from tests.e2e.captures import ANY_TAG, Overheard, decoded, messages_in
from tests.e2e.federations import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
CLOSED_LIST = {tag_of(kind) for kind in (*requests(), *replies())}
CANARY = "canary-4711.8150231"
PLACES = {  # what breaks in a site's job process, by where
    "table": "intarsia.federation.site:open_table",
    "local": "intarsia.participant.clusterers:observed_kmeans",
    "gate": "intarsia.privacy.pipeline:rows_behind",
    "filter": "intarsia.federation.flare.filter:decode_reply",
}
HURT = f"""
import importlib, os, sys
where = os.environ.get("HURT", "")
if where and any("worker_process" in word for word in sys.orig_argv):
    def broken(*_, **__):
        raise ValueError("{CANARY}")
    module, name = {PLACES!r}[where].split(":")
    place = importlib.import_module(module)
    assert hasattr(place, name), name
    setattr(place, name, broken)
"""


def test_what_is_broken_exists():
    for place in PLACES.values():
        assert callable(pkgutil.resolve_name(place))


def hospitals():
    """Every cell of its own, a level that two rows have, ids, a column of unique texts."""
    rng = np.random.default_rng(7)
    made = {}
    for name, columns in {"a": ("age", "chol"), "b": ("chol", "thal"), "c": ("age", "thal")}.items():
        kind = rng.permutation(np.arange(40) % 2)
        table = {column: rng.normal(size=40) + 9.0 * kind for column in columns}
        table["ward"] = [f"canary-ward-{name}" if n < 2 else ("north" if kind[n] else "south") for n in range(40)]
        table["patient"] = [f"canary-id-{name}-{n}" for n in range(40)]
        made[name] = pl.DataFrame(table)
    return made


class Listening(Overheard):
    """Sites that say which column names rows."""

    more = ("--id", "patient")


def told(values, names):
    """How numbers could travel: exactly, as halves of an array of single precision, or as text."""
    for value in values.ravel():
        yield np.array(value, "<f8").tobytes()
        yield np.array(value, ">f8").tobytes()
        yield repr(float(value))[:12].encode()
    for array in (values, values.T):
        for pair in np.ascontiguousarray(array).ravel()[: values.size // 2 * 2].reshape(-1, 2):
            yield pair.astype("<f4").tobytes()
            yield pair.astype(">f4").tobytes()
    yield from (name.encode() for name in names)


def label_vectors(labels):
    some = labels[:24]
    for kind in ("<i8", ">i8", "<i4", ">i4", "i1", "<f8", "<f4"):
        yield some.astype(kind).tobytes()
    for between in (",", ", ", " ", "\n", "\r\n"):
        yield between.join(map(str, some)).encode()


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_nothing_of_a_row_is_on_the_wire_and_no_message_outside_the_list(method, tmp_path):
    tables = hospitals()
    with Listening(tmp_path, tables, method) as federation:
        process = federation.begin()
        assert process.wait(300) == 0, (tmp_path / "analyst.log").read_text()
        streams = federation.tap.streams
    heard = b"\x00".join(streams)
    # the capture can see: every answer that the server keeps, names of columns, a mean as the eight bytes it is
    kept = [read_file(path, Answer) for path in tmp_path.glob("kits/server/runs/*/*/*.reply")]
    assert len(kept) >= 6
    assert all(answer.reply in heard for answer in kept)
    assert b"chol" in heard
    found = [raw for stream in streams for raw in messages_in(stream)]
    replies = [raw for raw in found if isinstance(decoded(raw), Reply)]
    assert {answer.reply for answer in kept} == set(replies)  # and no reply left that the server did not keep
    mean = next(m for m in map(decoded, replies) if getattr(m, "values", None) is not None).values[0, 0]
    assert np.array(mean, "<f8").tobytes() in heard
    # no message outside the list
    tags = {tag.decode() for stream in streams for tag in ANY_TAG.findall(stream)}
    assert tags == {tag_of(decoded(raw)) for raw in found}
    assert tags <= CLOSED_LIST
    # nothing of a row
    for name, table in tables.items():
        numbers = table.select(pl.col(pl.Float64)).to_numpy()
        rare = [text for column in ("ward", "patient") for text in table[column] if text.startswith("canary")]
        assert not [canary for canary in told(numbers, rare) if canary in heard]
        labels = federation.labels(name)
        assert len(set(labels)) == 2
        assert not [vector for vector in label_vectors(labels) if vector in heard]
    assert intarsia.load(federation.model).labels == {}
    assert b"canary" not in heard


def seen_by_others(folder):
    """Files of everybody but the site."""
    places = [folder / "kits" / "server", folder / "kits" / "analyst", folder / "study"]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    return [*files, folder / "server.log", folder / "analyst.log"]


def test_no_text_of_an_exception_reaches_anybody_wherever_a_participant_fails(tmp_path):
    (tmp_path / "hurt").mkdir()
    (tmp_path / "hurt" / "sitecustomize.py").write_text(HURT)
    expected = {
        "table": "participant 'a' failed with a ValueError",
        "local": "participant 'a' failed with a ValueError while answering Summarize",
        "gate": "participant 'a' failed with a ValueError while answering Describe",
        "filter": "TASK_RESULT_FILTER_ERROR",
    }
    with Listening(tmp_path, hospitals()) as federation:
        for where, said in expected.items():
            federation.kill("a")
            federation.hurt["a"] = where
            federation.start("a")
            (tmp_path / "analyst.log").unlink(missing_ok=True)
            process = federation.begin()
            wait_until(lambda said=said: said in " ".join(federation.log().split()), say=federation.log)
            process.kill()
            process.wait()
            assert not [path for path in seen_by_others(tmp_path) if CANARY.encode() in path.read_bytes()], where
            shutil.rmtree(tmp_path / "kits" / "server" / "runs")  # the next one is asked from the beginning
            for kept in tmp_path.glob("kits/*/intarsia/*.replies"):  # and answers anew
                shutil.rmtree(kept)
        streams = federation.tap.streams
        for name in federation.names:
            resources = (tmp_path / "kits" / name / "local" / "resources.json").read_text()
            assert '"allow_log_streaming": false' in resources
            assert "log_streamer" not in resources
    assert any(b"TASK_RESULT_FILTER_ERROR" in stream for stream in streams)  # the capture can see
    assert not any(b"canary" in stream for stream in streams)
    # the site's own log has it: there was something to be kept
    assert CANARY in (tmp_path / "a.log").read_text()
