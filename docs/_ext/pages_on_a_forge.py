"""Markdown pages that read well on a forge and on the site.

On a forge a page may link to any file of the repository. The site has the pages of ``docs`` and, in ``docs/project``,
pages that include those of the repository's root. This extension leads links to the root's pages to those, links to
examples to the gallery, and shows links to other files (sources, tests) as plain code, because the site does not have them.

The README of a folder lists its pages in a table or a list. On the site this list is also the navigation: a page has the
place of the first link of its row.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent.parent
ROOT = DOCS.parent
# a file of the repository, and the page of the site that includes it
INCLUDED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "RELEASE.md": "project/release.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "deploy/systemd": "project/deploy.md",
    "deploy/container": "project/deploy.md",
}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_the_site(text: str, page: Path, folder: Path) -> str:
    """The Markdown of a page whose links are relative to ``folder``, with links as the site has them."""

    def replace(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = (folder / target).resolve()
        if not path.is_relative_to(ROOT):
            return match[0]
        name = str(path.relative_to(ROOT))
        if name in INCLUDED:
            path = DOCS / INCLUDED[name]
        elif path.parent == ROOT / "examples":
            path = DOCS / "gallery" / f"{path.stem}.rst"
        elif not path.is_relative_to(DOCS):
            return f"{match['text']} (`{name}`)" if match["text"].strip("`") != name else f"`{name}`"
        return f"[{match['text']}]({relative(path, page.parent)}{anchor})"

    return LINK.sub(replace, text)


def relative(path: Path, folder: Path) -> str:
    """The path of a file as a link from a folder."""
    return Path(os.path.relpath(path, folder)).as_posix()


ROW = re.compile(r"^(?:\||- |\d+\. )[^\[\n]*\[[^\]]*\]\((?P<target>[^)#:]+\.(?:md|rst))\)", re.MULTILINE)


def listed(text: str) -> list[str]:
    """The pages that the rows of a README lead to, in order and without repetition."""
    return list(dict.fromkeys(match["target"] for match in ROW.finditer(text)))


def _navigation(text: str) -> str:
    pages = "\n".join(listed(text))
    return f"{text}\n\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n" if pages else text


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    if page.suffix == ".md":
        content[0] = on_the_site(content[0], page, page.parent)
    if page.name == "README.md":
        content[0] = _navigation(content[0])


def _include(app: Sphinx, path: Path, _stem: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(app.env.current_document.docname))
    if page.suffix == ".md":
        content[0] = on_the_site(content[0], page, (app.srcdir / path).resolve().parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    app.connect("include-read", _include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
