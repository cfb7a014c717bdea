"""The trace: a view in Chrome's trace event format, for Perfetto (ui.perfetto.dev).

One process for the plan and one for the measured times, a thread per EU; idle times are events of
their own, with their cause; an arrow for each wait, from the signal that ended it; the arena is a
counter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rcompiler.rammer.timeline import NO_EVENTS, Span
from rcompiler.viz.arena import bytes_in_use
from rcompiler.viz.view import View

PLANNED, MEASURED = 1, 2  # process numbers
Event = dict[str, Any]


def trace(view: View) -> str:
    """The text of the file; times in microseconds, as the format wants them."""
    events = [*_names(view), *_tasks(view), *_idle(view), *_arrows(view), *_counter(view)]
    facts = {
        **{"model": view.name, "device": view.device, "made_for": view.made_for},
        "policy": view.policy,
    }
    return json.dumps(
        {"displayTimeUnit": "ns", "otherData": facts, "traceEvents": events},
        separators=(",", ":"),
        allow_nan=False,
    )


def _names(view: View) -> Iterator[Event]:
    groups = [(PLANNED, "Planned", view.eus)]
    if view.measured is not None:
        groups.append((MEASURED, "Measured", view.measured.eus))
    for process, name, eus in groups:
        yield _meta(process, 0, "process_name", f"{name}: {view.name}")
        for eu in range(eus):
            yield _meta(process, eu, "thread_name", f"EU {eu}")


def _meta(process: int, thread: int, what: str, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}


def _tasks(view: View) -> Iterator[Event]:
    on_path = set(view.path)
    for number, span in enumerate(view.timeline.spans):
        facts = _facts(view, span, number) | {"critical_path": number in on_path}
        yield _slice(PLANNED, span.eu, span.operator, span.start, span.end, facts)
        if (measured := view.measured) is not None:
            start, end = measured.start[number], measured.end[number]
            yield _slice(MEASURED, measured.eu[number], span.operator, start, end, facts)


def _facts(view: View, span: Span, number: int) -> dict[str, Any]:
    op = view.operators[span.operator]
    return {
        "task": number,
        "kind": op.kind,
        "kernel": op.kernel,
        "tile": list(op.tile),
        "first": span.first,
        "count": span.count,
        "program": view.programs[span.program],
        "after": span.reason,
    }


def _idle(view: View) -> Iterator[Event]:
    for gap in view.timeline.gaps:
        cause = gap.reason if gap.reason in NO_EVENTS else "wait"
        facts = {"reason": gap.reason, "cause": gap.cause}
        yield _slice(PLANNED, gap.eu, f"idle: {cause}", gap.start, gap.end, facts) | {"cat": "idle"}


def _slice(
    process: int, thread: int, name: str, start: float, end: float, facts: dict[str, Any]
) -> Event:
    return {
        **{"ph": "X", "cat": "task", "pid": process, "tid": thread, "name": name},
        **{"ts": start / 1e3, "dur": (end - start) / 1e3, "args": facts},
    }


def _arrows(view: View) -> Iterator[Event]:
    spans = view.timeline.spans
    for number, wait in enumerate(view.syncs.waits):
        if wait.by < 0 or wait.task < 0:
            continue
        source, target = spans[wait.by], spans[wait.task]
        arrow = {"cat": "wait", "name": view.syncs.events[wait.event][1], "id": number}
        # An arrow belongs to the slice around its time: shortly before the end of the first.
        start = source.end - min(1.0, (source.end - source.start) / 2)
        yield {**arrow, "ph": "s", "pid": PLANNED, "tid": source.eu, "ts": start / 1e3}
        yield {**arrow, "ph": "f", "bp": "e", "pid": PLANNED, "tid": target.eu,
               "ts": target.start / 1e3}  # fmt: skip


def _counter(view: View) -> Iterator[Event]:
    for time, used in bytes_in_use(view.live_ranges):
        yield {"ph": "C", "pid": PLANNED, "tid": 0, "name": "arena", "ts": time / 1e3,
               "args": {"bytes": used}}  # fmt: skip
