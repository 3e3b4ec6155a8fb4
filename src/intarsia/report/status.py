"""A page that says how something is going: one HTML file with the looks of the report, which loads itself again."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from intarsia._files import write_atomically
from intarsia._version import __version__
from intarsia.exceptions import SettingError, install
from intarsia.report.data import State
from intarsia.report.render import template

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Light:
    """One sentence about what happens now, and whether that is good."""

    state: State
    text: str


@dataclass(frozen=True)
class Listing:
    """A table of texts; ``numbers`` are the places of columns of numbers."""

    id: str
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    about: str = ""
    empty: str = ""
    numbers: Sequence[int] = ()


@dataclass(frozen=True)
class StatusPage:
    """The contents of a page; ``written`` is the time in ISO format, ``refresh`` the seconds until it is loaded again.

    ``alive`` says how to tell from that time whether the page is still written.
    """

    title: str
    written: str
    refresh: int
    lights: Sequence[Light]
    tables: Sequence[Listing]
    alive: str = ""


@cache
def _template() -> Template:
    """Return the page's template, which a site fills in twice for each message."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise SettingError(f"a page needs jinja2; {error.name} is not installed. {install('report')}") from None
    css = template("report.css")
    environment = Environment(
        loader=PackageLoader("intarsia.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = Markup(f"'sha256-{b64encode(sha256(css.encode()).digest()).decode()}'")  # noqa: S704  (base64 is no markup)
    return environment.get_template("status.html.j2", globals={"version": __version__, "css": css, "style": style})


def render_status(page: StatusPage) -> str:
    """Return the page as HTML: no script, and a content policy that allows its own style only."""
    return _template().render(page=page)


def write_status(page: StatusPage, path: Path) -> None:
    """Write the page, completely or not at all; only its owner can read it."""
    write_atomically(path, render_status(page).encode("utf-8", "replace"), secret=True)
