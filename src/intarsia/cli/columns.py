"""``intarsia federation check``: which columns participants have, and who shares which, before a study is run."""

from __future__ import annotations

import typer

from intarsia.cli.check import NOT_POSSIBLE, as_json, show
from intarsia.cli.console import print_json
from intarsia.cli.kit_options import Json, Kit, check_certificates, engine, say, tell
from intarsia.exceptions import FederationError

# parts of the report that names and kinds do not tell, and what a study that asks for columns does not have
_NOT_HERE = ("units", "other_units", "other_levels", "secure_sums")


def check(kit: Kit, json: Json = False) -> None:
    """Show which participant has which columns, and whether they can be clustered together. No run begins.

    Sites that are connected tell the names of their columns, and which are numbers and which categories. They do if the
    study says feasibility = true. The exit code is 3 if their tables cannot be clustered together.

    Example: [bold]intarsia federation check --kit kits/analyst[/]
    """
    engine()
    from intarsia.federation.flare.driver import Driver
    from intarsia.tables.feasibility import check_feasibility

    check_certificates(kit)
    driver = Driver(kit, (lambda _: None) if json else tell)
    told = driver.ask_columns()
    without = {name: f"refused: {why}" for name, why in told.refused.items()}
    without |= {name: f"did not answer: {why}" for name, why in told.silent.items()}
    lines = [f"{name} {why.rstrip('.')}." for name, why in sorted(without.items())]
    if not told.kinds:
        raise FederationError(f"no participant told its columns. {' '.join(lines)}")
    report = check_feasibility(told.kinds)
    if json:
        known = {name: part for name, part in as_json(report).items() if name not in _NOT_HERE}
        print_json(known | {"refused": dict(told.refused), "silent": dict(told.silent)})
    else:
        show(report, federated=True)
        for line in lines:
            say(line)
        if lines:
            n = len(driver.study.participants)
            say(f"The answer above is about {len(told.kinds)} of {n} participants.")
    if not report.possible:
        raise typer.Exit(NOT_POSSIBLE)
