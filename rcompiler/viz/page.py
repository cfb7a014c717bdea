"""The page: one HTML file that draws a view and needs nothing else.

Names come from files of strangers: they stand only in the title, escaped, and in one JSON block,
where no character of theirs can end it. The page's policy allows exactly its own script and style,
by their sha256, and no address at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from importlib import resources
from math import inf
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.rammer.timeline import BARRIER, END, LAUNCH, ORDER, SIGNAL, TAKE
from rcompiler.report import OperatorReport
from rcompiler.viz.arena import bytes_in_use
from rcompiler.viz.view import View

SCRIPTS = (
    *("data.js", "scene.js", "overlays.js", "panel.js", "table.js", "layers.js", "graph.js"),
    "viewer.js",
)
MOST_ROWS = 4_000_000  # of all tables: what a browser holds in memory with ease
_MOST_TIMES = 4  # the plan's time is a quarter of what is shown at first, whatever was measured
_MOST_TEXT = 400  # characters of a name or reason
_REASONS = {ORDER: -1, LAUNCH: -2, BARRIER: -3, END: -4, TAKE: -5, SIGNAL: -6}


def page(view: View) -> str:
    """The text of the file. Raises CompilerError for a schedule that is too large to look at."""
    rows = sum(map(len, (view.timeline.spans, view.timeline.gaps, view.syncs.waits,
                         view.syncs.signals, view.live_ranges, view.edges)))  # fmt: skip
    if rows > MOST_ROWS:
        raise CompilerError(
            f"{view.name}: the schedule has {len(view.timeline.spans)} runs and "
            f"{len(view.syncs.waits)} waits, too much for a page; schedule it for fewer EUs, or "
            "write --trace or --json"
        )
    style, script = _asset("viewer.css"), "".join(map(_asset, SCRIPTS))
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    title = _clipped(view.name).encode(errors="replace").decode()  # a file's name may be any bytes
    parts = {"POLICY": policy, "TITLE": html.escape(title), "STYLE": style,
             "SCRIPT": script, "DATA": _json(_data(view))}  # fmt: skip
    first, *rest = _asset("page.html").split("@@")
    filled = [first]
    for piece in rest:  # in one go: no part is looked at for the names of others
        name = next(name for name in parts if piece.startswith(name))
        filled += [parts[name], piece.removeprefix(name)]
    return "".join(filled)


def _asset(name: str) -> str:
    return (resources.files("rcompiler.viz") / "assets" / name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: Any) -> str:
    """JSON that is safe inside of a script element: ASCII, and nothing that ends or opens a tag."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _clipped(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def _data(view: View) -> dict[str, Any]:
    """What the script reads; see `Schedule` in data.js."""
    return {
        "head": _head(view),
        "operators": [_operator(op) for op in view.operators.values()],
        "events": [[program, _clipped(name)] for program, name in view.syncs.events],
        "rangeNames": [_clipped(one.name) for one in view.live_ranges],
        "tables": _tables(view),
    }


def _head(view: View) -> dict[str, Any]:
    line = view.timeline
    measured = view.measured
    makespans = [line.makespan_ns, measured.makespan_ns if measured else 0.0]
    return {
        "name": _clipped(view.name),
        "device": _clipped(view.device),
        "madeFor": _clipped(view.made_for),
        "policy": _clipped(view.policy),
        "eus": view.eus,
        "programs": [_clipped(name) for name in view.programs],
        "dynamic": view.dynamic,
        "makespan": line.makespan_ns,
        "work": line.work_bound_ns,
        "longest": line.path_bound_ns,
        "bandwidth": line.bandwidth_bound_ns,
        "utilisation": view.utilisation,
        "tasks": view.tasks,
        "arena": view.arena,
        "arenaBound": view.arena_bound,
        "measured": measured and {"eus": measured.eus, "makespan": measured.makespan_ns},
        "shown": min(max(makespans), _MOST_TIMES * line.makespan_ns or inf),
    }


def _operator(op: OperatorReport) -> dict[str, Any]:
    return {
        "name": _clipped(op.name),
        "kind": _clipped(op.kind),
        "kernel": _clipped(op.kernel),
        "tile": op.tile,
        "registers": op.register_tile,
        "tasks": op.tasks,
        "estimated": op.estimated_ns,
        "measured": op.measured_ns,
        "reason": _clipped(op.reasons),
        "source": _clipped(op.source),
        "limit": _clipped(op.explanation["limit"]) if op.explanation else "",
    }


def _tables(view: View) -> dict[str, dict[str, list[str]]]:
    line, syncs = view.timeline, view.syncs
    operators = {name: i for i, name in enumerate(view.operators)}
    events = {event: i for i, event in enumerate(syncs.events)}

    def reason(program: int, name: str) -> int:
        return _REASONS[name] if name in _REASONS else events[program, name]

    tables = {
        "tasks": {
            **_columns(line.spans, start="f8", end="f8", eu="i4", program="i4", cause="i4",
                       first="f8", count="f8", stride="f8"),
            "operator": _packed((operators[s.operator] for s in line.spans), "i4"),
            "reason": _packed((reason(s.program, s.reason) for s in line.spans), "i4"),
        },
        "gaps": {
            **_columns(line.gaps, start="f8", end="f8", eu="i4", cause="i4"),
            "reason": _packed((reason(g.program, g.reason) for g in line.gaps), "i4"),
        },
        "waits": _columns(syncs.waits, event="i4", count="i4", eu="i4", since="f8", until="f8",
                          task="i4", by="i4"),
        "signals": _columns(syncs.signals, event="i4", eu="i4", at="f8", task="i4"),
        "ranges": _columns(view.live_ranges, start="f8", end="f8", offset="f8", bytes="f8"),
        "live": _occupancy(view),
        "path": {"number": _packed(view.path, "i4")},
        "edges": {
            "from": _packed((operators[name] for name, _ in view.edges), "i4"),
            "to": _packed((operators[name] for _, name in view.edges), "i4"),
        },
    }  # fmt: skip
    if view.measured is not None:
        columns = {"eu": "i4", "start": "f8", "end": "f8"}
        tables["measured"] = {
            name: _packed(getattr(view.measured, name), type_) for name, type_ in columns.items()
        }
    return tables


def _occupancy(view: View) -> dict[str, list[str]]:
    steps = bytes_in_use(view.live_ranges)
    return {
        "at": _packed((time for time, _ in steps), "f8"),
        "bytes": _packed((used for _, used in steps), "f8"),
    }


def _columns(rows: Iterable[Any], **types: str) -> dict[str, list[str]]:
    rows = tuple(rows)
    return {name: _packed((getattr(r, name) for r in rows), t) for name, t in types.items()}


def _packed(values: Iterable[float], type_: str) -> list[str]:
    """[type, base64 of little-endian bytes]; f8 holds integers up to 2^53 exactly."""
    data = np.fromiter(values, f"<{type_}").tobytes()
    return [type_, base64.b64encode(data).decode()]
