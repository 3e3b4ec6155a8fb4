"""Control characters in names, which could reverse a line or break a page, are replaced by a mark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_CONTROLS = {
    *range(0x20),  # also tabs and line ends
    *range(0x7F, 0xA0),
    0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # direction of a text
    0x2028, 0x2029,
    *range(0xD800, 0xE000),  # surrogates, which are not valid UTF-8
}  # fmt: skip
_MARKS = dict.fromkeys(_CONTROLS, "\ufffd")


def cleaned(value: T) -> T:
    """Return the value with control characters replaced in every text inside."""
    return _cleaned(value)  # type: ignore[no-any-return]


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return type(value)(value.translate(_MARKS)) if type(value) is str else value
    if isinstance(value, tuple):
        # most tuples contain numbers only
        return value if all(type(part) in {float, int, type(None)} for part in value) else tuple(map(_cleaned, value))
    if isinstance(value, list):
        return [_cleaned(part) for part in value]
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(entry) for key, entry in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _cleaned(getattr(value, field.name)) for field in fields(value)})
    return value
