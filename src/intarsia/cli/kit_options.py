"""What the commands that work with a kit share."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.console import err, out, plain
from intarsia.exceptions import SettingError

Kit = Annotated[Path, typer.Option("--kit", help="Your kit: the folder that was made for you.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def engine() -> None:
    """Refuse to go on where the engine is missing or of another version."""
    from intarsia.federation.flare.engine import check_engine

    check_engine()
    # the engine's own log lines help nobody; our errors say what is wrong
    logging.getLogger().addHandler(logging.NullHandler())


def check_certificates(kit: Path) -> None:
    """Warn about certificates that expire soon and keys that others can reach; refuse certificates that have expired."""
    from intarsia.federation.certificates.lifetimes import check_lifetimes
    from intarsia.federation.kit_folder import open_to_others

    for warning in (*check_lifetimes(kit), *open_to_others(kit)):
        tell(f"Warning: {warning}")


def agreed_keys(kit: Path | None, given: Path | None) -> Mapping[str, str] | None:
    """Return the keys of all participants in a study with secure sums, from ``--keys`` or the kit."""
    from intarsia.federation.key_list import keys_of

    if kit is None and given is not None:
        raise SettingError("--keys needs a study. Hint: --kit, your kit.")
    return None if kit is None else keys_of(kit, given)


def become(command: list[str], environment: dict[str, str]) -> None:
    """Replace this process by another program."""
    os.execve(command[0], command, environment)  # noqa: S606


def say(text: str) -> None:
    """Print a line on standard output."""
    out.print(plain(text), soft_wrap=True)


def tell(text: str) -> None:
    """Print a line on standard error."""
    err.print(plain(text), soft_wrap=True)
