"""What can go wrong, as a tree.

::

    IntarsiaError
    ├── InputError (also a ValueError)      something about the tables or the settings
    │   ├── SettingError                    a setting has an invalid value
    │   ├── TableTypeError (also TypeError) not a table of a kind we know
    │   ├── EmptyTableError                 a table without rows or without columns
    │   ├── DuplicateColumnError            two columns of one table have the same name
    │   ├── UnnamedColumnError              a column without a name cannot be aligned with others
    │   ├── NonNumericError                 cells that are neither numbers nor categories
    │   ├── MixedKindsError                 a column of numbers here and of categories there
    │   ├── NonFiniteError                  infinite cells
    │   ├── MissingCellsError               missing values where the chosen settings need all values
    │   ├── TooFewRowsError                 fewer rows than clusters asked for
    │   ├── TooFewClustersError             more global clusters asked for than local ones exist
    │   ├── DensityError                    rows that a chosen kind of density cannot describe
    │   ├── DisjointFeaturesError           participants that share no column with the others
    │   └── UnknownFeaturesError            columns that the fitted model never saw
    ├── OutputError                         a file that cannot be written
    ├── DatasetError                        a dataset file is not there, or not the expected one
    ├── ModelFileError                      a saved study is damaged, too new, or not one
    ├── TranscriptError                     the record of a run is of another run, in use, or cannot be kept
    ├── FederationError                     a federation that cannot be set up or reached, or ended without a result
    ├── LocalAlgorithmError                 a participant's own clustering algorithm failed or does not fit
    ├── ReleaseError                        a participant's own rules do not let out what was asked for
    └── ProtocolError                       a message that is not what was agreed

    IntarsiaWarning (a UserWarning)
    ├── AssumptionWarning                   a condition of the method does not hold; the answer may still be good
    ├── ContradictionWarning                replies of a participant that cannot be about the same rows
    ├── FeatureNameWarning                  column names that look alike but are not the same
    └── UnitsWarning                        some features reach so much farther than others that they decide alone

Messages name columns, participants and counts, never cell values: errors travel, rows do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class IntarsiaError(Exception):
    """Whatever Intarsia raises on purpose; ``participant`` says whose reply was at fault, where it was one's."""

    participant: str | None = None


class InputError(IntarsiaError, ValueError):
    """Something about the tables or the settings."""


class SettingError(InputError):
    """A setting has an invalid value."""


class TableTypeError(InputError, TypeError):
    """Not a table of a kind we know."""


class EmptyTableError(InputError):
    """A table without rows or without columns."""


class DuplicateColumnError(InputError):
    """Two columns of one table have the same name."""


class UnnamedColumnError(InputError):
    """A column without a name cannot be aligned with the columns of others."""


class NonNumericError(InputError):
    """Cells that are neither numbers nor categories; ``columns`` are the reasons by participant and column."""

    columns: Mapping[str, Mapping[str, str]] | None = None


class MixedKindsError(InputError):
    """A column that is numbers for one participant and categories for another."""


class NonFiniteError(InputError):
    """Infinite cells."""


class MissingCellsError(InputError):
    """Missing values where the chosen settings need all values."""


class TooFewRowsError(InputError):
    """Fewer rows than clusters asked for."""


class TooFewClustersError(InputError):
    """More global clusters asked for than there are local ones to build them from."""


class DensityError(InputError):
    """Rows that the chosen kind of density cannot describe."""


class DisjointFeaturesError(InputError):
    """Participants that share no column, not even through others."""


class UnknownFeaturesError(InputError):
    """Columns that the fitted model never saw."""


class OutputError(IntarsiaError):
    """A file cannot be written."""


class DatasetError(IntarsiaError):
    """A dataset file is not where it is looked for, or is not the expected one."""


class ModelFileError(IntarsiaError):
    """A saved study is damaged, too new, or not one."""


class TranscriptError(IntarsiaError):
    """The record of a run is of another run, in use, or cannot be kept."""


class FederationError(IntarsiaError):
    """A federation that cannot be set up or reached, or ended without a result."""


class LocalAlgorithmError(IntarsiaError):
    """A participant's own clustering algorithm failed, or cannot do what the method asks of it."""


class ReleaseError(IntarsiaError):
    """A participant's own rules do not let out what was asked for."""


class ProtocolError(IntarsiaError):
    """A message that is not what was agreed."""


class IntarsiaWarning(UserWarning):
    """Whatever Intarsia warns of."""


class AssumptionWarning(IntarsiaWarning):
    """A condition under which the paper expects the right answer does not hold."""


class ContradictionWarning(IntarsiaWarning):
    """Replies of a participant that cannot be about the same rows."""


class FeatureNameWarning(IntarsiaWarning):
    """Column names that look alike but are not the same."""


class UnitsWarning(IntarsiaWarning):
    """A feature reaches so much farther than others that it decides alone, or a column may be in other units."""


def about(participant: str, error: IntarsiaError) -> IntarsiaError:
    """The error, with whose reply it is about."""
    error.participant = participant
    return error


def quote(names: object, most: int = 5) -> str:
    """List names for a message: quoted, the first few, then how many more.

    >>> quote(["a", "b"]), quote(range(9), most=2)
    ("'a', 'b'", "'0', '1' and 7 more")
    """
    words = list(names)  # type: ignore[call-overload]
    more = len(words) - most
    return ", ".join(f"'{plain(str(word))}'" for word in words[:most]) + (f" and {more} more" if more > 0 else "")


def plain(text: str, most: int = 200) -> str:
    r"""A name as a terminal may show it: without what cannot be printed, and cut where it is far too long.

    >>> plain("a\nb"), plain("x" * 9, most=4)
    ('a�b', 'xxx…')
    """
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else "�" for c in cut.encode(errors="backslashreplace").decode())
