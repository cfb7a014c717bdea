"""Operations of generated code that are typed by their operands.

A value carries its element type and its lanes, so an operation is written without types, as in a
formula, for scalars and for vectors of any width:

    ops.select(ops.compare("olt", x, 0.0), ops.neg(x), x)

    %k1 = arith.constant dense<0x00000000> : vector<8xf32>
    %v2 = arith.cmpf olt, %x, %k1 : vector<8xf32>
    %v3 = arith.negf %x : vector<8xf32>
    %v4 = arith.select %v2, %v3, %x : vector<8xi1>, vector<8xf32>

An operand may also be a number, which takes the type of the other operand, or a `Linear`, which is
an i64. Where the operations are recorded is up to the subclass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rcompiler.kernelgen.value import Val, type_name
from rcompiler.linalg.affine import Linear

Operand = Val | Linear | float


def is_float(element: str) -> bool:
    """Whether an element type is one of floats; all others are of signless integers."""
    return element[0] != "i"


class TypedOps(ABC):
    """Side-effect free operations, each of which gives a new value."""

    has_fma: bool  # the target fuses multiply and add

    # -- what a subclass says
    @abstractmethod
    def op(self, text: str, operands: Sequence[Val], element: str, lanes: int | None = None) -> Val:
        """Record an operation.

        Args:
            text: all of it but its result, with the names of its operands and all types.
            operands: values that it depends on.
            element: element type of its result.
            lanes: of its result, by default the most that an operand has.
        """

    @abstractmethod
    def constant(self, value: float | int | bool, element: str, lanes: int = 0) -> Val:
        """A scalar or splat constant, bit-exact."""

    @abstractmethod
    def index(self, value: Linear) -> str:
        """The i64 SSA name of a linear expression (no lane term)."""

    # -- operands
    def number(self, value: Linear) -> Val:
        """A linear expression (no lane term) as an i64."""
        return Val(self.index(value), "i64", 0, value)

    def values(self, *operands: Operand) -> list[Val]:
        """The operands of an operation as values: a number takes the type of the first operand that
        has one, and is in all of its lanes.
        """
        values = [v for v in operands if isinstance(v, Val)]
        if len(values) == len(operands):
            return values
        found = [self.number(v) if isinstance(v, Linear) else v for v in operands]
        like = next(v for v in found if isinstance(v, Val))
        return [
            v if isinstance(v, Val) else self.constant(v, like.element, like.lanes) for v in found
        ]

    # -- arithmetic
    def elementwise(self, name: str, *operands: Operand) -> Val:
        """An operation of any dialect whose operands and result all have one type."""
        return self._of_one_type(name, self.values(*operands))

    def _of_one_type(self, name: str, values: Sequence[Val]) -> Val:
        first, names = values[0], ", ".join([v.name for v in values])
        return self.op(f"{name} {names} : {first.type}", values, first.element, first.lanes)

    def math(self, name: str, *operands: Operand) -> Val:
        """A function of the dialect math, as in math("roundeven", x)."""
        return self.elementwise(f"math.{name}", *operands)

    def _by_kind(self, name: str, a: Operand, b: Operand) -> Val:
        """The operation of this name on floats (addf) or on integers (addi)."""
        values = self.values(a, b)
        kind = "f" if is_float(values[0].element) else "i"
        return self._of_one_type(f"arith.{name}{kind}", values)

    def add(self, a: Operand, b: Operand) -> Val:
        return self._by_kind("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Val:
        return self._by_kind("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Val:
        return self._by_kind("mul", a, b)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Val:
        """a * b + c, fused where the target can (both forms are exact about which one they are: no
        contraction); scalars count for every lane.
        """
        values = self.values(a, b, c)
        lanes = max([v.lanes for v in values])
        values = [v if v.lanes == lanes else self.splat(v, lanes) for v in values]
        if self.has_fma:
            return self._of_one_type("vector.fma" if lanes else "math.fma", values)
        x, y, z = values
        return self.add(self.mul(x, y), z)

    def div(self, a: Operand, b: Operand) -> Val:
        """The quotient of floats."""
        return self.elementwise("arith.divf", a, b)

    def div_unsigned(self, a: Operand, b: Operand) -> Val:
        """The quotient of integers, rounded down. The caller guards a zero divisor."""
        return self.elementwise("arith.divui", a, b)

    def rem_unsigned(self, a: Operand, b: Operand) -> Val:
        """What `div_unsigned` leaves."""
        return self.elementwise("arith.remui", a, b)

    def maximum(self, a: Operand, b: Operand) -> Val:
        """The larger float; NaN wins."""
        return self.elementwise("arith.maximumf", a, b)

    def minimum(self, a: Operand, b: Operand) -> Val:
        """The smaller float; NaN wins."""
        return self.elementwise("arith.minimumf", a, b)

    def max_signed(self, a: Operand, b: Operand) -> Val:
        return self.elementwise("arith.maxsi", a, b)

    def min_signed(self, a: Operand, b: Operand) -> Val:
        return self.elementwise("arith.minsi", a, b)

    def neg(self, a: Val) -> Val:
        """The float with the other sign."""
        return self.elementwise("arith.negf", a)

    def abs(self, a: Val) -> Val:
        """The absolute value of a float."""
        return self.math("absf", a)

    def sqrt(self, a: Val) -> Val:
        return self.math("sqrt", a)

    def copysign(self, magnitude: Val, sign: Val) -> Val:
        """The float `magnitude` with the sign of the float `sign`."""
        return self.math("copysign", magnitude, sign)

    # -- bits of integers
    def bit_and(self, a: Operand, b: Operand) -> Val:
        return self.elementwise("arith.andi", a, b)

    def bit_or(self, a: Operand, b: Operand) -> Val:
        return self.elementwise("arith.ori", a, b)

    def bit_xor(self, a: Operand, b: Operand) -> Val:
        return self.elementwise("arith.xori", a, b)

    def shift_left(self, a: Operand, places: Operand) -> Val:
        return self.elementwise("arith.shli", a, places)

    def shift_right_signed(self, a: Operand, places: Operand) -> Val:
        """Copies of the sign come in from the left."""
        return self.elementwise("arith.shrsi", a, places)

    def shift_right_unsigned(self, a: Operand, places: Operand) -> Val:
        """Zeros come in from the left."""
        return self.elementwise("arith.shrui", a, places)

    # -- comparison and choice
    def compare(self, predicate: str, a: Operand, b: Operand) -> Val:
        """An i1 for each lane; `predicate` as arith.cmpf and arith.cmpi name it."""
        x, y = self.values(a, b)
        name = "cmpf" if is_float(x.element) else "cmpi"
        text = f"arith.{name} {predicate}, {x.name}, {y.name} : {x.type}"
        return self.op(text, [x, y], "i1", x.lanes)

    def select(self, condition: Val, then: Operand, other: Operand) -> Val:
        """One of two values; of vectors lane by lane, unless the condition is a scalar."""
        x, y = self.values(then, other)
        types = f"{condition.type}, {x.type}" if condition.lanes else x.type
        text = f"arith.select {condition.name}, {x.name}, {y.name} : {types}"
        return self.op(text, [condition, x, y], x.element, x.lanes)

    # -- conversion
    def convert(self, name: str, value: Val, element: str) -> Val:
        """A conversion of the dialect arith to another element type, as in
        convert("sitofp", i, "f32").
        """
        return self._converted(f"arith.{name}", value, element, value.lanes)

    def bitcast(
        self, value: Val, element: str, lanes: int | None = None, *, dialect: str = "arith"
    ) -> Val:
        """The same bits as another type.

        Args:
            element: element type of the result.
            lanes: of the result, by default as many as the operand has.
            dialect: whose operation it is: arith keeps the number of lanes, vector changes that of
                vectors, and llvm also takes a vector for a scalar.
        """
        return self._converted(
            f"{dialect}.bitcast", value, element, value.lanes if lanes is None else lanes
        )

    def _converted(self, name: str, value: Val, element: str, lanes: int) -> Val:
        text = f"{name} {value.name} : {value.type} to {type_name(element, lanes)}"
        return self.op(text, [value], element, lanes)

    # -- lanes
    def splat(self, value: Val, lanes: int) -> Val:
        """`value` in every lane."""
        if value.lanes or not lanes:
            return value
        return self._converted("vector.broadcast", value, value.element, lanes)

    def gather_lanes(self, values: Sequence[Val]) -> Val:
        """One vector from one scalar for each lane."""
        element, lanes = values[0].element, len(values)
        names = ", ".join(v.name for v in values)
        text = f"vector.from_elements {names} : {type_name(element, lanes)}"
        return self.op(text, values, element, lanes)

    def lane(self, value: Val, position: int) -> Val:
        """The scalar in one lane."""
        if not value.lanes:
            return value
        text = f"vector.extract {value.name}[{position}] : {value.element} from {value.type}"
        return self.op(text, [value], value.element, 0)

    def shuffle(self, a: Val, b: Val, order: Sequence[int]) -> Val:
        """The lanes `order` of `a` and the lanes of `b` behind them."""
        text = f"vector.shuffle {a.name}, {b.name} {list(order)} : {a.type}, {b.type}"
        return self.op(text, [a, b], a.element, len(order))

    def across(self, kind: str, value: Val, *, fastmath: str = "") -> Val:
        """The lanes of a vector combined to a scalar; `kind` as vector.reduction names it.
        `fastmath`: what of the order of IEEE 754 it need not keep.
        """
        flags = f" fastmath<{fastmath}>" if fastmath else ""
        text = f"vector.reduction <{kind}>, {value.name}{flags} : {value.type} into {value.element}"
        return self.op(text, [value], value.element, 0)

    # -- functions
    def call(self, function: str, operands: Sequence[Val], element: str) -> Val:
        """A function without side effects, of scalars."""
        return self._called(f"llvm.call @{function}", operands, element, 0)

    def intrinsic(self, name: str, operands: Sequence[Val], element: str, lanes: int) -> Val:
        """An intrinsic of LLVM without side effects, such as llvm.x86.avx2.pmadd.wd."""
        return self._called(f'llvm.call_intrinsic "{name}"', operands, element, lanes)

    def _called(self, callee: str, operands: Sequence[Val], element: str, lanes: int) -> Val:
        names = ", ".join([v.name for v in operands])
        types = ", ".join([v.type for v in operands])
        result = type_name(element, lanes)
        return self.op(f"{callee}({names}) : ({types}) -> {result}", operands, element, lanes)
