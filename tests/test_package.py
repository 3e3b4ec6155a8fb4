from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import intarsia

ROOT = Path(__file__).parent.parent


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_import_is_quick_and_light():
    code = """
import sys, time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import intarsia
print((time.perf_counter() - start) / (middle - start), *sorted(sys.modules))
"""
    ratio, *modules = min((fresh(code).split() for _ in range(3)), key=lambda printed: float(printed[0]))
    assert float(ratio) < 3  # at best, of the import of numpy, which takes about a tenth of a second
    assert not {"pandas", "polars", "pyarrow", "plotly", "nvflare", "jinja2", "rich", "sklearn"} & set(modules)


def test_it_works_where_no_table_library_is_installed():
    code = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pandas", "polars", "pyarrow", "plotly", "nvflare", "rich"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import intarsia
hospitals = intarsia.datasets.load_heart_disease()
print(intarsia.cluster(hospitals.tables, 2, scale="standard", missing="observed", random_state=0))
"""
    assert fresh(code).startswith("2 clusters of 920 rows from 4 participants over 13 features")


def stub_names():
    """The names that ``__init__.pyi``, the one list of public names, declares."""
    tree = ast.parse((ROOT / "src/intarsia/__init__.pyi").read_text())
    return {alias.asname for node in tree.body for alias in node.names}


def test_every_public_name_resolves_and_no_other_name_is_shown():
    names = stub_names()
    assert all(getattr(intarsia, name) is not None for name in names)
    assert set(intarsia.__all__) == names
    assert {name for name in dir(intarsia) if not name.startswith("_")} == names - {"__version__"}
    with pytest.raises(AttributeError, match="attribute '?klaster"):
        intarsia.klaster  # noqa: B018


def test_a_type_checker_sees_the_public_names(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    (tmp_path / "use.py").write_text(
        "import intarsia\n"
        "from intarsia import ReleasePolicy\n"
        "policy = ReleasePolicy(min_cluster_size=7)\n"
        "reveal_type(policy)\n"
        "reveal_type(intarsia.cluster({}, release=policy).n_clusters)\n"
    )
    text, _, _ = mypy.run(["--config-file", "", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "use.py"),
                           "--follow-imports", "silent", "--ignore-missing-imports"])  # fmt: skip
    assert 'Revealed type is "intarsia.privacy.policy.ReleasePolicy"' in text
    assert 'Revealed type is "int"' in text.replace("builtins.", "")


def test_the_changelog_knows_the_version():
    assert f"## {intarsia.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_floor_file_holds_exactly_the_floors():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    floors = {
        line for line in (ROOT / "constraints-floor.txt").read_text().splitlines() if "==" in line and line[0] != "#"
    }
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["cli"]]:
        name, version = requirement.split(">=")
        assert any(floor.startswith(f"{name}=={version}") for floor in floors), requirement
