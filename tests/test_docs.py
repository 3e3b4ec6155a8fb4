"""The documentation is true: its code runs, its links lead somewhere, its figures are what the demo shows."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
import warnings
from pathlib import Path

import pytest
import typer

import intarsia
from intarsia.cli import demo_view as demo
from intarsia.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+)-->\s+)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
ON_PAGE = re.compile(r"^<!-- not run on this page: (?P<why>[^>]+)-->$", re.MULTILINE)


def test_the_readme_s_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.AssumptionWarning)
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            exec(compile(block, "README.md", "exec"), names)


def python_of(page):
    """The blocks of Python on a page that run."""
    blocks = BLOCK.finditer(page.read_text())
    return [block["text"] for block in blocks if block["kind"] == "python" and not block["why"]]


RUN = [page for page in PAGES if page.parent.name != "tutorials" and page.name != "README.md" and python_of(page)]


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning", "ignore::intarsia.exceptions.UnitsWarning")
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in python_of(page):
        exec(compile(block, page.name, "exec"), names)


RUN_BY_TESTS = {
    "README.md": {"python"},
    "docs/": {"python"},
    "docs/tutorials": {"python", "console"},
    "docs/how-to/omop.md": {"sql"},
}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "RELEASE.md", ROOT / "SECURITY.md"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_block_of_code_runs_or_says_why_it_does_not(page):
    """A reason stands above the block, or once for all blocks of commands of a page; TOML is read here."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    run = set().union(*(kinds for place, kinds in RUN_BY_TESTS.items() if name.startswith(place)))
    on_page = ON_PAGE.search(text)
    for block in BLOCK.finditer(text):
        kind = block["kind"]
        if block["why"] or kind in run or kind in {"text", "json", "html"}:
            continue
        if kind == "toml":
            tomllib.loads(block["text"])
        else:
            assert on_page is not None, f"{name}: {block['text'][:200]}"
            assert kind in {"console", "sh"}, f"{name}: {block['text'][:200]}"


def test_the_readme_s_figures_are_the_demo_s():
    text = (ROOT / "README.md").read_text()
    hospitals = intarsia.datasets.load_heart_disease()
    settings = {"scale": "standard", "missing": "observed", "random_state": demo.SEED}
    federated, one_shot = (
        intarsia.cluster(hospitals.tables, 2, method=m, **settings) for m in ("federated", "one_shot")
    )
    assert str(federated) in text
    scores = {score.method: 100 * score.accuracy for score in demo.scores(hospitals, federated, one_shot)}
    # the last digits of other methods depend on the machine: half a point is allowed
    ours = figures(r"for ([\d.]+) % of the patients", text)
    alone = figures(r"own ([\d.]+) %", text)
    pooled = figures(r"reaches about ([\d.]+) %", text)
    assert ours == pytest.approx([scores["Intarsia, federated (Algorithm 1)"]], abs=0.06)
    assert alone == pytest.approx([scores["each hospital on its own, k-means"]], abs=0.5)
    for score in (score for method, score in scores.items() if "impute" in method):
        assert pooled == pytest.approx([score], abs=0.55)


def figures(pattern, text):
    """The numbers of the first match, wherever lines are wrapped."""
    match = re.search(pattern.replace(" ", r"\s+"), text)
    assert match, pattern
    return [float(number) for number in match.groups()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


SOURCE = ROOT / "src/intarsia"
KNOWING = ("docs/architecture.md", "docs/theory/notation.md")


def test_every_module_is_named_in_the_architecture_or_the_notation():
    """As ``core.rows`` or ``core/rows``, or in a list item or table row that has the package ``core`` and the word rows."""
    text = "\n".join((ROOT / page).read_text() for page in KNOWING)
    items = [" ".join(item.split()) for item in re.split(r"\n\s*\n|\n(?=[-|] )", text)]
    files = [path.relative_to(SOURCE).with_suffix("") for path in sorted(SOURCE.rglob("*.py"))]
    missing = [str(file) for file in files if not file.name.startswith("__") and not any(names(i, file) for i in items)]
    assert not missing, f"{len(missing)} modules are named in none of {KNOWING}: {', '.join(missing)}"


def names(item, file):
    path, package = str(file), "root" if file.parent == Path() else str(file.parent)
    if re.search(rf"\b{path}\b|\b{path.replace('/', '[.]')}\b", item):
        return True
    return re.search(rf"(?<![\w/]){package}(?![\w/])", item) and re.search(rf"(?<![\w/]){file.name}(?!\w)", item)


def test_every_module_that_a_page_names_exists():
    text = "\n".join((ROOT / page).read_text() for page in KNOWING)
    for module in re.findall(r"`(core\.[a-z_]+)", text):
        path = SOURCE / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), module


def commands_on(page):
    """Every ``intarsia`` command in a console block of a page, as words."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), flags=re.DOTALL):
        for line in re.findall(r"^\s*\w*\$ +(intarsia .*)$", block.replace("\\\n", " "), flags=re.MULTILINE):
            words = shlex.split(line, comments=True)
            stop = next(
                (k for k, word in enumerate(words) if word in {"|", "||", "&", "&&", ">", "2>", ";"} or ">" in word),
                None,
            )
            yield words[1:stop]


@pytest.mark.parametrize("page", [p for p in PAGES if list(commands_on(p))], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_on_a_page_exists_with_its_options(page):
    """Commands of pages that do not run as a whole are at least understood by the command line."""
    for words in commands_on(page):
        command, rest = typer.main.get_command(app), list(words)
        while rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]
        try:
            command.make_context("intarsia", rest, resilient_parsing=False)
        except typer.Exit:  # --help and --version
            continue
        except Exception as error:  # noqa: BLE001 - typer has classes of its own for errors in a command line
            pytest.fail(f"{page.name}: intarsia {' '.join(words)}: {error!r}")


def titles_of_lights():
    """The titles of all lights: what :class:`Finding` is given as ``about``, in any module of the report."""
    for path in sorted((ROOT / "src/intarsia/report").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Assign(
                    targets=[ast.Name("about" | "_ABOUT" | "_CLUSTERS" | "_COLUMNS")], value=ast.Constant(str(title))
                ):
                    yield title
                case ast.Assign(targets=[ast.Tuple([*names])], value=ast.Tuple([*values])):
                    pairs = zip(names, values, strict=True)
                    yield from (v.value for n, v in pairs if getattr(n, "id", "") in {"about", "_ABOUT"})
                case ast.Call(func=ast.Name("Finding"), args=[ast.Constant(str(title)), *_]):
                    yield title


def test_the_page_on_the_report_has_every_light_by_its_title():
    page = (ROOT / "docs/how-to/report.md").read_text()
    titles = set(titles_of_lights())
    assert len(titles) > 20
    assert [title for title in sorted(titles) if f"| {title}" not in page] == []
