"""``intarsia check --epsilon``: what a private study over these files will lose."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from intarsia.cli.console import err
from intarsia.cli.private import Options
from intarsia.cli.table_options import TableOptions

if TYPE_CHECKING:
    from intarsia.estimators import PrivacyForecast
    from intarsia.tables import AnyTable


def forecast_for_files(
    files: Mapping[str, str],
    tables_read: TableOptions,
    leave_out: Sequence[str],
    bounds: Path | None,
    epsilon: float | None,
    clusters: int | None,
    *,
    one_shot: bool,
    quiet: bool,
) -> PrivacyForecast | None:
    """Run private studies over these files, without a ledger, and return what they lose; None without ``--epsilon``."""
    options = Options(epsilon, None if epsilon is None else bounds, None)
    if (privacy := options.declared()) is None:
        return None
    from intarsia.estimators.clustering import estimator_for
    from intarsia.estimators.privacy_forecast import N_RUNS, forecast_of_held
    from intarsia.tables.open import check_commas, open_table

    ways = {name: tables_read.opening(name) | {"leave_out": leave_out} for name in files}
    for name, path in files.items():
        check_commas(path, name, tables_read.reading(name))
    opened = {name: open_table(path, name, **ways[name]) for name, path in files.items()}
    options.check_declared({name: table.columns for name, table in opened.items()}, privacy)
    tables: dict[Hashable, AnyTable] = {name: table.hold() for name, table in opened.items()}
    declared: dict[Hashable, AnyTable] = {
        name: open_table(path, name, **ways[name], declared=privacy).hold(declared=privacy)
        for name, path in files.items()
    }
    settings = {"scale": "auto", "random_state": 0}
    plain = estimator_for("one_shot" if one_shot else "federated", "auto" if clusters is None else clusters, settings)
    if quiet:
        return forecast_of_held(tables, declared, plain, privacy)
    with err.status("without privacy") as status:
        return forecast_of_held(
            tables, declared, plain, privacy, N_RUNS, lambda epsilon, n: status.update(f"epsilon {epsilon:g}, run {n}")
        )
