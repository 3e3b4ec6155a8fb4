"""Red and yellow findings of a result, one line each, for commands that print a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from intarsia.cli.console import out, plain

if TYPE_CHECKING:
    from intarsia.report import Finding

MOST = 6  # lines


def print_lights(findings: Sequence[Finding]) -> None:
    """Print the findings that are not green, the worst first."""
    from intarsia.report.data import State

    lights = [
        (sign, style, finding)
        for state, sign, style in ((State.BAD, "✗", "red"), (State.CAUTION, "!", "yellow"))
        for finding in findings
        if finding.state is state
    ]
    for sign, style, finding in lights[:MOST]:
        # the title says what should hold: here it does not, or not surely
        text = " ".join(f"{sign} {finding.about}? {finding.seen} {finding.advice}".split())
        out.print(plain(text, style=style), highlight=False, soft_wrap=True)
    if len(lights) > MOST:
        out.print(f"and {len(lights) - MOST} more: see the report", highlight=False)
