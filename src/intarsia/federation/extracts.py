"""What a participant's consent says about an extract of a database: its query and its rows, by their digests."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from intarsia.exceptions import ReleaseError
from intarsia.tables.extract import extract_in

_CONSENT = "consent.toml"
EXTRACT = "extract"


def terms_of_extract(table: str) -> dict[str, Any] | None:
    """Return what is agreed to about an extract; None if the table is not an extract."""
    extract = extract_in(table)
    if extract is None:
        return None
    return {
        "query": extract.query_sha256,
        "rows_sha256": extract.rows_sha256,
        "rows": extract.n_rows,
    }


def check_agreed(kit: Path, table: str) -> None:
    """Raise a ReleaseError if a table is not the extract that the consent in a kit is about."""
    try:
        agreed = tomllib.loads((kit / _CONSENT).read_text(encoding="utf-8")).get(EXTRACT)
    except (OSError, ValueError):
        return  # serve writes the consent before anything is answered
    now = terms_of_extract(table)
    if agreed is None and now is None:
        return
    compared = ("query", "rows_sha256")
    if not isinstance(agreed, dict) or now is None or any(agreed.get(name) != now[name] for name in compared):
        what = "query" if isinstance(agreed, dict) and now and agreed.get("query") != now["query"] else "rows"
        raise ReleaseError(
            f"the {what} of the extract changed after its owner agreed to the study. Hint: stop, and run intarsia "
            "participant serve again, which asks for consent to the new extract."
        )
