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
ACCENT = (0xC2, 0x25, 0x5C)


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


def place_of(found, eu, ns, end=5700.0, measured=False):
    """Where a time on the lane of an EU is drawn while everything is in view: x, y in the window.

    From the layout that the page shows: a gutter, an axis, and for what is planned and what is
    measured a heading and lanes, which share the height.
    """
    box = found.value("JSON.parse(JSON.stringify("
                      "document.getElementById('lanes').getBoundingClientRect()))")  # fmt: skip
    both = found.value("document.getElementById('figures').innerText.includes('Measured')")
    groups = 2 if both else 1
    pitch = (box["height"] - 22 - 22 * groups - 8) // (2 * groups)
    x = box["x"] + 76 + (box["width"] - 76) * ns / end
    y = box["y"] + 22 + 22 + pitch * eu + pitch // 2 - 2
    return x, y + measured * (2 * pitch + 22)


def test_the_screenshot_shows_the_timeline(show, view):
    found = show(view)

    def colour(eu, ns):
        x, y = place_of(found, eu, ns)
        return found.colour(x, y + 40)  # below the line of idle times

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
    found.click(*place_of(found, 1, 4000, end=9000, measured=True))
    text = found.text("#panel")
    assert found.text("#panel h2") == "o2" and "4.00 µs (1.33 × the estimate)" in text


def test_lanes_take_the_height_there_is(show, view):
    """Of two EUs each has a third of the window or so, down to the arena."""
    found = show(view)
    tall = found.value("document.getElementById('lanes').getBoundingClientRect().bottom")
    x, _ = place_of(found, 1, 2000)
    assert found.colour(x, tall - 20) == BLUE
    assert place_of(found, 1, 0)[1] - place_of(found, 0, 0)[1] > 120


def test_the_critical_path_is_a_frame_and_covers_no_task(show, view):
    found = show(view)
    found.key("c", "c")
    x, y = place_of(found, 0, 1000)  # of o0, which is on it; o1 is not
    tall = place_of(found, 1, 0)[1] - place_of(found, 0, 0)[1]
    assert found.colour(x, y) == BLUE and found.colour(x, y + 30) == BLUE
    assert found.colour(x, y - tall // 2 + 3) == ACCENT
    assert found.colour(*place_of(found, 0, 2500)) != BLUE
    # from the end of o0 on EU 0 to the start of o2 on EU 1, between the lanes
    found.value("document.getElementById('waits').focus()")
    step, _ = place_of(found, 0, 1550)
    between = [found.colour(step + dx, y + tall // 2) for dx in range(-9, 10)]
    assert ACCENT in between
    found.key("c", "c")
    assert found.colour(x, y - tall // 2 + 3) == BLUE


def test_the_bounds_are_explained(show, view):
    found = show(view)
    text = found.text("#panel")
    for line in ("work all rTasks, spread evenly over the EUs",
                 "path the longest chain of operators, 1 rTask each",
                 "bandwidth all bytes, at the shared bandwidth",
                 "what the end waits for, one task after the other"):  # fmt: skip
        assert line in text.splitlines()
    title = "[...document.querySelectorAll('#figures div')].find(d => d.title.startsWith('all rT'))"
    assert "Work bound" in found.value(f"{title}.innerText")


def rows_of(found):
    """The text of the table, without its head."""
    return found.value("[...document.querySelectorAll('#sheet-table tbody tr')].map("
                       "r => [...r.children].map(c => c.innerText))")  # fmt: skip


def sort_by(found, title):
    found.value("[...document.querySelectorAll('#sheet-table th button')].find("
                f"b => b.innerText.startsWith('{title}')).click()")  # fmt: skip


def test_the_table_of_operators_is_sorted_by_any_column(show, view):
    measured = Measured(2, (1, 0, 1, 0), (0.0, 1e3, 2e3, 6e3), (1e3, 2e3, 6.5e3, 9e3))
    found = show(replace(view, measured=measured))
    found.key("o", "o")
    rows = rows_of(found)
    assert [row[0] for row in rows][:2] == ["o2", "o1"]  # by planned time, the longest first
    assert rows[0] == ["o2", "product", "1", "1.60 µs", "3.00 µs", "42.9 %", "4.50 µs", "1.50 µs",
                       "1.50 ×"]  # fmt: skip
    sort_by(found, "Measured ÷")
    assert [row[0] for row in rows_of(found)] == ["o3", "o2", "o0", "o1"]
    sort_by(found, "Measured ÷")
    assert [row[0] for row in rows_of(found)] == ["o1", "o0", "o2", "o3"]
    sort_by(found, "Operator")
    assert [row[0] for row in rows_of(found)] == ["o0", "o1", "o2", "o3"]
    assert found.value("document.querySelector('#sheet-table [aria-sort]').innerText") == (
        "Operator ↑"
    )
    found.value("document.querySelector('#sheet-table tbody .link').click()")
    assert found.text("#panel h2") == "o0"
    found.key("/", "/")
    found.type("o3")
    assert [row[0] for row in rows_of(found)] == ["o3"]


def test_without_a_measurement_the_table_has_what_is_planned(show, view):
    found = show(view)
    found.value("document.getElementById('table').click()")
    assert [len(row) for row in rows_of(found)] == [6] * 4
    assert "Measured" not in found.text("#sheet-table")
    assert found.value("document.getElementById('sheet-timeline').hidden")
    found.key("t", "t")
    found.click(*place_of(found, 0, 600))
    assert found.text("#panel h2") == "o0"


def boxes_of(found):
    """Left, top, right and bottom of the nodes of the graph, by name."""
    return found.value("Object.fromEntries([...document.querySelectorAll('#sheet-graph .node')]"
                       ".map(n => { const b = n.querySelector('.box').getBoundingClientRect();"
                       "const name = n.querySelector('title').textContent.split('\\n')[0];"
                       "return [name, [b.left, b.top, b.right, b.bottom]]; }))")  # fmt: skip


def test_the_graph_leads_down_from_operator_to_operator(show, view):
    found = show(view)
    found.key("g", "g")
    o0, o1, o2, o3 = (box for _, box in sorted(boxes_of(found).items()))
    assert o0[3] < o1[1] == o2[1] < o3[1]
    assert o1[2] < o2[0] or o2[2] < o1[0]
    assert found.value("document.querySelectorAll('#sheet-graph .edge').length") == 4
    assert sorted(found.text("#sheet-graph").split()) == ["o0", "o1", "o2", "o3"]
    found.click((o2[0] + o2[2]) / 2, (o2[1] + o2[3]) / 2)
    assert found.text("#panel h2") == "o2"
    texts = "[...document.querySelectorAll('#sheet-graph {} text')].map(t => t.textContent)"
    assert found.value(texts.format(".selected")) == ["o2"]
    found.key("c", "c")
    assert sorted(found.value(texts.format(".path"))) == ["o0", "o2", "o3"]
    found.key("+", "+")
    wide = boxes_of(found)["o0"]
    assert wide[2] - wide[0] == pytest.approx(1.5 * (o0[2] - o0[0]))
    found.key("f", "f")
    fitting = boxes_of(found)["o0"]
    assert fitting[2] - fitting[0] == pytest.approx(o0[2] - o0[0])


def wide_view(view, count, edges):
    """With other operators, of which the first four have the tasks."""
    reports = [*view.operators.values()]
    names = [report.name for report in reports] + [f"more{k}" for k in range(count - 4)]
    operators = {name: replace(reports[k % 4], name=name) for k, name in enumerate(names)}
    return replace(view, operators=operators, edges=tuple((names[a], names[b]) for a, b in edges))


def test_no_nodes_of_a_graph_overlap_and_edges_pass_beside(show, view):
    """Edges over several layers, several from one operator."""
    steps = [(k, k + 1) for k in range(40)]
    skips = [(0, k) for k in range(5, 40, 7)] + [(k, k + 3) for k in range(3, 30, 2)]
    found = show(wide_view(view, 60, steps + skips + [(2, k) for k in range(41, 60)]))
    found.key("g", "g")
    boxes = [*boxes_of(found).values()]
    for k, a in enumerate(boxes):
        for b in boxes[:k]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for a, b in steps + skips:
        assert boxes[a][3] < boxes[b][1]
    assert boxes[40][1] > 860  # out of sight, until it is searched for
    found.key("/", "/")
    found.type("more36")
    assert 0 < boxes_of(found)["more36"][3] < 860


def test_a_graph_that_is_too_large_is_not_drawn(show, view):
    found = show(wide_view(view, 1600, [(0, 1)]))
    found.key("g", "g")
    said = "1,600 operators and their edges are too many to draw; rc-viz --json"
    assert said in found.text("#sheet-graph")
    found.key("+", "+")
    found.key("o", "o")
    assert len(rows_of(found)) == 4  # those that have tasks


def test_edges_over_very_many_layers_are_not_drawn(show, view):
    """Each of a chain is read by the last one, too: 79,800 bends of 798 edges."""
    chain = [(k, k + 1) for k in range(399)]
    found = show(wide_view(view, 400, chain + [(k, 399) for k in range(398)]))
    found.key("g", "g")
    assert "400 operators and their edges are too many" in found.text("#sheet-graph")


def test_labels_keep_what_tells_operators_apart(show, plan):
    long = "encoder.layers.0.{}.attention_LayerNormalization"
    found = show(collect(plan(rename=lambda name: long.format(name))))
    found.key("g", "g")
    labels = sorted(found.text("#sheet-graph").split())
    assert len(labels) == 4 and all("…" in label and len(label) <= 23 for label in labels)
    assert [label.strip("…")[:2] for label in labels] == ["o0", "o1", "o2", "o3"]


def test_names_are_only_text(show, plan):
    evil = "</script><img src=x onerror=\"document.title='broken'\"><b>"
    given = plan(rename=lambda name: f"{name}{evil}", reason=evil)
    found = show(collect(replace(given, name=evil)), "#task=2")
    assert evil in found.text("h1") and found.text("#panel h2") == f"o2{evil}"
    assert evil in found.value("document.title")
    for key in "og":
        found.key(key, key)
        assert "o2</" in found.text(f"#sheet-{'table' if key == 'o' else 'graph'}")
    assert not found.value("document.querySelector('img, h1 b, #sheet-table b, #sheet-graph b')")


def test_nothing_to_draw(show, plan):
    found = show(collect(replace(plan(), programs=())))
    for key in "+-fcwnpog+ft":
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
