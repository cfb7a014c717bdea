"""A linalg.generic read once into plain Python: loops, maps, reductions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import COMBINERS
from rcompiler.linalg.lazy import lazy
from rcompiler.linalg.maps import Expression, compile_expression, dim_of, dims_of
from rcompiler.linalg.values import constant_of, defining, element_of, integer, ops_of, shape_of

LANE_DIM = "rtask.lane_dim"  # of a reduction on tiles; -1: vectors run along no reduction dim
COMBINATION = "rtask.combination"  # of an op on tiles: all of it is one, see `Generic.combination`
_START = Linear()
MATRIX_LIMIT = 64  # elements of a matrix whose products with vectors are straight code


@dataclass(frozen=True)
class Combination:
    """A generic that computes `matrix` times a short vector out of one operand.

    data, coefficients: operand numbers of the vector and of the matrix; dim: the loop dim along the
    vector; row: which result of the coefficients' map numbers the rows.
    """

    matrix: tuple[tuple[float, ...], ...]
    data: int
    coefficients: int
    dim: int
    row: int


class Form:
    """What follows from the maps and iterators of a linalg.generic alone; see `Generic`."""

    def __init__(self, op: ir.Operation) -> None:
        self._op = op

    @lazy
    def maps(self) -> list[ir.AffineMap]:
        maps = ir.ArrayAttr(self._op.attributes["indexing_maps"])
        return [ir.AffineMapAttr(a).value for a in maps]

    @lazy
    def expressions(self) -> list[list[Expression]]:
        return [[compile_expression(e) for e in m.results] for m in self.maps]

    @lazy
    def dims(self) -> list[list[int]]:
        return [[dim_of(e) for e in m.results] for m in self.maps]

    @lazy
    def operand_dims(self) -> list[list[int]]:
        return [
            sorted({int(d) for d in re.findall(r"d(\d+)", str(m).partition("->")[2])})
            for m in self.maps
        ]

    @lazy
    def reduction_dims(self) -> list[int]:
        kinds = str(self._op.attributes["iterator_types"])  # at once: one by one takes long
        return [d for d, kind in enumerate(kinds.split(",")) if "reduction" in kind]


@dataclass
class Generic:
    """One linalg.generic: maps as functions, which loop dims reduce, how results address the loop
    dims.
    """

    op: ir.Operation

    @lazy
    def form(self) -> Form:
        return Form(self.op)

    @lazy
    def maps(self) -> list[ir.AffineMap]:
        return self.form.maps

    @lazy
    def expressions(self) -> list[list[Expression]]:
        return self.form.expressions

    @lazy
    def dims(self) -> list[list[int]]:
        """For each operand, the loop dim that each of its dims is; -1: another expression."""
        return self.form.dims

    @lazy
    def operand_dims(self) -> list[list[int]]:
        """For each operand, the loop dims that its map uses."""
        return self.form.operand_dims

    @lazy
    def reduction_dims(self) -> list[int]:
        return self.form.reduction_dims

    @lazy
    def operands(self) -> list[ir.Value]:
        return list(self.op.operands)

    @lazy
    def elements(self) -> list[str]:
        """The element type of each operand."""
        return [element_of(value) for value in self.operands]

    @lazy
    def factors(self) -> tuple[int, int] | None:
        """Input numbers (a, b) if the body is acc + a * b, with inputs as factors."""
        arguments = list(self.block.arguments)[: len(self.inputs)]
        if self.product is None or any(f not in arguments for f in self.product):
            return None
        return arguments.index(self.product[0]), arguments.index(self.product[1])

    @property
    def kinds(self) -> list[ir.Attribute]:
        """The iterator type of each loop dim."""
        return list(ir.ArrayAttr(self.op.attributes["iterator_types"]))

    @lazy
    def windowed(self) -> bool:
        """Whether a reduction dim of several steps slides along a dim of an input."""
        sliding = {d for d in self.reduction_dims if self.sizes[d] > 1}
        dims = (dims_of(e) for map_ in self.maps[: len(self.inputs)] for e in map_.results)
        return any(len(used) > 1 and used & sliding for used in dims)

    @lazy
    def outputs(self) -> int:
        return len(self.op.results)

    @lazy
    def inputs(self) -> list[ir.Value]:
        operands = list(self.op.operands)
        return operands[: len(operands) - self.outputs]

    @lazy
    def inits(self) -> list[ir.Value]:
        operands = list(self.op.operands)
        return operands[len(operands) - self.outputs :]

    @lazy
    def block(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    @lazy
    def gathers(self) -> bool:
        """Whether the body picks elements with tensor.extract."""
        return any(op.name == "tensor.extract" for op in ops_of(self.block))

    @lazy
    def init_used(self) -> list[bool]:
        return [bool(list(a.uses)) for a in list(self.block.arguments)[len(self.inputs) :]]

    @lazy
    def result_dims(self) -> list[int]:
        """For each result dim, the loop dim it is (-1: a constant)."""
        dims, map_ = self.dims[len(self.inputs)], self.maps[len(self.inputs)]
        for dim, expression in zip(dims, map_.results, strict=True):
            if dim < 0 and not isinstance(expression.maybe_downcast(), ir.AffineConstantExpr):
                raise CompilerError(
                    f"{self.op.location}: result indexing {self.maps[-1]} is not a projected "
                    "permutation"
                )
        return dims

    @lazy
    def sizes(self) -> list[int]:
        """Loop range of every dim, from the operand shapes."""
        sizes = [1] * self.maps[0].n_dims
        for value, dims in zip(self.op.operands, self.dims, strict=True):
            for extent, dim in zip(shape_of(value), dims, strict=True):
                if dim >= 0:
                    sizes[dim] = extent
        return sizes

    @lazy
    def combiner(self) -> str | None:
        """The op of `acc = op(acc, f(inputs))` if the body has that form and one result, e.g.
        "arith.addf".
        """
        if self.outputs != 1:
            return None
        uses, last = [use.owner for use in self._accumulator.uses], self._last
        if last is None or len(uses) != 1 or uses[0].operation != last:
            return None
        return last.name if last.name in COMBINERS else None

    @lazy
    def combined(self) -> ir.Value:
        """What `combiner` combines with the accumulator."""
        assert self._last is not None
        a, b = self._last.operands
        return b if a == self._accumulator else a

    @lazy
    def _accumulator(self) -> ir.Value:
        return self.block.arguments[len(self.inputs)]

    @lazy
    def _last(self) -> ir.Operation | None:
        """What computes the first result."""
        return defining(ops_of(self.block)[-1].operands[0])

    def loop_dims(self, at: list[Linear]) -> list[Linear]:
        """Loop coordinates from result coordinates; reduction dims stay 0."""
        dims = [_START] * len(self.sizes)
        for coordinate, dim in zip(at, self.result_dims, strict=True):
            if dim >= 0:
                dims[dim] = coordinate
        return dims

    @lazy
    def accumulates(self) -> bool:
        """Whether results are sums (or so) over loops: the op reduces, but is no combination."""
        return bool(self.reduction_dims) and self.combination is None

    @lazy
    def combination(self) -> Combination | None:
        """The op as a small constant matrix times a vector along its one reduction dim, if it is
        that: it then is straight code without a loop. Vectors run along the last result dim, so
        that one may not choose the row. That depends on the whole op alone, as how results are
        summed does; an op on tiles, which may be of one column, has it as an attribute.
        """
        if len(self.inputs) != 2 or len(self.reduction_dims) != 1:
            return None
        if not any(map(_is_small_matrix, self.inputs)) or self.factors is None:
            return None
        if element_of(self.inits[0]) not in ("f32", "f64", "i16", "i32"):
            return None
        [dim] = self.reduction_dims
        of_tiles = COMBINATION in self.op.attributes
        lanes = set() if of_tiles else self._innermost(len(self.inputs))
        for number in (0, 1):
            used = [dims_of(e) for e in self.maps[number].results]
            if len(used) != 2 or {dim} not in used:
                continue
            row = 1 - used.index({dim})
            matrix = _small_matrix(self.inputs[number])
            if matrix is not None and not used[row] & {*lanes, dim}:
                rows = matrix if row == 0 else tuple(zip(*matrix, strict=True))
                return Combination(rows, 1 - number, number, dim, row)
        return None

    @lazy
    def lane_dim(self) -> int | None:
        """A reduction dim that vectors run along: an input is contiguous in it, and none in the
        result's last dim, unless it is read once for each result and the order of what is combined
        does not count. That depends on the whole op alone, so every tiling adds in the same order;
        an op on tiles has it as an attribute.
        """
        if LANE_DIM in self.op.attributes:
            dim = integer(self.op, LANE_DIM)
            return dim if dim >= 0 else None
        if self.combiner is None or element_of(self.inits[0]) == "i1" or not self.init_used[0]:
            return None
        read = [*range(len(self.inputs))]
        if self.combiner not in ("arith.addf", "arith.mulf"):
            moving = {*self.reduction_dims}
            read = [k for k in read if any(moving & dims_of(e) for e in self.maps[k].results)]
        inputs = [self._innermost(k) for k in read]
        result = self._innermost(len(self.inputs))
        if any(result & used for used in inputs):
            return None
        long = [d for d in self.reduction_dims if self.sizes[d] >= 4 and {d} in inputs]
        return long[-1] if long else None

    def _innermost(self, operand: int) -> set[int]:
        """Loop dims in the last index of an operand of more than one element."""
        shape = shape_of(self.op.operands[operand])
        for extent, expression in reversed(
            list(zip(shape, self.maps[operand].results, strict=True))
        ):
            if extent != 1:
                return dims_of(expression)
        return set()

    @lazy
    def product(self) -> tuple[ir.Value, ir.Value] | None:
        """(a, b) if the body is acc + a * b: the multiplication has no other use."""
        multiply = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}.get(self.combiner or "")
        if multiply is None:
            return None
        other = defining(self.combined)
        if other is None or other.name != multiply or len(list(self.combined.uses)) != 1:
            return None
        a, b = other.operands
        return a, b


def _is_small_matrix(value: ir.Value) -> bool:
    """Whether `_small_matrix` may find one: its shape says of most values that it does not."""
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType) or type_.rank != 2:
        return False
    return math.prod(type_.shape) <= MATRIX_LIMIT


def _small_matrix(value: ir.Value) -> tuple[tuple[float, ...], ...] | None:
    """The rows of a constant of rank 2 whose elements are in the IR; None for anything else, and
    for one without elements, whose columns would be lost with its rows."""
    attribute = constant_of(value)
    if not isinstance(attribute, ir.DenseFPElementsAttr | ir.DenseIntElementsAttr):
        return None
    if not 0 < len(attribute) <= MATRIX_LIMIT:
        return None
    array = np.array([float(x) for x in attribute]).reshape(shape_of(value))
    return tuple(map(tuple, array.tolist())) if np.isfinite(array).all() else None


def generics_of(block: ir.Block) -> list[Generic]:
    """The linalg.generic in a block, in order."""
    return [Generic(op) for op in ops_of(block) if op.name == "linalg.generic"]


class Forms:
    """Generics of many ops, of which there are few forms: each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[ir.Attribute, ir.Attribute], Form] = {}

    def of(self, op: ir.Operation) -> Generic:
        """`Generic(op)`."""
        attributes, found = op.attributes, Generic(op)
        key = attributes["indexing_maps"], attributes["iterator_types"]
        found.form = self._known.setdefault(key, found.form)
        return found
