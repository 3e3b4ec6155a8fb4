"""Differential privacy on the command line: what is declared, which ledgers are charged, and what was spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from intarsia._files import write_atomically
from intarsia.cli.kit_options import say, tell
from intarsia.exceptions import IntarsiaError, SettingError, quote

if TYPE_CHECKING:
    from intarsia.core.private.declared import DifferentialPrivacy
    from intarsia.privacy.budget import Charged
    from intarsia.results.privacy import PrivacyAccount

NUMBERS = "numbers"
STUDY = "fit"  # under which a ledger lists runs of the command


@contextmanager
def with_causes() -> Iterator[None]:
    """Let an error of a private participant say its cause, too: whoever runs ``fit`` owns all tables."""
    try:
        yield
    except IntarsiaError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if cause is error or not isinstance(cause, IntarsiaError) or str(cause) in str(error):
            raise
        raise type(error)(f"{error} {cause}") from error


class Options(NamedTuple):
    """``--epsilon``, ``--bounds`` and ``--total-epsilon``."""

    epsilon: float | None
    bounds: Path | None
    total_epsilon: float | None

    def declared(self) -> DifferentialPrivacy | None:
        """Return what the options declare; None if no privacy is asked for."""
        from intarsia.privacy.bounds_file import read_bounds

        if self.epsilon is None:
            if self.bounds is not None or self.total_epsilon is not None:
                option = "--total-epsilon" if self.bounds is None else "--bounds"
                raise SettingError(f"{option} is given without --epsilon, the budget of this run. Hint: --epsilon 1")
            return None
        if self.bounds is None:
            raise SettingError(
                "--epsilon needs --bounds, a file that says where the values of each column can be. Hint: intarsia check "
                "a.csv b.csv --write-bounds bounds.toml writes one with the names of your columns, to be filled in."
            )
        return read_bounds(self.bounds, self.epsilon)

    def settings(self, *, stability: bool) -> dict[str, Any]:
        """Return the settings of the estimator; none if no privacy is asked for."""
        privacy = self.declared()
        return {} if privacy is None else {"privacy": privacy, "stability": stability}

    def charged(self, files: Mapping[str, str], columns: Mapping[str, Sequence[str]]) -> dict[str, Charged]:
        """Return where a new run writes what it spends, the ledger beside each file; without privacy, nowhere.

        Raises a SettingError that names all columns that the file of bounds does not declare.
        """
        from intarsia.privacy.budget import Charged

        if (privacy := self.declared()) is None:
            return {}
        self.check_declared(columns, privacy)
        run = uuid4().hex[:16]
        return {name: Charged(path, STUDY, run, self.total_epsilon) for name, path in files.items()}

    def check_declared(self, columns: Mapping[str, Sequence[str]], privacy: DifferentialPrivacy) -> None:
        """Raise a SettingError that names all columns that the file of bounds does not declare."""
        from intarsia.privacy.bounds_file import undeclared

        if missing := undeclared(privacy, columns):
            names = list(dict.fromkeys(column for own in missing.values() for column in own))
            raise SettingError(
                f"{len(names)} column(s) of {quote(missing)} have neither bounds nor levels, which differential privacy "
                f"needs and must not take from data: {quote(names, 20)}. Hint: add lines such as {names[0]} = [low, high] "
                f"to [bounds] of {self.bounds}, or leave columns out with -x."
            )


def spent_by(account: PrivacyAccount, charged: Mapping[str, Charged]) -> dict[str, Any]:
    """Return what was agreed, and what this run and all runs spent on each table according to its ledger, as ε."""
    from intarsia.privacy.ledger import Ledger
    from intarsia.privacy.spending import Spending

    tables = {}
    for name, place in charged.items():
        entries = Ledger.beside(place.table).entries()
        run = Spending.of(entry for entry in entries if entry.get("run") == place.run).epsilon(account.delta)
        tables[name] = {"run": run, "all_runs": Spending.of(entries).epsilon(account.delta)}
    agreed = {"epsilon": account.epsilon, "delta": account.delta, "rows_per_person": account.rows_per_person}
    return agreed | {"spent": tables, "condition": account.condition}


def say_spent(record: Mapping[str, Any]) -> None:
    """Print what a run spent, what that means for one row, and what all runs spent."""
    spent, n_rows = record["spent"], record["rows_per_person"]
    most = max(table["run"] for table in spent.values())
    rows = "one row of a table" if n_rows == 1 else f"the {n_rows} rows of one person"
    if most:
        by_table = ", ".join(f"{name} {table['run']:.3g}" for name, table in spent.items())
        same = len({table["run"] for table in spent.values()}) == 1
        each = f"epsilon {most:.3g} at delta {record['delta']:g} on each table"
        each = each if same else f"epsilon at delta {record['delta']:g} by table ({by_table})"
        say(
            f"Privacy: this run spent {each}: what left is almost the same with and without {rows}.{record['condition']}"
        )
    else:
        say(
            "Privacy: this run spent nothing: the same questions were paid for by an earlier run, and its answers were "
            f"used, also where a table has changed since. What left is almost the same with and without {rows}."
        )
    listed = ", ".join(f"{name} {table['all_runs']:.3g}" for name, table in spent.items())
    say(f"Epsilon spent by all runs so far: {listed}. See intarsia participant budget FILE.")


def columns_without_bounds(kinds: Mapping[str, Mapping[str, str]], bounds: Path) -> dict[str, list[str]]:
    """Return the columns of each participant that a file of bounds does not declare."""
    from intarsia.privacy.bounds_file import read_bounds, undeclared

    return undeclared(read_bounds(bounds, epsilon=1.0), kinds)  # the file has no budget, and none is needed here


def show_without_bounds(missing: Mapping[str, Sequence[str]], bounds: Path | None) -> None:
    """Print which columns lack bounds or levels."""
    if not missing:
        say(f"All columns have bounds or levels in {bounds}.")
    for name, columns in missing.items():
        say(f"{len(columns)} column(s) of {name} have neither bounds nor levels in {bounds}: {', '.join(columns)}.")


def write_template(kinds: Mapping[str, Mapping[str, str]], path: Path) -> None:
    """Write a file of bounds to fill in; an existing file stays as it is."""
    from intarsia.privacy.bounds_file import template

    if path.exists() or path.is_symlink():
        raise SettingError(f"{path} already exists. Hint: use another name; somebody may have filled it in.")
    numbers = sorted({column for own in kinds.values() for column, kind in own.items() if kind == NUMBERS})
    categories = sorted({column for own in kinds.values() for column in own} - set(numbers))
    write_atomically(path, template(numbers, categories).encode())
    tell(f"written: {path}. Fill in what is known of each measurement, not what the rows show.")
