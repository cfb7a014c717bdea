"""The sub-pixel form of one axis of a transposed convolution (Shi et al., CVPR'16).

Input ``i`` reaches output ``o`` through tap ``k`` where ``o + pad = i * stride + k * dilation``.
Outputs are seen as blocks of ``stride`` phases, ``o = block * stride + phase - origin``. A phase
reads every ``stride``-th tap, so no pixel in between has to be zero; phases that read the same
pixels are made together.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Neighbouring phases that read the same pixels: ``start + t * dilation``, t < ``taps``, for
    block 0. Phase j of them reads pixel t with tap ``first + j + (taps - 1 - t) * stride``."""

    phases: int
    taps: int
    start: int
    first: int


@dataclass(frozen=True)
class Axis:
    """How one axis is computed: ``blocks * stride`` outputs, of which ``size`` from ``origin`` on
    are kept."""

    stride: int
    dilation: int
    size: int
    origin: int
    blocks: int
    runs: tuple[Run, ...]

    def box(self, phases: int) -> list[int]:
        """Extents of the axis, blocks and then phases, where a result keeps them apart."""
        return [self.blocks, phases] if self.stride > 1 else [self.blocks]

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last pixel that is read, outside of the image too."""
        ends = [r.start + (r.taps - 1) * self.dilation for r in self.runs if r.taps]
        return min(r.start for r in self.runs if r.taps), max(ends) + self.blocks - 1


def plan_axis(kernel: int, stride: int, dilation: int, pad: int, size: int) -> Axis:
    """The plan with the fewest runs for ``size`` outputs; stride or dilation is 1.

    One run where the kernel is a multiple of the stride, else two; nothing is cut off at the low
    end where the padding is a multiple of the stride.
    """
    assert stride == 1 or dilation == 1
    plans = {r: _runs(kernel, stride, dilation, pad - r) for r in (0, pad % stride)}
    origin = min(plans, key=lambda r: (len(plans[r]), r))
    blocks = -(-(size + origin) // stride)
    return Axis(stride, dilation, size, origin, blocks, plans[origin])


def _runs(kernel: int, stride: int, dilation: int, pad: int) -> tuple[Run, ...]:
    def window(phase: int) -> tuple[int, int]:
        block, first = divmod(phase + pad, stride)
        taps = len(range(first, kernel, stride))
        return taps, block - (taps - 1) * dilation if taps else 0

    runs, phase = [], 0
    for (taps, start), phases in itertools.groupby(range(stride), window):
        count = len(list(phases))
        runs.append(Run(count, taps, start, (phase + pad) % stride))
        phase += count
    return tuple(runs)
