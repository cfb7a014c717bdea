"""The record: a view as JSON for scripts.

    {"format": "rcompiler-schedule-2", "model", "device", "made_for", "policy", "eus",
     "programs": [name], "dynamic": [bool], "makespan_ns", "bounds_ns": {"work", "path",
     "bandwidth"}, "utilisation", "rtasks", "arena_bytes", "arena_bound_bytes", "critical_path":
     [task], "events": [[program, name]], "operators": [...], "edges": [[operator, operator]],
     "tasks", "idle", "waits", "signals", "live_ranges", "bytes_in_use", "measured" or null:
     columns}

device: whose prices the times are by; made_for: the device that the schedule was made for, "" if
that is the same. An edge leads from an operator to one that reads what it writes. Columns:
{"start": [...], "end": [...], ...}, all equally long, as `pandas.DataFrame` takes them; a task is
named by its place in "tasks". Times in ns, sizes in bytes, -1 for none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from rcompiler.rammer.timeline import IdleSpan, Span
from rcompiler.viz.arena import LiveRange, bytes_in_use
from rcompiler.viz.syncs import Signalled, Waited
from rcompiler.viz.view import View

FORMAT = "rcompiler-schedule-2"


def record(view: View) -> str:
    """The text of the file, one line."""
    line, measured = view.timeline, view.measured
    steps = bytes_in_use(view.live_ranges)
    data = {
        "format": FORMAT,
        **{"model": view.name, "device": view.device, "made_for": view.made_for},
        **{"policy": view.policy, "eus": view.eus},
        "programs": view.programs,
        "dynamic": view.dynamic,
        "makespan_ns": line.makespan_ns,
        "bounds_ns": {
            "work": line.work_bound_ns,
            "path": line.path_bound_ns,
            "bandwidth": line.bandwidth_bound_ns,
        },
        "utilisation": view.utilisation,
        "rtasks": view.tasks,
        "arena_bytes": view.arena,
        "arena_bound_bytes": view.arena_bound,
        "critical_path": view.path,
        "operators": [asdict(op) for op in view.operators.values()],
        "edges": view.edges,
        "events": view.syncs.events,
        "tasks": _columns(Span, line.spans),
        "idle": _columns(IdleSpan, line.gaps),
        "waits": _columns(Waited, view.syncs.waits),
        "signals": _columns(Signalled, view.syncs.signals),
        "live_ranges": _columns(LiveRange, view.live_ranges),
        "bytes_in_use": {"at": [at for at, _ in steps], "bytes": [used for _, used in steps]},
        "measured": measured and _measured(view),
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n"


def _columns(kind: type, rows: Sequence[Any]) -> dict[str, list[Any]]:
    return {f.name: [getattr(row, f.name) for row in rows] for f in fields(kind)}


def _measured(view: View) -> dict[str, Any]:
    assert view.measured is not None
    return {name: getattr(view.measured, name) for name in ("eu", "start", "end")}
