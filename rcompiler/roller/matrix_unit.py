"""Products on matrix units: how a block of threads covers a part of a tile with instructions.

Hardware alignment (Roller §3.1): a matrix unit multiplies rows and columns in steps of its own, and
a tile that does not end with one of them multiplies padding. Sums stay in the registers of the
threads, so a tile that has more of them than these hold is multiplied part by part.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from rcompiler.device.matrix_unit import Instruction, MatrixUnit

# Sums of a thread. Half of its registers where operands stay in shared memory; a warp has what it
# multiplies in registers, too, and fetches ahead.
MOST_SUMS: dict[Instruction, int] = {"wgmma": 128, "mma": 64}
MOST_SIDE = 256  # coordinates of a result dim that come with one copy (TMA)
LINES = (16, 32, 64)  # positions of a line in shared memory, where lines have positions
# Steps of the reduction that lie in shared memory at a time, at least: two parts of so many; of
# bytes twice as many.
_PART: dict[Instruction, int] = {"wgmma": 64, "mma": 16}


@dataclass(frozen=True)
class UnitProduct:
    """The sums of an expression as a matrix unit computes them.

    rows, columns: axes that only the first, only the second factor depends on; a block computes one
    product for each point of the other ones. steps: of the reduction, with those that fill up whole
    instructions. lines: per factor the axis along which its elements are neighbours, so that it
    comes in whole lines; -1: where they are those of a reduction. threads, room: of a block, and
    the bytes of its shared memory.
    """

    unit: MatrixUnit
    threads: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    steps: int
    lines: tuple[int, int]
    room: int

    def positions(self, factor: int, sizes: Sequence[int], line: int) -> int:
        """Combinations of the coordinates that a factor depends on, with those that fill up lines.

        sizes: of a box, by axis; line: positions of a line, 0 where lines have none.
        """
        found = 1
        for axis in (self.rows, self.columns)[factor]:
            size = sizes[axis]
            if line and axis == self.lines[factor]:
                size = -(-size // line) * line
            found *= size
        return found

    def lines_of(self, factor: int, sizes: Sequence[int]) -> list[int]:
        """Positions that a line may have, the most last; [0] where lines have none."""
        axis = self.lines[factor]
        return lines_of(sizes[axis]) if axis in (self.rows, self.columns)[factor] else [0]


@dataclass(frozen=True)
class Cover:
    """How the groups of a block (warps, or warpgroups) cover rows and columns: `groups` along both,
    each with `tiles` along both, of `granules` rows and columns.
    """

    groups: tuple[int, int]
    tiles: tuple[int, int]
    granules: tuple[int, int]

    @property
    def each(self) -> tuple[int, int]:
        """Rows and columns of a group."""
        rows, columns = (n * g for n, g in zip(self.tiles, self.granules, strict=True))
        return rows, columns

    @property
    def covered(self) -> tuple[int, int]:
        """Rows and columns of the block, those included that are padding."""
        rows, columns = (n * g for n, g in zip(self.groups, self.each, strict=True))
        return rows, columns

    @property
    def sums(self) -> int:
        """Sums of the block."""
        return math.prod(self.covered)


def lines_of(size: int) -> list[int]:
    """Positions that a line of a box may have that has `size` of them along it, the most last."""
    return [line for line in LINES if line == LINES[0] or line < 2 * size]


def by_warps(count: int, positions: Sequence[int], granules: tuple[int, int]) -> Cover:
    """The cover by `count` warps with the least work of a warp, then the least that it reads."""

    def cost(cover: Cover) -> tuple[int, int]:
        return math.prod(cover.tiles), sum(cover.each)

    return min(_covers(count, positions, granules), key=cost)


def by_lines(
    count: int, rows: int, columns: Sequence[tuple[int, int]], granule: int, most_columns: int
) -> Cover | None:
    """The cover by `count` warpgroups of 128 threads with the least work, among those whose sums
    fit the registers and whose columns one instruction; None if there is none.

    columns: ways in which they may come, positions and granule of each. Of covers with equal work,
    one with the last of these, and then the most groups along rows.
    """
    most = MOST_SUMS["wgmma"] * 128
    fitting = [
        cover
        for positions, own in reversed(columns)
        for cover in reversed(list(_covers(count, (rows, positions), (granule, own))))
        if cover.each[1] <= most_columns and math.prod(cover.each) <= most
    ]
    return min(fitting, key=lambda cover: cover.sums, default=None)


def _covers(count: int, positions: Sequence[int], granules: tuple[int, int]) -> Iterator[Cover]:
    for row_groups in (n for n in range(1, count + 1) if count % n == 0):
        groups = row_groups, count // row_groups
        rows, columns = (
            -(-n // (g * granule))
            for n, g, granule in zip(positions, groups, granules, strict=True)
        )
        yield Cover(groups, (rows, columns), granules)


@dataclass(frozen=True)
class BlockWork:
    """What a block does for a tile.

    boxes: parts that it multiplies at once, one after the other. useful, padded: multiply-adds of
    one step of the reduction, without and with padding. shared: elements of that step which the
    unit reads from shared memory and copies bring there.
    """

    boxes: int = 0
    useful: int = 0
    padded: int = 0
    shared: int = 0

    def plus(self, other: "BlockWork", times: int) -> "BlockWork":
        """Both, the other one several times."""
        mine, more = vars(self), vars(other)
        return BlockWork(**{name: mine[name] + times * more[name] for name in mine})


@lru_cache(maxsize=4096)
def work_of(unit: UnitProduct, sizes: tuple[int, ...]) -> BlockWork:
    """Of a tile with these sizes of all axes, which is cut into boxes as code generation does."""
    part, cover = box_of(unit, sizes)
    if part == sizes:
        return _of_box(unit, sizes, cover)
    found, choices = BlockWork(), []
    for size, own in zip(sizes, part, strict=True):
        ends = [(own, size // own), (size % own, 1)]
        choices.append([(n, times) for n, times in ends if n and times])
    for choice in product(*choices):
        inner = tuple(n for n, _ in choice)
        found = found.plus(work_of(unit, inner), math.prod(times for _, times in choice))
    return found


@lru_cache(maxsize=4096)
def box_of(unit: UnitProduct, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], Cover]:
    """The part of a tile that a block multiplies at once, and how: halves of its longest axis until
    the sums fit the registers. sizes: of all axes.
    """
    own = set(unit.rows) | set(unit.columns)
    found = [n if axis in own else 1 for axis, n in enumerate(sizes)]
    if unit.unit.warpgroups:  # what one copy brings
        found = [min(n, MOST_SIDE) for n in found]
    while (cover := _cover(unit, found)) is None:
        longest = max(range(len(found)), key=lambda axis: found[axis])
        found[longest] = -(-found[longest] // 2)
    return tuple(found), cover


def _cover(product: UnitProduct, sizes: Sequence[int]) -> Cover | None:
    """None where a thread would have too many sums, or factors too much of the shared memory."""
    unit, count = product.unit, product.threads // product.unit.threads
    rows = product.positions(0, sizes, product.lines_of(0, sizes)[-1])
    cover: Cover | None
    if unit.warpgroups:
        lines = product.lines_of(1, sizes)
        columns = [(product.positions(1, sizes, line), line or unit.columns) for line in lines]
        cover = by_lines(count, rows, columns, unit.rows, unit.most_columns)
    else:
        positions = rows, product.positions(1, sizes, 0)
        cover = by_warps(count, positions, (unit.rows, unit.columns))
        cover = cover if cover.sums <= MOST_SUMS["mma"] * product.threads else None
    if cover is None or all(n == 1 for n in sizes):
        return cover
    part = _PART[unit.instruction] * max(1, 2 // unit.item)
    held = 2 * part * sum(cover.covered) * unit.item
    return cover if held <= product.room else None


def _of_box(product: UnitProduct, sizes: tuple[int, ...], cover: Cover) -> BlockWork:
    rows, columns = cover.each
    # a warp reads what it multiplies once, warpgroups read the columns again for each tile of rows
    again = cover.tiles[0] if product.unit.warpgroups else 1
    read = math.prod(cover.groups) * (rows + columns * again)
    useful = math.prod(
        n for axis, n in enumerate(sizes) if axis in (*product.rows, *product.columns)
    )
    return BlockWork(1, useful, cover.sums, read + sum(cover.covered))
