"""No message of a whole run contains the label of a row, global or local, in whatever form."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.participant import Participant
from intarsia.protocol import Failure, LocalSummary, encode
from intarsia.protocol.catalogue import fields_of
from intarsia.protocol.wire import Part
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import WireRuntime
from intarsia.tables.frame import read_table

ROWS = {"a": 1511, "b": 1523, "c": 1531}  # more than any array of a message has entries, and no multiple of a dimension
ALGORITHMS = {
    "federated": FederatedAlgorithm(n_clusters=2, scale="standard", n_starts=2, max_rounds=3, stability=True),
    "federated auto": FederatedAlgorithm(n_clusters=None, scale="robust", n_starts=2, max_rounds=2),
    "mixture": FederatedAlgorithm(n_clusters=2, n_starts=2, max_rounds=2, model="mixture"),
    "one shot": OneShotAlgorithm(n_clusters=2, scale="minmax", n_starts=2, bounding_boxes=True, fidelity=True),
    "full covariance": OneShotAlgorithm(n_clusters=2, n_starts=2, density="gaussian_full", stability=True),
    "low rank": OneShotAlgorithm(n_clusters=2, n_starts=2, density="gaussian_low_rank"),
    "discrete": OneShotAlgorithm(n_clusters=2, n_starts=2, density="discrete", n_proxies=10),
    "dirichlet": OneShotAlgorithm(n_clusters=2, n_starts=2, density="dirichlet", n_proxies=10),
}


class Tapped(WireRuntime):
    """Keeps all messages, in both directions."""

    def __init__(self, participants):
        super().__init__(participants)
        self.messages = []

    def exchange(self, requests, on_reply=None):
        replies = super().exchange(requests, on_reply)
        self.messages += [(name, message) for kind in (requests, replies) for name, message in kind.items()]
        return replies


def _tables(name):
    rng = np.random.default_rng(7)
    for who, n in ROWS.items():
        truth = rng.integers(2, size=n)  # in no order, so that a label vector has a pattern of its own
        rows = 9.0 * truth[:, None] + rng.normal(size=(n, 3))
        if name == "dirichlet":
            rows = rng.gamma(np.where(truth[:, None] > 0, [9.0, 2.0, 1.0], [1.0, 2.0, 9.0]))
            rows /= rows.sum(axis=1, keepdims=True)
        elif name == "discrete":
            rows = np.round(rows)
        yield who, dict(zip("xyz", rows.T, strict=True))


def _forms(labels):
    """A label vector as bytes: as numbers of any width, as bits of each cluster, and as digits."""
    for dtype in ("<i1", "<i2", "<i4", "<i8", "<f4", "<f8"):
        yield labels.astype(dtype).tobytes()
    for k in np.unique(labels):
        for order in ("big", "little"):
            yield np.packbits(labels == k, bitorder=order).tobytes()
    yield "".join(map(str, labels)).encode()
    yield ", ".join(map(str, labels)).encode()


def _contains(raw, labels):
    """Whether bytes contain the labels, or those of the first or the last sixty-four rows, in any form."""
    pieces = (labels, labels[:64], labels[-64:], labels[::-1])
    return any(form in raw for piece in pieces for form in _forms(piece))


def _arrays(part, path=""):
    for name, value in part.fields():
        inner = value if isinstance(value, tuple) else (value,)
        for one in inner:
            if isinstance(one, Part):
                yield from _arrays(one, f"{path}{name}.")
            elif isinstance(one, np.ndarray):
                yield f"{path}{name}", one


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_message_of_a_run_contains_a_label(name):
    participants = {who: Participant(read_table(columns, who)) for who, columns in _tables(name)}
    runtime = Tapped(list(participants.values()))
    drive(ALGORITHMS[name], runtime)
    assert not any(isinstance(message, Failure) for _, message in runtime.messages)
    for who, participant in participants.items():
        for labels in (participant.labels, participant.local_labels):
            assert len(np.unique(labels)) > 1  # there is something to leak
            assert not any(_contains(encode(message), labels) for _, message in runtime.messages), who
    for who, message in runtime.messages:
        for path, array in _arrays(message):
            assert array.size < min(ROWS.values()), (who, path, array.shape)
        for field in fields_of(message):
            assert field.entries is None or field.entries < min(ROWS.values()), (who, field)


@pytest.mark.parametrize("form", range(5))
def test_a_planted_label_vector_is_found(form):
    """The check above sees what it looks for."""
    labels = np.random.default_rng(0).integers(3, size=211)
    hidden = [
        {"sizes": labels},
        {"values": labels.astype(float).reshape(-1, 1)},
        {"sizes": np.frombuffer(np.packbits(labels == 1).tobytes()[:24], dtype="<i8")},
        {"features": ("".join(map(str, labels)),)},
        {"fidelity": np.r_[1.5, labels[:64].astype(float)]},
    ][form]
    given = {"features": ("x",), "n_rows": 9, "sizes": np.ones(1, dtype=int)}
    given |= dict.fromkeys(("filled", "values", "counts"), np.ones((1, 1)))
    assert not _contains(encode(LocalSummary(**given)), labels)
    assert _contains(encode(LocalSummary(**given | hidden)), labels)
