"""``intarsia doctor``: what stands in the way on this machine, in plain words, with a remedy each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.console import out, plain, print_json
from intarsia.cli.kit_options import Json

FAULTY = 3
_SIGNS = {"fine": ("✓", "green"), "warning": ("!", "yellow"), "fault": ("✗", "red"), "skipped": ("–", "dim")}


def doctor(
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit, for its certificates and its server.")] = None,
    table: Annotated[Path | None, typer.Option("--table", help="Your table. Default: the one of the kit.")] = None,
    json: Json = False,
) -> None:
    """Examine this machine for a federation: versions, memory, disk, certificates, clock, table, name, port and TLS.

    ✓ is fine, ! a warning, ✗ in the way, – not examined. The exit code is 3 if something is in the way.

    Example: [bold]intarsia doctor --kit kit/[/]
    """
    from intarsia.federation.doctor import State, examine

    findings = examine(kit, table)
    n_faults = sum(finding.state is State.FAULT for finding in findings)
    if json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            sign, style = _SIGNS[finding.state.value]
            out.print(plain(f"{sign} {finding.about}: {finding.seen}", style=style), soft_wrap=True, highlight=False)
            if finding.remedy and finding.state is not State.FINE:
                out.print(plain(f"    → {finding.remedy}"), soft_wrap=True, highlight=False)
        n_warnings = sum(finding.state is State.WARNING for finding in findings)
        summary = "Nothing is in the way" if not n_faults else f"{n_faults} thing(s) are in the way"
        out.print(f"{summary}; {n_warnings} warning(s)." if n_warnings else f"{summary}.", highlight=False)
    if n_faults:
        raise typer.Exit(FAULTY)
