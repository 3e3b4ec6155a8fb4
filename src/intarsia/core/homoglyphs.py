"""Names that look the same and are not: letters of two alphabets with one shape, and letters without any."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import category, name, normalize

# small letters whose small or capital form looks like a Latin one
_LATIN = str.maketrans(
    "авеікмнорстухјѕԁһԛԝӏ" + "αβεζηικμνορτυχγ" + "օսհո" + "ıɑɡ",
    "abeikmhopctyxjsdhqwl" + "abezhikmvoptyxy" + "ouhn" + "iag",
)


def skeleton(text: str) -> str:
    """Return a text as it looks, whatever its case: texts with the same skeleton can be told apart by a computer only.

    >>> skeleton("Age") == skeleton("аge") == skeleton("age\N{ZERO WIDTH SPACE}")
    True
    """
    return "".join(letter for letter in _folded(text).translate(_LATIN) if category(letter) != "Cf")


def look_the_same(left: str, right: str) -> bool:
    """Return whether two texts look the same, whatever their case, and are not the same."""
    return skeleton(left) == skeleton(right) and _folded(left) != _folded(right)


def _folded(text: str) -> str:
    return normalize("NFKC", text).casefold()


def differing_letters(left: str, right: str) -> str:
    """Return by name the letters of other alphabets, and those without a shape, that only one of two texts has.

    >>> differing_letters("age", "аge")
    'CYRILLIC SMALL LETTER A'
    """
    letters = set(_folded(left)) ^ set(_folded(right))
    return ", ".join(sorted(name(each, f"U+{ord(each):04X}") for each in letters if each != skeleton(each))) or "order"


def first_pair(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that look the same and are not, or None.

    >>> first_pair(["age", "sex", "аge"]) == ("age", "аge")
    True
    """
    first: dict[str, str] = {}
    for each in names:
        other = first.setdefault(skeleton(each), each)
        if look_the_same(other, each):
            return other, each
    return None
