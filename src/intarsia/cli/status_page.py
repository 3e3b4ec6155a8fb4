"""``intarsia federation status --html``: a page about the federation, written anew every second."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from intarsia.exceptions import IntarsiaError
from intarsia.federation.operator_page import federation_page
from intarsia.report.status import write_status

if TYPE_CHECKING:
    from intarsia.federation.flare.driver import Driver

_EVERY = 1.0  # seconds
_PATIENCE = 5.0  # seconds for the server to answer


class Since:
    """Since when each participant is connected, or away, as far as this process saw."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bool, str]] = {}

    def update(self, status: dict[str, Any]) -> dict[str, str]:
        """Return the time of the latest change by participant."""
        now = datetime.now().astimezone().timetz().isoformat(timespec="seconds")
        for key in ("connected", "away"):
            for name in status[key]:
                if self._seen.get(name, (None,))[0] != (key == "connected"):
                    self._seen[name] = (key == "connected", now if name in self._seen else f"{now} or before")
        return {name: at for name, (_, at) in self._seen.items()}


def keep_writing(driver: Driver, path: Path) -> NoReturn:
    """Ask the server and write the page, again and again; while it does not answer, the page says so."""
    since = Since()
    known: dict[str, Any] = {
        "connected": (),
        "away": driver.study.participants,
        "needed": driver.study.needed,
        "last": driver.last(),
    }
    while True:
        problem, started = None, time.monotonic()
        try:
            known = driver.described(*driver.server_status(_PATIENCE))
        except IntarsiaError as error:
            problem = f"{error} What follows was true before."
        except Exception as error:  # noqa: BLE001  (a session has no error class for a server that is gone)
            problem = f"The connection to the server was lost ({type(error).__name__}). What follows was true before."
        write_status(federation_page(driver.study.name, known, since.update(known), problem), path)
        time.sleep(max(0.0, _EVERY - (time.monotonic() - started)))
