"""What the engine's processes write to their logs: its own lines, explained where they mislead.

Every kit's ``log_config.json`` names these classes, because the processes of a job are started by the engine.

- The engine names the scheme of its driver, ``http://``, although every connection to the server is TLS 1.3.
- It says that a client "is disabled" where the coordinator shut a site out.
- While a job starts, the server logs each question about its progress as an error with a traceback; these are dropped.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from nvflare.fuel.utils import log_utils

_SCHEME = re.compile(r"\bhttp://(?=[^\s/]+:\d+)")
_SHUT_OUT = re.compile(r"Client '([^']+)' is disabled")
_REFUSED = re.compile(r"(Failed to send heartbeat\. .*error:client_quit)$")
_OF_QUESTIONS = (
    "no connection to child server.",
    "cannot send to 'server.",
    "'NoneType' object has no attribute 'get_widget'",
)


def explained(text: str) -> str:
    """Return a line of the log in words that are true."""
    text = _SCHEME.sub("https://", text)
    text = _REFUSED.sub(r"\1 (no connection to the server, or the coordinator has shut this site out)", text)
    return _SHUT_OUT.sub(r"the coordinator has shut '\1' out (intarsia federation exclude, admit)", text)


class Plain(log_utils.BaseFormatter):
    """Lines of text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return explained(super().format(record))


class Json(log_utils.JsonFormatter):
    """Lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return explained(super().format(record))


class Unanswered(logging.Filter):
    """Drops what the server logs when our own questions find nobody."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        text = record.getMessage()
        return not any(part in text for part in _OF_QUESTIONS)


def configured(config: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's configuration of logs with these classes."""
    for name, formatter in config["formatters"].items():
        formatter["()"] = f"{__name__}.{Json.__name__ if name == 'jsonFormatter' else Plain.__name__}"
    config["filters"]["unanswered"] = {"()": f"{__name__}.{Unanswered.__name__}"}
    for handler in config["handlers"].values():
        handler["filters"] = [*handler.get("filters", ()), "unanswered"]
    return config
