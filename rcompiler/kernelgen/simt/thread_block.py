"""The threads of a block, and what the EU that runs them does for them at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThreadBlock:
    """threads: of the block; warp: those that take every step together. Of the EU: line: bytes that
    its memory, shared or behind, gives a warp at a time; schedulers: warps that issue at a time.
    """

    threads: int
    warp: int = 32
    line: int = 128
    schedulers: int = 4
