"""Operations of `math`, and those of `arith` that have no instruction, without a device library.

MLIR's own lowering makes a call into libdevice (ocml) of each of them, also of floor and sqrt. Here
they become intrinsics that every LLVM back end for GPUs has as instructions, exact in the sense of
IEEE 754; or functions of the device (`device_function`); or, where the operation allows it by the
fastmath flag `afn`, the approximations that the hardware has.

    %y = math.sqrt %x : vector<4xf32>  ->  llvm.call_intrinsic "llvm.sqrt.v4f32"(%x)
    %y = math.sin %x : f16             ->  func.call @__rc_sin, in f32
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from rcompiler.kernelgen.elementary.device_function import available, device_function, symbol
from rcompiler.passes import PassFailure
from rcompiler.passes.gpu.scalars import each_lane, in_f32, intrinsic, is_vector, lane_type
from rcompiler.passes.ir.operators import nested

# Exact on every type; llvm.intr operations would be legalised away, calls of intrinsics are not.
_EXACT = {
    **{
        f"math.{name}": name
        for name in ("sqrt", "floor", "ceil", "trunc", "roundeven", "round", "copysign", "fma")
    },
    "math.absf": "fabs",
    "math.absi": "abs",
    "math.ctpop": "ctpop",
    "math.ctlz": "ctlz",
    "math.cttz": "cttz",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
    "vector.fma": "fma",  # MLIR makes fmuladd of it, which need not round once
}
_FLAGGED = ("abs", "ctlz", "cttz")  # an i1 says whether INT_MIN or 0 may give poison
_ELEMENTARY = ("arith.remf",)  # and all of math


# Intrinsics of f32 for operations with `afn`; exp and log are made of exp2 and log2.
Approximations = Mapping[str, str]
AMD: Approximations = {
    "exp2": "llvm.exp2.f32",
    "log2": "llvm.log2.f32",
    "rsqrt": "llvm.amdgcn.rsq.f32",
    "sin": "llvm.sin.f32",
    "cos": "llvm.cos.f32",
    "sqrt": "llvm.sqrt.f32",
}
_NVIDIA: Approximations = {
    **AMD,
    "log2": "llvm.nvvm.lg2.approx.f",
    "rsqrt": "llvm.nvvm.rsqrt.approx.f",
}


def nvidia(architecture: int) -> Approximations:
    """Those of sm_<architecture>."""
    return {**_NVIDIA, "tanh": "llvm.tanh.f32"} if architecture >= 75 else _NVIDIA


def lower_math(gpu_module: ir.Operation, approximations: Approximations) -> None:
    """Rewrite all of them in a gpu.module, in place.

    Raises PassFailure for an operation or type without an expansion.
    """
    functions: dict[tuple[str, str], None] = {}
    for op in _found(gpu_module):
        _Rewrite(op, approximations, functions).run()
    if not functions:
        return
    text = "\n".join(device_function(*function) for function in functions)
    written = ir.Module.parse(text, gpu_module.context)
    block = gpu_module.regions[0].blocks[0]
    for view in list(written.body.operations):
        block.append(view.operation)
    for op in _found(gpu_module):  # those of the functions: exact ones only
        _Rewrite(op, approximations, functions).run()


def _found(gpu_module: ir.Operation) -> list[ir.Operation]:
    return [
        op
        for op in nested(gpu_module)
        if op.name.startswith("math.") or op.name in _EXACT or op.name in _ELEMENTARY
    ]


class _Rewrite:
    """One operation and what stands for it."""

    def __init__(
        self,
        op: ir.Operation,
        approximations: Approximations,
        functions: dict[tuple[str, str], None],
    ) -> None:
        """functions: gets names and types of the device functions that are called."""
        self._op, self._functions = op, functions
        self._name = op.name.partition(".")[2]
        self._fast = {}
        if "fastmath" in op.attributes and _approximate(str(op.attributes["fastmath"])):
            self._fast = dict(approximations)

    def run(self) -> None:
        op = self._op
        with op.location, ir.InsertionPoint(op):
            kind = op.results[0].type
            element = lane_type(kind)
            base = {"exp": "exp2", "log": "log2"}.get(self._name, self._name)
            fast = base in self._fast and not isinstance(element, ir.F64Type)
            if op.name in _EXACT and not fast:
                result = self._exact(kind, element)
            else:
                function = self._approximated if fast else self._computed(element)
                result = each_lane(list(op.operands), kind, lambda v: in_f32(v, function))
        op.results[0].replace_all_uses_with(result)
        op.erase()

    def _exact(self, kind: ir.Type, element: ir.Type) -> ir.Value:
        name = _EXACT[self._op.name]

        def call(values: Sequence[ir.Value]) -> ir.Value:
            of = values[0].type
            operands = list(values)
            if name in _FLAGGED:
                operands.append(arith.constant(ir.IntegerType.get_signless(1), False))
            lanes = f"v{ir.VectorType(of).shape[0]}" if is_vector(of) else ""
            return intrinsic(f"llvm.{name}.{lanes}{element}", operands, of)

        if isinstance(element, ir.IndexType):
            raise self._refused(element)
        operands = list(self._op.operands)
        if is_vector(kind) and ir.VectorType(kind).rank != 1:  # LLVM has no others
            return each_lane(operands, kind, call)
        return call(operands)

    def _computed(self, element: ir.Type) -> Callable[[Sequence[ir.Value]], ir.Value]:
        """By IEEE operations, on f64, or else on f32."""
        if self._name == "rsqrt":
            return _reciprocal_root
        if not available(self._name):
            raise self._refused(element)
        kind = element if isinstance(element, ir.F64Type) else ir.F32Type.get()
        self._functions.setdefault((self._name, str(kind)))
        callee = symbol(self._name, str(kind))
        return lambda values: func.call([kind], callee, list(values))

    def _approximated(self, values: Sequence[ir.Value]) -> ir.Value:
        f32, name = ir.F32Type.get(), self._name
        if name == "exp":
            values = [arith.mulf(values[0], arith.constant(f32, 1 / math.log(2)))]
            name = "exp2"
        if name == "log":
            root = intrinsic(self._fast["log2"], values, f32, fast=True)
            return arith.mulf(root, arith.constant(f32, math.log(2)))
        return intrinsic(self._fast[name], values, f32, fast=True)

    def _refused(self, element: ir.Type) -> PassFailure:
        return PassFailure(
            self._op,
            f"'{self._op.name}' of {element} has no expansion for GPUs without a device library; "
            "compute it in f32, or from operations that have one",
        )


def _approximate(flags: str) -> bool:
    names = flags.partition("<")[2].rstrip(">").split(",")
    return "afn" in names or "fast" in names


def _reciprocal_root(values: Sequence[ir.Value]) -> ir.Value:
    kind = values[0].type
    root = intrinsic(f"llvm.sqrt.{kind}", values, kind)
    return arith.divf(arith.constant(kind, 1.0), root)
