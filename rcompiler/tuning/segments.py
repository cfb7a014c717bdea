"""Which rOperators of a schedule have a time of their own, and what it was in a launch.

A cut is where all that came before has ended and nothing that comes after has begun, by what the
simulator expects of the static schedule. Operators of one body share their kernel, so segments that
have one in common are one. The time of a segment is what passes between the last end of what is
before it and its own last end: all segments together are the whole launch, whoever overlaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rcompiler.rammer.timeline import Timeline
from rcompiler.tuning.space import Segment

_OVERLAP = 0.05  # of the shorter neighbour: EUs do not end at the very same time


def cut(timeline: Timeline) -> list[list[str]]:
    """The operators between two cuts, in the order of time."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for span in timeline.spans:
        first[span.operator] = min(first.get(span.operator, span.start), span.start)
        last[span.operator] = max(last.get(span.operator, span.end), span.end)
    found: list[list[str]] = []
    end = began = 0.0
    for name in sorted(first, key=lambda op: (first[op], last[op])):
        shorter = min(end - began, last[name] - first[name])
        if not found or first[name] >= end - _OVERLAP * shorter:
            found.append([])
            began = first[name]
        found[-1].append(name)
        end = max(end, last[name])
    return found


def joined(pieces: Sequence[Sequence[str]], bodies: Mapping[str, str]) -> dict[str, Segment]:
    """The segment of each operator. bodies: what each of them computes, by operator."""
    leader = [*range(len(pieces))]

    def root(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    seen: dict[str, int] = {}
    for place, piece in enumerate(pieces):
        for name in piece:
            leader[root(seen.setdefault(bodies[name], place))] = root(place)
    members: dict[int, list[str]] = {}
    for place, piece in enumerate(pieces):
        members.setdefault(root(place), []).extend(piece)
    return {
        name: Segment(tuple(sorted(bodies[other] for other in names)))
        for names in members.values()
        for name in names
    }


def scope_times(
    pieces: Sequence[Sequence[str]], scopes: Mapping[str, str], ends: Mapping[str, float]
) -> dict[str, float]:
    """ns of each scope in a launch.

    pieces: see `cut`. scopes: by operator. ends: of the last run of each operator, ns since the
    start of the launch.
    """
    found: dict[str, float] = dict.fromkeys(scopes.values(), 0.0)
    before = 0.0
    for piece in pieces:
        own = [ends[name] for name in piece if name in ends]
        end = max([before, *own])
        found[scopes[piece[0]]] += end - before
        before = end
    return found


def last_ends(columns: Mapping[str, Sequence[object]]) -> dict[str, float]:
    """Of the times of a launch (`Executable.times`) the last end of each operator, in ns."""
    names, ends = np.array(columns["operator"]), np.array(columns["end_ns"], float)
    unique, where = np.unique(names, return_inverse=True)
    last = np.zeros(len(unique))
    np.maximum.at(last, where, ends)
    return dict(zip(unique.tolist(), last.tolist(), strict=True))
