"""Names are somebody else's text: what would turn a line around, or is no character at all, is shown as a mark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_CONTROLS = {
    *range(0x20),  # with tabs and line ends
    *range(0x7F, 0xA0),
    0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # which way a text runs
    0x2028, 0x2029,
    *range(0xD800, 0xE000),  # surrogates, which are not valid UTF-8
}  # fmt: skip
_MARKS = dict.fromkeys(_CONTROLS, "\ufffd")


def cleaned(thing: T) -> T:
    """The same, with marks in the place of controls in every text inside."""
    return _cleaned(thing)  # type: ignore[no-any-return]


def _cleaned(thing: Any) -> Any:
    if isinstance(thing, str):
        return type(thing)(thing.translate(_MARKS)) if type(thing) is str else thing
    if isinstance(thing, tuple):
        # numbers are most of what there is
        return thing if all(type(part) in {float, int, type(None)} for part in thing) else tuple(map(_cleaned, thing))
    if isinstance(thing, list):
        return [_cleaned(part) for part in thing]
    if isinstance(thing, Mapping):
        return {_cleaned(key): _cleaned(value) for key, value in thing.items()}
    if is_dataclass(thing) and not isinstance(thing, type):
        return replace(thing, **{field.name: _cleaned(getattr(thing, field.name)) for field in fields(thing)})
    return thing
