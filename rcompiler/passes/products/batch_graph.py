"""The products of a block of S1 as a graph of factors, for `batches` to find batches in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from rcompiler.linalg.values import defining, integer, operations, shape_of
from rcompiler.passes.ir.structure import body_structure
from rcompiler.passes.products.batch_choice import profitable
from rcompiler.passes.products.batches import Factor, ProductGraph, batches
from rcompiler.passes.products.merging import Product, Profit
from rcompiler.passes.products.row_products import RowProduct


@dataclass(frozen=True)
class Part:
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


def factored(
    ops: Sequence[ir.Operation], products: Mapping[int, RowProduct], profit: Profit
) -> tuple[ProductGraph, Mapping[int, Sequence[Part]]]:
    """The graph of all ops of a block, and the parts that its factors are of, by number of the op.

    Products that can only be batched in part are cut in parts, if batching some part pays.
    """
    numbers = {result: i for i, op in enumerate(ops) for result in op.results}
    nodes = _Nodes(ops, numbers)
    whole = {i: [_whole(p)] for i, p in products.items()}
    cut = {i: own for i, p in products.items() if len(own := _parts(p)) > 1}
    graph = nodes.graph(whole)
    for i in _members(graph) if cut else ():
        cut.pop(i, None)
    if not cut:
        return graph, whole
    useful = _members(nodes.graph(whole | cut), profit)
    parts = whole | {i: own for i, own in cut.items() if i in useful}
    return nodes.graph(parts), parts


class _Nodes:
    """The ops of a block as nodes of a graph."""

    def __init__(self, ops: Sequence[ir.Operation], numbers: Mapping[ir.Value, int]) -> None:
        self._numbers = numbers
        self._reads = [self._of(_operands(op)) for op in ops]
        self._bodies: dict[Hashable, int] = {}
        self._kinds: dict[int, Hashable] = {}

    def graph(self, parts: Mapping[int, Sequence[Part]]) -> ProductGraph:
        """With the parts of products as factors, which read x instead of their ops."""
        reads = list(self._reads)
        for i, (first, *_) in parts.items():
            x = first.of.generic.op.operands[first.of.x]
            reads[i] = tuple(r for r in reads[i] if r != self._numbers.get(x))
        factors = {
            i: [self._factor(part, self._kind(i, part.of)) for part in own]
            for i, own in parts.items()
        }
        return ProductGraph(reads, factors)

    def _factor(self, part: Part, kind: Hashable) -> Factor:
        rows = ir.RankedTensorType(part.x.type)
        return Factor((kind, rows, part.first), self._of([part.x]), part.product)

    def _kind(self, node: int, product: RowProduct) -> Hashable:
        """Equal for products of the same weights; asked for once per node."""
        if node not in self._kinds:
            self._kinds[node] = (product.weights, product.form, self._body(product))
        return self._kinds[node]

    def _body(self, product: RowProduct) -> int:
        """A number that is equal for equal bodies, which use nothing but their arguments."""
        key = body_structure(product.generic.op.regions)
        return self._bodies.setdefault(key, len(self._bodies))

    def _of(self, values: Iterable[ir.Value]) -> tuple[int, ...]:
        numbers = (self._numbers.get(value) for value in values)
        return tuple(dict.fromkeys(n for n in numbers if n is not None))


def _operands(op: ir.Operation) -> Iterator[ir.Value]:
    yield from op.operands
    for inner in operations(op):
        yield from inner.operands


def _members(graph: ProductGraph, profit: Profit | None = None) -> set[int]:
    """Nodes with a factor in some batch; given a profit, in one that is worth it."""
    found = (b for b in batches(graph) if profit is None or profitable(graph, b, profit))
    return {node for batch in found for node, _ in batch}


def row_axis(product: RowProduct) -> int:
    """The axis of x that rows are stacked along, the first that is not summed over; or -1."""
    reduced = set(product.generic.reduction_dims)
    dims = product.generic.dims[product.x]
    return next((axis for axis, dim in enumerate(dims) if dim not in reduced), -1)


def depth_axes(product: RowProduct) -> tuple[int, int] | None:
    """The axes of x and of the weights that are summed over, if it is one."""
    if len(product.generic.reduction_dims) != 1:
        return None
    [depth] = product.generic.reduction_dims
    x, weights = (product.generic.dims[k] for k in (product.x, 1 - product.x))
    return x.index(depth), weights.index(depth)


def _whole(product: RowProduct) -> Part:
    return Part(product, product.generic.op, product.x, 0, product.product.depth)


def _parts(product: RowProduct) -> list[Part]:
    """One part for each tensor that x is joined from along the depth; else one."""
    joined, axes = defining(product.rows_of), depth_axes(product)
    if joined is None or joined.name != "tensor.concat" or axes is None or not product.from_zero:
        return [_whole(product)]
    if integer(joined, "dim") != axes[0]:
        return [_whole(product)]
    parts, first = [], 0
    for number, value in enumerate(joined.operands):
        depth = shape_of(value)[axes[0]]
        if depth:  # else nothing to add, and maybe no place in the weights
            parts.append(Part(product, joined, number, first, depth))
        first += depth
    return parts
