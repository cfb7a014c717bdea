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
must be worth it by Roller's cost model (_siblings), and all of them together must shorten the lower
bound of the graph on as many EUs as the device has: many EUs are busy without (_batches). Like
tiles, batches do not depend on the EUs that one program gets. Sums have the same terms; those of a
product that was cut in two are added part by part.
Needs: static shapes (S1).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.kernelgen.region import shape_of
from rcompiler.passes import Pass
from rcompiler.passes._batch_choice import choose, worth
from rcompiler.passes._batches import Batch, Factor, Graph, Member, Order, batches
from rcompiler.passes._clone import copy_block
from rcompiler.passes._linalg_form import alike, dim_of, operations
from rcompiler.passes._row_products import RowProduct, row_product
from rcompiler.passes._siblings import Product, Profit
from rcompiler.passes._stack_rows import stack_rows
from rcompiler.passes._tensor_ir import (
    defining,
    empty,
    erase_dead,
    extract_slice,
    fill,
    generic,
)


@dataclass(frozen=True)
class RtaskBatchProducts(Pass):
    """Multiply all rows at once that meet the same constant weights."""

    device: str = "cpu"

    def run(self, module: ir.Operation) -> None:
        device = find_device(self.device)
        for view in module.regions[0].blocks[0].operations:
            if view.operation.name == "func.func" and view.operation.regions[0].blocks:
                _Block(view.operation.regions[0].blocks[0], device).run()


@dataclass(frozen=True)
class _Part:
    """Rows times the rows `first` to `first + depth` of the weights of a product.

    The rows are operand `number` of `reader`, the product or the op that joins them for it: what
    that operand is changes while batches are made.
    """

    of: RowProduct
    reader: ir.Operation
    number: int
    first: int
    depth: int

    @property
    def x(self) -> ir.Value:
        return self.reader.operands[self.number]

    @property
    def product(self) -> Product:
        return replace(self.of.product, depth=self.depth)

    @property
    def whole(self) -> bool:
        return self.depth == self.of.product.depth


class _Block:
    """The products of one block, and what is made of them."""

    def __init__(self, block: ir.Block, device: Device) -> None:
        self._block, self._device = block, device
        self._profit = Profit(device)
        self._parts: dict[int, list[_Part]] = {}

    def run(self) -> None:
        ops = [view.operation for view in self._block.operations]
        products = {
            i: p for i, op in enumerate(ops) if (p := row_product(op)) and _row_axis(p) >= 0
        }
        if not _some_share(products.values()):
            return
        graph = self._graph(ops, products)
        found = [batch for batch in batches(graph) if worth(graph, batch, self._profit)]
        chosen = choose(graph, found, self._profit)
        if chosen is not None:
            self._rebuild(ops, *chosen)

    # -- the graph ---------------------------------------------------------------------------------
    def _graph(self, ops: Sequence[ir.Operation], products: dict[int, RowProduct]) -> Graph:
        """Of all ops; products that can only be batched in part are cut in parts."""
        numbers = {result: i for i, op in enumerate(ops) for result in op.results}
        whole = {i: [_whole(p)] for i, p in products.items()}
        cut = {i: parts for i, p in products.items() if len(parts := _parts(p)) > 1}
        self._parts = whole
        nodes = _Nodes(ops, numbers)
        for i in _members(nodes.graph(whole)):
            cut.pop(i, None)
        graph = nodes.graph(whole | cut)
        # in one piece again, unless it pays to batch some part
        useful = _members(graph, self._profit)
        self._parts = whole | {i: parts for i, parts in cut.items() if i in useful}
        return nodes.graph(self._parts)

    # -- the result --------------------------------------------------------------------------------
    def _rebuild(self, ops: Sequence[ir.Operation], chosen: list[Batch], made: Order) -> None:
        """All ops in the new order, batches among them."""
        last = list(self._block.operations)[-1].operation
        pieces: dict[Member, ir.Value] = {}
        for step in made.steps:
            if step >= len(ops):
                members = chosen[step - len(ops)]
                parts = [self._parts[node][number] for node, number in members]
                pieces.update(zip(members, _batch(parts, last), strict=True))
            elif ops[step] != last:
                ops[step].move_before(last)
                taken = {
                    n: pieces[step, n]
                    for n in range(len(self._parts.get(step, ())))
                    if (step, n) in pieces
                }
                if taken:
                    _replace(self._parts[step], taken)
        erase_dead(self._block)


class _Nodes:
    """The ops of a block as nodes of a graph."""

    def __init__(self, ops: Sequence[ir.Operation], numbers: Mapping[ir.Value, int]) -> None:
        self._numbers = numbers
        self._reads = [self._of(_operands(op)) for op in ops]
        self._bodies: list[RowProduct] = []
        self._kinds: dict[int, Hashable] = {}

    def graph(self, parts: Mapping[int, Sequence[_Part]]) -> Graph:
        """With the parts of products as factors, which read x instead of their ops."""
        reads = list(self._reads)
        for i, (first, *_) in parts.items():
            x = first.of.generic.op.operands[first.of.x]
            reads[i] = tuple(r for r in reads[i] if r != self._numbers.get(x))
        factors = {
            i: [self._factor(part, self._kind(i, part.of)) for part in own]
            for i, own in parts.items()
        }
        return Graph(reads, factors)

    def _factor(self, part: _Part, kind: Hashable) -> Factor:
        rows = ir.RankedTensorType(part.x.type)
        return Factor((kind, rows, part.first), self._of([part.x]), part.product)

    def _kind(self, node: int, product: RowProduct) -> Hashable:
        """Equal for products of the same weights; asked for once per node."""
        if node not in self._kinds:
            self._kinds[node] = (product.weights, product.form, self._body(product))
        return self._kinds[node]

    def _body(self, product: RowProduct) -> int:
        """A number that is equal for equal bodies."""
        for number, known in enumerate(self._bodies):
            if alike(known.generic.block, product.generic.block):
                return number
        self._bodies.append(product)
        return len(self._bodies) - 1

    def _of(self, values: Iterable[ir.Value]) -> tuple[int, ...]:
        numbers = (self._numbers.get(value) for value in values)
        return tuple(dict.fromkeys(n for n in numbers if n is not None))


def _operands(op: ir.Operation) -> Iterator[ir.Value]:
    yield from op.operands
    for inner in operations(op):
        yield from inner.operands


def _members(graph: Graph, profit: Profit | None = None) -> set[int]:
    """Nodes with a factor in some batch; given a profit, in one that is worth it."""
    found = (b for b in batches(graph) if profit is None or worth(graph, b, profit))
    return {node for batch in found for node, _ in batch}


def _some_share(products: Iterable[RowProduct]) -> bool:
    """Whether two products have the same weights: true of few networks."""
    weights = [product.weights for product in products]
    return len(set(weights)) < len(weights)


# -- products --------------------------------------------------------------------------------------
def _row_axis(product: RowProduct) -> int:
    """The axis of x that rows are stacked along, the first that is not summed over; or -1."""
    reduced = set(product.generic.reduction_dims)
    dims = [dim_of(e) for e in product.generic.maps[product.x].results]
    return next((axis for axis, dim in enumerate(dims) if dim not in reduced), -1)


def _depth_axes(product: RowProduct) -> tuple[int, int] | None:
    """The axes of x and of the weights that are summed over, if it is one."""
    if len(product.generic.reduction_dims) != 1:
        return None
    [depth] = product.generic.reduction_dims
    x, weights = (
        [dim_of(e) for e in product.generic.maps[k].results] for k in (product.x, 1 - product.x)
    )
    return x.index(depth), weights.index(depth)


def _whole(product: RowProduct) -> _Part:
    return _Part(product, product.generic.op, product.x, 0, product.product.depth)


def _parts(product: RowProduct) -> list[_Part]:
    """One part for each tensor that x is joined from along the depth; else one."""
    joined, axes = defining(product.rows_of), _depth_axes(product)
    if joined is None or joined.name != "tensor.concat" or axes is None or not product.from_zero:
        return [_whole(product)]
    if ir.IntegerAttr(joined.attributes["dim"]).value != axes[0]:
        return [_whole(product)]
    parts, first = [], 0
    for number, value in enumerate(joined.operands):
        depth = shape_of(value)[axes[0]]
        if depth:  # else nothing to add, and maybe no place in the weights
            parts.append(_Part(product, joined, number, first, depth))
        first += depth
    return parts


def _batch(parts: Sequence[_Part], last: ir.Operation) -> list[ir.Value]:
    """One product of the rows of all parts in front of `last`, and the slice of each."""
    first = parts[0]
    axis = _row_axis(first.of)
    dim = dim_of(first.of.generic.maps[first.of.x].results[axis])
    out = [dim_of(e) for e in first.of.generic.maps[2].results].index(dim)
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


def _replace(parts: Sequence[_Part], taken: Mapping[int, ir.Value]) -> None:
    """The sum of all parts instead of their product, at its place. taken: those computed so far."""
    old = parts[0].of.generic
    with ir.InsertionPoint(old.op), old.op.location:
        shape = shape_of(old.op.results[0])
        made = [
            taken[n] if n in taken else _multiply(part, part.x, shape)
            for n, part in enumerate(parts)
        ]
        total = made[0]
        for value in made[1:]:
            total = _add(total, value)
    old.op.results[0].replace_all_uses_with(total)
    old.op.erase()


def _multiply(part: _Part, x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The product of `part` with other rows, at the insertion point."""
    old, axes = part.of.generic, _depth_axes(part.of)
    weights = part.of.weights
    if not part.whole:
        assert axes is not None
        start, sizes = [0] * len(shape_of(weights)), list(shape_of(weights))
        start[axes[1]], sizes[axes[1]] = part.first, part.depth
        weights = extract_slice(weights, start, sizes, [1] * len(sizes))
    operands = [x, weights] if part.of.x == 0 else [weights, x]
    init = fill(part.of.start.operands[0], shape)
    kinds = list(ir.ArrayAttr(old.op.attributes["iterator_types"]))
    new = generic(operands, [init], old.maps, kinds)
    copy_block(old.block, new.regions[0], list(old.block.arguments))
    return new.results[0]


def _add(a: ir.Value, b: ir.Value) -> ir.Value:
    """Element by element, at the insertion point."""
    shape = shape_of(a)
    element = ir.RankedTensorType(a.type).element_type
    identity = ir.AffineMap.get_identity(len(shape))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    op = generic([a, b], [empty(shape, element)], [identity] * 3, [parallel] * len(shape))
    block = op.regions[0].blocks.append(element, element, element)
    with ir.InsertionPoint(block):
        one, other, _ = block.arguments
        is_float = isinstance(element, ir.FloatType)
        made = arith.AddFOp(one, other) if is_float else arith.AddIOp(one, other)
        linalg.YieldOp([made.result])
    return op.results[0]
