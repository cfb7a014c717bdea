"""Products of rows with constant weights in S1: result [rows .., column] = x [rows .., depth ..] w.

What the passes that merge products share.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torch_mlir import ir

from rcompiler.linalg.bodies import is_multiply_add
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, element_of, element_type, shape_of
from rcompiler.passes.products.merging import Product


@dataclass(frozen=True)
class RowProduct:
    """A product of operand `x`, which is no constant, with constant weights.

    axis: of the columns in the weights. start: the fill, with a constant, that it adds to.
    """

    generic: Generic
    x: int
    axis: int
    product: Product
    start: ir.Operation

    @property
    def rows_of(self) -> ir.Value:
        return self.generic.inputs[self.x]

    @property
    def weights(self) -> ir.Value:
        return self.generic.inputs[1 - self.x]

    @property
    def form(self) -> Hashable:
        """Equal for products that differ in x and weights only, up to their bodies."""
        op = self.generic.op
        types = tuple(element_type(v) for v in op.operands)
        return self.x, op.attributes["indexing_maps"], types, self.product.depth, self._number

    @property
    def from_zero(self) -> bool:
        """Whether it adds to zeros, so that its parts are products that may be added."""
        return self._number.value == 0

    @property
    def _number(self) -> ir.FloatAttr | ir.IntegerAttr:
        """What `start` is filled with."""
        return self.start.operands[0].owner.operation.attributes["value"]


class RowProducts:
    """Finds such products; what those of one form have in common is found once."""

    def __init__(self) -> None:
        self._row_forms: dict[Hashable, list[_RowForm]] = {}

    def of(self, op: ir.Operation) -> RowProduct | None:
        """`op` as such a product, or None."""
        if op.name != "linalg.generic":
            return None
        generic = Generic(op)
        if not is_multiply_add(generic):
            return None
        ways = self._of_form(generic)
        start = defining(generic.inits[0]) if ways else None
        if start is None or start.name != "linalg.fill":
            return None
        number = defining(start.operands[0])
        if number is None or number.name != "arith.constant":
            return None
        for way in ways:
            if is_constant(generic.inputs[1 - way.x]):
                x = generic.inputs[way.x]
                return None if is_constant(x) else RowProduct(generic, *way, start)
        return None

    def _of_form(self, generic: Generic) -> list[_RowForm]:
        attributes = generic.op.attributes
        maps, kinds = attributes["indexing_maps"], attributes["iterator_types"]
        form = maps, kinds, *(v.type for v in generic.operands)
        if form not in self._row_forms:
            self._row_forms[form] = list(_row_forms(generic)) if generic.reduction_dims else []
        return self._row_forms[form]


class _RowForm(NamedTuple):
    """How a product of some form may be one of rows: fields of `RowProduct`."""

    x: int
    axis: int
    product: Product


def _row_forms(generic: Generic) -> Iterator[_RowForm]:
    for x in (0, 1):
        of_x, of_weights, of_result = (generic.dims[k] for k in (x, 1 - x, 2))
        if not _is_row_product(generic, of_x, of_weights, of_result):
            continue
        column = of_result[-1]
        product = Product(
            rows=math.prod(shape_of(generic.op.results[0])[:-1]),
            columns=generic.sizes[column],
            depth=math.prod(generic.sizes[d] for d in generic.reduction_dims),
            itemsize=max(item_bytes(element_of(v)) for v in generic.op.operands),
            by_rows=of_weights[-1] != column,
        )
        yield _RowForm(x, of_weights.index(column), product)


def _is_row_product(
    generic: Generic, of_x: list[int], of_weights: list[int], of_result: list[int]
) -> bool:
    """In loop dims, without the column: x has all, the weights those that are summed over."""
    everything = set(range(generic.maps[0].n_dims))
    column = of_result[-1] if of_result else -1
    return (
        sorted(of_x) == sorted(everything - {column})
        and sorted(of_weights) == sorted({column, *generic.reduction_dims})
        and sorted(of_result) == sorted(everything - set(generic.reduction_dims))
    )
