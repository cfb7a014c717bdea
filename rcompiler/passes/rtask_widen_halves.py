"""rtask-widen-halves: networks of f16 compute in f32, and round what their results hold.

Before:
    %s = linalg.generic {arith.subf} ins(%x, %m) -> tensor<4x64xf16>
    %q = linalg.generic {arith.mulf} ins(%s, %s) -> tensor<4x64xf16>
    %y = linalg.generic {arith.addf} ins(%q, %b) -> tensor<4x64xf16>
    return %y
After:
    %s = linalg.generic {extf(x) - extf(m)} ins(%x, %m) -> tensor<4x64xf32>
    %q = linalg.generic {arith.mulf} ins(%s, %s) -> tensor<4x64xf32>
    %y = linalg.generic {truncf(q + extf(b))} ins(%q, %b) -> tensor<4x64xf16>
    return %y
For CPUs, which multiply and add f32: a square of 300 or a score before it is scaled is more than
f16 holds, and a conversion between two ops takes more than the ops. So what tensors hold is the
same on every CPU, whichever ops are fused. In 16 bits stay
    constants, and what is computed of nothing else: weights;
    inputs, and what only moves their elements;
    what a function returns, and what is moved to be returned: what reads it reads that;
    what the model itself rounds: an arith.truncf with a rounding mode, of a Cast;
    what goes to an op that the pass does not know, such as a loop over single elements.

Options: sums, for GPUs, whose matrix units multiply 16 bits, and where a byte of memory takes more
time than a conversion: f32 is what is summed up over axes and what is computed of that alone,
means and variances; all else stays as it is.
operators, for all devices: within an rOperator the same is done to what it does not yield, up to
the factors of products of 16 bits; what is left is computed in f32 up to where it is stored.
bf16, which has the range of f32: also that.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.dialects.uses import tensors_used
from rcompiler.linalg.bodies import copied_argument, is_elementwise
from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import defining, element_type, integers, ops_of, shape_of
from rcompiler.passes import Pass
from rcompiler.passes.halves.stored import ROUNDING, computes, handed_on, moves, sums, weights
from rcompiler.passes.halves.wide_body import WideBody
from rcompiler.passes.ir.clone import remap
from rcompiler.passes.ir.operators import bodies, nested, operators
from rcompiler.passes.ir.tensor_ir import elementwise, empty, fill, generic, padded


@dataclass(frozen=True)
class RTaskWidenHalves(Pass):
    """Let what computes in 16 bits compute f32, and round what is stored.

    Attributes:
        operators: of rOperators, what each yields is stored; otherwise what a function returns.
        sums: of a function, widen what is summed up over axes, and what is computed of that alone.
        bf16: also networks of bf16.
    """

    operators: bool = False
    sums: bool = False
    bf16: bool = False

    def run(self, module: ir.Operation) -> None:
        elements: list[ir.Type] = [ir.F16Type.get(module.context)]
        elements += [ir.BF16Type.get(module.context)] if self.bf16 else []
        blocks = bodies(module)
        if self.operators:
            blocks = [op.regions[0].blocks[0] for op in operators(module)]
        for element in elements:
            for block in blocks:
                _Widener(element, self.operators or self.sums, self.sums).widen(block)
        if self.operators:
            _forget_rounding_modes(module)


def _forget_rounding_modes(module: ir.Operation) -> None:
    """From here on each arith.truncf rounds."""
    for op in nested(module):
        if op.name == "arith.truncf" and ROUNDING in op.attributes:
            del op.attributes[ROUNDING]


class _Widener:
    """Widens the tensors of one function, or of one rOperator."""

    def __init__(self, element: ir.Type, keeps_factors: bool, only_sums: bool) -> None:
        self._element = element
        self._f32 = ir.F32Type.get(element.context)
        self._keeps_factors = keeps_factors
        self._only_sums = only_sums
        self._stored: set[ir.Value] = set()
        self._wide: dict[ir.Value, ir.Value] = {}  # of f32, by what they stand for

    def widen(self, block: ir.Block) -> None:
        """Rewrite all ops of a block."""
        ops = ops_of(block)
        if not any(self._is_half(result) for op in ops for result in op.results):
            return
        constant = weights(ops)
        self._stored = handed_on(ops, self._factors if self._keeps_factors else None)
        if self._only_sums:
            self._stored |= {v for op in ops for v in op.results} - sums(ops, constant)
        rewritten = [op for op in ops if not constant.issuperset(op.results) and self._rewrite(op)]
        for op in reversed(rewritten):
            op.erase()

    def _factors(self, op: ir.Operation) -> list[ir.Value]:
        """What a product multiplies, if both are of 16 bits: matrix units read them as they are."""
        found = [v for v in op.operands if self._is_half(v)]
        return found if len(found) > 1 and Generic(op).reduction_dims else []

    def _is_half(self, value: ir.Value) -> bool:
        return isinstance(value.type, ir.RankedTensorType) and element_type(value) == self._element

    def _rewrite(self, op: ir.Operation) -> bool:
        """Put another op in the place of one; False: it stays."""
        used = list(tensors_used(op))
        if not any(self._is_half(v) for v in (*op.results, *used)):
            return False
        leaves = moves(op) or (self._only_sums and self._stored.issuperset(op.results))
        if leaves and not any(v in self._wide for v in used):
            return False
        with ir.InsertionPoint(op), op.location:
            if computes(op):
                self._widen_generic(Generic(op))
            elif moves(op):
                self._wide[op.results[0]] = self._moved(op)
            else:
                return False
        return True

    def _widen_generic(self, old: Generic) -> None:
        operands = [self._wide.get(v, v) for v in old.inputs]
        inits = [
            init if result in self._stored and not used else self._widened(init)
            for init, result, used in zip(old.inits, old.op.results, old.init_used, strict=True)
        ]
        new = generic(operands, inits, old.maps, old.kinds)
        kinds = [element_type(v) for v in new.operands]
        block = new.regions[0].blocks.append(*kinds, arg_locs=[old.op.location] * len(kinds))
        with ir.InsertionPoint(block):
            body = WideBody(self._element, lambda v: self._wide.get(v, v))
            body.copy(old.block, list(block.arguments), kinds[len(operands) :])
        results = list(new.results)
        if _is_identity(Generic(new)):  # a rounding or an extension that is gone
            results = operands
            new.erase()
        for before, after in zip(old.op.results, results, strict=True):
            if before.type == after.type:
                before.replace_all_uses_with(after)
            elif before in self._stored:
                before.replace_all_uses_with(self._narrow(after))
            else:
                self._wide[before] = after

    def _moved(self, op: ir.Operation) -> ir.Value:
        """The result of an op of tensor that moves elements, in f32."""
        values = {v: self._widened(v) for v in op.operands if self._is_half(v)}
        if op.name == "tensor.pad":
            low, high = (integers(op, name) for name in ("static_low", "static_high"))
            number = arith.constant(self._f32, scalar_number(pad_value(op)))
            return padded(values[op.operands[0]], low, high, number)
        copy = op.clone()
        remap(copy, values)
        [result] = copy.results
        result.set_type(ir.RankedTensorType.get(shape_of(result), self._f32))
        return result

    def _widened(self, value: ir.Value) -> ir.Value:
        """A tensor in f32, if it is one of 16 bits."""
        if value in self._wide or not self._is_half(value):
            return self._wide.get(value, value)
        op = defining(value)
        if op is not None and op.name == "tensor.empty":
            return empty(shape_of(value), self._f32)
        if op is not None and op.name == "linalg.fill":
            scalar = scalar_number(op.operands[0])
            if scalar is not None:
                return fill(arith.constant(self._f32, scalar), shape_of(value))
        return elementwise([value], self._f32, lambda half: arith.extf(self._f32, half))

    def _narrow(self, wide: ir.Value) -> ir.Value:
        return elementwise([wide], self._element, lambda x: arith.truncf(self._element, x))


def _is_identity(op: Generic) -> bool:
    """Whether an op gives its one operand as it is."""
    same = [v.type for v in op.inputs] == [v.type for v in op.op.results]
    return same and copied_argument(op.block) == 0 and is_elementwise(op) and len(set(op.maps)) == 1
