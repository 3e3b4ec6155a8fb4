"""The content of a report as one HTML file that needs no network."""

from __future__ import annotations

import gzip
import html
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from intarsia._version import __version__
from intarsia.exceptions import SettingError, install
from intarsia.protocol.catalogue import SUPPRESSED, words_of
from intarsia.report.data import Cluster, Release, ReportData, State
from intarsia.report.words import FEW_ROWS, rounded
from intarsia.results.outcome import Sent
from intarsia.results.repeat import words_of as words_of_change

if TYPE_CHECKING:
    from markupsafe import Markup

SECTIONS = (
    ("summary", "Summary"),
    ("who", "Who measured what"),
    ("profiles", "Clusters"),
    ("sizes", "Sizes"),
    ("grouping", "How they were grouped"),
    ("number", "How many"),
    ("convergence", "The run"),
    ("left", "What left each participant"),
    ("settings", "Methods and settings"),
)
MOST_HEAVY = 20  # participants in the table of shares
MUCH = 500_000  # characters of data from which on they are compressed; some browsers cannot decompress
_WORST_FIRST = (State.BAD, State.CAUTION, State.GOOD)


def render(data: ReportData) -> str:
    """Return the page."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        from intarsia.report.charts import COLOURS, charts_of
    except ImportError as error:
        raise SettingError(
            f"a report needs jinja2 and plotly; {error.name} is not installed. {install('report')}"
        ) from None
    loader = PackageLoader("intarsia.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    charts = list(charts_of(data))
    return environment.get_template("report.html.j2").render(
        data=data,
        title=data.title,
        version=__version__,
        sections=SECTIONS,
        findings=sorted(data.findings, key=lambda finding: _WORST_FIRST.index(finding.state)),
        participants=sorted(data.participants, key=lambda participant: -participant.rows),
        charts=[
            {"name": c.name, "title": c.title, "caption": c.caption, "height": c.figure.layout.height} for c in charts
        ],
        colours=COLOURS,
        heaviest=sorted(enumerate(data.participants), key=lambda each: -(each[1].weight or 0.0))[:MOST_HEAVY],
        percent=_percent,
        widths=_width,
        rounded=rounded,
        spread=dict(zip(data.profiles.features, data.profiles.overall, strict=True)),
        few=FEW_ROWS,
        suppressed_words=SUPPRESSED,
        repeat_words=words_of_change,
        releases=[
            ("reply", "What participants sent", list(_by_message(data, "reply."))),
            ("query", "What participants were sent", list(_by_message(data, "query."))),
        ],
        payload=_for_script(_payload(data, charts)),
        library=_library(),
        scripts=f"{_hash(template('report.js'))} {_hash(_library_source())}",
        css=template("report.css"),
        script=template("report.js"),
    )


def _payload(data: ReportData, charts: Sequence[Any]) -> dict[str, Any]:
    """Return the figures and tables that the script of the page draws."""
    payload: dict[str, Any] = {
        chart.name: {
            "figure": json.loads(chart.figure.to_json()),
            "table": {"head": chart.table.head, "rows": chart.table.rows},
        }
        for chart in charts
    }
    return payload | {"sent": {"table": _sent(data)}}


def in_notebook(data: ReportData) -> str:
    """Return the page in a frame, so that its styles and those of the notebook do not mix."""
    page = html.escape(render(data), quote=True)
    return (
        f'<iframe srcdoc="{page}" style="width:100%;height:720px;border:1px solid #d8dde3;border-radius:6px" '
        'sandbox="allow-scripts allow-modals" title="Intarsia: report of a clustering"></iframe>'
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _width(difference: float, cluster: Cluster) -> float:
    """The length of a bar, in percent of the cluster's longest."""
    longest = max((abs(entry.difference) for entry in cluster.separating), default=0.0)
    if longest == float("inf"):
        return 100.0 if abs(difference) == longest else 50.0
    return 100.0 * abs(difference) / longest if longest else 0.0


def _by_message(data: ReportData, direction: str) -> Iterator[tuple[str, str, list[Release]]]:
    """Types of messages in one direction, each with its meaning and its fields."""
    for message in dict.fromkeys(r.message for r in data.releases if r.message.startswith(direction)):
        yield message, words_of(message), [r for r in data.releases if r.message == message]


def _sent(data: ReportData) -> dict[str, Any]:
    head = (
        "participant",
        "message",
        "field",
        "messages",
        "omitted",
        "entries",
        "bytes",
        "fewest rows behind an entry",
    )
    replies_first = sorted(data.sent, key=lambda sent: not sent.message.startswith("reply."))
    names = [field.name for field in fields(Sent)]
    rows = [["" if (entry := getattr(sent, name)) is None else entry for name in names] for sent in replies_first]
    return {"head": head, "rows": rows}


def _for_script(payload: Any) -> str:
    """JSON that cannot end its script element; compressed if it is long."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(text) > MUCH:
        return _packed(text)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _packed(text: str) -> str:
    """The text compressed and in base64; the same bytes every time."""
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


@cache
def _library() -> str:
    """plotly.js, compressed."""
    return _packed(_library_source())


@cache
def _library_source() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n")


def _hash(script: str) -> Markup:
    """The hash by which a content security policy allows a script."""
    from markupsafe import Markup

    return Markup(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'")  # noqa: S704  (base64 is no markup)


@cache
def template(name: str) -> str:
    """Return a file that pages are made of: a style or a script."""
    return (files("intarsia.report") / "templates" / name).read_text(encoding="utf-8")
