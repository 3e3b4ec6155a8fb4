"""The operator's page about a federation: who is connected, and how the run is going (``federation status --html``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intarsia.federation.moments import moment, now
from intarsia.report.data import State
from intarsia.report.status import Light, Listing, StatusPage

_SOON, _LATER = 1, 10  # seconds until the page is loaded again: while a job runs, and otherwise
_STATES = {
    "done": "was done at",
    "failed": "failed at",
    "paused": "paused at",
    "waiting": "has waited since",
    "running": "began a job at",
}


def federation_page(
    study: str, status: Mapping[str, Any], since: Mapping[str, str], problem: str | None = None
) -> StatusPage:
    """Return the operator's page, from what ``federation status --json`` prints.

    ``since`` says when each participant was first seen connected or away; ``problem``, why the server cannot be asked.
    """
    progress, last = status.get("progress") or {}, status.get("last") or {}
    lights = [Light(State.BAD, problem)] if problem else []
    connected, away = list(status.get("connected", ())), list(status.get("away", ()))
    if away and not problem:
        needed = f"{status.get('needed')} of {len(connected) + len(away)} are needed"
        lights.append(Light(State.CAUTION, f"Not connected: {', '.join(away)}. {needed}."))
    lights.extend(_run_lights(progress, last, is_running=bool(status.get("jobs"))))
    rows = [(name, "connected", since.get(name, ""), _part(name, progress)) for name in connected]
    rows += [(name, _absence(name, progress), since.get(name, ""), _part(name, progress)) for name in away]
    return StatusPage(
        title=f"The study {study}",
        written=now(),
        refresh=_SOON if status.get("jobs") else _LATER,
        alive="The command writes it every second. If that time is a minute ago, the command has stopped.",
        lights=lights,
        tables=(
            Listing("who", "Who is connected", ("participant", "site", "since", "in this exchange"), sorted(rows)),
            Listing(
                "run",
                "The run",
                ("", ""),
                [(words, str(value)) for words, value in _about_run(progress, last) if value not in (None, "")],
                empty="Nothing was run with this kit yet.",
            ),
        ),
    )


def _run_lights(progress: Mapping[str, Any], last: Mapping[str, Any], *, is_running: bool) -> list[Light]:
    if progress.get("exchange"):
        waiting, step = progress.get("waiting") or [], step_of(progress)
        left = (progress.get("deadline") or 0) - float(progress.get("seconds") or 0)
        until = f", for {max(left, 0):.0f} s more at most" if progress.get("deadline") else ""
        text = f"{step}: waiting for {', '.join(waiting)}{until}." if waiting else f"{step}: everybody answered."
        return [Light(State.CAUTION if waiting else State.GOOD, text)]
    if is_running:
        return [Light(State.GOOD, "A job starts or ends.")]
    if not (state := str(last.get("state", ""))):
        return [Light(State.GOOD, "Nothing runs.")]
    light = State.GOOD if state == "done" else State.CAUTION if state in {"running", "waiting"} else State.BAD
    return [Light(light, about_last(last))]


def about_last(last: Mapping[str, Any]) -> str:
    """Return the state of the last run in sentences."""
    state, why = str(last.get("state", "")), str(last.get("why", "")).rstrip(".")
    began = f"The last run {_STATES.get(state, state)} {moment(last.get('at'))}."
    return f"{began} {why[:1].upper()}{why[1:]}." if why else began


def step_of(progress: Mapping[str, Any]) -> str:
    """Return the phase of a run, with the number of its round."""
    return f"{progress['phase']} {progress['round']}" if progress.get("round") else str(progress["phase"])


def _part(name: str, progress: Mapping[str, Any]) -> str:
    for words, key in (("answered", "answered"), ("is waited for", "waiting"), ("takes no part now", "away")):
        if name in (progress.get(key) or ()):
            return words
    return ""


def _absence(name: str, progress: Mapping[str, Any]) -> str:
    return "shut out by the coordinator" if name in (progress.get("excluded") or ()) else "not connected"


def _about_run(progress: Mapping[str, Any], last: Mapping[str, Any]) -> list[tuple[str, Any]]:
    running = bool(progress.get("exchange"))
    return [
        ("exchange", progress.get("exchange") or None),
        ("step", step_of(progress) if running else None),
        ("seconds in this exchange", progress.get("seconds") if running else None),
        ("deadline of an exchange, in seconds", progress.get("deadline") if running else None),
        ("last state", last.get("state")),
        ("since", moment(last["at"]) if "at" in last else None),
        ("why", last.get("why")),
    ]
