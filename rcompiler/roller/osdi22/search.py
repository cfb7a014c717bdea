"""Scale-up: depth-first growth of rTiles, level by level (OSDI'22 §3.2, Figure 8). Scale-out:
smaller tiles for operators with fewer rTasks than execution units (who runs which is scheduled).

The order of discovery is the ranking: no cost model orders the results.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from rcompiler.roller.osdi22.alignment import (
    AlignedSizes,
    Sizes,
    aligned_rows,
    bank_padding,
    whole_warps,
)
from rcompiler.roller.osdi22.expression import Expression, Tile
from rcompiler.roller.osdi22.hal import MAX_THREADS, Hal
from rcompiler.roller.osdi22.quantities import footprint, registers, tasks, threads, traffic, work
from rcompiler.roller.osdi22.rules import Rules
from rcompiler.roller.osdi22.score import best_first, intensity_scores, paper_scores

Score = Literal["intensity", "paper"]


@dataclass(frozen=True)
class RProgram:
    """One rTile per memory level, a size per axis, spatial axes first.

    `shared`: of one rTask (L0); `register`: of one thread (L1). `eps`: the padding allowed when it
    was found.
    """

    shared: Tile
    register: Tile
    eps: float = 0.0


@dataclass(frozen=True)
class Options:
    """What to search for.

    `count`: results wanted. `score`: "intensity" (the artifact) or "paper". `eps_cap`: greatest
    padding. `pad_banks`: whether rows of the shared tiles are padded against bank conflicts.
    `visits`: tiles looked at per round, so that an operator nothing fits ends; the published ones
    take up to some thousands.
    """

    count: int = 10
    score: Score = "intensity"
    eps_cap: float = 1.0
    pad_banks: bool = False
    visits: int = 100_000


@dataclass(frozen=True)
class _Node:
    """A tile on its way up. `at`: position of its size among the candidates, per axis.

    `shared` is None while the register tile grows. `before`: the tile it grew from.
    """

    register: Tile
    shared: Tile | None
    sizes: Sizes
    at: Tile
    before: "_Node | None" = None

    @property
    def tile(self) -> Tile:
        return self.register if self.shared is None else self.shared


class Search:
    """The rTiles of one operator on one device; use it for one `run`."""

    def __init__(self, expr: Expression, hal: Hal, rules: Rules, options: Options) -> None:
        self.expr, self.hal, self.rules, self.options = expr, hal, rules, options
        peak = hal.matrix_gflops if expr.tensor_core else None
        self.peak = peak or hal.peak_gflops
        # quirk (parity): once a round has found a tile, no later one descends from a full one
        self.found = False
        self.border: list[RProgram] = []

    def run(self) -> list[RProgram]:
        """Results of all rounds, each once, in the order of discovery.

        A round allows more padding than the one before; rounds end when there are enough results.
        """
        results: dict[tuple[Tile, Tile], RProgram] = {}
        eps = 0.0
        # quirk (parity): a running sum, 0.30000000000000004 after three steps, as the logs have it
        while eps <= self.options.eps_cap and len(results) < self.options.count:
            for program in self.round(eps):
                results.setdefault((program.shared, program.register), program)
            eps += self.rules.eps_step
        return list(results.values())

    def round(self, eps: float) -> list[RProgram]:
        """At most `count` accepted tiles with padding `eps`; if there are none, of the border."""
        if self.rules.scored:
            self.border = []  # quirk (parity): the plain policy keeps the border of past rounds
        top: list[RProgram] = []
        seen: set[tuple[Tile, Tile | None]] = set()
        unit = self.expr.unit
        aligned = AlignedSizes(self.expr, self.hal, self.rules, eps)
        stack = [_Node(unit, None, aligned.register(), (0,) * len(unit))]
        while stack and len(top) < self.options.count and len(seen) < self.options.visits:
            node = stack.pop()
            if (node.register, node.shared) in seen:
                continue
            seen.add((node.register, node.shared))
            if not self.fits(node):
                stack.extend(self._capped(node, aligned))
                continue
            accepted = self.accepts(node)
            if accepted and node.shared is not None:
                self.found = True
                top.append(RProgram(node.shared, node.register, eps))
            # the stack is last in, first out: down a level first, then the best axis
            stack.extend(reversed(list(self._larger(node))))
            if accepted and node.shared is None:
                stack.extend(_descend(node, aligned))
        return top or self.border

    def fits(self, node: _Node) -> bool:
        """Whether the tile's level has room for it."""
        expr, hal = self.expr, self.hal
        used = registers(expr, node.register)
        if node.shared is None:
            return used <= hal.thread_registers
        count = threads(expr, node.shared, node.register)
        if used * count > hal.block_registers:
            return False
        if footprint(expr, node.shared, self.padding(node, node.shared)) >= hal.shared_bytes:
            return False
        return count * (32 if expr.tensor_core else 1) <= MAX_THREADS

    def accepts(self, node: _Node) -> bool:
        """Whether the tile is a result, or, in registers, one to build shared tiles from."""
        if not self._whole_warps(node):
            return False
        if self.rules.scored:
            return self.saturated(node)
        large_enough = math.prod(node.register[: self.expr.spatial]) >= 2
        if node.shared is None or not large_enough:
            return large_enough
        return aligned_rows(self.expr, self.hal, node.shared)

    def saturated(self, node: _Node) -> bool:
        """Whether computing the tile takes longer than loading it.

        Quirk (parity): one tile against the whole device's peak and bandwidth, not one unit's.
        """
        moved = traffic(self.expr, node.tile, self.padding(node, node.tile))
        rate = self.hal.shared_gbs if node.shared is None else self.hal.dram_gbs
        return work(self.expr, node.tile) / self.peak > moved / rate

    def padding(self, node: _Node, tile: Tile) -> Tile:
        """Bank padding of `tile` at the node's level: shared tiles only, and only when asked for.

        Quirk (parity): every published run has it off, and the plain policy never pads.
        """
        if node.shared is None or not (self.options.pad_banks and self.rules.scored):
            return ()
        return bank_padding(self.expr, self.hal, node.register, tile)

    def _whole_warps(self, node: _Node) -> bool:
        if node.shared is None:
            return True
        count = threads(self.expr, node.shared, node.register)
        return whole_warps(self.expr, self.hal, self.rules, count)

    def _capped(self, node: _Node, aligned: AlignedSizes) -> Iterator[_Node]:
        """The tile before one that does not fit: kept as a fallback, or built upon."""
        last = node.before
        if last is None:
            return
        if last.shared is not None:
            if self._whole_warps(last) and len(self.border) < self.options.count:
                program = RProgram(last.shared, last.register, aligned.eps)
                # quirk (parity): the plain policy keeps repetitions, which fill its fallback
                if not (self.rules.scored and program in self.border):
                    self.border.append(program)
        elif not (self.rules.scored and self.found):
            # quirk (parity): the plain policy never notes that it found something
            yield from _descend(last, aligned)

    def _larger(self, node: _Node) -> Iterator[_Node]:
        """The tile with its next size on one axis each, the most promising axis first."""
        for axis in self._order(node):
            position = node.at[axis] + 1
            if position >= len(node.sizes[axis]):
                continue
            tile = list(node.tile)
            tile[axis] = node.sizes[axis][position]
            at = (*node.at[:axis], position, *node.at[axis + 1 :])
            grown = tuple(tile)
            register = grown if node.shared is None else node.register
            shared = None if node.shared is None else grown
            yield _Node(register, shared, node.sizes, at, before=node)

    def _order(self, node: _Node) -> list[int]:
        if not self.rules.scored:
            return list(reversed(range(len(node.tile))))
        if self.options.score == "intensity":
            return best_first(
                intensity_scores(self.expr, node.tile, lambda tile: self.padding(node, tile))
            )
        following = [
            sizes[at + 1] if at + 1 < len(sizes) else None
            for sizes, at in zip(node.sizes, node.at, strict=True)
        ]
        return best_first(
            paper_scores(self.expr, node.tile, following, lambda tile: self.padding(node, tile))
        )


def _descend(node: _Node, aligned: AlignedSizes) -> Iterator[_Node]:
    """The smallest shared tile over a register tile; none when an axis has no candidate."""
    sizes = aligned.shared(node.register)
    if all(sizes):
        smallest = tuple(candidates[0] for candidates in sizes)
        yield _Node(node.register, smallest, sizes, (0,) * len(sizes))


def shrink(expr: Expression, program: RProgram, units: int) -> RProgram:
    """Smaller tiles until there is an rTask per unit, or nothing left to halve.

    Quirk (parity): every spatial axis is halved in each round, at all levels, whatever its score;
    the result is aligned no more. (The artifact does not end when there is nothing left to halve.)
    """
    while tasks(expr, program.shared) < units:
        halved = [
            axis < expr.spatial and program.shared[axis] > 1 for axis in range(len(program.shared))
        ]
        if not any(halved):
            return program
        program = replace(
            program,
            shared=_halve(program.shared, halved),
            register=_halve(program.register, halved),
        )
    return program


def _halve(tile: Tile, which: list[bool]) -> Tile:
    return tuple(
        math.ceil(size / 2) if now else size for size, now in zip(tile, which, strict=True)
    )
