"""The page in a real browser: on a phone, at a desk, at night, on paper, read aloud."""

import pytest

from tests.report.browser import Browser, pdf_pages

SCREENS = (360, 768, 1280)
PAPER = 688  # CSS pixels between the margins of A4
LEAST_TEXT_PX = 12
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA

BAD = """<!DOCTYPE html><html><head>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<script src="https://example.org/x.js"></script></head><body style="margin:0">
<h1 id="a" style="color:#aaa">Faint</h1><h3 id="a" style="font-size:9px">small</h3>
<p style="position:absolute;top:0;width:3000px">wide and over it</p><a href="#nowhere">there</a>
<img src="https://example.org/x.png"><table><tr><th>no scope</th></tr></table>
<figure id="f"><img src="data:,"></figure></body></html>"""


CUT_OFF = """<!DOCTYPE html><html><head><meta name="viewport" content="width=device-width">
</head><body><div style="overflow-x:auto"><table><tr><td>near</td>
<td><div style="width:900px">wide</div></td><td>far</td></tr></table></div></body></html>"""


def test_the_probes_notice_a_bad_page(browser: Browser):
    """Every test below could pass on anything."""
    browser.show(BAD, 360)
    assert len(browser.complaints()) >= 2
    assert browser.ask("beyondTheScreen")
    assert browser.ask("smallText", LEAST_TEXT_PX)
    assert browser.ask("overlappingBlocks")
    assert browser.ask("faintText", LEAST_CONTRAST)
    assert browser.ask("skippedHeadings") == [3]
    assert len(browser.ask("unnamed")) == 3
    assert browser.ask("doubledIds") == ["a"]
    assert browser.ask("deadLinks") == ["#nowhere"]


def test_a_request_that_leaves_a_page_is_noticed(browser: Browser):
    """A page could fetch fonts or tell somebody that it was read."""
    free = BAD.replace("default-src 'none'; ", "")
    browser.show(free, 360)
    assert "https://example.org/x.js" in browser.requests()


@pytest.mark.parametrize("width", SCREENS)
def test_the_page_is_well_set_on_every_screen(browser: Browser, shop_page: str, width: int):
    """A reader would have to scroll sideways, or to guess at words that lie on each other."""
    browser.show(shop_page, width)
    assert browser.ask("beyondTheScreen") == []
    assert browser.ask("overlappingBlocks") == []
    assert browser.ask("smallText", LEAST_TEXT_PX) == []


def test_a_browser_has_nothing_to_complain_of_and_asks_nobody(browser: Browser, both_page: str):
    """The page would break its own rules, or need a network."""
    browser.show(both_page, 1280)
    browser.open_details()
    assert browser.ask("figures")
    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.parametrize("width", [360, 1280])
def test_two_scenarios_and_all_that_is_folded_fit_as_well(
    browser: Browser, both_page: str, width: int
):
    """The second scenario, the settings or the digests would break the layout."""
    browser.show(both_page, width)
    browser.open_details()
    assert browser.ask("beyondTheScreen") == []
    assert browser.ask("overlappingBlocks") == []
    assert browser.ask("smallText", LEAST_TEXT_PX) == []
    ids = [each["id"] for each in browser.ask("figures")]
    card = [f"s1-{kind}-over-time" for kind in ("load", "kv-usage")]
    card = ["s1-ttft-cdf", *card, "s1-pool-timeline"]
    shop = ["ttft-cdf", "hit-rate-over-time", "load-over-time", "kv-usage-over-time"]
    shop = [f"s2-{kind}" for kind in (*shop, "spills-by-reason", "session-map")]
    assert ids == card + shop


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_told_from_its_background(browser: Browser, both_page: str, scheme: str):
    """Somebody with weak eyes, or in the sun, could not read it."""
    browser.show(both_page, 1280, scheme)
    browser.open_details()
    assert browser.ask("faintText", LEAST_CONTRAST) == []
    dark = browser.ask("paper") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")


def test_a_reader_who_does_not_see_finds_a_way(browser: Browser, both_page: str):
    """A screen reader would meet drawings without words, tables without heads, levels left out."""
    browser.show(both_page, 1280)
    assert browser.ask("skippedHeadings") == []
    assert browser.ask("unnamed") == []
    assert browser.ask("doubledIds") == []
    assert browser.ask("deadLinks") == []


def test_on_paper_nothing_is_cut_and_nothing_is_dark(browser: Browser, both_page: str):
    """A printed table would end at the margin, or a night owl's printer run out of ink."""
    browser.show(both_page, PAPER, "dark", "print")
    assert browser.ask("beyondTheScreen") == []
    assert browser.ask("cutBoxes") == []
    assert browser.ask("overlappingBlocks") == []
    assert browser.ask("paper") == "rgb(255, 255, 255)"
    assert browser.ask("faintText", LEAST_CONTRAST) == []
    assert pdf_pages(browser.pdf()) > 2


@pytest.mark.parametrize(("width", "media"), [(1280, "screen"), (PAPER, "print")])
def test_long_terms_leave_room_for_what_they_mean(
    browser: Browser, both_page: str, width: int, media: str
):
    """A definition that many figures share took all the width for their names, and filled seventeen
    sheets with columns one word wide.
    """
    names = ", ".join(f"errors of workload-{number}" for number in range(9))
    browser.show(both_page.replace("<dt>TTFT p50</dt>", f"<dt>{names}</dt>"), width, media=media)
    browser.open_details()
    narrowest = browser.driver.execute_script(
        "return Math.min(...[...document.querySelectorAll('dl.setup dd')].map("
        "said => said.offsetWidth / said.parentElement.offsetWidth))"
    )
    assert narrowest > 0.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_variant_is_in_sight_on_a_phone(browser: Browser, shop_page: str, scheme: str):
    """On 390 px the last variant, the winner, was cut off at the right edge of each table, and
    nothing showed that the table could be moved."""
    browser.show(shop_page, 390, scheme)
    assert browser.ask("cellsOutOfSight") == []
    browser.show(CUT_OFF, 390, scheme)
    assert browser.ask("cellsOutOfSight") == ["wide", "far"]
