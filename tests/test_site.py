"""The documentation site: every page has a place in it, and every public name has a page. ``make docs`` builds it."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest

import intarsia
from tests.test_package import stub_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
spec = importlib.util.spec_from_file_location("pages_on_a_forge", DOCS / "_ext/pages_on_a_forge.py")
forge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(forge)

BUILT = ("gallery", "reference/api")  # made by `make docs`
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if not str(page.relative_to(DOCS)).startswith(BUILT)]


def public_names():
    """Every public name with its module, as the reference writes it."""
    for name in stub_names() - {"__version__"}:
        if not inspect.ismodule(getattr(intarsia, name)):
            yield name
    yield from (f"datasets.{name}" for name in intarsia.datasets.__all__)
    metrics = vars(intarsia.metrics).items()
    yield from (f"metrics.{name}" for name, value in metrics if defined_there(value, intarsia.metrics, name))


def defined_there(value, module, name):
    return inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"


def test_every_public_name_has_a_page():
    reference = (DOCS / "reference/python.md").read_text()
    entries = set(re.findall(r"^   ([\w.]+)$", reference, flags=re.MULTILINE))
    # exceptions are on a page of their own, which is written from the module
    names = {name for name in public_names() if not hasattr(intarsia.exceptions, name)}
    assert names - entries == set(), "add them to docs/reference/python.md, in the section where they belong"
    assert entries - names == set(), "docs/reference/python.md has names that are not public"


def test_every_page_has_one_place_in_the_navigation():
    """The rows of README.md pages are the navigation of the site."""
    places = {}
    for readme in DOCS.rglob("README.md"):
        for target in forge.listed(readme.read_text()):
            places.setdefault((readme.parent / target).resolve(), []).append(str(readme.relative_to(DOCS)))
    top = re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text().rpartition("```{toctree}")[2], flags=re.MULTILINE)
    for name in top:
        places.setdefault((DOCS / f"{name}.md").resolve(), []).append("index.md")
    pages = {page for page in PAGES if page != DOCS / "index.md"}
    missing = sorted(str(page.relative_to(ROOT)) for page in pages - set(places))
    assert missing == [], f"list these pages in a row of the README.md of their folder: {missing}"
    assert {page.name: where for page, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[c](../CONTRIBUTING.md)", "[c](../project/contributing.md)"),
        ("[c](../CONTRIBUTING.md#rules)", "[c](../project/contributing.md#rules)"),
        ("[units](units.md)", "[units](units.md)"),
        ("[drawn](../../examples/plot_1_layouts.py)", "[drawn](../gallery/plot_1_layouts.rst)"),
        ("[the source](../../src/intarsia/cli/app.py)", "the source (`src/intarsia/cli/app.py`)"),
        ("[`src/intarsia/cli/app.py`](../../src/intarsia/cli/app.py)", "`src/intarsia/cli/app.py`"),
        ("![picture](../images/a.svg) [site](https://example.org)", "![picture](../images/a.svg) [site](https://example.org)"),
    ],
)  # fmt: skip
def test_links_of_a_forge_become_links_of_the_site(text, expected):
    page = DOCS / "how-to/page.md"
    text = text.replace("(../CONTR", "(../../CONTR")
    assert forge.on_the_site(text, page, page.parent) == expected


def test_what_the_site_includes_exists():
    for name, page in forge.INCLUDED.items():
        assert (ROOT / name).exists(), name
        assert (DOCS / page).exists(), page


def test_every_exception_says_what_to_do():
    classes = [each for each in vars(intarsia.exceptions).values() if inspect.isclass(each)]
    silent = [each.__name__ for each in classes if issubclass(each, Exception) and "What to do: " not in each.__doc__]
    assert silent == []


def keys_on_the_page(title):
    """The keys that the first table of a section of the reference of files explains."""
    section = (DOCS / "reference/files.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, flags=re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def test_the_reference_of_files_has_every_key_of_run_json_the_journal_and_the_consent_form(tmp_path):
    from intarsia.cli.app import main
    from intarsia.federation.consent import _TERMS, BY, ON  # private: the form's own list
    from intarsia.privacy.journal import entry_of
    from intarsia.protocol import Failure

    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("age\n" + "\n".join(map(str, [30, 31, 32, 70, 71, 72])))
    with pytest.raises(SystemExit):
        main(["fit", *(str(tmp_path / f"{name}.csv") for name in "ab"), "-k", "2", "-q", "-o", str(tmp_path / "study")])
    record = json.loads((tmp_path / "study/run.json").read_text())
    assert keys_on_the_page("run.json") == set(record)
    entry = entry_of(Failure(error="x", message="y"), None, {}, b"")
    assert keys_on_the_page("The journal") == set(entry) - {"event"} | {"time"}
    assert keys_on_the_page("The consent form") == {BY, ON, *_TERMS}
