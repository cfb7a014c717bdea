"""rtask-batch-products: one product of many rows instead of many of one row with the same weights.

Before:
    %a = linalg.generic {acc + x * w} ins(%x, %w : tensor<1x64xf32>, tensor<64x256xf32>) -> 1x256
    %b = linalg.generic {acc + x * w} ins(%y, %w : tensor<1x64xf32>, tensor<64x256xf32>) -> 1x256
After:
    %xs = tensor.concat dim(0) %x, %y
    %ab = linalg.generic {acc + x * w} ins(%xs, %w : tensor<2x64xf32>, tensor<64x256xf32>) -> 2x256
    %a = tensor.extract_slice %ab[0, 0] [1, 256]        %b = tensor.extract_slice %ab[1, 0] [1, 256]

The steps of a recurrent network, unrolled, have such products: those of the inputs of a layer do
not depend on one another, those of its states do. Where input and state are joined in front of one
product, [x, h] w, that is cut in two, x w0 + h w1, if the first part can be batched. Rows that are
slices of one tensor, side by side, are taken from there in one piece.

The ops are put in order again: what is computed from the rows of a batch goes behind it. A batch
must be worth it by Roller's cost model (_products), and all of them together, whole or in parts,
must make the graph faster on as many EUs as the device has: many EUs are busy without
(_batch_choice). Like tiles, batches do not depend on the EUs that one program gets. Sums have the
same terms; those of a product that was cut in two are added part by part.
Needs: static shapes (S1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import defining, element_type, integers, ops_of, shape_of
from rcompiler.linalg.views import RESHAPES
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.clone import copy_block
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import (
    concat,
    elementwise,
    erase_dead,
    extract_slice,
    fill,
    generic,
    reshape,
)
from rcompiler.passes.products.batch_choice import choose, profitable
from rcompiler.passes.products.batch_graph import Part, depth_axes, factored, row_axis
from rcompiler.passes.products.batches import Batch, Member, Order, batches
from rcompiler.passes.products.merging import Profit
from rcompiler.passes.products.row_products import RowProduct, RowProducts


@dataclass(frozen=True)
class RTaskBatchProducts(OptionalPass):
    """Multiply all rows at once that meet the same constant weights."""

    def run(self, module: ir.Operation) -> None:
        profit = Profit(device_of(module))
        for body in bodies(module):
            _batch_in(body, profit)


def _batch_in(block: ir.Block, profit: Profit) -> None:
    ops = ops_of(block)
    found = RowProducts()
    rows = ((i, found.of(op)) for i, op in enumerate(ops))
    products = {i: p for i, p in rows if p is not None and row_axis(p) >= 0}
    if not _some_share(products.values()):
        return
    graph, parts = factored(ops, products, profit)
    all_profitable = [batch for batch in batches(graph) if profitable(graph, batch, profit)]
    chosen = choose(graph, all_profitable, profit)
    if chosen is not None:
        _rebuild(ops, parts, *chosen)
        erase_dead(block)


def _some_share(products: Iterable[RowProduct]) -> bool:
    """Whether two products have the same weights: true of few networks."""
    weights = [product.weights for product in products]
    return len(set(weights)) < len(weights)


# -- the result ------------------------------------------------------------------------------------
def _rebuild(
    ops: Sequence[ir.Operation],
    parts: Mapping[int, Sequence[Part]],
    chosen: Sequence[Batch],
    made: Order,
) -> None:
    """All ops of a block in the new order, batches among them."""
    last = ops[-1]
    pieces: dict[Member, ir.Value] = {}
    for step in made.steps:
        if step >= len(ops):
            members = chosen[step - len(ops)]
            slices = _batch([parts[node][number] for node, number in members], last)
            pieces.update(zip(members, slices, strict=True))
        elif ops[step] != last:
            ops[step].move_before(last)
            own = parts.get(step, ())
            taken = {n: pieces[step, n] for n in range(len(own)) if (step, n) in pieces}
            if taken:
                _replace(own, taken)


def _batch(parts: Sequence[Part], last: ir.Operation) -> list[ir.Value]:
    """One product of the rows of all parts in front of `last`, and the slice of each."""
    first = parts[0]
    axis = row_axis(first.of)
    dim = dim_of(first.of.generic.maps[first.of.x].results[axis])
    out = first.of.generic.dims[2].index(dim)
    where = ir.Location.fused([p.of.generic.op.location for p in parts], context=last.context)
    with ir.InsertionPoint(last), where:
        stack = stack_rows([p.x for p in parts], axis)
        shape = list(shape_of(first.of.generic.op.results[0]))
        rows = shape[out]
        made = _multiply(first, stack, [*shape[:out], rows * len(parts), *shape[out + 1 :]])
        starts = (
            [rows * i if a == out else 0 for a in range(len(shape))] for i in range(len(parts))
        )
        return [extract_slice(made, start, shape, [1] * len(shape)) for start in starts]


def _replace(parts: Sequence[Part], taken: Mapping[int, ir.Value]) -> None:
    """The sum of all parts instead of their product, at its place. taken: those computed so far."""
    old = parts[0].of.generic
    with ir.InsertionPoint(old.op), old.op.location:
        shape = shape_of(old.op.results[0])
        made = [
            taken[n] if n in taken else _multiply(part, part.x, shape)
            for n, part in enumerate(parts)
        ]
        element = element_type(made[0])
        add = arith.addf if isinstance(element, ir.FloatType) else arith.addi
        total = made[0]
        for value in made[1:]:
            total = elementwise([total, value], element, add)
    old.op.results[0].replace_all_uses_with(total)
    old.op.erase()


def _multiply(part: Part, x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The product of `part` with other rows, at the insertion point."""
    old, axes = part.of.generic, depth_axes(part.of)
    weights = part.of.weights
    if not part.whole:
        assert axes is not None
        start, sizes = [0] * len(shape_of(weights)), list(shape_of(weights))
        start[axes[1]], sizes[axes[1]] = part.first, part.depth
        weights = extract_slice(weights, start, sizes, [1] * len(sizes))
    operands = [x, weights] if part.of.x == 0 else [weights, x]
    init = fill(part.of.start.operands[0], shape)
    new = generic(operands, [init], old.maps, old.kinds)
    copy_block(old.block, new.regions[0], list(old.block.arguments))
    return new.results[0]


def stack_rows(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """At the insertion point: [.., n, ..] each to [.., n * count, ..], without a copy where they
    are slices of one tensor.
    """
    shape = list(shape_of(values[0]))
    shape[axis] *= len(values)
    side_by_side = all(size == 1 for size in shape[:axis])
    found = _one_piece([_chunk(value) for value in values]) if side_by_side else None
    return concat(values, axis) if found is None else reshape(found, shape)


@dataclass(frozen=True)
class _Chunk:
    """`size` of the outermost dim of `source`, from `start` on, of all there is along the others:
    so many elements side by side.
    """

    source: ir.Value
    start: int
    size: int


def _chunk(value: ir.Value) -> _Chunk | None:
    op = defining(value)
    while op is not None and op.name in RESHAPES:
        op = defining(op.operands[0])
    if op is None or op.name != "tensor.extract_slice" or len(op.operands) > 1:
        return None
    source = op.operands[0]
    starts, sizes, steps = (integers(op, f"static_{n}") for n in ("offsets", "sizes", "strides"))
    if not sizes or set(steps) != {1} or sizes[1:] != tuple(shape_of(source))[1:]:
        return None
    return _Chunk(source, starts[0], sizes[0])


def _one_piece(chunks: Sequence[_Chunk | None]) -> ir.Value | None:
    """The slice that is all of them in a row, if they lie side by side in one tensor."""
    first = chunks[0]
    if first is None:
        return None
    position = first.start
    for chunk in chunks:
        if chunk is None or chunk.source != first.source or chunk.start != position:
            return None
        position += chunk.size
    shape = list(shape_of(first.source))
    if (first.start, position) == (0, shape[0]):
        return first.source
    start = [first.start] + [0] * (len(shape) - 1)
    return extract_slice(
        first.source, start, [position - first.start, *shape[1:]], [1] * len(shape)
    )
