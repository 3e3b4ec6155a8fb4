"""The page, without a browser."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

import intarsia
from intarsia.exceptions import AssumptionWarning, OutputError, SettingError
from intarsia.report.charts import charts_of
from intarsia.report.charts.base import text
from intarsia.report.data import State
from intarsia.report.render import SECTIONS
from tests.report.studies import HOSTILE, SCRIPT, hospitals, hostile_study, large_study

LARGEST = 5_000_000


class Page(HTMLParser):
    """Elements, attributes and visible text of a page."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts, self._raw = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._raw = tag in {"script", "style"}

    def handle_endtag(self, tag):
        self._raw = False

    def handle_data(self, data):
        if not self._raw:
            self.texts.append(data)


@pytest.fixture(scope="module")
def result():
    return hospitals("auto")


@pytest.fixture(scope="module")
def page(result, tmp_path_factory):
    return result.report(tmp_path_factory.mktemp("r") / "study.html").read_text()


def test_one_small_file_with_every_section(page):
    parsed = Page(page)
    ids = {attrs.get("id") for _, attrs in parsed.elements}
    assert {name for name, _ in SECTIONS} <= ids
    assert len(page.encode()) < LARGEST
    charts = {attrs["data-chart"] for _, attrs in parsed.elements if "data-chart" in attrs}
    assert charts == {
        "coverage", "overlap", "profiles", "sizes", "grouping", "map", "curve", "tree", "convergence", "seconds", "bytes",
    }  # fmt: skip
    tables = {attrs["data-table"] for _, attrs in parsed.elements if "data-table" in attrs}
    assert tables == charts | {"sent"}


def test_nothing_points_outside(page):
    for _, attrs in Page(page).elements:
        for name in ("src", "href", "action"):
            assert (attrs.get(name) or "#").startswith(("#", "data:"))
    assert "default-src 'none'" in page


def test_the_same_study_gives_the_same_page(result, page, tmp_path):
    assert result.report(tmp_path / "again.html").read_text() == page


def test_hostile_names_are_text(tmp_path):
    result = hostile_study()
    page = result.report(tmp_path / "h.html", title="<h1>t</h1>").read_text()
    parsed = Page(page)
    assert sum(tag == "script" for tag, _ in parsed.elements) == 3
    assert not any("onerror" in attrs for _, attrs in parsed.elements)
    assert not any(tag == "img" for tag, _ in parsed.elements)
    seen = "".join(parsed.texts)
    assert all(name in seen for name in HOSTILE)
    assert "{{ 7*7 }}" in seen
    assert "49" not in re.findall(r"\{\{.*?\}\}|\b49\b", seen)


def test_a_hostile_name_of_a_cluster_is_text_in_page_and_charts(tmp_path):
    name = "</script><img src=x onerror=window.broken=1>"
    named = hostile_study().rename({0: name})
    parsed = Page(named.report(tmp_path / "named.html").read_text())
    assert sum(tag == "script" for tag, _ in parsed.elements) == 3
    assert not any(tag == "img" or "onerror" in attrs for tag, attrs in parsed.elements)
    assert name in "".join(parsed.texts)
    figures = [chart.figure.to_json() for chart in charts_of(named.summarise())]
    assert any("cluster 0 (" in each for each in figures)
    assert not any("<img" in each or "</script" in each for each in figures)


def test_names_are_escaped_and_isolated_for_charts():
    assert text(SCRIPT) == "\u2068&lt;script&gt;window.bro…&lt;/script&gt;\u2069"
    assert text("University Hospital of the North, ward 7", 18).endswith("ard 7\u2069")
    assert len(text("x" * 200)) == 30
    for chart in charts_of(hostile_study().summarise()):
        raw = chart.figure.to_json()
        assert "<script" not in raw
        assert "<img" not in raw
        assert "<a href" not in raw


def test_names_that_are_cut_alike_stay_apart():
    from tests.report.studies import blobs

    long = "clinic of the north " * 3
    result = intarsia.cluster(blobs([f"{long}a", f"{long}b"], ["x", "y"], 2, 40), 2, random_state=0)
    sankey = next(c for c in charts_of(result.summarise()) if c.name == "grouping").figure.data[0]
    assert len(sankey.node.label) == 2 * 2 + 2
    assert sorted(sankey.link.source) == [0, 1, 2, 3]
    coverage = next(c for c in charts_of(result.summarise()) if c.name == "coverage").figure
    assert len(coverage.layout.xaxis.tickvals) == 2


def test_controls_in_names_are_marks(tmp_path):
    """What would turn a line around, or a tab, or half a character, is seen and does nothing."""
    from intarsia.report.cleaning import cleaned
    from tests.report.studies import blobs

    assert cleaned(("a\u202eb", {"k\n": ["\ud800"]}, 1.5)) == ("a\ufffdb", {"k\ufffd": ["\ufffd"]}, 1.5)
    result = intarsia.cluster(blobs(["a\u202eb", "c\u2069"], ["x", "y"], 2, 40), 2, random_state=0)
    page = result.report(tmp_path / "r.html", title="t\u202e\ud800").read_text()
    assert not set(page) & set("\u202e\u202d\u2066")
    assert "<h1>t\ufffd\ufffd</h1>" in page


def test_many_participants_are_capped(tmp_path):
    result = large_study(n=300, k=2, d=5)
    charts = {chart.name: chart for chart in charts_of(result.summarise())}
    for name in ("coverage", "sizes", "seconds", "bytes"):
        assert charts[name].figure.layout.height < 1500
        assert "40 largest participants" in charts[name].caption
    assert len(charts["sizes"].table.rows) == 300
    assert len(result.summarise().shared) <= 5000


def test_the_policy_names_the_two_scripts_that_may_run(page):
    from base64 import b64encode
    from hashlib import sha256

    policy = next(a["content"] for t, a in Page(page).elements if a.get("http-equiv") == "Content-Security-Policy")
    own = page.rpartition("<script>")[2].partition("</script>")[0]
    assert b64encode(sha256(own.encode()).digest()).decode() in policy
    assert "unsafe-eval" not in policy
    assert policy.count("sha256-") == 2


def test_charts_show_what_their_tables_say(result):
    data = result.summarise()
    charts = {chart.name: chart for chart in charts_of(data)}
    for chart in charts.values():
        assert chart.table.rows, chart.name
        assert all(len(row) == len(chart.table.head) for row in chart.table.rows), chart.name
    assert sum(charts["grouping"].figure.data[0].link.value) == 920
    heat = charts["profiles"].figure.data[0]
    assert [list(row) for row in heat.z] == [
        [data.profiles.standardised[c][m] for c in range(2)] for m in range(len(data.profiles.features))
    ]
    assert len(charts["convergence"].table.rows) == len(result.rounds)
    bytes_out = sum(sum(row[1:-1]) for row in charts["bytes"].table.rows)
    assert bytes_out == sum(sum(e.bytes_out.values()) for e in result.run.exchanges)


def test_a_large_study_is_folded(tmp_path):
    result = large_study()
    page = result.report(tmp_path / "large.html").read_text()
    assert len(page.encode()) < LARGEST
    charts = {chart.name: chart for chart in charts_of(result.summarise())}
    assert len(charts["profiles"].figure.data[0].z) == 40
    assert len(charts["profiles"].table.rows) == 600
    assert len(charts["grouping"].table.rows) == 1500
    assert len(charts["grouping"].figure.data[0].node.label) <= 30 + 13


def test_a_report_can_be_json(result, tmp_path):
    assert result.report(tmp_path / "study.json").read_text() == result.summarise().to_json()


def test_one_shot_and_partial_studies_have_reports(tmp_path):
    result = hospitals(2, method="one_shot")
    names = {chart.name for chart in charts_of(result.summarise())}
    assert {"tree", "bytes"} <= names
    assert "convergence" not in names
    tables = {"a": {"x": [0.0, 0.1, 9.0, 9.1]}, "b": {"y": [0.0, 0.1, 9.0, 9.1]}}
    with pytest.warns(AssumptionWarning):
        apart = intarsia.cluster(tables, 4, method="one_shot", allow_partial=True, n_local_clusters=2, random_state=0)
    findings = {finding.about: finding.state for finding in apart.summarise().findings}
    assert findings["Participants share columns"] is State.BAD
    assert apart.report(tmp_path / "apart.html").exists()


@pytest.mark.parametrize(
    ("aggregation", "words"), [("greedy", "The result is this cut."), ("search", "may group them slightly differently")]
)
def test_the_merge_tree_says_whether_it_is_the_result(aggregation, words):
    rows = {"x": [0.0, 0.1, 5.0, 5.1, 0.2, 5.2] * 3, "y": [0.0, 0.2, 9.0, 9.1, 0.1, 9.3] * 3}
    result = intarsia.cluster({"a": rows, "b": rows}, 2, method="one_shot", aggregation=aggregation, random_state=0)
    charts = {chart.name: chart for chart in charts_of(result.summarise())}
    assert words in charts["tree"].caption


def test_a_notebook_shows_the_page_in_a_frame(result):
    shown = result._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    (frame,) = Page(shown).elements
    assert set(frame[1]["sandbox"].split()) == {"allow-scripts", "allow-modals"}
    assert "<!doctype html>" in frame[1]["srcdoc"]


def test_without_what_draws_a_result_is_a_line():
    code = (
        "import sys, intarsia; sys.modules['plotly'] = None; sys.modules['plotly.graph_objects'] = None\n"
        "r = intarsia.cluster({'a': {'x': [0.0, 1, 8, 9]}, 'b': {'x': [0.0, 1, 8, 9]}}, 2, random_state=0)\n"
        "print(r._repr_html_())\n"
        "try: r.report('never.html')\n"
        "except intarsia.exceptions.SettingError as error: print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("<pre>&lt;ClusteringResult: 2 clusters of 8 rows")
    assert "pip install '.[report]'" in out


def test_a_report_that_cannot_be_written_says_so(result, tmp_path):
    with pytest.raises(SettingError, match=".html or .json"):
        result.report(tmp_path / "study.pdf")
    with pytest.raises(OutputError, match="cannot be written"):
        result.report(tmp_path / "no" / "such" / "folder.html")
