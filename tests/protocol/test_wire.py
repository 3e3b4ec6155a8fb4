from __future__ import annotations

import weakref

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from intarsia.exceptions import ProtocolError
from intarsia.protocol import (
    AskColumns,
    Assign,
    Centres,
    ColumnKinds,
    Columns,
    DensityMessage,
    Describe,
    Description,
    Failure,
    Gaussians,
    Label,
    Labelled,
    LocalSummary,
    Message,
    Moments,
    Refine,
    Refined,
    Refinement,
    Summarize,
    decode_reply,
    decode_request,
    encode,
)

A = np.arange(6.0).reshape(2, 3)
V = np.arange(3.0)
COLUMNS = Columns(shift=V, scale=V, levels={"sex": ("f", "m")})
CENTRES = Centres(values=A, known=A > 1, low=V, high=V)
REQUESTS = [
    AskColumns(),
    Describe(scale="robust"),
    Summarize(seed=1, n_clusters=3, n_local_clusters="silhouette", max_local_clusters=3),
    Summarize(seed=1, n_clusters=None, n_local_clusters=3, max_local_clusters=9, columns=COLUMNS, density="gaussian"),
    Refine(seed=1, round=2, rivals=(CENTRES, CENTRES), min_points=1, max_iter=10),
    Label(centres=CENTRES, columns=COLUMNS),
    Label(centres=CENTRES, gaussians=Gaussians(means=A, variances=A, seen=A > 1, weights=V, overall=V, width=V)),
    Assign(groups=np.array([0, 1]), n_groups=2),
]
REPLIES = [
    ColumnKinds(numbers=("a", "b"), categories=("c",)),
    Description(
        features=("a", "b"), n_rows=5, levels={"c": ("x",)}, moments=Moments(count=V, mean=V, m2=V, quantiles=A)
    ),
    LocalSummary(
        features=("a",),
        n_rows=9,
        filled=np.array([7]),
        values=A,
        counts=A,
        sizes=np.array([1, 2]),
        densities=(
            DensityMessage("gaussian", {"covariance": V}),
            DensityMessage("gaussian", {"covariance": V, "factors": A}),
            DensityMessage("dirichlet", {"alpha": V, "total": np.array(2.0)}),
        ),
        low=A,
        high=A,
    ),
    Refinement(refined=(Refined(values=A, counts=A, sizes=np.array([1, 2]), misfit=0.5),)),
    Labelled(sizes=np.array([3, 4])),
    Labelled(sizes=np.array([3, 4]), counts=A, squares=A),
    Failure(error="InputError", message="no"),
]


def same(left, right):
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and np.array_equal(left, right)
    if isinstance(left, msgspec.Struct):
        return type(left) is type(right) and all(
            same(getattr(left, f), getattr(right, f)) for f in left.__struct_fields__
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@pytest.mark.parametrize("message", REQUESTS, ids=lambda m: type(m).__name__)
def test_a_request_survives_the_wire(message):
    assert same(decode_request(encode(message)), message)


@pytest.mark.parametrize("message", REPLIES, ids=lambda m: type(m).__name__)
def test_a_reply_survives_the_wire(message):
    assert same(decode_reply(encode(message)), message)


@given(arrays(st.sampled_from([np.float64, np.int64, np.bool_]), array_shapes(min_dims=0, max_dims=2, min_side=0)))
def test_any_array_survives_the_wire(array):
    decoded = decode_reply(encode(Labelled(sizes=array)))
    np.testing.assert_array_equal(decoded.sizes, array)
    assert decoded.sizes.shape == array.shape


def test_a_request_is_not_a_reply():
    with pytest.raises(ProtocolError):
        decode_reply(encode(REQUESTS[0]))
    with pytest.raises(ProtocolError):
        decode_request(encode(REPLIES[0]))


def test_another_protocol_version_is_refused_by_number():
    with pytest.raises(ProtocolError, match="version 99; this installation supports version 1"):
        decode_request(encode(Describe(protocol=99)))


def test_objects_do_not_travel():
    with pytest.raises(ProtocolError, match="cannot contain"):
        encode(Labelled(sizes=np.array([object()])))


def test_the_decoder_s_complaint_does_not_quote_what_it_read():
    raw = msgspec.msgpack.encode({"type": "reply.labelled", "sizes": "secret-4711", "protocol": 1})
    with pytest.raises(ProtocolError) as error:
        decode_reply(raw)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@settings(max_examples=500)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_and_nothing_else(raw):
    for decode in (decode_request, decode_reply):
        try:
            decode(raw)
        except ProtocolError:
            pass


@settings(max_examples=500)
@given(st.sampled_from([*REQUESTS, *REPLIES]), st.data())
def test_damaged_messages_are_refused_or_read_as_messages(message, data):
    raw = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    for decode in (decode_request, decode_reply):
        try:
            assert isinstance(decode(bytes(raw)), Message)
        except ProtocolError:
            pass


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"f",
        b"f\x02",
        b"f\x09" + b"\0" * 72,
        b"f\x01" + (2**63).to_bytes(8, "little"),
        b"b\x01\x01" + b"\0" * 7 + b"\x07",
        b"x\x00",
    ],
)
def test_malformed_arrays_are_refused_without_allocating_what_they_declare(body):
    raw = msgspec.msgpack.encode({"type": "reply.labelled", "sizes": msgspec.msgpack.Ext(1, body), "protocol": 1})
    with pytest.raises(ProtocolError):
        decode_reply(raw)


def test_a_message_is_encoded_once():
    message = Describe(scale="robust")
    assert encode(message) is encode(message)
    data = encode(Assign(groups=np.array([0, 1]), n_groups=2))
    assert encode(decode_request(data)) is data  # which came with these bytes


def test_the_bytes_of_a_message_go_with_it():
    message = Describe()
    there = weakref.ref(message)
    encode(message)
    del message
    assert there() is None
