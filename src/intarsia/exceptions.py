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
    ├── UnknownColumnsWarning               columns of new rows that the model never saw, and that are ignored
    ├── UnknownLevelsWarning                levels of new rows that the model never saw
    └── UnitsWarning                        some features reach so much farther than others that they decide alone

Messages name columns, participants and counts, never cell values: errors travel, rows do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class IntarsiaError(Exception):
    """Whatever Intarsia raises on purpose; ``participant`` says whose reply was at fault, where it was one's.

    What to do: catch it to catch all others; the message says more.
    """

    participant: str | None = None


class InputError(IntarsiaError, ValueError):
    """Something about the tables or the settings.

    What to do: see the classes below it.
    """


class SettingError(InputError):
    """A setting has an invalid value.

    What to do: take one of the values that the message lists.
    """


class TableTypeError(InputError, TypeError):
    """Not a table of a kind we know.

    What to do: give pandas, polars or pyarrow tables, mappings of columns, or paths of files.
    """


class EmptyTableError(InputError):
    """A table without rows or without columns.

    What to do: leave the participant out, or check how its file was read.
    """


class DuplicateColumnError(InputError):
    """Two columns of one table have the same name.

    What to do: rename or drop one of the columns.
    """


class UnnamedColumnError(InputError):
    """A column without a name cannot be aligned with the columns of others.

    What to do: give every column a name.
    """


class NonNumericError(InputError):
    """Cells that are neither numbers nor categories; ``columns`` are the reasons by participant and column.

    What to do: convert texts to numbers or to a categorical, or leave the columns out.
    """

    columns: Mapping[str, Mapping[str, str]] | None = None


class MixedKindsError(InputError):
    """A column that is numbers for one participant and categories for another.

    What to do: convert the column at one of the participants, or leave it out.
    """


class NonFiniteError(InputError):
    """Infinite cells.

    What to do: replace infinite values by missing ones, or drop these rows.
    """


class MissingCellsError(InputError):
    """Missing values where the chosen settings need all values.

    What to do: take another value of ``missing``, or drop the rows; ``"observed"`` accepts missing values.
    """


class TooFewRowsError(InputError):
    """Fewer rows than clusters asked for.

    What to do: ask for fewer clusters, or leave the participant out.
    """


class TooFewClustersError(InputError):
    """More global clusters asked for than there are local ones to build them from.

    What to do: ask for fewer clusters, or for more local ones (``n_local_clusters``).
    """


class DensityError(InputError):
    """Rows that the chosen kind of density cannot describe.

    What to do: take another ``density``; the page on densities says what each is for.
    """


class DisjointFeaturesError(InputError):
    """Participants that share no column, not even through others.

    What to do: rename look-alike columns, leave the participants out, or add one that has columns of both sides.
    """


class UnknownFeaturesError(InputError):
    """Columns that the fitted model never saw.

    What to do: rename the columns as in the fitted tables, or drop them.
    """


class OutputError(IntarsiaError):
    """A file cannot be written.

    What to do: check that the folder exists, is writable and has space.
    """


class DatasetError(IntarsiaError):
    """A dataset file is not where it is looked for, or is not the expected one.

    What to do: set ``INTARSIA_DATA`` to the folder of the files; ``intarsia datasets`` lists them.
    """


class ModelFileError(IntarsiaError):
    """A saved study is damaged, too new, or not one.

    What to do: fetch the file again, or load it with the version that wrote it.
    """


class TranscriptError(IntarsiaError):
    """The record of a run is of another run, in use, or cannot be kept.

    What to do: restore settings and version of the run, or begin a new run in another folder.
    """


class FederationError(IntarsiaError):
    """A federation that cannot be set up or reached, or ended without a result.

    What to do: see the table of problems and remedies in the operator's guide.
    """


class LocalAlgorithmError(IntarsiaError):
    """A participant's own clustering algorithm failed, or cannot do what the method asks of it.

    What to do: run the algorithm on the table alone; for missing values, set ``missing``.
    """


class ReleaseError(IntarsiaError):
    """A participant's own rules do not let out what was asked for.

    What to do: change the setting that the message names, or ask the participant, whose rules win.
    """


class ProtocolError(IntarsiaError):
    """A message that is not what was agreed.

    What to do: install the same version everywhere; if it persists, report it.
    """


class IntarsiaWarning(UserWarning):
    """Whatever Intarsia warns of.

    What to do: ``warnings.simplefilter`` with this class turns all off.
    """


class AssumptionWarning(IntarsiaWarning):
    """A condition under which the paper expects the right answer does not hold.

    What to do: look at the lights of the report; the answer may still be good.
    """


class ContradictionWarning(IntarsiaWarning):
    """Replies of a participant that cannot be about the same rows.

    What to do: ask the participant; ``merge="robust"`` limits what its replies change.
    """


class FeatureNameWarning(IntarsiaWarning):
    """Column names that look alike but are not the same, or levels that may be other words for the same thing.

    What to do: if the columns are the same, rename one; if levels mean the same, recode them.
    """


class UnknownColumnsWarning(IntarsiaWarning):
    """New rows have columns that the model never saw; these are ignored.

    What to do: rename them as in the fitted tables if they are known columns; otherwise drop them.
    """


class UnknownLevelsWarning(IntarsiaWarning):
    """New rows have levels of categories that the model never saw; they count as none of the known levels.

    What to do: recode them if they are other words for known levels.
    """


class UnitsWarning(IntarsiaWarning):
    """A feature reaches so much farther than others that it decides alone, or a column may be in other units.

    What to do: convert the column as the message says, or set ``scale="standard"``.
    """


def about(participant: str, error: IntarsiaError) -> IntarsiaError:
    """The error, with whose reply it is about."""
    error.participant = participant
    return error


def install(*extras: str) -> str:
    """How to install extras, as a hint of an error: the one place that knows where the package comes from.

    >>> install("cli", "flare")
    "Hint: pip install '.[cli,flare]' in a clone of the repository."
    """
    return f"Hint: pip install '.[{','.join(extras)}]' in a clone of the repository."


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
