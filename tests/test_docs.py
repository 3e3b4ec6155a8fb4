"""The documentation is true: its code runs, its links lead somewhere, its figures are what the demo shows."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

import intarsia
from intarsia.cli import demo_view as demo

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_readme_s_code_runs():
    text = (ROOT / "README.md").read_text()
    names = {"new_table": intarsia.datasets.load_heart_disease("pandas").tables["switzerland"].dropna()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.AssumptionWarning)
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            exec(compile(block, "README.md", "exec"), names)


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("*.md")), ids=lambda page: page.stem)
def test_how_to_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a page writes is nobody's
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), names)


def test_the_readme_s_figures_are_the_demo_s():
    text = (ROOT / "README.md").read_text()
    hospitals = intarsia.datasets.load_heart_disease()
    settings = {"scale": "standard", "missing": "observed", "random_state": demo.SEED}
    federated, one_shot = (
        intarsia.cluster(hospitals.tables, 2, method=m, **settings) for m in ("federated", "one_shot")
    )
    assert str(federated) in text
    scores = {score.method: f"{100 * score.accuracy:.1f} %" for score in demo.scores(hospitals, federated, one_shot)}
    assert f"for {scores['Intarsia, federated (Algorithm 1)']} of the patients" in text
    assert f"own {scores['each hospital on its own, k-means']}" in text
    pooled = sorted(figure for way, figure in scores.items() if "impute" in way)
    assert f"{pooled[0].removesuffix(' %')} to {pooled[1]}" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_module_is_known_to_the_notation_or_the_architecture():
    text = (ROOT / "docs/architecture.md").read_text() + (ROOT / "docs/theory/notation.md").read_text()
    for module in re.findall(r"`(core\.[a-z_]+)", text):
        assert (ROOT / "src/intarsia" / (module.replace(".", "/") + ".py")).exists(), module
