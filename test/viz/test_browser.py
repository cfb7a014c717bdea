"""The page in a real browser: what it draws, and what clicks and keys do.

pytest -m browser                             with RC_BROWSER=..., or Chromium on the PATH
pytest -m browser --basetemp=shots            keeps the screenshots
"""

from dataclasses import replace

import browser
import numpy as np
import pytest

from rcompiler.viz.measured import Measured
from rcompiler.viz.page import page
from rcompiler.viz.view import collect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not browser.find(), reason="needs Chromium (apt-get install chromium)"),
]
BLUE = (116, 169, 221)  # --k0: of the kind that takes most time


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as found:
        yield found


@pytest.fixture
def show(chromium, tmp_path):
    """Opens a view: show(view, hash, **options) -> page. At the end nothing was asked for."""
    opened = []

    def show(view, at="", **options):
        file = tmp_path / f"view{len(opened)}.html"
        file.write_text(page(view))
        opened.append((chromium.open(f"{file.as_uri()}{at}", **options), file))
        return opened[-1][0]

    yield show
    for found, file in opened:
        assert found.complaints() == []
        assert {url.partition("#")[0] for url in found.requests()} == {file.as_uri()}
        found.screenshot(file.with_suffix(".png"))
        found.call("Page.close")


def place_of(found, eu, ns, end=5700.0):
    """Where a time on the lane of an EU is drawn while everything is in view: x, y in the window.

    From the layout that the page shows: a gutter, an axis, a heading, then equal lanes.
    """
    box = found.value("JSON.parse(JSON.stringify("
                      "document.getElementById('lanes').getBoundingClientRect()))")  # fmt: skip
    x = box["x"] + 76 + (box["width"] - 76) * ns / end
    return x, box["y"] + 22 + 22 + 64 * eu + 30


def test_the_screenshot_shows_the_timeline(show, view):
    found = show(view)

    def colour(eu, ns):
        x, y = place_of(found, eu, ns)
        return found.colour(x, y + 20)  # below the line of idle times

    # tasks where they run, lanes without work elsewhere
    assert [colour(0, t) for t in (600, 1400, 2500, 5000)] == [BLUE] * 4
    assert [colour(1, t) for t in (1700, 4500)] == [BLUE] * 2
    empty = colour(1, 1000)
    assert empty != BLUE and [colour(0, 4000), colour(1, 5500)] == [empty] * 2
    header = found.text("header")
    for figure in ("diamond", "v100", "2 EUs", "policy list", "5.70 µs", "61.4 %", "192 B"):
        assert figure in header


def test_the_header_names_both_devices_of_what_is_played_elsewhere(show, view):
    found = show(replace(view, made_for="epyc"))
    assert "played on v100, made for epyc" in found.text("header")


def test_a_taken_task_is_on_its_eu_by_estimate_and_by_measurement(show, view, taken):
    measured = Measured(2, (1, 0, 0, 1), (500.0, 1600.0, 1600.0, 4700.0),
                        (1500.0, 4600.0, 3600.0, 5700.0))  # fmt: skip
    found = show(replace(taken, measured=measured))
    assert "idle: launch or take" in found.text("#legend")
    found.click(*place_of(found, 0, 3000))
    text = found.text("#panel")
    assert "o2" in text and "0, as estimated: who is free takes it" in text
    assert "take" in text and "Measured" in text
    plain = show(view)
    assert "take" not in plain.text("#legend")
    plain.click(*place_of(plain, 0, 600))
    assert "as estimated" not in plain.text("#panel")


def test_a_click_names_operator_tile_waits_and_times(show, view):
    found = show(view)
    found.click(*place_of(found, 1, 3000))
    text = found.text("#panel")
    for line in ("o2", "product", "k2", "4 × 2", "2 × 2", "0 (1 of 1)"):
        assert line in text.splitlines()
    assert "1.60 µs" in text and "4.60 µs" in text and "3.00 µs" in text
    assert "a: 1 of 1 signals; waited 1.10 µs, until 1.60 µs" in text
    assert "1.50 µs by o0 on EU 0" in text
    assert "b at 4.60 µs, waited for by" in text and "o3 on EU 0" in text
    assert "it is small" in text and "roller" in text
    assert found.value("location.hash") == "#task=2"
    # a link in the panel goes to that task
    found.value("[...document.querySelectorAll('#panel .link')].find("
                "b => b.textContent.startsWith('o3')).click()")  # fmt: skip
    assert found.text("#panel h2") == "o3"
    assert "Critical path\nyes" in found.text("#panel")
    found.click(*place_of(found, 1, 5500))  # nothing there
    assert found.text("#panel h2") == "Schedule"


def test_the_address_selects_a_task(show, view):
    found = show(view, "#task=1")
    assert found.text("#panel h2") == "o1"
    assert "Critical path\nno" in found.text("#panel")
    found.value("location.hash = '#task=3'")
    found.settle()
    assert found.text("#panel h2") == "o3"
    for at in ("#task=99", "#task=-1", "#task=1e1", "#<img>"):
        assert show(view, at).text("#panel h2") == "Schedule"


def test_keys(show, view):
    found = show(view)
    whole = found.text("#range")
    assert whole == "0 ns to 5.70 µs"
    found.key("+", "+")
    inside = found.text("#range")
    assert inside == "950.0 ns to 4.75 µs"
    found.key("ArrowRight")
    assert found.text("#range") != inside
    found.key("f", "f")
    assert found.text("#range") == whole
    for key, name in (("n", "o0"), ("n", "o1"), ("n", "o3"), ("p", "o1")):
        found.key(key, key)
        assert found.text("#panel h2") == name
    found.key("c", "c")
    found.key("w", "w")
    assert [found.value(f"document.getElementById('{b}').ariaPressed") for b in ("path", "waits")]
    found.key("Escape")
    assert found.text("#panel h2") == "Schedule" and found.value("location.hash") == ""


def test_search(show, view):
    found = show(view)
    found.key("/", "/")
    found.type("O2")
    assert found.text("#panel h2") == "1 operator"
    found.key("Enter")
    assert found.text("#panel h2") == "o2"
    found.key("Escape")
    assert found.value("document.getElementById('search').value") == ""
    found.key("/", "/")
    found.type("nothing")
    assert "None is called “nothing”." in found.text("#panel")


def test_measured_lanes_stand_below(show, view):
    measured = Measured(2, (1, 0, 1, 0), (0.0, 1e3, 2e3, 6e3), (1e3, 2e3, 6e3, 9e3))
    found = show(replace(view, measured=measured))
    assert "1.58 ×" in found.text("header")
    # below two planned lanes and another heading
    x, y = place_of(found, 2, 4000, end=9000)
    found.click(x, y + 22 + 64)
    text = found.text("#panel")
    assert found.text("#panel h2") == "o2" and "4.00 µs (1.33 × the estimate)" in text


def test_names_are_only_text(show, plan):
    evil = "</script><img src=x onerror=\"document.title='broken'\"><b>"
    given = plan(rename=lambda name: f"{name}{evil}", reason=evil)
    found = show(collect(replace(given, name=evil)), "#task=2")
    assert evil in found.text("h1") and found.text("#panel h2") == f"o2{evil}"
    assert evil in found.value("document.title")
    assert not found.value("document.querySelector('img, h1 b, aside b')")


def test_nothing_to_draw(show, plan):
    found = show(collect(replace(plan(), programs=())))
    for key in "+-fcwnp":
        found.key(key, key)
    found.move(600, 250)
    assert "0 in 0 runs" in found.text("header")


def test_dark(show, view):
    found = show(view, dark=True)
    assert found.colour(2, 2) == (0x15, 0x18, 0x1C)


def test_a_large_schedule_is_quick(show, view):
    """300,000 tasks on 132 EUs: opened, drawn and searched in times that nobody minds."""
    found = show(large_view(view))
    ms = found.value(
        "(async () => { const start = performance.now();"
        " for (let i = 0; i < 10; i++) {"
        "  document.dispatchEvent(new KeyboardEvent('keydown', {key: i % 2 ? '-' : '+'}));"
        "  await new Promise(r => requestAnimationFrame(() => setTimeout(r)));"
        " } return (performance.now() - start) / 10; })()"
    )
    assert ms < 3000, f"{ms:.0f} ms a frame"
    assert found.value("document.querySelectorAll('*').length") < 600
    found.key("n", "n")
    assert found.text("#panel h2") != "Schedule"


def large_view(view):
    """The tasks of a view over and over, on 66 pairs of EUs: 300,000 of them."""
    line, copies, pairs = view.timeline, 1136, 66

    def repeated(rows):
        for copy in range(copies):
            shift = copy * line.makespan_ns
            for row in rows:
                start, end = row.start + shift, row.end + shift
                for pair in range(pairs):
                    yield replace(row, eu=row.eu + 2 * pair, start=start, end=end, cause=-1)

    busy = np.tile(line.busy_ns * copies, pairs)
    end = line.makespan_ns * copies
    spans, gaps = tuple(repeated(line.spans)), tuple(repeated(line.gaps))
    large = replace(line, makespan_ns=end, busy_ns=busy, spans=spans, gaps=gaps)
    return replace(view, eus=2 * pairs, path=(), timeline=large)
