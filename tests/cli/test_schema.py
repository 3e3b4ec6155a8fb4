"""The files of a study are as their JSON Schemas say."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import polars as pl
import pytest

from intarsia.cli.app import main
from intarsia.cli.run_file import RunFile
from intarsia.cli.schema import Kind, schema_of


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    x = np.random.default_rng(0).normal(size=(2, 60)) + 9 * (np.arange(60) % 2)
    for name, values in zip("ab", x, strict=True):
        pl.DataFrame({"x": values, "y": values[::-1], "sex": ["f", "m"] * 30}).write_csv(folder / f"{name}.csv")
    arguments = ["fit", folder / "a.csv", folder / "b.csv", "-k", 2, "-q", "--labels", "parquet", "-o", folder / "s"]
    with pytest.raises(SystemExit) as done:
        main([str(argument) for argument in arguments])
    assert done.value.code == 0
    return folder / "s"


def faults(schema, value, root):
    """Where a value is not as a schema says; of JSON Schema, what msgspec writes."""
    if "$ref" in schema:
        return faults(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root)
    if "anyOf" in schema:
        tried = [faults(each, value, root) for each in schema["anyOf"]]
        return [] if [] in tried else min(tried, key=len)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": int | float, "boolean": bool}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(value is None if name == "null" else isinstance(value, kinds[name]) for name in types):
        return [f"{type(value).__name__} instead of {types}"]
    if "const" in schema and value != schema["const"]:
        return [f"{value} instead of {schema['const']}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{value} is not allowed"]
    found = []
    if isinstance(value, dict):
        found = [f"{name} is missing" for name in schema.get("required", []) if name not in value]
        other = schema.get("additionalProperties", {})
        for name, each in value.items():
            part = schema.get("properties", {}).get(name, other)
            found += (
                [f"{name} is unknown"] if part is False else faults(part if isinstance(part, dict) else {}, each, root)
            )
    for position, each in enumerate(value) if isinstance(value, list) else []:
        items = schema.get("prefixItems", [])
        part = items[position] if position < len(items) else schema.get("items", {})
        found += faults(part if isinstance(part, dict) else {}, each, root)
    return found


@pytest.mark.parametrize(("kind", "file"), [(Kind.RUN, "run.json"), (Kind.REPORT, "report.json")])
def test_the_files_of_a_study_are_as_their_schemas_say(kind, file, study):
    schema, content = schema_of(kind), json.loads((study / file).read_text())
    assert faults(schema, content, schema) == []
    assert content["format"] == 1
    assert faults(schema, {**content, "seed": "seven"}, schema)
    assert faults(schema, {**content, "format": 2}, schema)
    assert schema["$id"] == f"urn:intarsia:{file}:1"
    assert faults(schema, {name: value for name, value in content.items() if name != "seed"}, schema)


def test_run_json_has_every_field_of_its_schema_and_no_other(study):
    content = json.loads((study / "run.json").read_text())
    msgspec.convert(content, RunFile)
    assert set(content) == set(RunFile.__struct_fields__)


@pytest.mark.parametrize("kind", list(Kind))
def test_schemas_are_printed_as_they_are(kind, capsys):
    with pytest.raises(SystemExit):
        main(["schema", kind])
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema_of(kind)))


def test_labels_are_parquet_if_asked_for(study):
    assert sorted(path.name for path in (study / "labels").iterdir()) == ["a.parquet", "b.parquet"]
    labels = pl.read_parquet(study / "labels" / "a.parquet")
    assert labels.columns == ["row", "cluster"]
    assert labels["cluster"].n_unique() == 2
