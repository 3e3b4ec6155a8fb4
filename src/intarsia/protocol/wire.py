"""The wire format: the base classes of messages, and messages as bytes (MessagePack) and back.

Every message is frozen and typed. An array travels as dtype, shape and raw bytes, never as a pickle. The bytes of a message
are kept as long as the message itself, so that a message is encoded once, however many callers need its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from intarsia.exceptions import ProtocolError
from intarsia.protocol.facts import Fact, Need, facts_of
from intarsia.protocol.terms import StudyTerms

PROTOCOL = 1
Array = npt.NDArray[Any]
_ARRAY_CODE = 1
_DTYPES = {b"f": np.dtype("<f8"), b"i": np.dtype("<i8"), b"b": np.dtype("|b1")}
_LETTER = {"f": b"f", "i": b"i", "b": b"b"}


class Part(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """The base class of what messages contain beside numbers, names and arrays."""

    @classmethod
    def facts(cls) -> Mapping[str, Fact]:
        """Return the fact of each field by name."""
        return facts_of(cls)

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the value of each field."""
        for name in self.__struct_fields__:
            yield name, getattr(self, name)


class Message(Part, frozen=True, kw_only=True, weakref=True, tag_field="type"):
    """The base class of all messages. ``protocol`` is the version of the list of messages.

    The first line of the docstring of a message says in a report what the message asks or tells.
    """

    protocol: int = PROTOCOL

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the value of each field but for the version."""
        return (pair for pair in super().fields() if pair[0] != "protocol")


class Request(Message, frozen=True):
    """The base class of what the coordinator sends to a participant.

    ``is_round`` says that a run repeats the request, each time with other numbers; ``is_counted``, that a participant limits
    the number of different requests, because their answers are sums over rows that the coordinator chooses.
    """

    is_round: ClassVar[bool] = False
    is_counted: ClassVar[bool] = True

    def check(self) -> None:
        """Raise a ProtocolError for numbers and words that no coordinator sends."""

    def needs(self) -> Iterator[Need]:
        """Yield the rules of a release policy without which the answer may not leave."""
        return iter(())

    def departures(self, terms: StudyTerms) -> Iterator[str]:  # noqa: ARG002
        """Yield in words each way in which the request is not one that a study with these terms asks: here, in any way."""
        yield f"{tag_of(self)} is not among its requests"

    def place(self, terms: StudyTerms) -> str | None:  # noqa: ARG002
        """The place of the request in a run, which no other request may take; None if there may be several."""
        return None

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:  # noqa: ARG002
        """Return the settings that must be the same in all requests of a run."""
        return {}

    @property
    def n_sets(self) -> int:
        """The number of sets of centroids that are asked about at the same time."""
        return 1


class Reply(Message, frozen=True, kw_only=True):
    """The base class of what a participant sends to the coordinator: the answer to a request, or a failure."""

    def check(self) -> None:
        """Raise a ProtocolError if the fields do not fit each other."""

    def differences(self, before: Self | None) -> Iterator[int]:  # noqa: ARG002
        """Yield numbers of rows by which sums in this reply differ from each other, or from those in an earlier reply."""
        return iter(())


class Exchange(NamedTuple):
    """The classes of a request and of the reply that answers it; ``title`` names the step in progress lines and charts."""

    request: type[Request]
    reply: type[Reply]
    title: str

    @property
    def phase(self) -> str:
        """The name of the step: the last part of the request's tag."""
        return tag_of(self.request).rpartition(".")[2]


M = TypeVar("M", bound=Message)


def tag_of(message: Message | type[Message]) -> str:
    """The kind of a message as it stands in its bytes: ``query.…`` or ``reply.…``."""
    return str(message.__struct_config__.tag)


def pack_array(value: Any) -> msgspec.msgpack.Ext:
    """Return an array as dtype, shape and raw bytes."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _LETTER:
        raise ProtocolError(f"a message cannot contain a {type(value).__name__}")
    letter = _LETTER[value.dtype.kind]
    plain = np.asarray(value, dtype=_DTYPES[letter], order="C")
    head = letter + struct.pack(f"<B{plain.ndim}Q", plain.ndim, *plain.shape)
    return msgspec.msgpack.Ext(_ARRAY_CODE, head + plain.tobytes())


def unpack_array(code: int, data: memoryview) -> Array:
    """Return the array that :func:`pack_array` packed, or raise a ProtocolError."""
    raw = bytes(data)
    if code != _ARRAY_CODE or len(raw) < 2 or raw[:1] not in _DTYPES or raw[1] > 2:
        raise ProtocolError("an array in the message is not well formed")
    dtype, ndim = _DTYPES[raw[:1]], raw[1]
    if len(raw) < 2 + 8 * ndim:
        raise ProtocolError("an array in the message is cut off")
    shape = struct.unpack_from(f"<{ndim}Q", raw, 2)
    body = raw[2 + 8 * ndim :]
    if prod(shape) * dtype.itemsize != len(body):
        raise ProtocolError("the number of bytes of an array in the message does not fit its shape")
    if dtype.kind == "b" and body.strip(b"\x00\x01"):
        raise ProtocolError("an array of truth values in the message contains other values")
    return np.frombuffer(body, dtype=dtype).reshape(shape)


def expect_array(_kind: type, value: Any) -> Any:
    """Return the value of a field that must be an array, if it is one."""
    if not isinstance(value, np.ndarray):  # arrays are the only fields of a type that msgspec does not know
        raise ProtocolError("a field of the message should be an array")
    return value


_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack_array)
_BYTES: WeakKeyDictionary[Message, bytes] = WeakKeyDictionary()


def encode(message: Message) -> bytes:
    """Return the message as bytes. A message that was decoded gives the bytes that it was decoded from."""
    data = _BYTES.get(message)
    if data is None:
        data = _BYTES[message] = _ENCODER.encode(message)
    return data


def decode(data: bytes, kinds: tuple[type[M], ...]) -> M:
    """Return the message of one of these types that the bytes contain, or raise a ProtocolError."""
    try:
        message: M = _decoder(kinds).decode(data)
    except (msgspec.DecodeError, ValueError, TypeError, OverflowError, RecursionError) as error:
        # the decoder's own text may quote what it read
        raise ProtocolError(f"the message cannot be read ({type(error).__name__})") from None
    if message.protocol != PROTOCOL:
        raise ProtocolError(
            f"the message has protocol version {message.protocol}; this installation supports version {PROTOCOL}"
        )
    _BYTES[message] = bytes(data)
    return message


@lru_cache
def _decoder(kinds: tuple[type[Message], ...]) -> msgspec.msgpack.Decoder[Any]:
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return msgspec.msgpack.Decoder(union, dec_hook=expect_array, ext_hook=unpack_array)
