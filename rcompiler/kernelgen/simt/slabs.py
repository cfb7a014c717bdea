"""Iterations that have slabs of their own, on the threads of a block: each thread does some."""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.slabs import Slabs
from rcompiler.kernelgen.tiling import Range
from rcompiler.linalg.affine import Linear


def share_out_slabs(e: SimtEmitter, slabs: Slabs, ranges: Sequence[Range]) -> None:
    """The iterations of `ranges`, those of the innermost loop to one thread after the other."""
    counts = [r.end + r.start * -1 if r.extent is None else Linear(r.extent) for r in ranges]

    def slab(number: Linear, _: list) -> None:
        at: list[Linear] = []
        for own, count in zip(reversed(ranges[1:]), reversed(counts[1:]), strict=True):
            inner = e.rem_unsigned(number, count).symbol
            number = e.div_unsigned(number, count).symbol
            at.insert(0, own.start + inner)
        at.insert(0, ranges[0].start + number)
        slabs.copy(at)
        slabs.write([at])

    total = counts[0]
    for count in counts[1:]:
        total = e.mul(total, count).symbol
    e.loop(Linear.of(e.thread), total, e.threads, [], slab)
