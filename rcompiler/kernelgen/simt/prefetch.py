"""An rKernel that computes nothing: it asks for what a later task of the block will read.

    func.func private @k(%words: !llvm.ptr<1>, ...)    as in `target`

The threads of a block ask for one sector each in turn, and wait for none: the second cache fetches
them from memory while the block does something else. Of a box that hangs over the end of its tensor
they ask for the last byte, so nothing beside an operand is touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.simt.program import expanded
from rcompiler.kernelgen.simt.target import SIGNATURE
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.values import element_of, integers, shape_of

# LLVM selects nvvm.prefetch from sm_90 on; PTX has it for all (PTX ISA, "prefetch, prefetchu").
_ASK = 'llvm.inline_asm has_side_effects "prefetch.global.L2 [$0];", "l"'
_WHOLE = -1  # axis of a dim that each task reads all of


@dataclass(frozen=True)
class Runs:
    """The box of a task in one tensor as runs of neighbouring bytes, all of the same length.

    extents: of the dims that are in front of the runs, outermost first, and pitches: bytes from one
    index of each to the next. starts: (grid axis, bytes from one coordinate of it to the next).
    offset: bytes in front of the box of the first task. bytes: of the tensor.
    """

    bytes: int
    size: int
    extents: tuple[int, ...]
    pitches: tuple[int, ...]
    starts: tuple[tuple[int, int], ...]
    offset: int

    @staticmethod
    def of(shape: Sequence[int], item: int, box: Sequence[Sequence[int]]) -> Runs:
        """item: bytes of an element; box: (axis, scale, offset, extent) for each dim, as in the
        `reads` of an rtask.kernel. Those at the end of an axis may hang over.
        """
        strides = [math.prod(shape[d + 1 :]) * item for d in range(len(shape))]
        lengths = [
            size if axis == _WHOLE else min(extent, size)
            for size, (axis, _, _, extent) in zip(shape, box, strict=True)
        ]
        inner = len(shape)
        while inner and lengths[inner - 1] == shape[inner - 1]:
            inner -= 1
        first = max(inner - 1, 0)  # the outermost dim of a run
        moving = [(stride, dim) for stride, dim in zip(strides, box, strict=True) if dim[0] >= 0]
        return Runs(
            bytes=math.prod(shape) * item,
            size=math.prod(lengths[first:]) * item,
            extents=tuple(lengths[:first]),
            pitches=tuple(strides[:first]),
            starts=tuple((axis, scale * stride) for stride, (axis, scale, _, _) in moving),
            offset=sum(offset * stride for stride, (_, _, offset, _) in moving),
        )

    def sectors(self, size: int) -> int:
        """Of how many sectors of `size` bytes a run may be a part; tensors begin where one does."""
        steps = (self.offset, *self.pitches, *(step for _, step in self.starts))
        return -(-self.size // size) + any(step % size for step in steps)


def prefetch_text(kernel: ir.Operation, threads: int, sector: int) -> str:
    """The function of such an rtask.kernel. threads: of a block; sector: bytes that the cache
    fetches at least.
    """
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    runs = [
        Runs.of(shape_of(value), item_bytes(element_of(value)), [*map(ir.DenseI64ArrayAttr, box)])
        for value, box in zip(
            kernel.regions[0].blocks[0].arguments,
            ir.ArrayAttr(kernel.attributes["reads"]),
            strict=True,
        )
    ]
    lines = [
        f"%threads = arith.constant {threads} : i64",
        f"%sector = arith.constant {sector} : i64",
    ]
    inside: list[str] = []
    for k, own in enumerate(runs):
        lines += [
            f"%base{k} := %words[{2 * k}] : i64",
            f"%offset{k} := %words[{2 * k + 1}] : i64",
            f"%memory{k} := %bases[%base{k}] : !llvm.ptr<1>",
            f"%tensor{k} = llvm.getelementptr %memory{k}[%offset{k}] "
            ": (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8",
            f"%last{k} = arith.constant {own.bytes - 1} : i64",
        ]
        inside += _sectors(k, own, sector)
    body = "\n".join([*lines, *_tasks(integers(kernel, "grid"), inside), ""])
    return expanded(
        f"""func.func private @{name}({SIGNATURE}) attributes {{no_inline}} {{
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %thread_index = gpu.thread_id x
  %thread = arith.index_cast %thread_index : index to i64
{body}  return
}}"""
    )


def _tasks(grid: Sequence[int], inside: Sequence[str]) -> Iterator[str]:
    """All tasks of a run, each with its coordinates %g0, %g1, ... in the grid."""
    yield "scf.for %i = %c0 to %count step %c1 : i64 {"
    yield "%away = arith.muli %i, %stride : i64"
    yield "%number = arith.addi %first, %away : i64"
    yield from _unfolded("%number", grid, "%g")
    yield from inside
    yield "}"


def _sectors(k: int, runs: Runs, sector: int) -> Iterator[str]:
    """Ask for each sector of the box of a task in operand k."""
    each = runs.sectors(sector)
    total = math.prod(runs.extents) * each
    yield f"%end{k} = arith.constant {runs.size - 1} : i64"
    yield f"%origin{k} = arith.constant {runs.offset} : i64"
    moved = [(f"%g{axis}", step) for axis, step in runs.starts]
    yield from _sum(f"%origin{k}", moved, f"%start{k}")
    yield f"%total{k} = arith.constant {total} : i64"
    yield f"%each{k} = arith.constant {each} : i64"
    yield f"scf.for %n{k} = %thread to %total{k} step %threads : i64 {{"
    yield f"%within{k} = arith.remui %n{k}, %each{k} : i64"
    yield f"%run{k} = arith.divui %n{k}, %each{k} : i64"
    yield f"%next{k} = arith.muli %within{k}, %sector : i64"
    yield f"%along{k} = arith.minsi %next{k}, %end{k} : i64"
    yield f"%begin{k} = arith.addi %start{k}, %along{k} : i64"
    yield from _unfolded(f"%run{k}", runs.extents, f"%index{k}_")
    far = [(f"%index{k}_{d}", pitch) for d, pitch in enumerate(runs.pitches)]
    yield from _sum(f"%begin{k}", far, f"%at{k}")
    yield f"%above{k} = arith.maxsi %at{k}, %c0 : i64"
    yield f"%byte{k} = arith.minsi %above{k}, %last{k} : i64"
    yield (
        f"%address{k} = llvm.getelementptr %tensor{k}[%byte{k}] "
        ": (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8"
    )
    yield f"{_ASK} %address{k} : (!llvm.ptr<1>) -> ()"
    yield "}"


def _unfolded(number: str, sizes: Sequence[int], name: str) -> Iterator[str]:
    """The coordinates {name}0, {name}1, ... of an element of a row-major box, by its number."""
    for d in reversed(range(len(sizes))):
        yield f"{name}{d}.size = arith.constant {sizes[d]} : i64"
        yield f"{name}{d} = arith.remui {number}, {name}{d}.size : i64"
        yield f"{name}{d}.rest = arith.divui {number}, {name}{d}.size : i64"
        number = f"{name}{d}.rest"


def _sum(first: str, terms: Sequence[tuple[str, int]], name: str) -> Iterator[str]:
    """A value and multiples of others: their sum is `name`."""
    for n, (value, factor) in enumerate(terms):
        yield f"{name}.{n}.factor = arith.constant {factor} : i64"
        yield f"{name}.{n}.product = arith.muli {value}, {name}.{n}.factor : i64"
        yield f"{name}.{n} = arith.addi {first}, {name}.{n}.product : i64"
        first = f"{name}.{n}"
    yield f"{name} = arith.addi {first}, %c0 : i64"
