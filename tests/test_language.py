"""Words and phrases that the glossary replaces do not come back: in the source, the pages and the README.

PHRASES maps a regular expression to what to write instead. Of Python files only comments and texts are read, not names.
ALLOWED has the places where a phrase is right, each with its reason.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PHRASES = {
    r"(?<!there )\b(is|are|was|were) none\b": "say what must hold, or 'there is no …'",
    r"\b(is|are) there already\b": "already exists",
    r"\bof no kind\b": "unsupported",
    r"\b(kept|keeps?|held|holds?) back\b": "suppressed",
    r"\bwithheld\b": "suppressed, or omitted",
    r"(?<![Tt]hird-)\b[Pp]art(y|ies)\b": "participant",
    r"\b([Ee]mpty|[Ff]illed) cells?\b": "missing value, value",
    r"\b[Gg]aps?\b": "missing value",
    r"\bholes?\b": "missing value",
    r"\bfewer than none\b": "at least 0",
    r"\bmakes? no sense\b|\bdoes not make sense\b": "is invalid: …",
    r"\bmeans? nothing\b": "unknown",
    r"\bthat there (is|are) not\b": "unknown, not found",
    r"\bhalves of characters\b": "not valid UTF-8",
    r"\b[Nn]obody's\b": "no participant",
}
# a place, the phrase there, and why it is right
ALLOWED = {
    ("src/intarsia/results/outcome.py", "withheld"): "the name of a field in saved studies",
    ("src/intarsia/results/stored_checks.py", "withheld"): "the name of a field in saved studies",
    ("src/intarsia/report/summarise.py", "withheld"): "the name of a field in saved studies",
}
# packages whose files are not all in plain English yet; a package leaves the list when its files pass
OPEN: tuple[str, ...] = ()


def pages():
    sources = sorted((ROOT / "src/intarsia").rglob("*.py"))
    texts = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in (*sources, *texts) if not str(path.relative_to(ROOT)).startswith(OPEN or ("\0",))]


def prose(path):
    """Lines of text with their numbers: of a page all, of Python comments and texts."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), start=1)
        return
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            yield from enumerate(token.string.splitlines(), start=token.start[0])


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_phrase_that_the_glossary_replaces(path):
    name = str(path.relative_to(ROOT))
    found = [
        f"{name}:{number}: {match.group()!r} (write: {instead})"
        for number, line in prose(path)
        for phrase, instead in PHRASES.items()
        for match in re.finditer(phrase, line)
        if (name, match.group().lower()) not in ALLOWED
    ]
    assert not found, "\n".join(found)


def test_what_is_allowed_is_there():
    for name, phrase in ALLOWED:
        assert phrase in (ROOT / name).read_text(encoding="utf-8").lower(), f"{name} no longer has {phrase!r}"
