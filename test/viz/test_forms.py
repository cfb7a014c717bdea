"""What a view is written as: page, trace, record and picture."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from rcompiler.errors import CompilerError
from rcompiler.viz import page as pages
from rcompiler.viz.measured import Measured
from rcompiler.viz.page import page
from rcompiler.viz.picture import picture
from rcompiler.viz.record import record
from rcompiler.viz.trace import MEASURED, PLANNED, trace
from rcompiler.viz.view import collect

EVIL = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\"'&\u2028@@DATA"


class _Elements(HTMLParser):
    """Elements with their attributes, and the text of each script and style."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts, self._open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self.texts.append([tag, ""])
            self._open = tag

    def handle_endtag(self, tag):
        self._open = None if tag == self._open else self._open

    def handle_data(self, data):
        if self._open:
            self.texts[-1][1] += data


def data_of(text):
    """The data of a page, its columns as arrays."""
    block = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    data = json.loads(block[1])
    data["tables"] = {
        table: {
            name: np.frombuffer(base64.b64decode(text), f"<{kind}").tolist()
            for name, (kind, text) in columns.items()
        }
        for table, columns in data["tables"].items()
    }
    return data


def test_the_page_carries_the_view(view):
    data = data_of(page(view))
    tables = data["tables"]
    assert [data["operators"][i]["name"] for i in tables["tasks"]["operator"]] == [
        *("o0", "o1", "o2", "o3")
    ]
    assert tables["tasks"]["eu"] == [0, 0, 1, 0]
    # launch, order, events a and b
    assert tables["tasks"]["reason"] == [-2, -1, 0, 1]
    assert tables["tasks"]["cause"] == [-1, 0, 0, 2]
    assert tables["path"]["number"] == [0, 2, 3]
    names = [op["name"] for op in data["operators"]]
    edges = zip(tables["edges"]["from"], tables["edges"]["to"], strict=True)
    assert [(names[a], names[b]) for a, b in edges] == [*view.edges]
    assert tables["waits"]["by"] == [0, 2]
    assert tables["gaps"]["reason"] == [-2, -2, 0, 1, -4]
    assert np.diff(tables["live"]["bytes"]).tolist() == [64, 64, -64, -128]
    assert data["operators"][0]["tile"] == [4, 2]
    assert data["head"]["makespan"] == view.timeline.makespan_ns


def test_the_page_needs_and_allows_nothing_else(view):
    text = page(view)
    elements = _Elements(text)
    for _, attributes in elements.found:
        assert not attributes.keys() & {"src", "href", "style", "onclick", "onload", "action"}
    assert not re.search(r"https?://|//cdn|@import|url\(", text)
    policy = next(a["content"] for t, a in elements.found if "http-equiv" in a)
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    (style,) = [text for tag, text in elements.texts if tag == "style"]
    script = [text for tag, text in elements.texts if tag == "script"][-1]
    for kind, content in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_names_cannot_leave_their_place(plan):
    """As the name of the model, of operators and of events."""
    given = plan(rename=lambda name: f"{name}{EVIL}", reason=EVIL, kind=EVIL, source=EVIL)
    view = collect(replace(given, name=EVIL, policy=EVIL))
    plain, evil = _Elements(page(collect(plan()))), _Elements(page(view))
    assert evil.found == [
        (tag, attributes if "http-equiv" not in attributes else evil_attributes)
        for (tag, attributes), (_, evil_attributes) in zip(plain.found, evil.found, strict=True)
    ]
    data = data_of(page(view))
    assert data["operators"][0]["name"] == f"o0{EVIL}" and data["head"]["name"] == EVIL
    assert json.loads(trace(view))["otherData"]["model"] == EVIL
    assert json.loads(record(view))["model"] == EVIL


def test_a_file_name_may_be_any_bytes(plan):
    view = collect(replace(plan(), name=b"m\xff".decode(errors="surrogateescape")))
    for form in (page, trace, record):
        assert form(view).encode()


def test_long_names_are_clipped(plan):
    view = collect(replace(plan(reason="r" * 10**6), name="n" * 10**6))
    text = page(view)
    assert len(text) < len(page(collect(plan()))) + 10_000
    assert data_of(text)["head"]["name"] == "n" * 399 + "…"


def test_a_page_has_a_largest_size(view, monkeypatch):
    monkeypatch.setattr(pages, "MOST_ROWS", 10)
    with pytest.raises(CompilerError, match="diamond: the schedule has 4 runs.*write --trace"):
        page(view)


def test_a_page_is_packed(plan):
    """A hundred thousand runs: less than 100 bytes each, once the rest is there."""
    view = collect(plan())
    spans = view.timeline.spans * 25_000
    large = replace(view, timeline=replace(view.timeline, spans=spans))
    assert len(page(large)) < len(page(view)) + 100 * len(spans)


def test_the_trace_is_what_perfetto_reads(view):
    data = json.loads(trace(view))
    events = data["traceEvents"]
    assert data["displayTimeUnit"] == "ns"
    for event in events:
        assert {"ph", "pid", "tid", "name"} <= event.keys()
        assert event["ph"] in "XMCsf"
        assert event["ph"] == "M" or event["ts"] >= 0
        assert event["ph"] != "X" or event["dur"] >= 0
    tasks = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]
    found = [(e["name"], e["tid"], round(e["ts"], 3), round(e["dur"], 3)) for e in tasks]
    assert found == [
        ("o0", 0, 0.5, 1.0), ("o1", 0, 1.5, 2.0), ("o2", 1, 1.6, 3.0), ("o3", 0, 4.7, 1.0)
    ]  # fmt: skip
    assert [e["args"]["critical_path"] for e in tasks] == [True, False, True, True]
    assert tasks[0]["args"]["tile"] == [4, 2]
    threads = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert threads == {(PLANNED, 0), (PLANNED, 1)}
    assert max(e["args"]["bytes"] for e in events if e["ph"] == "C") == 192


def test_arrows_begin_and_end_inside_of_their_tasks(view):
    events = json.loads(trace(view))["traceEvents"]
    tasks = {e["args"]["task"]: e for e in events if e.get("cat") == "task"}
    arrows = {}
    for event in events:
        if event["ph"] in "sf":
            arrows.setdefault(event["id"], {})[event["ph"]] = event
    assert len(arrows) == 2
    for arrow, (source, target) in zip(arrows.values(), ((0, 2), (2, 3)), strict=True):
        for event, task in ((arrow["s"], tasks[source]), (arrow["f"], tasks[target])):
            assert task["tid"] == event["tid"]
            assert task["ts"] <= event["ts"] <= task["ts"] + task["dur"]


def test_the_record(view):
    data = json.loads(record(view))
    assert data["format"] == "rcompiler-schedule-2"
    assert data["critical_path"] == [0, 2, 3] and data["measured"] is None
    assert data["tasks"]["operator"] == ["o0", "o1", "o2", "o3"]
    assert data["edges"] == [[*edge] for edge in view.edges]
    assert data["idle"]["reason"] == ["launch", "launch", "a", "b", "end"]
    assert data["bounds_ns"]["path"] == pytest.approx(5000)
    for name in ("tasks", "idle", "waits", "signals", "live_ranges", "bytes_in_use"):
        assert len({len(column) for column in data[name].values()}) == 1


def test_measured_times_are_written_beside(view):
    measured = Measured(1, (0, 0, 0, 0), (0.0, 1e3, 2e3, 3e3), (1e3, 2e3, 3e3, 7e3))
    view = replace(view, measured=measured)
    data = data_of(page(view))
    assert data["head"]["measured"] == {"eus": 1, "makespan": 7000.0}
    assert data["tables"]["measured"]["end"] == [1e3, 2e3, 3e3, 7e3]
    events = json.loads(trace(view))["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == MEASURED]
    assert [e["dur"] for e in slices] == [1.0, 1.0, 1.0, 4.0]
    assert json.loads(record(view))["measured"]["eu"] == [0, 0, 0, 0]


def test_a_run_that_stalled_does_not_squeeze_the_plan(view):
    """What is shown at first ends at four times the plan; the page has all of it."""
    plan = view.timeline.makespan_ns
    for end, shown in ((2 * plan, 2 * plan), (25 * plan, 4 * plan), (plan / 2, plan)):
        measured = Measured(1, (0, 0, 0, 0), (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, 3.0, end))
        head = data_of(page(replace(view, measured=measured)))["head"]
        assert (head["shown"], head["measured"]["makespan"]) == (shown, end)
    assert data_of(page(view))["head"]["shown"] == plan


def test_the_picture(view):
    """Each run and each idle time at its place; a line for each wait of another EU."""
    tree = ElementTree.fromstring(picture(view))
    name = "{http://www.w3.org/2000/svg}"
    runs = [rect for rect in tree.iter(f"{name}rect") if rect.get("class") == "r"]
    assert [rect[0].text for rect in runs] == [f"o{i}: 1 rTasks" for i in range(4)]
    span, row = 880 - 48 - 12, 36
    for rect, (eu, start, end) in zip(
        runs, ((0, 500, 1500), (0, 1500, 3500), (1, 1600, 4600), (0, 4700, 5700)), strict=True
    ):
        assert float(rect.get("x")) == pytest.approx(48 + span * start / 5700, abs=0.06)
        assert float(rect.get("width")) == pytest.approx(span * (end - start) / 5700, abs=0.06)
        assert int(rect.get("y")) == 28 + row * eu
    assert len([p for p in tree.iter(f"{name}path") if p.get("class") == "w"]) == 2
    idle = [rect for rect in tree.iter(f"{name}rect") if rect.get("fill") == "url(#i)"]
    assert len(idle) == len(view.timeline.gaps) + 1  # one in the legend


def test_names_cannot_leave_the_picture(plan):
    view = collect(plan(rename=lambda name: name + EVIL, kind=EVIL))
    tags = {
        element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture(view)).iter()
    }
    assert tags == {"svg", "style", "defs", "pattern", "rect", "path", "text", "title"}
