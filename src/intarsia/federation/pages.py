"""A page for people without a terminal: ``status.html`` in a site's kit.

A site's page says what was agreed, what left, and what happens now. It is written anew when a request arrives, when a
message has left, and every :data:`BEAT` seconds while the site runs, from the same journal that the participant keeps. No
server and no port is needed to read it, and an old time on it tells that the site has stopped.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from threading import Event, Thread
from typing import Any

from intarsia._files import read_toml, write_atomically
from intarsia.exceptions import IntarsiaError
from intarsia.federation.kit_folder import study_of
from intarsia.federation.moments import clock, now
from intarsia.federation.site_settings import toml_lines
from intarsia.privacy.journal import AGREED, ASKED, LEFT, REFUSED, Journal
from intarsia.protocol.catalogue import SUPPRESSED, words_of
from intarsia.protocol.terms import StudyTerms, meaning_of_term
from intarsia.report.data import State
from intarsia.report.status import Light, Listing, StatusPage, write_status

PAGE, CONSENT, RELEASES = "status.html", "consent.toml", "releases.jsonl"
BEAT = 10.0  # seconds after which a site that runs writes its page again
UNREACHED = (
    20.0  # seconds since a heartbeat last failed, for which the server counts as out of reach; one fails every few
)
_COMPUTING = (
    Path("intarsia") / "computing.json"
)  # in a kit: the request that is being answered, since when, by which process
FAILED = "Failed to send heartbeat"  # how the engine's line about it begins
_SOON, _LATER = 1, 10  # seconds until a page is loaded again: while messages come, and otherwise
_MOST = 300  # messages that a page lists
_LABELLED = {"reply.labelled", "reply.labels_kept"}
_WORDS = {
    "agreed_by": "who agreed",
    "on": "when",
    "study": "study",
    "server": "server",
    "method": "method",
    "n_clusters": "number of clusters",
    "table": "table",
    "columns": "columns that take part",
}
_REQUEST_TERMS = frozenset(field.name for field in fields(StudyTerms))
_TABLES = {"release": "release rule", "requests": "request", "privacy": "privacy"}


def write_site_page(kit: Path, name: str, problem: str | None = None) -> None:
    """Write a site's page; ``problem`` says why its server cannot be reached.

    A page that cannot be written is no reason to answer less: the site's log says so.
    """
    try:
        write_status(site_page(kit, name, problem), kit / PAGE)
    except (IntarsiaError, OSError) as error:
        logging.getLogger(__name__).warning("%s was not written: %s", PAGE, error)


@contextmanager
def computing(kit: Path, name: str, request: str | None) -> Iterator[None]:
    """Say on a site's page that a request with this tag is being answered, until it has been."""
    note = kit / _COMPUTING
    if request is not None:
        entry = {"request": request, "since": now(), "process": os.getpid()}
        with suppress(IntarsiaError, OSError):
            note.parent.mkdir(exist_ok=True)
            write_atomically(note, json.dumps(entry).encode(), secret=True)
    write_site_page(kit, name)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)
        write_site_page(kit, name)


def start_beating(kit: Path, name: str, every: float = BEAT) -> Event:
    """Write a site's page again and again, with whether its heartbeats reach the server; return the event that ends it."""
    stop, heartbeats = Event(), _Heartbeats()

    def beat() -> None:
        while not stop.wait(every):
            logging.getLogger().addHandler(heartbeats)  # the engine's configuration of logs removes all handlers
            write_site_page(kit, name, heartbeats.problem())

    Thread(target=beat, name="status page", daemon=True).start()
    return stop


class _Heartbeats(logging.Handler):
    """Since when heartbeats fail, as the engine's log tells."""

    def __init__(self) -> None:
        super().__init__()
        self._since, self._last = "", -UNREACHED

    def emit(self, record: logging.LogRecord) -> None:
        """Note a heartbeat that failed."""
        if record.getMessage().startswith(FAILED):
            if self.problem() is None:
                self._since = clock(now())
            self._last = time.monotonic()

    def problem(self) -> str | None:
        """Return what is wrong, in words; None if heartbeats arrive."""
        if time.monotonic() - self._last > UNREACHED:
            return None
        return (
            f"No answer from the server since {self._since}: it does not run or cannot be reached, or the coordinator has "
            "shut this site out. The site goes on trying."
        )


def site_page(kit: Path, name: str, problem: str | None = None) -> StatusPage:
    """Return the page of a site, from its consent form, its journal and the request that is being answered."""
    sums, latest = _Sums(), deque[dict[str, Any]](maxlen=_MOST)
    for entry in Journal(kit / RELEASES).entries():
        if entry.get("event") != ASKED:
            sums.add(entry)
            latest.append(entry)
    request = _being_answered(kit)
    return StatusPage(
        title=f"{name} in the study {study_of(kit).name}",
        written=now(),
        refresh=_SOON if request or _is_in_run(latest) else _LATER,
        alive=f"A site that runs writes this page every {BEAT:.0f} seconds. If that time is a minute ago, it has stopped.",
        lights=[*([Light(State.BAD, problem)] if problem else ()), *_site_lights(kit, latest, request)],
        tables=(
            _messages(latest, sums.entries - len(latest)),
            _agreed(kit),
            Listing(
                "sums",
                "All messages together",
                ("", ""),
                (
                    ("messages that left", f"{sums.left:,}"),
                    ("bytes", f"{sums.bytes:,}"),
                    ("fewest rows behind a number, of all", _in_words(sums.fewest)),
                    ("requests that were refused", f"{sums.refused:,}"),
                ),
                numbers=(1,),
            ),
        ),
    )


class _Sums:
    """Totals over a journal, which may be long."""

    def __init__(self) -> None:
        self.entries = self.left = self.bytes = self.refused = 0
        self.fewest: int | None = None

    def add(self, entry: Mapping[str, Any]) -> None:
        """Count one more entry."""
        self.entries += 1
        self.refused += entry.get("event") == REFUSED
        if entry.get("event") == LEFT:
            self.left += 1
            self.bytes += _number(entry.get("bytes"))
            known = [n for n in (_fewest(entry), self.fewest) if n is not None]
            self.fewest = min(known, default=None)


def _being_answered(kit: Path) -> dict[str, Any] | None:
    """Return which request is being answered and since when; None if the process that did so is gone."""
    try:
        entry = json.loads((kit / _COMPUTING).read_bytes())
        os.kill(int(entry["process"]), 0)
    except PermissionError:
        return dict(entry)  # it lives, under another name
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return dict(entry)


def _is_in_run(entries: Sequence[Mapping[str, Any]]) -> bool:
    last = entries[-1] if entries else {}
    return last.get("event") == LEFT and last.get("reply") not in _LABELLED


def _site_lights(kit: Path, entries: Sequence[Mapping[str, Any]], request: Mapping[str, Any] | None) -> list[Light]:
    last = entries[-1] if entries else {}
    event, at = last.get("event"), clock(last.get("time"))
    if request is not None:
        tag = str(request.get("request"))
        since, words = clock(request.get("since")), words_of(tag)
        lights = [Light(State.CAUTION, f"Computing an answer to {tag} since {since}. {words}")]
    elif event == LEFT and last.get("reply") in _LABELLED:
        lights = [Light(State.GOOD, f"The rows were labelled at {at}: labels.csv, which stays here.")]
    elif event == LEFT:
        lights = [Light(State.GOOD, f"Waiting for the next request since {at}.")]
    else:
        lights = [Light(State.GOOD, "Waiting for a run. Nothing left since consent was last given.")]
    refused = [entry for entry in list(entries)[-2:] if entry.get("event") == REFUSED]
    if refused and request is None:
        lights.append(Light(State.BAD, f"A request was refused at {at}: {refused[-1].get('why')}"))
    elif last.get("reply") == "reply.failure":
        lights.append(Light(State.BAD, "The last request was answered with an error; the log of this site says why."))
    if not (kit / CONSENT).is_file():
        lights.append(Light(State.BAD, "Nobody has agreed yet: nothing is answered."))
    return lights


def _messages(latest: Sequence[Mapping[str, Any]], n_older: int) -> Listing:
    more = f" The {n_older:,} oldest are in {RELEASES} only." if n_older else ""
    return Listing(
        "left",
        "What left, the latest first",
        ("time", "message", "content", "fewest rows behind a number", "bytes", "suppressed"),
        [_row(entry) for entry in reversed(latest)],
        about="Rows and labels never leave. A number with few rows behind it tells more about each of them. Suppressed is "
        "what the release rules removed or changed before a message left, so that no number is about too few rows."
        + more,
        empty="Nothing left yet.",
        numbers=(3, 4),
    )


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    at, event = clock(entry.get("time"), day=True), entry.get("event")
    if event == REFUSED:
        return at, "refused", f"{entry.get('request')}: {entry.get('why')}", "", "", ""
    if event == AGREED:
        return at, "agreed", "Consent was given anew; a new run may begin.", "", "", ""
    if event != LEFT:
        return at, str(event), str(entry.get("reason", "")), "", "", ""
    suppressed = _table(entry.get("suppressed"))
    texts = [_counted(n, SUPPRESSED.get(what, what)) for what, n in suppressed.items()]
    listed = ", ".join(f"{field['field']} ({field['entries']})" for field in _fields(entry))
    content = f"{words_of(str(entry.get('reply')))} {listed}"
    fewest = _in_words(_fewest(entry))
    return at, str(entry.get("reply")), content, fewest, f"{_number(entry.get('bytes')):,}", "; ".join(texts)


def _counted(n: Any, words: str) -> str:
    """Return a number and what it counts: the first word of ``words``, in the singular for one."""
    first, space, rest = words.partition(" ")
    if n == 1:
        first = f"{first.removesuffix('ies')}y" if first.endswith("ies") else first.removesuffix("s")
    return f"{n} {first}{space}{rest}"


def _fewest(entry: Mapping[str, Any]) -> int | None:
    rows = (field["fewest_rows"] for field in _fields(entry))
    return min((n for n in rows if isinstance(n, int)), default=None)


def _in_words(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _fields(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of an entry, as far as they are what a journal writes: anybody may have edited the file."""
    listed, keys = entry.get("fields"), {"field", "entries", "fewest_rows"}
    return (
        [field for field in listed if isinstance(field, dict) and keys <= set(field)]
        if isinstance(listed, list)
        else []
    )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _agreed(kit: Path) -> Listing:
    form = read_toml(kit / CONSENT) if (kit / CONSENT).is_file() else {}
    rows = [(words, _text(form[name]), "") for name, words in _WORDS.items() if name in form]
    for table, kind in _TABLES.items():
        for name, value in _table(form.get(table)).items():
            meaning = meaning_of_term(name) if table == "requests" and name in _REQUEST_TERMS else ""
            rows.append((f"{kind}: {name}", _text(value), meaning))
    return Listing(
        "agreed",
        "What was agreed",
        ("", "", "what it means"),
        rows,
        about=f"From {CONSENT} in this kit. If any of it changes, this site does not start without new consent.",
        empty="Nobody has agreed yet.",
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(toml_lines(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
