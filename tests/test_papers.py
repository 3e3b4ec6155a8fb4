"""The papers of the project: citation, changelog by fragments, issue forms."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import intarsia

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("changelog", ROOT / "scripts/changelog.py")
changelog = importlib.util.module_from_spec(spec)
spec.loader.exec_module(changelog)


def test_the_citation_has_the_version():
    assert f"\nversion: {intarsia.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_fragments_go_below_the_title_of_the_version_and_keep_what_is_there(tmp_path):
    (tmp_path / "b.fixed.md").write_text("B is\nmended.\n")
    (tmp_path / "a.added.md").write_text("A.")
    text = changelog.together(tmp_path)
    assert text == "### Added\n\n- A.\n\n### Fixed\n\n- B is\n  mended.\n\n"
    before = "# Changelog\n\n## 0.1.0 (unreleased)\n\nFirst.\n"
    assert changelog.released(before, "0.1.0", text) == f"# Changelog\n\n## 0.1.0 (unreleased)\n\n{text}First.\n"
    assert (
        changelog.released(before, "0.2.0", text)
        == f"# Changelog\n\n## 0.2.0\n\n{text}## 0.1.0 (unreleased)\n\nFirst.\n"
    )


def test_a_fragment_of_no_section_is_refused(tmp_path):
    (tmp_path / "a.news.md").write_text("A.")
    with pytest.raises(SystemExit, match=r"a\.news\.md"):
        changelog.fragments(tmp_path)


def test_the_fragments_of_the_project_are_valid():
    assert isinstance(changelog.together(ROOT / "changes"), str)


def test_issue_forms_have_what_forges_require():
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        text = form.read_text()
        if form.stem != "config":
            assert re.match(r"name: .+\ndescription: .+\nbody:\n", text), form.name
            assert len(re.findall(r"^    id: (\w+)$", text, re.MULTILINE)) == text.count("  - type: ") - text.count(
                "type: markdown"
            )


def test_classifiers_name_the_python_that_the_tests_run_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)}
    assert versions == {"3.11"}  # a version is added with a run of all checks on it
