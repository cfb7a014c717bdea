"""Scalar bodies of linalg ops, evaluated on scalars or whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.remainder import remainder
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.vector_math import VectorMath
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import BITS, element_name

_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_CASTS = {
    "extf",
    "truncf",
    "extsi",
    "extui",
    "trunci",
    "sitofp",
    "uitofp",
    "fptosi",
    "fptoui",
    "bitcast",
}
# One x86 or LLVM intrinsic for each lane, exact; no library call (roundeven and friends need
# SSE4.1: see _ROUNDING).
_DIRECT = {"absf", "absi", "sqrt", "copysign", "fma", "ctpop", "ctlz", "cttz"}
_ROUNDING = {"roundeven", "floor", "ceil", "trunc", "round"}
_LIBM = {
    **{
        n: n
        for n in (
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "asinh",
            "acosh",
            "atanh",
        )
    },
    **{
        n: n
        for n in (
            "log1p",
            "log2",
            "log10",
            "expm1",
            "cbrt",
            "exp",
            "exp2",
            "log",
            "tanh",
            "erf",
            "erfc",
        )
    },
    **{
        "powf": "pow",
        "atan2": "atan2",
        "remf": "fmod",
        "floor": "floor",
        "ceil": "ceil",
        "trunc": "trunc",
    },
    **{"roundeven": "nearbyint", "round": "round"},
}


class BodyEvaluator:
    """Clones the ops of a linalg body, element type by element type, lanes by lanes."""

    def __init__(
        self,
        emitter: Emitter,
        read: Callable[[ir.Value, list[Linear], int], Val],
        position: Callable[[ir.Operation, Mapping[ir.Value, Linear], int], Linear],
    ) -> None:
        """`read(tensor, coordinates, lanes)` gives an element of a tensor (for tensor.extract).

        `position(op, dims, lanes)` gives what an affine.apply computes from `linalg.index` values
        and from what is outside of the body.
        """
        self._e = emitter
        self._read = read
        self._position = position
        self._math = VectorMath(emitter)

    def run(
        self, block: ir.Block, arguments: list[Val], dims: list[Linear], lanes: int
    ) -> list[Val]:
        """The values yielded by `block` for the given argument values and iteration-space
        coordinates.
        """
        wanted = list(list(block.operations)[-1].operation.operands)
        return self.values(block, arguments, dims, lanes, wanted)

    def values(
        self,
        block: ir.Block,
        arguments: list[Val],
        dims: list[Linear],
        lanes: int,
        wanted: list[ir.Value],
    ) -> list[Val]:
        """Some values of `block`, and no more of it than they need."""
        env: dict[ir.Value, Val] = dict(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            if op.name == "linalg.yield" or all(v in env for v in wanted):
                break
            if op.name == "linalg.index":
                dim = ir.IntegerAttr(op.attributes["dim"]).value
                env[op.result] = self._index(op, dims[dim], lanes)
            elif op.name == "affine.apply":
                known = {v: x.linear for v in op.operands if v in env and (x := env[v]).linear}
                env[op.result] = self._index(op, self._position(op, known, lanes), lanes)
            elif op.name == "tensor.extract":
                env[op.result] = self._extract(env, op, lanes)
            else:
                operands = [self._lookup(env, v) for v in op.operands]
                env[op.result] = self.op(op, operands)
        return [self._lookup(env, v) for v in wanted]

    def _index(self, op: ir.Operation, position: Linear, lanes: int) -> Val:
        """A position; one that only an affine.apply reads has no value of its own."""
        if all(use.owner.operation.name == "affine.apply" for use in op.result.uses):
            return Val("", "i64", lanes, position)
        return self._e.materialise(position, lanes)

    def _lookup(self, env: dict[ir.Value, Val], value: ir.Value) -> Val:
        if value in env:
            return env[value]
        owner = value.owner
        if isinstance(owner, ir.Block):
            raise CompilerError(
                f"{value}: a scalar argument of an operator region is not supported"
            )
        op = owner.operation
        if op.name == "arith.constant":
            env[value] = self._constant(op)
        else:  # scalar arithmetic outside the body, e.g. in front of a linalg.fill
            env[value] = self.op(op, [self._lookup(env, v) for v in op.operands])
        return env[value]

    def scalar(self, value: ir.Value) -> Val:
        """A scalar defined by constants and arith ops outside any body."""
        return self._lookup({}, value)

    def _constant(self, op: ir.Operation) -> Val:
        attribute = op.attributes["value"]
        element = element_name(op.result.type)
        if element in ("i1",):
            return self._e.constant(bool(ir.IntegerAttr(attribute).value), element)
        if element[0] == "i":
            number = ir.IntegerAttr(attribute).value
            value = self._e.constant(number, element)
            return Val(value.name, element, 0, Linear(number)) if element == "i64" else value
        return self._e.constant(ir.FloatAttr(attribute).value, element)

    def _extract(self, env: dict[ir.Value, Val], op: ir.Operation, lanes: int) -> Val:
        tensor, *indices = op.operands
        values = [self._lookup(env, v) for v in indices]
        if all(v.linear is not None or not v.lanes for v in values):
            return self._read(tensor, [self._symbol(v) for v in values], lanes)
        scalars = [
            self._read(tensor, [self._symbol(v, lane) for v in values], 0) for lane in range(lanes)
        ]
        return self._e.gather_lanes(scalars)

    def _symbol(self, value: Val, lane: int | None = None) -> Linear:
        if value.linear is not None:
            return value.linear if lane is None else value.linear.at_lane(lane)
        scalar = value if lane is None else self._e.lane(value, lane)
        return Linear.of(scalar.name)

    # -- one op ----------------------------------------------------------------------------------
    def op(self, op: ir.Operation, operands: list[Val]) -> Val:
        """One arith or math op."""
        dialect, name = op.name.split(".", 1)
        element = element_name(op.result.type)
        width = max((v.lanes for v in operands), default=0)
        operands = [self._e.splat(v, width) for v in operands]
        if dialect == "arith" and name == "constant":
            return self._constant(op)
        if dialect == "arith" and name == "index_cast":
            return self._index_cast(operands[0], element)
        if dialect == "arith" and name == "index_castui":
            return self._cast("extui", operands[0], element)
        small = element if element in ("f16", "bf16") else ""
        if dialect == "arith" and name in _CASTS:
            return self._cast(name, operands[0], element)
        operands = [self._widen(v) for v in operands] if self._is_arithmetic(name) else operands
        result = self._compute(
            dialect, name, op, operands, "f32" if small and self._is_arithmetic(name) else element
        )
        return self._narrow(result, small) if small and result.element == "f32" else result

    @staticmethod
    def _is_arithmetic(name: str) -> bool:
        return name not in ("select",)

    def _compute(
        self, dialect: str, name: str, op: ir.Operation, v: list[Val], element: str
    ) -> Val:
        e = self._e
        names = ", ".join(x.name for x in v)
        if dialect == "arith":
            if name in ("cmpi", "cmpf"):
                predicate = (_CMPI if name == "cmpi" else _CMPF)[
                    ir.IntegerAttr(op.attributes["predicate"]).value
                ]
                return e.op(f"arith.{name} {predicate}, {names} : {v[0].type}", v, "i1")
            if name == "select":
                types = f"{v[0].type}, {v[1].type}" if v[0].lanes else v[1].type
                return e.op(f"arith.select {names} : {types}", v, element)
            if name in ("divsi", "divui", "remsi", "remui"):
                return self._divide(name, v[0], v[1])
            if name == "remf" and e.has_libm:
                if element == "f32" and v[0].lanes:
                    return remainder(e, v[0], v[1], lambda: self._libm("fmod", v))
                return self._libm("fmod", v)
            if name in ("floordivsi", "ceildivsi", "ceildivui"):
                raise CompilerError(
                    f"arith.{name} is not expected in a body; use divsi with a correction"
                )
            result = e.op(f"arith.{name} {names} : {v[0].type}", v, element)
            return self._linear(name, v, result)
        if dialect == "math":
            return self._math_op(name, v, element)
        raise CompilerError(f"{op.name} cannot stand in a linalg body")

    def _linear(self, name: str, v: list[Val], result: Val) -> Val:
        """Keep the symbolic value of index arithmetic, so that addresses stay affine."""
        if result.element != "i64" or name not in ("addi", "subi", "muli"):
            return result
        a, b = v[0].linear, v[1].linear
        if a is None or b is None:
            return result
        if name == "muli":
            if a.is_constant:
                a, b = b, a
            return (
                Val(result.name, "i64", result.lanes, a * b.constant) if b.is_constant else result
            )
        return Val(result.name, "i64", result.lanes, a + (b if name == "addi" else b * -1))

    def _divide(self, name: str, a: Val, b: Val) -> Val:
        """Integer division that cannot trap: x / 0 = x / 1, and INT_MIN / -1 wraps."""
        e = self._e
        one, zero = e.constant(1, a.element, a.lanes), e.constant(0, a.element, a.lanes)
        is_zero = e.op(f"arith.cmpi eq, {b.name}, {zero.name} : {b.type}", [b, zero], "i1")
        types = f"{is_zero.type}, {b.type}" if b.lanes else b.type
        safe = e.op(
            f"arith.select {is_zero.name}, {one.name}, {b.name} : {types}",
            [is_zero, one, b],
            a.element,
        )
        if name in ("divui", "remui"):
            return e.op(f"arith.{name} {a.name}, {safe.name} : {a.type}", [a, safe], a.element)
        minus = e.constant(-1, a.element, a.lanes)
        is_minus = e.op(f"arith.cmpi eq, {b.name}, {minus.name} : {b.type}", [b, minus], "i1")
        safe = e.op(
            f"arith.select {is_minus.name}, {one.name}, {safe.name} : {types}",
            [is_minus, one, safe],
            a.element,
        )
        plain = e.op(f"arith.{name} {a.name}, {safe.name} : {a.type}", [a, safe], a.element)
        if name == "remsi":
            return plain  # x % 1 == 0 == x % -1
        negated = e.op(f"arith.subi {zero.name}, {a.name} : {a.type}", [zero, a], a.element)
        return e.op(
            f"arith.select {is_minus.name}, {negated.name}, {plain.name} : {types}",
            [is_minus, negated, plain],
            a.element,
        )

    def _math_op(self, name: str, v: list[Val], element: str) -> Val:
        e = self._e
        names = ", ".join(x.name for x in v)
        if name in _DIRECT or name in _ROUNDING:
            return e.op(f"math.{name} {names} : {v[0].type}", v, element)
        if name == "rsqrt":
            root = e.op(f"math.sqrt {names} : {v[0].type}", v, element)
            one = e.constant(1.0, element, root.lanes)
            return e.op(f"arith.divf {one.name}, {root.name} : {root.type}", [one, root], element)
        if element == "f32" and (done := self._math.apply(name, v[0])) is not None:
            return done
        if name in ("fpowi", "ipowi") or name not in _LIBM:
            raise CompilerError(f"math.{name} has no lowering")
        if not e.has_libm:
            return e.op(f"math.{name} {names} : {v[0].type}", v, element)
        return self._libm(_LIBM[name], v)

    def _libm(self, function: str, v: list[Val]) -> Val:
        element, lanes = v[0].element, v[0].lanes
        symbol = function + ("f" if element == "f32" else "")
        arguments = ", ".join([element] * len(v))
        self._e.externals[symbol] = f"llvm.func @{symbol}({arguments}) -> {element}"
        results = []
        for lane in range(max(lanes, 1)):
            scalars = [self._e.lane(x, lane, self._e.guard) for x in v]
            names = [s.name for s in scalars]
            text = f"llvm.call @{symbol}({', '.join(names)}) : ({arguments}) -> {element}"
            called = self._e.pure(text, names, least_depth=self._e.guard)
            results.append(Val(called, element))
        return self._e.gather_lanes(results) if lanes else results[0]

    # -- casts -----------------------------------------------------------------------------------
    def _index_cast(self, value: Val, element: str) -> Val:
        if value.element == element:
            return value
        return self._cast(
            "extsi" if BITS[element] > BITS[value.element] else "trunci", value, element
        )

    def _cast(self, name: str, value: Val, element: str) -> Val:
        e = self._e
        if value.element == element:
            return value
        if name == "bitcast":
            kind = Val("", element, value.lanes).type
            return e.op(f"arith.bitcast {value.name} : {value.type} to {kind}", [value], element)
        if value.element == "bf16":
            value = self._widen(value)
            if element == "f32":
                return value
        target = "f32" if element == "bf16" else element
        if value.element != target:
            kind = Val("", target, value.lanes).type
            value = e.op(f"arith.{name} {value.name} : {value.type} to {kind}", [value], target)
        return self._narrow(value, "bf16") if element == "bf16" else value

    def _widen(self, value: Val) -> Val:
        """f16 and bf16 are computed in f32 and rounded after each op, as ONNX's reference does."""
        e = self._e
        if value.element == "f16":
            kind = Val("", "f32", value.lanes).type
            return e.op(f"arith.extf {value.name} : {value.type} to {kind}", [value], "f32")
        if value.element != "bf16":
            return value
        half, word, wide = (Val("", t, value.lanes).type for t in ("i16", "i32", "f32"))
        bits = e.op(f"arith.bitcast {value.name} : {value.type} to {half}", [value], "i16")
        long = e.op(f"arith.extui {bits.name} : {half} to {word}", [bits], "i32")
        places = e.constant(16, "i32", value.lanes)
        high = e.op(f"arith.shli {long.name}, {places.name} : {word}", [long, places], "i32")
        return e.op(f"arith.bitcast {high.name} : {word} to {wide}", [high], "f32")

    def _narrow(self, value: Val, element: str) -> Val:
        """Round f32 to nearest even; bf16 by integer arithmetic (x86 has no conversion before
        AVX512_BF16).
        """
        e = self._e
        kind = Val("", element, value.lanes).type
        if element == "f16":
            return e.op(f"arith.truncf {value.name} : {value.type} to {kind}", [value], "f16")
        word, half = (Val("", t, value.lanes).type for t in ("i32", "i16"))
        bits = e.op(f"arith.bitcast {value.name} : {value.type} to {word}", [value], "i32")
        places = e.constant(16, "i32", value.lanes)
        one, bias = e.constant(1, "i32", value.lanes), e.constant(0x7FFF, "i32", value.lanes)
        high = e.op(f"arith.shrui {bits.name}, {places.name} : {word}", [bits, places], "i32")
        odd = e.op(f"arith.andi {high.name}, {one.name} : {word}", [high, one], "i32")
        up = e.op(f"arith.addi {bits.name}, {bias.name} : {word}", [bits, bias], "i32")
        up = e.op(f"arith.addi {up.name}, {odd.name} : {word}", [up, odd], "i32")
        rounded = e.op(f"arith.shrui {up.name}, {places.name} : {word}", [up, places], "i32")
        quiet = e.constant(0x40, "i32", value.lanes)
        nan = e.op(f"arith.ori {high.name}, {quiet.name} : {word}", [high, quiet], "i32")
        unordered = e.op(
            f"arith.cmpf uno, {value.name}, {value.name} : {value.type}", [value], "i1"
        )
        types = f"{unordered.type}, {word}" if value.lanes else word
        chosen = e.op(
            f"arith.select {unordered.name}, {nan.name}, {rounded.name} : {types}",
            [unordered, nan, rounded],
            "i32",
        )
        short = e.op(f"arith.trunci {chosen.name} : {word} to {half}", [chosen], "i16")
        return e.op(f"arith.bitcast {short.name} : {half} to {kind}", [short], "bf16")
