"""The example reports in a real Chromium, from files, without a network."""

import pytest
from msgspec.structs import replace
from support.pages.browser import CHROMIUM, Browser
from support.pages.report_runs import FOLDER, compare_run, real_run

from simverify.reports.formats import html_report

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

PAGES = sorted(FOLDER.glob("*/report.html"))

# WCAG 2.2: the contrast of every text with what lies behind it, by relative luminance.
CONTRASTS = """(() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    throw new Error("no background");
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((m, n) => n - m);
    return (x + 0.05) / (y + 0.05);
  };
  const found = {};
  const note = (kind, value) => { found[kind] = Math.min(found[kind] ?? 99, value); };
  for (const details of document.querySelectorAll("details")) details.open = true;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim()) continue;
    if (at.closest("script, style, title, desc")) continue;
    const style = getComputedStyle(at);
    const colour = at.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const kind = "text " + at.tagName + "." + (at.getAttribute("class") ?? "");
    note(kind, ratio(parse(colour), behind(at)));
  }
  const drawn = ".chart .line, .chart .rule, .chart .dot, .chart .axis";
  for (const path of document.querySelectorAll(drawn)) {
    const stroke = parse(getComputedStyle(path).stroke);
    note("graphic " + path.getAttribute("class"), ratio(stroke, behind(path)));
  }
  for (const path of document.querySelectorAll(".bars path")) {
    note("graphic bar", ratio(parse(getComputedStyle(path).fill), behind(path)));
  }
  return found;
})()"""

FITS = {"watch"}
"""Pages all of whose tables a phone shows whole."""

FOCUSABLE = "[...document.querySelectorAll('a[href], button, summary, [tabindex=\"0\"]')]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def test_there_are_pages():
    assert len(PAGES) == 9


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
@pytest.mark.parametrize("width", [360, 800, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_asks_for_nothing_complains_of_nothing_and_fits(browser, page, width, scheme):
    browser.open(page, width=width, scheme=scheme)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []
    for details in ("false", "true"):
        browser.value(f"document.querySelectorAll('details').forEach(d => d.open = {details})")
        assert browser.value("document.documentElement.scrollWidth") <= width


def test_a_page_that_breaks_its_policy_is_seen(browser, tmp_path):
    broken = (
        PAGES[0]
        .read_text()
        .replace("<body>", '<body style="margin: 0"><img src="http://a.example/x.png">')
    )
    (tmp_path / "broken.html").write_text(broken)
    browser.open(tmp_path / "broken.html", width=800)
    said = str(browser.complaints())
    assert "style-src" in said
    assert "img-src" in said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_aa(browser, page, scheme):
    browser.open(page, width=1600, scheme=scheme)
    found = browser.value(CONTRASTS)
    assert len(found) > 15
    low = {
        kind: ratio
        for kind, ratio in found.items()
        if ratio < (4.5 if kind.startswith("text") else 3.0)
    }
    assert low == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_keyboard_reaches_everything_in_order(browser, page):
    browser.open(page, width=800)
    browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    total = browser.value(f"{FOCUSABLE}.length")
    seen = []
    for _ in range(total):
        browser.press("Tab", 9)
        seen.append(browser.value(f"{FOCUSABLE}.indexOf(document.activeElement)"))
    assert seen == list(range(total))


def test_a_table_is_sorted_by_the_keyboard_and_copied(browser):
    browser.open(FOLDER / "compare" / "report.html", width=1600)
    rows = "[...document.querySelector('table').tBodies[0].rows]"
    column = f"{rows}.map(row => Number(row.cells[4].dataset.v))"
    before = browser.value(column)
    browser.value("document.querySelectorAll('table')[0].querySelectorAll('th button')[4].focus()")
    browser.press("Enter", 13)
    assert browser.value(column) == sorted(before) != before
    browser.press("Enter", 13)
    assert browser.value(column) == sorted(before, reverse=True)
    sort = "document.querySelector('table th[aria-sort]').getAttribute('aria-sort')"
    assert browser.value(sort) == "descending"
    browser.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }; null")
    browser.value("document.querySelector('button.copy').click()")
    lines = browser.value("window.copied").strip().split("\n")
    assert len(lines) == 1 + len(before)
    assert len({line.count("\t") for line in lines}) == 1


def test_the_verdict_is_in_the_first_screen(browser):
    for page in PAGES:
        for width in (360, 1600):
            browser.open(page, width=width)
            rule = "document.querySelector('.ruling').getBoundingClientRect().bottom"
            assert browser.value(rule) < 600


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_long_names_push_no_verdict_off_the_screen(browser, tmp_path, width):
    name = "{}" + "a_model_with_a_name_of_ninety_characters_and_no_place_to_break".ljust(89, "x")
    run = compare_run(5, 4, name)
    assert len(run.models[0].name) == 90
    (tmp_path / "long.html").write_text(html_report(run))
    browser.open(tmp_path / "long.html", width=width)
    row = "document.querySelector('table').tBodies[0].rows[0]"
    cells = f"{row}.cells[0].textContent + {row}.cells[1].textContent"
    assert browser.value(cells) == "PASS sampledPASS"
    for cell in (0, 1, 2):  # lossless, as declared, verifier
        assert browser.value(f"{row}.cells[{cell}].getBoundingClientRect().right") <= width
    box = "document.querySelector('.wide')"
    fits = browser.value(f"{box}.scrollWidth <= {box}.clientWidth")
    assert fits == (width == 1600)
    assert browser.value("document.querySelector('.ruling').getBoundingClientRect().bottom") < 600


HINTS = """[...document.querySelectorAll('.wide')].filter(wide => wide.offsetParent).map(wide => [
  wide.scrollWidth > wide.clientWidth,
  wide.previousElementSibling.checkVisibility() && wide.previousElementSibling.textContent])"""


def hints_of(browser):
    """Whether each table goes on beyond the screen, and its hint: after the page's own code ran."""
    browser.value("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    return browser.value(HINTS)


@pytest.mark.parametrize("width", [360, 800, 1600])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_table_that_goes_on_beyond_the_screen_says_so(browser, page, width):
    browser.open(page, width=width)
    browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    hints = hints_of(browser)
    assert all(bool(said) == goes_on for goes_on, said in hints)
    assert any(goes_on for goes_on, _ in hints) or width > 360 or page.parent.name in FITS


def test_settings_with_a_hash_need_no_scrolling(browser, tmp_path):
    run = real_run()
    decoding = replace(run.decoding, prompts_sha256="0123456789abcdef" * 4)
    (tmp_path / "real.html").write_text(html_report(replace(run, decoding=decoding)))
    browser.open(tmp_path / "real.html", width=360)
    narrow = browser.value(
        "[...document.querySelectorAll('.wide')].filter(wide => wide.offsetParent && "
        "wide.querySelectorAll('th').length === 2)"
        ".map(wide => [wide.ariaLabel, wide.scrollWidth <= wide.clientWidth])"
    )
    assert narrow == [["How it was decoded", True]]


def test_the_hint_counts_the_columns_that_are_off_the_screen(browser):
    browser.open(FOLDER / "compare" / "report.html", width=360)
    columns = browser.value("document.querySelector('table').tHead.rows[0].cells.length")
    first, wide = hints_of(browser)[0], "document.querySelector('.wide')"
    inside = browser.value(
        "[...document.querySelector('table').tHead.rows[0].cells].filter(cell => "
        f"cell.getBoundingClientRect().right <= {wide}.getBoundingClientRect().right + 1).length"
    )
    assert 2 <= inside < columns
    assert f": {columns - inside} of {columns} columns are not in full view" in first[1]


def test_a_print_has_a_light_page_and_no_buttons(browser):
    browser.open(PAGES[0], width=800, scheme="dark", media="print")
    assert (
        browser.value("getComputedStyle(document.documentElement).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert browser.value("[...document.querySelectorAll('.copy, nav')].every(e => !e.offsetParent)")
