"""Numbers as spreadsheets write them in different countries: 1.234,5 and 1,234.5 and 1'234.5 and 1 234,5.

A comma or a point may be the decimal sign or separate thousands, and nothing is guessed: 12,5 decides, and so does 1.234,5;
1,234 decides nothing. A column is read by what its own cells decide. If they decide nothing, the sign has the role that it
has in the other columns of the file, if it has one there and not the other; then the role that ``--decimal`` gives it. What
is still open is said, and not read. Without any comma in a number, a point is a decimal point, as everywhere in CSV, unless
no cell decides and the file is one of a spreadsheet abroad: its cells are separated by semicolons, or it is UTF-16.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from intarsia.exceptions import SettingError
from intarsia.tables.categories import CONTRADICTION
from intarsia.tables.number_texts import MINUS

if TYPE_CHECKING:
    import polars as pl

COMMA, POINT = ",", "."
_SIGN, _EXPONENT = rf"^\s*[+{MINUS}-]?", rf"([eE][+{MINUS}-]?[0-9]+)?\s*$"
_FIRST = r"[1-9][0-9]{0,2}"  # the digits before the first separator of thousands: no number is grouped as 0.123
_MARKS = "'’\u00a0\u202f\u2009"  # separate thousands and nothing else
_GAP = rf"[ {_MARKS}]"
# cells of texts that may be numbers of this kind: only columns that have one are looked at closely
SUSPECT = rf"^\s*({MINUS}[0-9.,]|[+{MINUS}-]?([0-9.]*[,{_MARKS} ][0-9]|{_FIRST}(\.[0-9]{{3}}){{2}}))|[eE]{MINUS}"


def _decimal(sign: str) -> str:
    """Return the pattern of numbers with a decimal sign and without separators of thousands."""
    return rf"([0-9]*[{sign}][0-9]+|[0-9]+[{sign}])"


def _grouped(separator: str, least: int = 1) -> str:
    return rf"{_FIRST}({separator}[0-9]{{3}}){{{least},}}"


_PLAIN = rf"{_SIGN}[0-9]+{_EXPONENT}"
_OPEN = {sign: rf"{_SIGN}{_FIRST}[{sign}][0-9]{{3}}\s*$" for sign in (COMMA, POINT)}
_OTHER = {COMMA: POINT, POINT: COMMA}
# as decimal sign (1,234 is excluded by its own pattern), and between thousands
_AS_DECIMAL = {
    sign: rf"{_SIGN}({_decimal(sign)}|({_grouped(f'[{_OTHER[sign]}]')}|{_grouped(_GAP)})[{sign}][0-9]*){_EXPONENT}"
    for sign in (COMMA, POINT)
}
_AS_GROUPS = {
    sign: rf"{_SIGN}({_grouped(f'[{sign}]', 2)}|{_grouped(f'[{sign}]')}[{_OTHER[sign]}][0-9]*)\s*$"
    for sign in (COMMA, POINT)
}
_MARKED, _SPACED = rf"{_SIGN}{_grouped(f'[{_MARKS}]')}\s*$", rf"{_SIGN}{_grouped(_GAP)}\s*$"


@dataclass(frozen=True)
class Evidence:
    """How many cells of a column are what; a cell such as 1.234,5 says something about both signs."""

    filled: int = 0
    numbers: int = 0  # in any of the notations
    spaced: int = 0  # such as 1 234 with an ordinary space, which may be two codes
    marked: int = 0  # with a space or an apostrophe between digits
    minus: int = 0  # with a typographic minus sign
    decimal: Mapping[str, int] | None = None  # by sign, in this role for certain
    groups: Mapping[str, int] | None = None
    open: Mapping[str, int] | None = None  # 1,234 or 1.234

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            self.filled + other.filled,
            self.numbers + other.numbers,
            self.spaced + other.spaced,
            self.marked + other.marked,
            self.minus + other.minus,
            *(_sum(getattr(self, name), getattr(other, name)) for name in ("decimal", "groups", "open")),
        )

    def count(self, role: str, sign: str) -> int:
        """Return how many cells show a sign in a role."""
        counts: Mapping[str, int] = getattr(self, role) or {}
        return counts.get(sign, 0)

    @property
    def sign(self) -> str | None:
        """The decimal sign that the cells decide; None if they decide none, or two."""
        signs = [sign for sign in (COMMA, POINT) if self.count("decimal", sign) or self.count("groups", _OTHER[sign])]
        return signs[0] if len(signs) == 1 else None

    @property
    def contradicts(self) -> bool:
        """Whether both signs are decimal signs."""
        return all(self.count("decimal", sign) or self.count("groups", _OTHER[sign]) for sign in (COMMA, POINT))


def _sum(left: Mapping[str, int] | None, right: Mapping[str, int] | None) -> dict[str, int]:
    return {sign: (left or {}).get(sign, 0) + (right or {}).get(sign, 0) for sign in (COMMA, POINT)}


def evidence_of(cells: pl.Series) -> Evidence:
    """Return what the texts of a column say about its numbers."""
    import polars as pl

    cells = cells.drop_nulls()
    cells = cells.filter(cells.str.contains(r"\S"))
    told = {"plain": _PLAIN, "grouped": _MARKED, "spaced": _SPACED}
    told |= {f"open{sign}": _OPEN[sign] for sign in (COMMA, POINT)}
    told |= {f"decimal{sign}": _AS_DECIMAL[sign] for sign in (COMMA, POINT)}
    told |= {f"groups{sign}": _AS_GROUPS[sign] for sign in (COMMA, POINT)}
    flags = pl.DataFrame({name: cells.str.contains(pattern) for name, pattern in told.items()})
    for sign in (COMMA, POINT):  # 1,234 has the form of a decimal number, too
        flags = flags.with_columns((pl.col(f"decimal{sign}") & ~pl.col(f"open{sign}")).alias(f"decimal{sign}"))
    total = {name: int(flags[name].sum() or 0) for name in told}
    return Evidence(
        len(cells),
        int(flags.select(pl.any_horizontal(pl.all())).to_series().sum() or 0),
        total["spaced"] - total["grouped"],
        int(cells.str.contains(rf"[0-9]{_GAP}[0-9]").sum() or 0),
        int(cells.str.contains(MINUS, literal=True).sum() or 0),
        {sign: total[f"decimal{sign}"] for sign in (COMMA, POINT)},
        {sign: total[f"groups{sign}"] for sign in (COMMA, POINT)},
        {sign: total[f"open{sign}"] for sign in (COMMA, POINT)},
    )


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written: its decimal sign, whether thousands are separated, and the minus sign."""

    decimal: str = POINT
    grouped: bool = False
    minus: bool = False

    def expression(self, name: str) -> pl.Expr:
        """Return the column of texts as numbers."""
        import polars as pl

        digits = pl.col(name).str.strip_chars().str.replace_all(rf"[{_OTHER[self.decimal]}\s {_MARKS}]", "")
        digits = digits.str.replace(self.decimal, POINT, literal=True)
        digits = digits.str.replace_all(MINUS, "-", literal=True) if self.minus else digits
        return pl.when(digits == "").then(None).otherwise(digits).cast(pl.Float64, strict=True).alias(name)


@dataclass(frozen=True)
class Notations:
    """The notations of a file's columns, and the reasons why columns of numbers cannot be read."""

    columns: Mapping[str, Notation]
    doubtful: Mapping[str, str]

    def words(self) -> list[str]:
        """Return what is unusual about the numbers, in words."""
        commas = [name for name, notation in self.columns.items() if notation.decimal == COMMA]
        grouped = [name for name, notation in self.columns.items() if notation.grouped]
        minus = [name for name, notation in self.columns.items() if notation.minus]
        listed = [("decimal comma", commas), ("separators of thousands", grouped), (f"minus signs ({MINUS})", minus)]
        return [
            f"{words} in {', '.join(repr(name) for name in names[:5])}{_more(names)}"
            for words, names in listed
            if names
        ]


def _more(names: Collection[str]) -> str:
    return f" and {len(names) - 5} more columns" if len(names) > 5 else ""


def settle(
    evidence: Mapping[str, Evidence], declared: str | None, separator: str, file: str, *, is_local: bool
) -> Notations:
    """Return how each column is read, or why it is not.

    ``declared`` is the decimal sign that was given. A file that ``is_local`` was written by the customs of a country.
    """
    numbers = {name: each for name, each in evidence.items() if _is_number(each, declared)}
    roles = {
        (role, sign): any(each.count(role, sign) for each in numbers.values() if not each.contradicts)
        for role in ("decimal", "groups")
        for sign in (COMMA, POINT)
    }
    any_comma = any(
        each.count(role, COMMA)
        for each in evidence.values()
        for role in ("decimal", "groups", "open")
        if 2 * each.numbers > each.filled
    )
    columns, doubtful = {}, {}
    for name, each in numbers.items():
        sign = each.sign
        is_open = [sign for sign in (COMMA, POINT) if each.count("open", sign)]
        if each.contradicts:
            doubtful[name] = CONTRADICTION
            continue
        if sign is None and is_open:
            sign = _by_others(is_open, roles) or _by_option(is_open, declared, separator)
            if sign is None and _is_point(is_open, roles, separator, any_comma=any_comma or is_local):
                sign = POINT
            if sign is None:
                doubtful[name] = _doubt(is_open[0], file)
                continue
        columns[name] = _notation(each, sign or POINT)
    return Notations(columns, doubtful)


def _is_point(
    is_open: Collection[str], roles: Mapping[tuple[str, str], bool], separator: str, *, any_comma: bool
) -> bool:
    """Return whether the decimal sign is a point, because of what separates cells and of the other numbers."""
    if POINT in is_open:
        return COMMA not in is_open and not any_comma
    return separator == COMMA and roles["decimal", POINT] and not roles["decimal", COMMA]


def _is_number(each: Evidence, declared: str | None) -> bool:
    """Return whether all cells are numbers; with ordinary spaces between digits only where a comma says so."""
    if not each.filled or each.numbers < each.filled:
        return False
    return not each.spaced or declared == COMMA or bool(each.count("decimal", COMMA))


def _by_others(is_open: Collection[str], roles: Mapping[tuple[str, str], bool]) -> str | None:
    """Return the decimal sign if the file shows each of these signs in one role only."""
    signs = set()
    for sign in is_open:
        if roles["decimal", sign] == roles["groups", sign]:
            return None
        signs.add(sign if roles["decimal", sign] else _OTHER[sign])
    return signs.pop() if len(signs) == 1 else None


def _by_option(is_open: Collection[str], declared: str | None, separator: str) -> str | None:
    """Return the declared sign. In a file that separates cells by commas, a point alone stays a decimal point."""
    if declared == COMMA and separator == COMMA and COMMA not in is_open:
        return POINT
    return declared


def _notation(each: Evidence, sign: str) -> Notation:
    other = _OTHER[sign]
    return Notation(
        sign, bool(each.count("groups", other) or each.count("open", other) or each.marked), bool(each.minus)
    )


def _doubt(sign: str, file: str) -> str:
    word = {COMMA: "comma", POINT: "point"}[sign]
    meaning = {sign: "1.234", _OTHER[sign]: "1234"}
    return (
        f"numbers in which a {word} may be the decimal sign or separate thousands; say which: "
        f"--decimal '{file}={sign}' ({meaning[sign]}) or --decimal '{file}={_OTHER[sign]}' ({meaning[_OTHER[sign]]})"
    )


def check_decimal(sign: str | None) -> str | None:
    """Return a decimal sign, or raise a SettingError."""
    if sign not in {None, COMMA, POINT}:
        raise SettingError(f"decimal must be ',' or '.'. Got {sign!r} instead.")
    return sign
