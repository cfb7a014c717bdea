"""Scalar bodies of linalg ops, evaluated on scalars or whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.body_plan import BodyOp, BodyPlan
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.half_math import HalfMath
from rcompiler.kernelgen.narrowing import are_two_halves, cut_to_bytes
from rcompiler.kernelgen.quotient import nearest, quotient
from rcompiler.kernelgen.remainder import remainder
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.vector_math import VectorMath
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import BITS
from rcompiler.linalg.values import last_of

_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_CASTS = frozenset("extf truncf extsi extui trunci sitofp uitofp fptosi fptoui bitcast".split())
# One x86 or LLVM intrinsic for each lane, exact; no library call (roundeven and friends need
# SSE4.1: see _ROUNDING).
_DIRECT = {"absf", "absi", "sqrt", "copysign", "ctpop", "ctlz", "cttz"}
_ROUNDING = {"roundeven", "floor", "ceil", "trunc", "round"}
# Functions of the math library, by those of the dialects math and arith.
_LIBM = {
    name: name
    for name in (
        "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log1p log2 "
        "log10 cbrt erf erfc atan2 floor ceil trunc round"
    ).split()
} | {"powf": "pow", "remf": "fmod", "roundeven": "nearbyint"}


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
        self._halves = HalfMath(emitter)
        self._ops: dict[ir.Operation, BodyOp] = {}
        self._constants: dict[BodyOp, Val] = {}
        self._plans: dict[ir.Block, BodyPlan] = {}
        self._partial: dict[tuple[ir.Block | ir.Value, ...], BodyPlan] = {}
        self._scalars: dict[ir.Value, BodyPlan] = {}

    def run(
        self, block: ir.Block, arguments: list[Val], dims: list[Linear], lanes: int
    ) -> list[Val]:
        """The values yielded by `block` for the given argument values and iteration-space
        coordinates.
        """
        plan = self._plans.get(block)
        if plan is None:
            wanted = list(last_of(block).operands)
            plan = self._plans[block] = self._new_plan(block, wanted)
        return self._values(plan, arguments, dims, lanes)

    def values(
        self,
        block: ir.Block,
        arguments: list[Val],
        dims: list[Linear],
        lanes: int,
        wanted: list[ir.Value],
    ) -> list[Val]:
        """Some values of `block`, and no more of it than they need."""
        key = block, *wanted
        plan = self._partial.get(key)
        if plan is None:
            plan = self._partial[key] = self._new_plan(block, wanted)
        return self._values(plan, arguments, dims, lanes)

    def scalar(self, value: ir.Value) -> Val:
        """A scalar defined by constants and arith ops outside any body."""
        plan = self._scalars.get(value)
        if plan is None:
            plan = self._scalars[value] = BodyPlan((), (), [value], self._known, rounds=False)
        return self._values(plan, [], [], 0)[0]

    def _new_plan(self, block: ir.Block, wanted: list[ir.Value]) -> BodyPlan:
        ops = (self._known(view.operation) for view in block.operations)
        arguments = list(block.arguments)
        return BodyPlan(ops, arguments, wanted, self._known, rounds=self._e.has_libm)

    def _known(self, op: ir.Operation) -> BodyOp:
        found = self._ops.get(op)
        if found is None:
            found = self._ops[op] = BodyOp(op)
        return found

    def _values(
        self, plan: BodyPlan, arguments: list[Val], dims: list[Linear], lanes: int
    ) -> list[Val]:
        env: list[Val | None] = [*arguments, *[None] * (plan.size - len(arguments))]
        for op, slots, result in plan.steps:
            name = op.full_name
            if name == "linalg.index":
                env[result] = self._index(op, dims[op.dim], lanes)
            elif name == "affine.apply":
                known = {
                    v: x.linear
                    for v, slot in zip(op.operands, slots, strict=True)
                    if slot >= 0 and (x := env[slot]) is not None and x.linear is not None
                }
                env[result] = self._index(op, self._position(op.op, known, lanes), lanes)
            else:
                operands = [env[slot] or self._outside(plan, env, slot) for slot in slots]
                if name == "tensor.extract":
                    env[result] = self._extract(op.operands[0], operands, lanes)
                elif name == "arith.fptosi" and self._e.has_libm and op.rounds:
                    env[result] = nearest(self._e, operands[0])
                else:
                    env[result] = self._op(op, operands)
        return [env[slot] or self._outside(plan, env, slot) for slot in plan.wanted]

    def _outside(self, plan: BodyPlan, env: list[Val | None], slot: int) -> Val:
        """A scalar that a body reads from outside, e.g. in front of a linalg.fill."""
        op, slots, _ = plan.outside[slot]
        operands = [env[each] or self._outside(plan, env, each) for each in slots]
        found = env[slot] = self._op(op, operands)
        return found

    def _index(self, op: BodyOp, position: Linear, lanes: int) -> Val:
        """A position; one that only an affine.apply reads has no value of its own."""
        if op.is_for_positions:
            return Val("", "i64", lanes, position)
        return self._e.materialise(position, lanes)

    def _constant(self, op: BodyOp) -> Val:
        value = self._constants.get(op)
        if value is None:
            value = self._e.constant(op.number, op.element)
            if op.element == "i64":
                value = Val(value.name, "i64", 0, Linear(int(op.number)))
            self._constants[op] = value
        return value

    def _extract(self, tensor: ir.Value, values: list[Val], lanes: int) -> Val:
        if all(v.linear is not None or not v.lanes for v in values):
            return self._read(tensor, [self._symbol(v) for v in values], lanes)
        scalars = [
            self._read(tensor, [self._symbol(v, lane) for v in values], 0) for lane in range(lanes)
        ]
        return self._e.gather_lanes(scalars)

    def _symbol(self, value: Val, lane: int | None = None) -> Linear:
        if lane is None:
            return value.symbol
        if value.linear is not None:
            return value.linear.at_lane(lane)
        return self._e.lane(value, lane).symbol

    # -- one op ----------------------------------------------------------------------------------
    def op(self, op: ir.Operation, operands: list[Val]) -> Val:
        """One arith or math op."""
        return self._op(self._known(op), operands)

    def _op(self, op: BodyOp, operands: list[Val]) -> Val:
        dialect, name, element = op.dialect, op.name, op.element
        if op.full_name == "arith.constant":
            return self._constant(op)
        width = max([v.lanes for v in operands], default=0)
        operands = [v if v.lanes == width else self._e.splat(v, width) for v in operands]
        if dialect == "arith" and name == "index_cast":
            return self._index_cast(operands[0], element)
        if dialect == "arith" and name == "index_castui":
            return self._cast("extui", operands[0], element)
        if element == "f16" and self._e.has_libm and (done := self._halves.op(op.op, operands)):
            return done
        small = element if element in ("f16", "bf16") else ""
        if dialect == "arith" and name in _CASTS:
            result = self._cast(name, operands[0], element)
            return _with_extensions(op, operands[0], result) if name == "trunci" else result
        if op.has_halves and name != "select":
            operands, element = [self.widen(v) for v in operands], "f32" if small else element
        result = self._compute(dialect, name, op, operands, element)
        return self.narrow(result, small) if small and result.element == "f32" else result

    def _compute(self, dialect: str, name: str, op: BodyOp, v: list[Val], element: str) -> Val:
        e = self._e
        if dialect == "arith":
            if name in ("cmpi", "cmpf"):
                predicates = _CMPI if name == "cmpi" else _CMPF
                return e.compare(predicates[op.predicate], *v)
            if name == "select":
                return e.select(*v)
            if name == "divf" and e.has_fma and e.has_libm and op.division is not None:
                return quotient(e, v[0], op.division)
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
            return self._linear(name, v, e.elementwise(op.full_name, *v))
        if dialect == "math":
            return self._math_op(name, v, element)
        raise CompilerError(f"{op.full_name} cannot stand in a linalg body")

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
            if not b.is_constant:
                return result
            return result._replace(linear=a * b.constant)
        return result._replace(linear=a + (b if name == "addi" else b * -1))

    def _divide(self, name: str, a: Val, b: Val) -> Val:
        """Integer division that cannot trap: x / 0 = x / 1, and INT_MIN / -1 wraps."""
        e = self._e
        one, zero = e.constant(1, a.element, a.lanes), e.constant(0, a.element, a.lanes)
        safe = e.select(e.compare("eq", b, zero), one, b)
        if name in ("divui", "remui"):
            return e.elementwise(f"arith.{name}", a, safe)
        is_minus = e.compare("eq", b, -1)
        plain = e.elementwise(f"arith.{name}", a, e.select(is_minus, one, safe))
        if name == "remsi":
            return plain  # x % 1 == 0 == x % -1
        return e.select(is_minus, e.sub(zero, a), plain)

    def _math_op(self, name: str, v: list[Val], element: str) -> Val:
        e = self._e
        if name == "fma":
            return e.fma(*v)
        if name in _DIRECT or name in _ROUNDING:
            return e.math(name, *v)
        if name == "rsqrt":
            return e.div(1.0, e.sqrt(*v))
        if element == "f32" and (done := self._math.apply(name, v[0])) is not None:
            return done
        if name in ("fpowi", "ipowi") or name not in _LIBM:
            raise CompilerError(f"math.{name} has no lowering")
        if not e.has_libm:
            return e.math(name, *v)
        return self._libm(_LIBM[name], v)

    def _libm(self, function: str, v: list[Val]) -> Val:
        element, lanes = v[0].element, v[0].lanes
        symbol = function + ("f" if element == "f32" else "")
        arguments = ", ".join([element] * len(v))
        self._e.externals[symbol] = f"llvm.func @{symbol}({arguments}) -> {element}"
        ops, results = self._e.guarded, []
        for lane in range(max(lanes, 1)):
            scalars = [ops.lane(x, lane) for x in v]
            results.append(ops.call(symbol, scalars, element))
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
            return e.bitcast(value, element)
        wide = dict(value.extended).get(name)
        if wide is not None and BITS[element] <= BITS[wide.element]:
            return self._cast("trunci", wide, element)
        if value.element == "bf16":
            value = self.widen(value)
            if element == "f32":
                return value
        target = "f32" if element == "bf16" else element
        if (value.element, target) == ("i32", "i8") and are_two_halves(e, value):
            return cut_to_bytes(e, value)
        if value.element != target:
            value = e.convert(name, value, target)
        return self.narrow(value, "bf16") if element == "bf16" else value

    def widen(self, value: Val) -> Val:
        """f16 and bf16 are computed in f32 and rounded after each op, as ONNX's reference does."""
        e = self._e
        if value.element == "f16":
            return e.convert("extf", value, "f32")
        if value.element != "bf16":
            return value
        word = e.convert("extui", e.bitcast(value, "i16"), "i32")
        return e.bitcast(e.shift_left(word, 16), "f32")

    def narrow(self, value: Val, element: str) -> Val:
        """Round f32 to nearest even; bf16 by integer arithmetic (x86 has no conversion before
        AVX512_BF16).
        """
        e = self._e
        if element == "f16":
            return e.convert("truncf", value, "f16")
        bits = e.bitcast(value, "i32")
        places, one, bias = (e.constant(n, "i32", value.lanes) for n in (16, 1, 0x7FFF))
        high = e.shift_right_unsigned(bits, places)
        odd = e.bit_and(high, one)
        rounded = e.shift_right_unsigned(e.add(e.add(bits, bias), odd), places)
        nan = e.bit_or(high, 0x40)
        chosen = e.select(e.compare("uno", value, value), nan, rounded)
        return e.bitcast(e.convert("trunci", chosen, "i16"), element)


def _with_extensions(op: BodyOp, wide: Val, result: Val) -> Val:
    """The result of an arith.trunci with what its extensions are equal to."""
    return result._replace(extended=tuple((kind, wide) for kind in op.keeps))
