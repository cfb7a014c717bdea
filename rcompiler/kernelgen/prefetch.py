"""Requests for operands of reductions ahead of their use, where the processor makes none in time.

A weight panel is one stream. The hardware prefetcher stops at every 4 KiB page, so lines are asked
for while so many bytes of all streams together are still to come as memory delivers in its latency.
Measured with weights that come from memory: products of 16 rows, one stream, run at 1.7 times the
speed of 1 KiB ahead; gpt2_small 3 % faster as a whole, bert_base and mobilenet_v2 2 %. Requests do
not end with the panel of an rTask: behind it lies that of the next one, whose first lines are on
their way before it begins.

A panel that several register tiles read is asked for as a whole while the one before it is in use:
see `next_panel.py`.

Pixels in blocks of channels are as many streams as there are blocks, all broadcast, each some
pixels long, and one register tile reads every one of them once. Nothing but the next tile's lines
can be asked for in time (1x1 convolution of 3 MB of pixels: 80 to 96 % of the peak with AVX2 and
82 to 94 % with AVX-512; 96 to 1024 bytes ahead are alike). The same holds for short rows, which end
before the processor sees a stream: queries of attention, 64 elements from the last cache, run at 96
instead of 88 % of the peak. A window reads its pixels several times, and so has the time to wait
for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rcompiler.kernelgen.next_panel import Nest, panel_of
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import item_bytes

if TYPE_CHECKING:
    from rcompiler.kernelgen.buffer import Buffer
    from rcompiler.kernelgen.emitter import Emitter
    from rcompiler.linalg.generic import Generic

VECTORS_AHEAD = 8192  # bytes, of all streams together; measured
# Bytes of a row in which the processor sees no stream in time. Rows of 1 KiB need no help, and lose
# 5 % by the requests (product of 256x256x256).
SHORT = 512
FROM = 1 << 16  # bytes; a choice: a smaller operand stays in the caches of any device
PAGE = 4096  # bytes; of x86-64: the smallest one, whatever the device


@dataclass(frozen=True)
class _Streams:
    """How many bytes ahead of vectors to ask; 0: not at all. count: of the vectors that a step of a
    reduction loads; 0: there is none. steps: of a reduction whose broadcasts are asked for; 0: of
    none. outside: depth of the loops around.
    """

    vectors: int
    count: int
    steps: int
    outside: int


class Prefetcher:
    """Accompanies the loads of one kernel; does nothing outside of `reduction` and `row`."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._streams = _Streams(0, 0, 0, 0)

    def reduction(self, generic: Generic, lanes: int, streams: int) -> AbstractContextManager[None]:
        """Around the loops of a reduction. streams: different vectors that a step loads to multiply
        them; 0 if it does something else.
        """
        if not lanes or not streams:
            return self._within(0)
        line = self._emitter.line_bytes
        ahead = max(VECTORS_AHEAD // streams // line, 1) * line
        steps = math.prod(generic.sizes[d] for d in generic.reduction_dims)
        return self._within(ahead, streams, 0 if generic.windowed else steps)

    def row(self, size: int) -> AbstractContextManager[None]:
        """Around the loop over a row of `size` bytes: the next row will be read as a whole."""
        return self._within(size)

    @contextmanager
    def _within(self, vectors: int, count: int = 0, steps: int = 0) -> Iterator[None]:
        before = self._streams
        self._streams = _Streams(vectors, count, steps, self._emitter.depth)
        try:
            yield
        finally:
            self._streams = before

    def vector(self, buffer: Buffer, offset: Linear) -> None:
        """A vector is loaded from `offset` on."""
        self._request(buffer, offset, self._streams.vectors)
        self._next_panel(buffer, offset)

    def broadcast(self, buffer: Buffer, offset: Linear) -> None:
        """The element at `offset` is loaded for all lanes: ask for that of the next tile."""
        steps = self._streams.steps
        if not steps or not buffer.readonly or buffer.bytes < FROM:
            return
        if steps * item_bytes(buffer.element) <= SHORT or self._jumps(buffer, offset):
            self._request(buffer, offset, self._next_tile(buffer, offset))

    def _next_panel(self, buffer: Buffer, offset: Linear) -> None:
        """Ask for this body's share of the panel behind that of `offset`, once in a body."""
        e, size = self._emitter, item_bytes(buffer.element)
        key = ("next panel", buffer.pointer)
        if not self._streams.count or buffer.bytes < FROM or e.recall(key) is not None:
            return
        e.remember(key, True)
        nest = Nest(e.loops(), self._streams.outside, e.depth_of)
        panel = panel_of(offset, nest, self._streams.count)
        if panel is not None and 2 * panel.elements * size <= e.private_bytes:
            for place in panel.shares(e.line_bytes // size):
                e.prefetch(buffer.pointer, buffer.element, place, level=2)

    def _next_tile(self, buffer: Buffer, offset: Linear) -> int:
        """Bytes from `offset` to where it is in the next iteration of the innermost loop around the
        reduction that moves it; 0 if none does.
        """
        depth_of = self._emitter.depth_of
        steps = [(depth_of(symbol), abs(coefficient)) for symbol, coefficient in offset.terms]
        outside = [step for step in steps if step[0] <= self._streams.outside]
        return max(outside, default=(0, 0))[1] * item_bytes(buffer.element)

    def _jumps(self, buffer: Buffer, offset: Linear) -> bool:
        """Whether steps of the reduction are pages apart."""
        size, outside = item_bytes(buffer.element), self._streams.outside
        return any(
            abs(coefficient) * size >= PAGE and self._emitter.depth_of(symbol) > outside
            for symbol, coefficient in offset.terms
        )

    def _request(self, buffer: Buffer, offset: Linear, ahead: int) -> None:
        """Once for each line in a loop body, as far as the alignment of the loops is known."""
        if not ahead or buffer.bytes < FROM:
            return
        line = offset.constant * item_bytes(buffer.element) // self._emitter.line_bytes
        key = ("prefetch", buffer.pointer, offset.terms, line)
        if self._emitter.recall(key) is None:
            self._emitter.remember(key, True)
            place = offset + ahead // item_bytes(buffer.element)
            self._emitter.prefetch(buffer.pointer, buffer.element, place)
