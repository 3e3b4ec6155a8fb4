"""The tutorials, from top to bottom in an empty folder: ``make tutorials`` (two minutes)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import Step, agrees, check_page, steps_of

PAGES = sorted((Path(__file__).parent.parent / "docs/tutorials").glob("*.md"))


@pytest.mark.tutorial
@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.stem not in {"README", "federation"}], ids=lambda page: page.stem
)
def test_tutorials_run_and_print_what_they_say(page, tmp_path):
    """The tutorial of a federation starts real processes: ``tests/e2e/test_tutorial.py``."""
    if page.stem == "privacy":
        pytest.importorskip("opendp")
    check_page(page, tmp_path)


def test_a_page_has_its_commands_with_outputs_and_python_with_the_text_below():
    page = """
```console
$ echo a  # a comment
a
$ cat > file << END
$5
END
```

<!-- not run: no network here -->
```console
$ curl example.org
```

```python
print(1 / 3)
```

<!-- numbers vary: for no reason -->
```text
0.25
```
"""
    first, second, third = steps_of(page)
    assert (first.text, first.expected) == ("echo a", "a\n")
    assert second.text == "cat > file << END\n$5\nEND"
    assert (third.text, third.expected, third.varies) == ("print(1 / 3)\n", "0.25\n", True)


@pytest.mark.parametrize(
    ("expected", "output", "varies", "same"),
    [
        ("a  b", "a b", False, True),
        ("a …", "a long text", False, True),
        ("a 1.5 b", "a 2.75 b", False, False),
        ("0,1.5717045,2.21987433893150", "0,1.5717045,2.21987433893149", False, True),
        ("0,1.5717045,2.21987433893150", "0,1.5717046,2.21987433893150", False, False),
        ("a 1.5 b", "a -2. b", True, True),
        ("a 1.5 b", "a 1.5 c", True, False),
    ],
)
def test_when_an_output_is_what_a_page_says(expected, output, varies, same):
    assert agrees(Step("console", "", expected, (0, 0), varies), output) is same
