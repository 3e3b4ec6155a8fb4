"""Results on disk: one CSV per study, one row per split and way, appended as soon as it is known."""

from __future__ import annotations

import csv
import math
import os
from fnmatch import fnmatchcase
from pathlib import Path

from experiments.measuring import COLUMNS
from intarsia.exceptions import DatasetError

KEYS = ("study", "layout", "split", "way")
HEADER = (*KEYS, *COLUMNS)


def folder() -> Path:
    return Path(os.environ.get("INTARSIA_RESULTS", "experiments/results"))


def path_of(study: str) -> Path:
    return folder() / f"{study.lower().replace('/', '-').replace(' ', '_').replace(':', '')}.csv"


def read(study: str) -> list[dict[str, object]]:
    """All whole rows; a last line that was cut off in the middle of writing is left out."""
    path = path_of(study)
    if not path.exists():
        return []
    rows = []
    text = _text(path)
    whole = text[: text.rfind("\n") + 1].splitlines()
    if whole and tuple(whole[0].split(",")) != HEADER:
        raise DatasetError(
            f"{path.name} has other columns than are measured now. Hint: move it away, and everything is measured again."
        )
    for row in csv.DictReader(whole):
        if None in row or None in row.values():
            continue
        rows.append({key: row[key] for key in KEYS} | {key: float(row[key] or math.nan) for key in COLUMNS})
    return rows


def done(study: str) -> set[tuple[str, str, str]]:
    """(layout, split, way) of every row that is there."""
    return {(str(row["layout"]), str(row["split"]), str(row["way"])) for row in read(study)}


def append(study: str, rows: list[dict[str, object]]) -> None:
    path = path_of(study)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _text(path) if path.exists() else ""
    if text and not text.endswith("\n"):  # the last run was killed while it wrote
        _write(path, text[: text.rfind("\n") + 1])
    new = not text
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, HEADER)
        if new:
            writer.writeheader()
        writer.writerows(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows
        )


def forget(study: str, ways: list[str]) -> int:
    """Remove the rows of all ways that match a name or pattern, and return their number; other lines keep their bytes."""
    path = path_of(study)
    if not path.exists():
        return 0
    lines = _text(path).splitlines(keepends=True)
    fields = [next(csv.reader([line])) for line in lines]
    kept = [
        line
        for number, (line, cells) in enumerate(zip(lines, fields, strict=True))
        if number == 0 or len(cells) < len(KEYS) or not matches(cells[KEYS.index("way")], ways)
    ]
    if len(kept) < len(lines):
        _write(path, "".join(kept))
    return len(lines) - len(kept)


def matches(way: str, patterns: list[str]) -> bool:
    """Whether a way has one of these names, in which ``*`` stands for anything."""
    return any(fnmatchcase(way, pattern) for pattern in patterns)


def _text(path: Path) -> str:
    """The file with its line ends as they are (CSV has CR LF)."""
    return path.read_bytes().decode("utf-8")


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))
