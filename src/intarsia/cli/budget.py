"""``intarsia participant budget``: what was spent of a table's privacy budget, and how it starts anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from intarsia.cli.console import out, plain, print_json
from intarsia.cli.kit_options import Json, say, tell
from intarsia.exceptions import SettingError

if TYPE_CHECKING:
    from intarsia.privacy.spending import Spending


def budget(
    path: Annotated[Path, typer.Argument(metavar="TABLE_OR_KIT", help="The table, or the kit of its participant.")],
    epsilon: Annotated[float | None, typer.Option(help="Also show what is left of this budget.")] = None,
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is shown.")] = 1e-6,
    reset: Annotated[bool, typer.Option("--reset", help="Start anew; needs new data and a reason.")] = False,
    reason: Annotated[str, typer.Option(help="Why it is reset: it is written to the ledger.")] = "",
    json: Json = False,
) -> None:
    """Show what all studies together spent of a table's privacy budget (differential privacy).

    The ledger stands beside the table. A reset is refused while the table has content that something was told of.

    Example: [bold]intarsia participant budget data.csv --epsilon 1[/]
    """
    from intarsia.privacy.ledger import Ledger
    from intarsia.privacy.spending import Spending

    table = _table_of(path)
    ledger = Ledger.beside(table)
    if reset:
        tell(f"the ledger before is now {ledger.reset(reason)}; keep it: it says what was spent before")
    elif reason:
        raise SettingError("--reason is given without --reset.")
    spending = Spending.of(ledger.entries())
    left = None if epsilon is None else spending.left(epsilon, delta)
    if json:
        print_json({"table": str(table), **spending.as_dict(delta), "rho_left": left})
        return
    if spending.reset:
        say(f"The last reset: {spending.reset}")
    if not spending.parts:
        say(f"Nothing was spent of the privacy budget of {table}.")
    else:
        _show(spending, delta)
    if left is not None:
        say(f"Left of epsilon {epsilon:g}: rho {left:.6g}.")


def _table_of(path: Path) -> Path:
    """Return the table itself, or that of a kit."""
    from intarsia.federation.kit_folder import STUDY
    from intarsia.federation.site_settings import read_settings

    if not path.exists():
        raise SettingError(f"{path} not found. Hint: give the table, or the kit of its participant.")
    if not (path / STUDY).is_file():
        return path
    settings = read_settings(path / "local")
    if not settings.table:
        raise SettingError(f"{path} names no table yet. Hint: intarsia participant budget data.csv")
    return Path(settings.table)


def _show(spending: Spending, delta: float) -> None:
    from intarsia.privacy.noise import epsilon_of

    view = Table(box=box.SIMPLE_HEAD)
    for name in ("study", "run", "released"):
        view.add_column(name)
    for name in ("debits", "rho", "epsilon"):
        view.add_column(name, justify="right")
    for part in spending.parts:
        figures = f"{part.rho:.6g}", f"{epsilon_of(part.rho, delta):.4g}"
        view.add_row(plain(part.study), plain(part.run), plain(part.what), str(part.debits), *figures)
    out.print(view)
    say(
        f"Spent in all: rho {spending.rho:.6g}, which is epsilon {spending.epsilon(delta):.4g} at delta {delta:g}. "
        "Epsilons of parts do not add up; rho does."
    )
