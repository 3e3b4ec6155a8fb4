"""Every piece of the paper is in the code: the tables of two pages, ``notation.md`` and ``paper.md``, are true."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import intarsia
from intarsia.estimators.presets import PRESETS
from intarsia.estimators.settings import SETTINGS

ROOT = Path(__file__).parent.parent
PAPER = ROOT.parent / "shared/paper/paper.tex"  # not on every machine
LABELS = {
    "eq": (
        "optimal_masked_centroids",
        "d_max",
        "d",
        "merge_centroids_function",
        "meta_clustering",
        "LCOD",
        "mho",
        "for_methodA",
        "for_methodB",
        "attractive_force_two_clusters",
        "attractive_force_sets_of_clusters",
        "varphi",
        "for_algorithm2",
    ),
    "assumption": (
        "graph",
        "graph_fully_connected",
        "correct_local_overclustering",
        "LCOD",
        "for_methodA",
        "for_methodB",
        "for_algorithm2",
        "experiments",
    ),
    "assumption_item": ("connected", "identity_matrix", "identically_distributed"),
    "alg": ("federated", "methodA_meta_clustering", "second_method_meta_clustering", "one_shot"),
    "table": (
        "GCOD_satisfaction",
        "results_alg_1_graph",
        "results_alg_1_graph_fully_connected",
        "results_alg_2_graph",
        "results_alg_2_graph_fully_connected",
    ),
}
LINES = {
    "alg:federated": 20,
    "alg:methodA_meta_clustering": 19,
    "alg:second_method_meta_clustering": 28,
    "alg:one_shot": 12,
}
NAMES = sorted(f"{kind}:{name}" for kind, names in LABELS.items() for name in names)
ESTIMATORS = {each.__name__: each for each in (intarsia.FederatedClustering, intarsia.OneShotClustering)}
METHODS = {each.method: each for each in ESTIMATORS.values()}


class Entry(NamedTuple):
    paper: str
    meaning: str
    code: str
    setting: str
    tests: str


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def tables(text):
    """Every table of a page: its heading, the names of its columns, and its rows."""
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        rows = [cells(line) for line in section.splitlines() if line.startswith("|")]
        if rows:
            yield section.splitlines()[0], rows[0], rows[2:]


def quoted(text):
    return re.findall(r"`([^`]+)`", text)


NOTATION = (ROOT / "docs/theory/notation.md").read_text(encoding="utf-8")
SECTIONS = {heading: [Entry(*row) for row in rows] for heading, _, rows in tables(NOTATION)}
ENTRIES = [entry for entries in SECTIONS.values() for entry in entries]


def resolve(path):
    """The object at a dotted path below ``intarsia``; a field of a class is its annotation."""
    names = path.split(".")
    for n in range(len(names), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(["intarsia", *names[:n]]))
        except ModuleNotFoundError:
            continue
        for name in names[n:]:
            fields = getattr(found, "__annotations__", {})
            found = getattr(found, name) if hasattr(found, name) else fields[name]
        return found
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize("path", sorted({path for entry in ENTRIES for path in quoted(entry.code)}))
def test_every_function_exists(path):
    assert resolve(path) is not None


@pytest.mark.parametrize("setting", sorted({setting for entry in ENTRIES for setting in quoted(entry.setting)}))
def test_every_setting_exists_and_takes_the_value(setting):
    match = re.fullmatch(r"(\w+)\.(\w+)(?:=(.+))?", setting)
    assert match
    estimator, name, value = match.groups()
    assert name in inspect.signature(ESTIMATORS[estimator]).parameters
    allowed = SETTINGS[ESTIMATORS[estimator].method][name].allowed  # what --config and study files know
    assert value is None or any(values.accepts(ast.literal_eval(value)) for values in allowed)


@pytest.mark.parametrize("path", sorted({path for entry in ENTRIES for path in quoted(entry.tests)}))
def test_every_test_file_exists(path):
    assert (ROOT / "tests" / path).is_file()


def test_every_entry_has_code_or_a_page_and_a_test():
    bare = [
        entry.paper for entry in ENTRIES if not quoted(entry.tests) or not (quoted(entry.code) or "](" in entry.meaning)
    ]
    assert bare == []


@pytest.mark.parametrize("label", NAMES)
def test_every_label_is_in_the_tables(label):
    assert label in quoted("\n".join([*(entry.paper for entry in ENTRIES), *SECTIONS]))


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not here")
def test_the_labels_are_those_of_the_paper():
    printed = re.findall(r"\\label\{(\w+):(\w+)\}", PAPER.read_text(encoding="utf-8"))
    assert sorted(f"{kind}:{name}" for kind, name in printed if kind in LABELS) == NAMES


@pytest.mark.parametrize("label", LINES)
def test_every_line_of_an_algorithm_is_in_its_table(label):
    [entries] = [entries for heading, entries in SECTIONS.items() if label in heading]
    lines = set()
    for entry in entries:
        for first, last in re.findall(r"lines? (\d+)(?:–(\d+))?", entry.paper):
            lines |= set(range(int(first), int(last or first) + 1))
    assert lines == set(range(1, LINES[label] + 1))


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_of_the_preset_is_in_the_tables(method):
    named = {setting.split("=")[0] for entry in ENTRIES for setting in quoted(entry.setting)}
    wanted = {f"{METHODS[method].__name__}.{name}" for name in PRESETS[method]["paper"]}
    assert wanted - named == set()


@pytest.mark.parametrize("method", METHODS)
def test_the_page_has_the_preset_and_the_defaults(method):
    page = (ROOT / "docs/theory/paper.md").read_text(encoding="utf-8")
    [rows] = [rows for heading, _, rows in tables(page) if f'method="{method}"' in heading]
    printed = {quoted(name)[0]: ast.literal_eval(quoted(value)[0]) for name, value, *_ in rows}
    assert printed == PRESETS[method]["paper"]
    defaults = inspect.signature(METHODS[method]).parameters
    for name, value, default, reason in rows:
        shown = ast.literal_eval(quoted(default)[0])
        assert shown == defaults[quoted(name)[0]].default
        assert reason if shown != ast.literal_eval(quoted(value)[0]) else True


@pytest.mark.filterwarnings("ignore")  # units differ, assumptions do not hold: as the paper, the preset goes on
def test_the_code_of_the_page_runs():
    page = (ROOT / "docs/theory/paper.md").read_text(encoding="utf-8")
    code = "".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    exec(compile(code, "paper.md", "exec"), {})
