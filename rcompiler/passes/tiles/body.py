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
from rcompiler.linalg.affine import Linear
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
    last = list(block.operations)[-1].operation
    old = last.operands[0]
    rtask.YieldOp.build(rtask.pack(results))
    last.erase()
    if not isinstance(old.owner, ir.Block) and old.owner.operation.name == rtask.CAST:
        old.owner.operation.erase()


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


def tiles_in(block: ir.Block, *names: str) -> list[ir.Operation]:
    """The ops of some names in a body, also in its loops and branches, in order."""
    found = []
    for view in block.operations:
        op = view.operation
        if op.name in names:
            found.append(op)
        elif op.name in ("scf.for", "scf.if"):
            for region in op.regions:
                for inner in region.blocks:
                    found += tiles_in(inner, *names)
    return found


def is_result(value: ir.Value) -> bool:
    """Whether a tensor in the body of a task is one of its results, with tiles in it or not."""
    while True:
        if isinstance(value.owner, ir.Block):
            block = value.owner
            owner = block.owner.operation
            if owner.name != "scf.for":
                return owner.name == rtask.KernelOp.OPERATION_NAME
            value = owner.operands[2 + list(block.arguments).index(value)]
            continue
        op = value.owner.operation
        if op.name == "tensor.insert_slice":
            value = op.operands[1]
        elif op.name == "scf.for":
            value = op.operands[3 + list(op.results).index(value)]
        elif op.name == "scf.if":
            last = list(op.regions[0].blocks[0].operations)[-1].operation
            value = last.operands[list(op.results).index(value)]
        else:
            return False


def erase_unused(block: ir.Block) -> None:
    """Erase the ops of a body, also in loops and branches, whose results nothing uses: all are
    pure. An op of a linalg region stays with its op.
    """
    for view in reversed(list(block.operations)):
        op = view.operation
        if op.name in ("scf.for", "scf.if"):
            for region in op.regions:
                for inner in region.blocks:
                    erase_unused(inner)
        results = list(op.results)
        if results and all(next(iter(r.uses), None) is None for r in results):
            op.erase()
