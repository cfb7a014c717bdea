"""The temporary arena over time: which value holds which bytes, and how many are in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Program
from rcompiler.rammer.timeline import Timeline


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A value in the arena at bytes `[offset, + bytes)`, from its first write to its last use."""

    name: str
    offset: int
    bytes: int
    start: float
    end: float


def live_ranges(
    programs: Sequence[Program], graph: Graph, timeline: Timeline
) -> tuple[LiveRange, ...]:
    """All temporary values that tasks touch, in the order of their starts.

    graph: as `derive_graph` makes it, one value per buffer.
    """
    times: dict[str, tuple[float, float]] = {}
    for span in timeline.spans:
        start, end = times.get(span.operator, (span.start, span.end))
        times[span.operator] = (min(start, span.start), max(end, span.end))
    offsets = {b.name: b.offset for program in programs for b in program.buffers}
    found = []
    for root, writers in graph.writers.items():
        value = graph.value[root]
        if value.kind != "temp" or not value.bytes:
            continue
        users = [op for op, _ in (*writers, *graph.readers.get(root, ()))]
        start = min(times[op][0] for op, _ in writers)
        end = max(times[op][1] for op in users)
        found.append(LiveRange(root, offsets[root], value.bytes, start, end))
    return tuple(sorted(found, key=lambda one: (one.start, one.offset)))


def bytes_in_use(ranges: Sequence[LiveRange]) -> list[tuple[float, int]]:
    """(time, bytes in use from then on), by time; bytes that several values hold count once."""
    edges = sorted({edge for one in ranges for edge in (one.offset, one.offset + one.bytes)})
    union = _Union(edges)
    changes = [(one.start, 1, one) for one in ranges] + [(one.end, -1, one) for one in ranges]
    changes.sort(key=lambda change: change[:2])
    found: list[tuple[float, int]] = []
    for time, by, one in changes:
        union.add(one.offset, one.offset + one.bytes, by)
        if found and found[-1][0] == time:
            found.pop()
        if not found or found[-1][1] != union.bytes:
            found.append((time, union.bytes))
    return found


class _Union:
    """Bytes covered by intervals that come and go: a segment tree over their edges."""

    def __init__(self, edges: Sequence[int]) -> None:
        self._edges = edges
        self._number = {edge: i for i, edge in enumerate(edges)}
        size = 1
        while size < len(edges):
            size *= 2
        self._size = size
        self._covers = [0] * (2 * size)  # intervals that cover all of a node, not of its parent
        self._bytes = [0] * (2 * size)

    @property
    def bytes(self) -> int:
        """Covered now."""
        return self._bytes[1]

    def add(self, low: int, high: int, by: int) -> None:
        """An interval comes (by = 1) or goes (-1)."""
        self._add(1, 0, self._size, self._number[low], self._number[high], by)

    def _add(self, node: int, left: int, right: int, low: int, high: int, by: int) -> None:
        if high <= left or right <= low:
            return
        if low <= left and right <= high:
            self._covers[node] += by
        else:
            middle = (left + right) // 2
            self._add(2 * node, left, middle, low, high, by)
            self._add(2 * node + 1, middle, right, low, high, by)
        if self._covers[node]:
            last = len(self._edges) - 1
            self._bytes[node] = self._edges[min(right, last)] - self._edges[min(left, last)]
        elif right - left > 1:
            self._bytes[node] = self._bytes[2 * node] + self._bytes[2 * node + 1]
        else:
            self._bytes[node] = 0
