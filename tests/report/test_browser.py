"""The page in a real Chromium, as a reader has it."""

import time

import pytest
from playwright.sync_api import expect

from intarsia.report.render import SECTIONS
from tests.report.studies import HOSTILE, HOSTILE_COLUMNS, SCRIPT, hospitals, hostile_study, large_study, wide_study

CHARTS = (
    "coverage",
    "overlap",
    "profiles",
    "sizes",
    "grouping",
    "map",
    "curve",
    "tree",
    "convergence",
    "seconds",
    "bytes",
)
DESK = {"width": 1100, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {
        "hospitals": hospitals("auto").report(folder / "hospitals.html"),
        "hostile": hostile_study().report(folder / "hostile.html"),
        "large": large_study().report(folder / "large.html"),
        "wide": wide_study().report(folder / "wide.html"),
    }


def wait_until(page, expression):
    """Playwright's own way to wait evaluates text in the page, which the page forbids."""
    for _ in range(1200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"never true: {expression}")


class Reader:
    """A page that is open, what it complained of, and what it asked the network for."""

    def __init__(self, browser, path, **how):
        self.context = browser.new_context(**({"viewport": DESK} | how))
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = path.as_uri()
        started = time.perf_counter()
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready='charts']")
        self.seconds = time.perf_counter() - started

    def scroll_through(self):
        """As a reader would, so that every chart is drawn."""
        height = self.page.evaluate("document.body.scrollHeight")
        for y in range(0, height, 500):
            self.page.evaluate(f"scrollTo({{top: {y}, behavior: 'instant'}})")
            self.page.wait_for_timeout(30)
        wait_until(self.page, "[...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))")

    def check_quiet(self):
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("data:", "blob:"))] == [self.address]


@pytest.fixture
def read(browser, pages):
    readers = []

    def start(name, **how):
        readers.append(Reader(browser, pages[name], **how))
        return readers[-1]

    yield start
    for reader in readers:
        reader.context.close()


def test_every_section_and_chart_is_there_and_nothing_is_asked_of_anybody(read):
    reader = read("hospitals")
    reader.scroll_through()
    for name, _ in SECTIONS:
        assert reader.page.locator(f"section#{name} h2").is_visible()
    drawn = reader.page.eval_on_selector_all(
        ".plot", "all => all.map(p => [p.dataset.chart, p.querySelectorAll('.main-svg').length])"
    )
    assert [name for name, layers in drawn if layers] == list(CHARTS)
    reader.check_quiet()


def test_links_to_sections_work(read):
    reader = read("hospitals", reduced_motion="reduce")
    reader.page.get_by_role("link", name="What left each participant").click()
    assert reader.page.locator("#left h2").is_visible()
    assert reader.page.evaluate("Math.abs(document.querySelector('#left').getBoundingClientRect().top) < 60")


def test_pointing_at_a_cell_says_what_it_is(read):
    reader = read("hospitals")
    plot = reader.page.locator("#chart-profiles .plot")
    plot.scroll_into_view_if_needed()
    plot.locator(".heatmaplayer").wait_for(state="attached")
    box = plot.locator(".xy .plot, .cartesianlayer .bg, .draglayer .nsewdrag").last.bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 8)
    reader.page.mouse.move(box["x"] + box["width"] * 0.25 + 2, box["y"] + 9)
    hover = plot.locator(".hoverlayer .hovertext")
    hover.wait_for()
    said = hover.text_content()
    assert "cluster 0" in said
    assert "deviations off the mean" in said
    assert "values" in said


def test_pointing_at_a_band_of_the_sankey_says_whose_it_is(read):
    reader = read("hospitals")
    plot = reader.page.locator("#chart-grouping .plot")
    plot.scroll_into_view_if_needed()
    plot.locator(".sankey-link").first.wait_for()
    box = plot.locator(".sankey-link").first.bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    reader.page.mouse.move(box["x"] + box["width"] / 2 + 2, box["y"] + box["height"] / 2)
    plot.locator(".hoverlayer text").first.wait_for()
    assert "local cluster" in plot.locator(".hoverlayer").text_content()


def test_charts_have_legends(read):
    reader = read("hospitals")
    reader.scroll_through()
    for name, entry in (("sizes", "cluster 1"), ("map", "cluster 0"), ("curve", "chosen"), ("bytes", "rounds")):
        assert entry in reader.page.locator(f"#chart-{name} .legend").text_content()


def test_the_table_behind_a_chart_opens_and_can_be_searched(read):
    reader = read("hospitals")
    figure = reader.page.locator("#chart-profiles")
    figure.get_by_text("Table: Profiles").click()
    rows = figure.locator("tbody tr")
    expect(rows).to_have_count(13)
    assert figure.locator("thead th").first.text_content() == "feature"
    figure.locator("input[type=search]").fill("THAL")
    expect(rows).to_have_count(2)
    assert rows.first.locator("th").text_content() in {"thal", "thalach"}
    for name in CHARTS:
        summary = reader.page.locator(f"#chart-{name} details summary")
        if not reader.page.locator(f"#chart-{name} details[open]").count():
            summary.click()
        expect(reader.page.locator(f"#chart-{name} details tbody tr").first).to_be_visible()
    reader.check_quiet()


def test_what_left_is_told_by_participant(read):
    reader = read("hospitals")
    left = reader.page.locator("#left")
    assert "reply.summary" in left.locator(".releases").first.text_content()
    left.get_by_text("by participant").click()
    left.locator("input[type=search]").fill("hungary")
    expect(left.locator(".table-place tbody tr").first.locator("th")).to_have_text("hungary")


def _back(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_mode_reaches_page_and_charts_and_follows_the_reader(read):
    reader = read("hospitals", color_scheme="dark")
    reader.scroll_through()
    colour = "getComputedStyle(document.querySelector('#chart-sizes .xtick text')).fill"
    dark, dark_text = _back(reader.page), reader.page.evaluate(colour)
    reader.page.emulate_media(color_scheme="light")
    wait_until(reader.page, f"{colour} !== {dark_text!r}")
    assert dark == "rgb(20, 23, 27)"
    assert _back(reader.page) == "rgb(255, 255, 255)"
    reader.check_quiet()


@pytest.mark.parametrize("name", ["hospitals", "hostile", "large"])
def test_a_phone_never_scrolls_sideways(read, name):
    reader = read(name, viewport=PHONE, is_mobile=True, has_touch=True, device_scale_factor=2)
    reader.scroll_through()
    assert reader.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    widths = reader.page.eval_on_selector_all(".plot .main-svg", "all => all.map(s => s.getBoundingClientRect().width)")
    assert max(widths) <= PHONE["width"]
    assert float(reader.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")) >= 14
    reader.check_quiet()


OVERFLOWING = """() => [...document.querySelectorAll(".card, .card *")]
    .filter(part => getComputedStyle(part).display !== "inline" && part.scrollWidth > part.clientWidth + 1)
    .map(part => `${part.tagName} ${part.className}`)"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["hospitals", "wide"])
def test_nothing_overflows_in_a_cluster_card(name, width, read):
    reader = read(name, viewport={"width": width, "height": 900})
    assert reader.page.locator(".card").count() > 1
    assert reader.page.evaluate(OVERFLOWING) == []


def test_turning_the_screen_redraws(read):
    reader = read("hospitals")
    reader.scroll_through()
    reader.page.set_viewport_size({"width": 700, "height": 800})
    wait_until(reader.page, "document.querySelector('#chart-map .main-svg').getBoundingClientRect().width < 690")


def test_print_shows_every_chart_in_light_colours(read, tmp_path):
    """Charts below the fold are drawn for paper too, folded clusters open, and the page is as it was afterwards."""
    reader = read("hospitals", color_scheme="dark")
    reader.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    reader.page.emulate_media(media="print", color_scheme="light")
    drawn = reader.page.eval_on_selector_all(".plot", "all => all.filter(p => p.querySelector('.main-svg')).length")
    assert drawn == len(CHARTS)
    assert _back(reader.page) == "rgb(255, 255, 255)"
    assert not reader.page.locator("nav").is_visible()
    assert not reader.page.locator("details.behind").first.is_visible()
    widths = reader.page.eval_on_selector_all(".plot .main-svg", "all => all.map(s => s.getBoundingClientRect().width)")
    assert max(widths) <= 700
    reader.page.emulate_media(media="screen", color_scheme="dark")
    reader.page.evaluate("dispatchEvent(new Event('afterprint'))")
    pdf = reader.page.pdf(path=tmp_path / "study.pdf", format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 5 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 40
    reader.check_quiet()


def test_print_opens_what_is_folded_and_folds_it_again(read):
    reader = read("large")
    page = reader.page
    folded, hidden = page.locator("details.card:not([open])"), page.locator("tr.folded")
    assert (folded.count(), hidden.count()) == (44, 18)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert (folded.count(), hidden.count()) == (0, 0)
    assert page.locator("#left .table-place tbody tr").count() == 1000
    drawn = page.eval_on_selector_all(".plot", "all => all.filter(p => !p.querySelector('.main-svg')).length")
    assert drawn == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert (folded.count(), hidden.count()) == (44, 18)
    assert page.locator("#left details[open]").count() == 0


def test_one_chart_that_cannot_be_drawn_takes_no_other_with_it(browser, pages, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(pages["hospitals"].read_text().replace('"type":"sankey"', '"type":"sankey","node":7', 1))
    reader = Reader(browser, broken)
    reader.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    drawn = reader.page.eval_on_selector_all(".plot", "all => all.filter(p => p.querySelector('.main-svg')).length")
    assert drawn >= len(CHARTS) - 1
    assert reader.page.locator("#chart-bytes .main-svg").count() > 0
    reader.context.close()


def test_links_from_a_file_are_text(browser, tmp_path):
    """A model file is somebody else's, too."""
    from dataclasses import replace

    result = hospitals()
    link = "<a href='https://example.org/'>x</a>"
    exchanges = tuple(replace(e, phase=link) for e in result.run.exchanges)
    rounds = tuple(replace(r, kind=link) for r in result.rounds)
    result = replace(
        result, outcome=replace(result.outcome, rounds=rounds), run=replace(result.run, exchanges=exchanges)
    )
    reader = Reader(browser, result.report(tmp_path / "links.html"))
    reader.scroll_through()
    assert reader.page.locator("svg a").count() == 0
    assert reader.page.locator("#chart-bytes .legend").text_content().count("<a href") == 1
    reader.check_quiet()
    reader.context.close()


def test_hostile_names_are_shown_as_text(read):
    reader = read("hostile")
    reader.scroll_through()
    page = reader.page
    assert page.evaluate("window.broken") is None
    shown = page.locator("#who tbody th").all_text_contents()
    assert set(shown) == set(HOSTILE)
    everything = page.evaluate("document.body.textContent")
    for column in HOSTILE_COLUMNS:
        assert column in everything
    for name in ("grouping", "coverage"):
        page.locator(f"#chart-{name} details summary").click()
        expect(page.locator(f"#chart-{name} .table-place")).to_contain_text(SCRIPT)
    assert "<script>" in page.locator("#chart-sizes .ytick").first.text_content()
    expect(page.locator("svg a")).to_have_count(0)
    assert page.evaluate("window.broken") is None
    reader.check_quiet()


@pytest.mark.e2e  # it measures seconds
def test_a_large_study_opens_nearly_as_quickly_as_a_small_one_and_stays_readable(read):
    # the quickest of three of each, because a machine that also does something else is slow at times
    small = min(read("hospitals").seconds for _ in range(3))
    readers = [read("large") for _ in range(3)]
    assert min(reader.seconds for reader in readers) < 5 * small
    reader = readers[0]
    page = reader.page
    expect(page.locator("details.card[open]")).to_have_count(6)
    expect(page.locator("#who tbody tr:visible")).to_have_count(12)
    page.get_by_text("Show all 30 participants").click()
    expect(page.locator("#who table.plain tbody tr:visible")).to_have_count(30)
    page.locator("#profiles input[type=search]").fill("cluster 37")
    expect(page.locator("#cards > .card:visible")).to_have_count(1)
    reader.scroll_through()
    page.get_by_text("Table: Profiles").click()
    figure = page.locator("#chart-profiles")
    expect(figure.locator("tbody tr")).to_have_count(100)
    figure.locator("input[type=search]").fill("feature 599")
    expect(figure.locator("tbody tr")).to_have_count(1)
    figure.locator("input[type=search]").fill("")
    figure.get_by_text("Show all 600 rows").click()
    expect(figure.locator("tbody tr")).to_have_count(600)
    reader.check_quiet()


def test_the_page_works_with_the_keyboard(read):
    reader = read("hospitals")
    reader.page.keyboard.press("Tab")
    assert reader.page.evaluate("document.activeElement.className") == "skip"
    summary = reader.page.locator("#chart-sizes details summary")
    summary.focus()
    reader.page.keyboard.press("Enter")
    wait_until(reader.page, "document.querySelectorAll('#chart-sizes details tbody tr').length === 4")


def test_without_the_chart_library_tables_still_work(browser, pages):
    """As in a browser that cannot unpack it."""
    context = browser.new_context(viewport=DESK)
    context.add_init_script("delete window.DecompressionStream")
    page = context.new_page()
    page.goto(pages["hospitals"].as_uri())
    page.wait_for_selector("html[data-ready='tables']")
    assert "cannot draw" in page.locator("#chart-map .plot").text_content()
    page.get_by_text("Table: Clusters at each participant").click()
    expect(page.locator("#chart-sizes tbody tr")).to_have_count(4)
    context.close()


def test_a_notebook_frame_draws_its_charts(browser, tmp_path):
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><meta charset=utf-8><h1>A notebook</h1>{hospitals()._repr_html_()}")
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(notebook.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready='charts']").wait_for()
    frame.locator("#chart-coverage .plot").scroll_into_view_if_needed()
    frame.locator("#chart-coverage .main-svg").first.wait_for()
    assert complaints == []
    context.close()
