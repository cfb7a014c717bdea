"""The body of an rTask: its arguments, and loops and branches that hand on the results.

    ^bb0(%x: tensor<64x96xf32>, %out: tensor<64x96xf32>, %task: index):
      %i = affine.apply affine_map<(d0) -> (d0 * 8)>(%task)
      ...
      %r = tensor.insert_slice %t into %out[%i, 0] [8, 96] [1, 1]
      "rtask.yield"(%r)

The operands come first, then the results as the tasks before left them, then the number of the
task. A task yields the results with its own tiles in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from rcompiler.dialects import rtask
from rcompiler.dialects.task_body import IN_PARALLEL, THREADS, stores_in
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import ops_of
from rcompiler.passes.tiles.indices import Indices, constant

Values = list[ir.Value]

UNTILED = ("sequential", rtask.PREFETCH)
"""Kinds of kernels whose bodies are loops already, or nothing."""


def add_arguments(block: ir.Block, results: Sequence[ir.Value]) -> tuple[Values, ir.Value]:
    """Give the body of a whole operator the arguments of a task: results, and its number."""
    unknown = ir.Location.unknown(block.owner.context)
    outs = [block.add_argument(r.type, unknown) for r in results]
    return outs, block.add_argument(ir.IndexType.get(block.owner.context), unknown)


def yield_instead(block: ir.Block, results: Sequence[ir.Value]) -> None:
    """Let a body yield other values of the same types; the insertion point is in front of it."""
    last = ops_of(block)[-1]
    rtask.YieldOp.build(rtask.pack(results))
    last.erase()


def loop(
    indices: Indices,
    start: Linear,
    step: int,
    end: Linear,
    outs: Values,
    body: Callable[[Linear, Values], Values],
) -> Values:
    """scf.for from `start` by `step` up to `end`; without a loop where that is one turn.

    body: makes one turn from the loop's position and the results so far.
    """
    count = end + start * -1
    if count.is_constant and step >= count.constant > 0:
        return body(start, outs)
    op = scf.ForOp(indices.value(start), indices.value(end), constant(step), outs)
    block = op.regions[0].blocks[0]
    variable, *carried = block.arguments
    with ir.InsertionPoint(block):
        _yield(body(indices.read(variable), carried))
    return list(op.results)


def _yield(values: Values) -> None:
    ir.Operation.create("scf.yield", operands=values)


def branch(
    condition: ir.Value,
    outs: Values,
    then: Callable[[], Values],
    otherwise: Callable[[], Values],
) -> Values:
    """scf.if whose sides give results of the types of `outs`."""
    op = ir.Operation.create(
        "scf.if", results=[v.type for v in outs], operands=[condition], regions=2
    )
    for region, side in zip(op.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            _yield(side())
    return list(op.results)


def is_equal(indices: Indices, position: Linear, number: int) -> ir.Value:
    """Whether a position is `number`, as an i1."""
    return arith.CmpIOp(arith.CmpIPredicate.eq, indices.value(position), constant(number)).result


def is_tiled(kernel: ir.Operation) -> bool:
    """Whether the body of a kernel is that of one task."""
    return rtask.is_task_body(kernel.regions[0].blocks[0])


def ops_in(block: ir.Block) -> list[ir.Operation]:
    """The ops of a body, also of its loops and branches, each in front of those inside of it; an op
    of a linalg region belongs to its op.
    """
    found = []
    for op in ops_of(block):
        found.append(op)
        if op.name in ("scf.for", "scf.if", THREADS, IN_PARALLEL):
            for region in op.regions:
                found += ops_in(region.blocks[0])
    return found


def insertions_in(block: ir.Block) -> list[ir.Operation]:
    """The insertions of tiles into results, in order, also in the loops and branches of a body."""
    stores = stores_in(block, own=False)
    return [op for op in stores if op.name == "tensor.insert_slice"]


def erase_unused(ops: Sequence[ir.Operation]) -> None:
    """Erase those of some ops, which are in the order of `ops_in`, whose results nothing uses: all
    are pure.
    """
    for op in reversed(ops):
        results = list(op.results)
        if results and all(next(iter(r.uses), None) is None for r in results):
            op.erase()
