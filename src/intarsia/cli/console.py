"""Where commands print, and how text with names in it is made safe for a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

out = Console()
err = Console(stderr=True)


def print_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def harmless(text: str, *, lines: bool = False) -> str:
    """Return the text without control characters, which could steer a terminal; line ends are kept if ``lines``."""
    return "".join(c if c.isprintable() or (lines and c == "\n") else "\N{REPLACEMENT CHARACTER}" for c in text)


def plain(text: str, style: str = "") -> Text:
    """Return a text as it is to be printed: control characters replaced, brackets not taken for markup."""
    return Text(harmless(text, lines=True), style)
