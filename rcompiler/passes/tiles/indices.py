"""Positions in a tiled body: index values read as linear expressions, and written as affine.apply.

    %r = loop variable of `scf.for %r = %c0 to %c32 step %c4`
    %p = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)>(%task, %r)

%p reads as 32 * task + 4 * turn: the symbol of a loop is the number of its turn, so that a quotient
by 4, the number of a panel say, is found exactly where the steps of the loop allow it. Every pass
reads positions from the IR anew; nothing about them travels beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.dialects.task_body import THREADS
from rcompiler.errors import CompilerError
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.maps import compile_expression
from rcompiler.linalg.values import integer, integers

DYNAMIC = ir.ShapedType.get_dynamic_size()
"""What types have in the place of a size that only a run knows, and attributes of an operand."""


@dataclass(frozen=True)
class _Symbol:
    """What a symbol stands for: (value - base) / unit."""

    value: ir.Value
    base: int = 0
    unit: int = 1


class Indices:
    """Reads and writes the positions of one kernel body.

    `ranges`: exclusive upper bounds of symbols, as `Linear.split` takes them; a symbol is never
    negative.
    """

    def __init__(self) -> None:
        self.ranges: dict[str, int] = {}
        self._known: dict[ir.Value, Linear] = {}
        self._symbols: dict[str, _Symbol] = {}
        self._maps: dict[object, ir.AffineMapAttr | None] = {}

    # -- reading
    def read(self, value: ir.Value) -> Linear:
        """An index value as a linear expression; of what cannot be one, a symbol of its own."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._read(value)
        return found

    def of(self, number: int | ir.Value) -> Linear:
        """The position that a number or an index value is."""
        return Linear(number) if isinstance(number, int) else self.read(number)

    def bounded(self, value: ir.Value, bound: int | None) -> Linear:
        """A value that is at least 0 and below `bound`."""
        self._known[value] = self._symbol(_Symbol(value), bound)
        return self._known[value]

    def highest(self, position: Linear) -> int | None:
        """An upper bound of a position; None if there is none."""
        return position.highest(self.ranges)

    def _symbol(self, symbol: _Symbol, bound: int | None) -> Linear:
        name = f"s{len(self._symbols)}"
        self._symbols[name] = symbol
        if bound is not None:
            self.ranges[name] = max(bound, 1)
        return Linear.of(name)

    def _read(self, value: ir.Value) -> Linear:
        if isinstance(value.owner, ir.Block):
            return self._argument(value, value.owner)
        op = value.owner.operation
        if op.name == "arith.constant":
            return Linear(integer(op, "value"))
        if op.name == "affine.apply":
            [expression] = _map_of(op).results
            dims = [self.read(v) for v in op.operands]
            found = self._evaluated(expression, dims)
            return self.bounded(value, self._bound(expression, dims)) if found is None else found
        if op.name == "affine.min":
            dims = [self.read(v) for v in op.operands]
            bounds = [self._bound(e, dims) for e in _map_of(op).results]
            known = [bound for bound in bounds if bound is not None]
            return self.bounded(value, min(known, default=None))
        return self.bounded(value, None)

    def _argument(self, value: ir.Value, block: ir.Block) -> Linear:
        owner = block.owner.operation
        if owner.name == "rtask.kernel":
            return self.bounded(value, integer(owner, "tasks"))
        if owner.name == THREADS:
            bounds = integers(owner, "staticUpperBound")
            number = ir.BlockArgument(value).arg_number
            bound = bounds[number] if number < len(bounds) else DYNAMIC
            return self.bounded(value, None if bound == DYNAMIC else bound)
        if owner.name != "scf.for" or value != block.arguments[0]:
            return self.bounded(value, None)
        start, end, step = (self.read(v) for v in list(owner.operands)[:3])
        if not (start.is_constant and step.is_constant):
            return self.bounded(value, None)
        base, unit, last = start.constant, step.constant, self.highest(end)
        turns = None if last is None else -(-(last - base) // unit)
        return self._symbol(_Symbol(value, base, unit), turns) * unit + base

    def _evaluated(self, expression: ir.AffineExpr, dims: list[Linear]) -> Linear | None:
        """None for a quotient or a remainder that is no linear expression."""
        try:
            return compile_expression(expression)(dims, self._split)
        except CompilerError:
            return None

    def _split(self, position: Linear, divisor: int) -> tuple[Linear, Linear]:
        parts = position.split(divisor, self.ranges)
        if parts is None:
            raise CompilerError("no linear expression")
        return parts

    def _bound(self, expression: ir.AffineExpr, dims: list[Linear]) -> int | None:
        """The exclusive upper bound of an expression that is never negative."""
        expression = expression.maybe_downcast()
        found = self._evaluated(expression, dims)
        if found is not None:
            last = self.highest(found)
            return None if last is None else last + 1
        if isinstance(expression, ir.AffineModExpr):
            return expression.rhs.maybe_downcast().value
        if isinstance(expression, ir.AffineFloorDivExpr):
            inner = self._bound(expression.lhs, dims)
            by = expression.rhs.maybe_downcast().value
            return None if inner is None else (inner - 1) // by + 1
        return None

    # -- writing
    def value(self, position: Linear) -> ir.Value:
        """The index value of a position, at the insertion point."""
        if position.is_constant:
            return constant(position.constant)
        symbols = [self._symbols[name] for name, _ in position.terms]
        values = [symbol.value for symbol in symbols]
        terms = [(c, s.base, s.unit) for (_, c), s in zip(position.terms, symbols, strict=True)]
        key = (position.constant, *terms)
        if key not in self._maps:
            self._maps[key] = _map_to(position.constant, terms)
        map_ = self._maps[key]
        return values[0] if map_ is None else _with_map("affine.apply", map_, values)

    def mixed(self, positions: Sequence[Linear]) -> tuple[list[int], list[ir.Value]]:
        """As ops have them: numbers, DYNAMIC where a value stands for one, and those values."""
        numbers = [p.constant if p.is_constant else DYNAMIC for p in positions]
        return numbers, [self.value(p) for p in positions if not p.is_constant]

    def quotient(self, position: Linear, divisor: int) -> tuple[Linear, Linear]:
        """(position floordiv divisor, position mod divisor), as values where they are not linear.

        The position is never negative.
        """
        parts = position.split(divisor, self.ranges)
        if parts is not None:
            return parts
        value, dim = self.value(position), ir.AffineExpr.get_dim(0)
        last = self.highest(position)
        whole = _apply("affine.apply", [ir.AffineExpr.get_floor_div(dim, divisor)], [value])
        rest = _apply("affine.apply", [ir.AffineExpr.get_mod(dim, divisor)], [value])
        return (
            self.bounded(whole, None if last is None else last // divisor + 1),
            self.bounded(rest, divisor),
        )

    def loop_bounds(self, start: Linear, end: Linear) -> tuple[Linear, Linear]:
        """Simpler bounds of a loop of the same steps.

        From min(max(s, l), h) to max(min(e, h), l), which is never a negative number of steps, is
        from max(s, l) to min(e, h), which may be one: such a loop makes no step.
        """
        outer, inner = self._clamped(start, "affine.min"), self._clamped(end, "affine.max")
        if outer is None or inner is None:
            return start, end
        (first, high), (last, low) = outer, inner
        below, above = self._clamped(first, "affine.max"), self._clamped(last, "affine.min")
        if below is None or above is None or (below[1], above[1]) != (low, high):
            return start, end
        return first, last

    def _clamped(self, position: Linear, name: str) -> tuple[Linear, int] | None:
        """The position and the number that an op of that name chooses from, if it is one."""
        if position.constant or [c for _, c in position.terms] != [1]:
            return None
        value = self._symbols[position.terms[0][0]].value
        if isinstance(value.owner, ir.Block) or value.owner.operation.name != name:
            return None
        choices = [self.read(v) for v in value.owner.operation.operands]
        if len(choices) != 2 or not choices[1].is_constant:
            return None
        return choices[0], choices[1].constant

    def lowest(self, positions: Sequence[Linear]) -> Linear:
        """The least of some positions, which is not negative."""
        known = [b for b in map(self.highest, positions) if b is not None]
        return self._extreme("affine.min", min, positions, min(known, default=None))

    def largest(self, positions: Sequence[Linear]) -> Linear:
        """The largest of some positions, which is not negative."""
        known = [b for b in map(self.highest, positions) if b is not None]
        last = max(known) if len(known) == len(positions) else None
        return self._extreme("affine.max", max, positions, last)

    def _extreme(self, name: str, of, positions: Sequence[Linear], last: int | None) -> Linear:
        if all(p.is_constant for p in positions):
            return Linear(of(p.constant for p in positions))
        values = [self.value(p) for p in positions]
        dims = [ir.AffineExpr.get_dim(k) for k in range(len(values))]
        found = _apply(name, dims, values)
        return self.bounded(found, None if last is None else last + 1)


def constant(number: int) -> ir.Value:
    """An index constant at the insertion point."""
    return arith.constant(ir.IndexType.get(), number)


def applied(map_: ir.AffineMap, values: Sequence[ir.Value]) -> ir.Value:
    """affine.apply at the insertion point."""
    return _apply("affine.apply", list(map_.results), values)


def _map_to(constant: int, terms: Sequence[tuple[int, int, int]]) -> ir.AffineMapAttr | None:
    """The map from the values of symbols to a position; None if that is the value of the only one.

    terms: coefficient, base and unit of each symbol.
    """
    total = ir.AffineExpr.get_constant(constant)
    for number, (coefficient, base, unit) in enumerate(terms):
        dim = ir.AffineExpr.get_dim(number)
        if coefficient % unit == 0:
            factor = coefficient // unit
            total = total + dim * factor + -base * factor
        else:
            total = total + ir.AffineExpr.get_floor_div(dim + -base, unit) * coefficient
    if total == ir.AffineExpr.get_dim(0):
        return None
    return ir.AffineMapAttr.get(ir.AffineMap.get(len(terms), 0, [total]))


def _apply(name: str, results: list[ir.AffineExpr], values: Sequence[ir.Value]) -> ir.Value:
    map_ = ir.AffineMapAttr.get(ir.AffineMap.get(len(values), 0, results))
    return _with_map(name, map_, values)


def _with_map(name: str, map_: ir.AffineMapAttr, values: Sequence[ir.Value]) -> ir.Value:
    return ir.Operation.create(
        name, results=[ir.IndexType.get()], operands=list(values), attributes={"map": map_}
    ).results[0]


def _map_of(op: ir.Operation) -> ir.AffineMap:
    map_ = ir.AffineMapAttr(op.attributes["map"]).value
    if map_.n_symbols:
        raise CompilerError(
            f"{op.location}: expects {op.name} on dims only; write its operands in parentheses"
        )
    return map_
