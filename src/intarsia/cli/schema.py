"""``intarsia schema``: what is in run.json and report.json, as JSON Schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from intarsia.cli.console import print_json

RUN_FORMAT = 1
"""The version of run.json: raised when a field is removed or gets another meaning."""


class Kind(StrEnum):
    """The files that have a schema."""

    RUN = "run"
    REPORT = "report"


def schema_of(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema of a file. A number may be null: JSON has no NaN."""
    import msgspec

    from intarsia.cli.run_file import RunFile
    from intarsia.report.data import REPORT_FORMAT, ReportData

    content, version = (RunFile, RUN_FORMAT) if kind is Kind.RUN else (ReportData, REPORT_FORMAT)
    schema: dict[str, Any] = _with_null(msgspec.json.schema(content))
    schema["$defs"][content.__name__]["properties"]["format"] = {"type": "integer", "const": version}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:intarsia:{kind.value}.json:{version}",
        "title": f"{kind.value}.json, format {version}",
        **schema,
    }


def _with_null(part: Any) -> Any:
    if isinstance(part, list):
        return [_with_null(each) for each in part]
    if not isinstance(part, dict):
        return part
    part = {name: _with_null(each) for name, each in part.items()}
    return {**part, "type": ["number", "null"]} if part.get("type") == "number" else part


def schema(
    kind: Annotated[Kind, typer.Argument(help="run: run.json; report: report.json.")],
) -> None:
    """Print the JSON Schema of a file in a study's folder, for programs that read it.

    Example: [bold]intarsia schema run > run.schema.json[/]
    """
    print_json(schema_of(kind))
