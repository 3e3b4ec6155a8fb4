"""Messages of a hostile peer: genuine ones that are changed in one to three places, or bytes that are no message."""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from intarsia.protocol import tag_of
from intarsia.protocol.catalogue import replies, requests

Ext = msgspec.msgpack.Ext
GIGABYTE = 1 << 30
TAGS = [tag_of(kind) for kind in requests() + replies()]
NUMBERS = (
    *(-(2**63), -(2**40), -7, -1, 0, 1, 2, 1000, 2**31, 2**40, 2**53, 2**60, 2**62, 2**63 - 1, 2**64 - 1),
    *(float("nan"), float("inf"), -float("inf"), -0.5, 0.5, 1e9, 1e99, 1e100, 1e300, -1e308),
)
WORDS = (
    "",
    " ",
    "x",
    "y",
    "z",
    "sex",
    "sex=f",
    "a" * 300,
    "b" * 100_000,
    "\x00",
    "\x1b[31mred",
    "ｆ",
    "query.describe",
    "gaussian",  # kinds of densities, and a part of one
    "discrete",
    "covariance",
)
HEADERS = (  # of strings, bytes, extensions, lists and maps that claim to be huge
    *(b"\xdb\x40\x00\x00\x00", b"\xc6\x40\x00\x00\x00", b"\xc9\x40\x00\x00\x00\x01"),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdd\x40\x00\x00\x00" + b"\xc0" * 1000),
)


class Hostile:
    """A hostile peer; everything is drawn from one seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def message(self, genuine, others):
        """Bytes in the place of a genuine message; ``others`` are genuine at another time, or from somebody else."""
        match int(self.rng.integers(20)):
            case 0:
                return self.rng.bytes(int(self.rng.integers(200)))
            case 1:
                return genuine[: int(self.rng.integers(len(genuine)))]
            case 2:
                return self.flipped(genuine)
            case 3:
                return self.bomb(genuine)
            case 4:
                return self.pick(others)
            case _:
                tree = msgspec.msgpack.decode(genuine)
                for _ in range(self.pick([1, 1, 1, 2, 3])):
                    tree = self.changed(tree)
                try:
                    return msgspec.msgpack.encode(tree)
                except (OverflowError, RecursionError):
                    return b""

    def flipped(self, raw):
        raw = bytearray(raw)
        for at in self.rng.integers(len(raw), size=int(self.rng.integers(1, 5))):
            raw[at] = self.rng.integers(256)
        return bytes(raw)

    def bomb(self, genuine):
        """Claims of a gigabyte, and nests."""
        at = int(self.rng.integers(len(genuine)))
        kinds = (
            self.pick(HEADERS),
            genuine[:at] + self.pick(HEADERS) + genuine[at:],
            self.pick([b"\x91", b"\x81\xa1x"]) * 100_000,
            genuine[:at] + b"\x91" * 5_000 + genuine[at:],
        )
        return self.pick(kinds)

    def changed(self, tree):
        """The same with something else at one place."""
        paths = list(walk(tree))
        numbers = [path for path in paths if isinstance(at(tree, path), Ext | int | float)]
        path = self.pick(numbers if numbers and self.rng.random() < 0.7 else paths)  # a type that fits gets farther
        return put(tree, path, self.other(at(tree, path)))

    def other(self, value):
        if self.rng.random() < 0.05:
            return self.pick([None, True, [], {}, "x", 1, 0.5, b"x", array(np.zeros(2)), nest(50), nest(2000)])
        if isinstance(value, Ext):
            return self.other_array(value)
        if isinstance(value, bool | int | float) or value is None:
            return self.pick(NUMBERS)
        if isinstance(value, str | bytes):
            return self.pick(WORDS)
        if isinstance(value, list):
            return self.other_list(value)
        return self.other_map(value)

    def other_list(self, value):
        some = self.pick(value) if value else "x"
        return self.pick([[*value, some], value[::-1], value[1:], [], value * 3, [some] * 300, [*value, nest(20)]])

    def other_map(self, value):
        keys = list(value)
        some = self.pick(keys) if keys else "x"
        without = {key: inner for key, inner in value.items() if key != some}
        return self.pick(
            [
                without,
                value | {self.pick(WORDS): self.pick([1, -1, 2**63, ["x"], "x", None, ["f", "m"]])},
                without | {self.pick(WORDS): value.get(some)},
                value | {"protocol": self.pick([0, 2, 99, -1, 2**60])},
                value | {"type": self.pick([*TAGS, "x"])},
                {},
            ]
        )

    def other_array(self, value):
        try:
            given = unpacked(value)
        except (ValueError, LookupError, OverflowError, struct.error):
            return value
        with np.errstate(over="ignore", invalid="ignore"):
            return self.other_values(value, given.copy())

    def other_values(self, value, values):
        rng = self.rng
        one = tuple(int(rng.integers(n)) for n in values.shape) if values.size else ()
        match int(rng.integers(14)):
            case 0 | 1 | 2 if values.size:
                number = self.pick(NUMBERS)
                if values.dtype.kind == "f":
                    values[one] = float(number)
                elif values.dtype.kind == "i":
                    values[one] = np.int64(np.clip(0 if np.isnan(number) else number, -(2.0**63), 2.0**62))
                else:
                    return Ext(1, value.data[:-1] + bytes([int(rng.integers(256))]))
            case 3 if values.dtype.kind != "b":
                values = -values
            case 4 if values.dtype.kind == "f":
                values = values * self.pick([1e9, 1e50, 1e99, 1e-99, 1e-300, 0.0])
            case 5:
                values = values.T if rng.random() < 0.5 else values.ravel()
            case 6:
                values = np.concatenate([values, values]) if values.ndim else values
            case 7:
                values = values[1:] if values.ndim else values
            case 8:
                values = values[..., 1:] if values.ndim else values
            case 9:
                values = values.astype(self.pick([np.float64, np.int64, np.bool_]))
            case 10:
                return self.lying(value)
            case 11:
                values = np.zeros(self.pick([(), (0,), (0, 0), (0, 3), (3, 0), (1, 1), (1000,), (300, 300)]))
            case 12 if values.dtype.kind == "f":
                values = np.full(values.shape, self.pick([0.0, 7.0, np.nan, np.inf, 1e9, 1e100, -1e100, 1e-320]))
            case _:
                values = rng.permutation(values.ravel()).reshape(values.shape)
        return array(values)

    def lying(self, value):
        """Headers that do not fit the bytes."""
        letter, body = value.data[:1], bytes(value.data)
        kinds = (
            letter + struct.pack("<BQ", 1, GIGABYTE // 8) + body[2:],
            letter + struct.pack("<BQQ", 2, 1 << 32, 1 << 32),
            letter + struct.pack("<BQQ", 2, 0, 2**63),
            letter + struct.pack("<BQQ", 2, 2**64 - 1, 0),
            letter + struct.pack("<BQQQ", 3, 1, 1, 1) + bytes(8),
            letter + b"\xff" + bytes(100),
            b"O" + body[1:],
            body + b"\x00",
            body[:-1],
            b"",
        )
        return Ext(self.pick([1, 1, 1, 2, -1]), self.pick(kinds))


def walk(tree, path=()):
    """All places of a tree, those deep inside as likely as those on top."""
    yield path
    if len(path) > 12:
        return
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from walk(value, (*path, key))
    elif isinstance(tree, list):
        for n, value in enumerate(tree[:20]):
            yield from walk(value, (*path, n))


def at(tree, path):
    for step in path:
        tree = tree[step]
    return tree


def put(tree, path, new):
    if not path:
        return new
    step, *rest = path
    if isinstance(tree, dict):
        return {key: put(inner, rest, new) if key == step else inner for key, inner in tree.items()}
    return [put(inner, rest, new) if n == step else inner for n, inner in enumerate(tree)]


def nest(depth):
    inner: object = 1
    for _ in range(depth):
        inner = [inner]
    return inner


_KINDS = {"f": np.dtype("<f8"), "i": np.dtype("<i8"), "b": np.dtype("|b1")}


def array(values):
    plain = np.asarray(values, dtype=_KINDS[values.dtype.kind], order="C")
    head = plain.dtype.kind.encode() + struct.pack(f"<B{plain.ndim}Q", plain.ndim, *plain.shape)
    return Ext(1, head + plain.tobytes())


def unpacked(value):
    raw = bytes(value.data)
    shape = struct.unpack_from(f"<{raw[1]}Q", raw, 2)
    return np.frombuffer(raw[2 + 8 * raw[1] :], dtype=_KINDS[raw[:1].decode()]).reshape(shape)
