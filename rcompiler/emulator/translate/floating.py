"""Floating-point arithmetic, on single numbers and on packed pairs."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Instruction, Operand
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form

FLOATING = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*"}
_FMA = {"f16": "fma16", "f16x2": "fma16", "bf16": "fma_bf16", "bf16x2": "fma_bf16",
        "f32": "fma32", "f64": "fma64"}  # fmt: skip


class _Numbers:
    """How numbers of a type are read and written; flush: subnormal f32 as zeros."""

    def __init__(self, e: Emitter, type_: str, flush: bool) -> None:
        self.e, self.type, self.flush = e, type_, flush and type_ == "f32"
        self.brain = type_.startswith("bf16")

    def read(self, ins: Instruction) -> list[str]:
        return [self._read(operand) for operand in ins.operands[1:]]

    def _read(self, operand: Operand) -> str:
        e = self.e
        match self.type:
            case "f16x2":
                return f"F.halves({e.wide(operand, 'b32')}, 'f2')"
            case "bf16x2":
                return f"F.widen(F.halves({e.wide(operand, 'b32')}, 'u2'))"
            case "bf16":
                return f"F.widen({e.wide(operand, 'b16')})"
        value = e.value(operand, self.type)
        return f"F.flush({value})" if self.flush else value

    def write(
        self, ins: Instruction, value: str, *, rounded: bool = False, clamp: str = ""
    ) -> None:
        """value: of the numbers that were read. rounded: already bf16. clamp: saturate or relu."""
        if clamp:
            value = f"F.{clamp}(np.asarray({value}))"
        if self.flush:
            value = f"F.flush({value})"
        if self.brain and not rounded:
            value = f"F.bf16({value})"
        if self.type.endswith("x2"):
            value = f"np.ascontiguousarray({value}).view('u4')"
        self.e.set(ins.operands[0], value)


def _clamp(form: Form) -> str:
    return "saturate" if form.flag("sat") else "relu" if form.flag("relu") else ""


def _opened(e: Emitter, form: Form) -> _Numbers:
    type_ = form.type(*FLOATING)
    flush = form.flag("ftz")
    return _Numbers(e, type_, flush)


def binary(e: Emitter, ins: Instruction, form: Form) -> None:
    """add, sub, mul."""
    numbers, clamp = _opened(e, form), _clamp(form)
    form.flag("rn")
    form.end()
    form.operands(3)
    a, b = numbers.read(ins)
    numbers.write(ins, f"({a} {_SYMBOLS[ins.name]} {b})", clamp=clamp)


def fused(e: Emitter, ins: Instruction, form: Form) -> None:
    """fma; mad of floats is the same."""
    numbers, clamp = _opened(e, form), _clamp(form)
    form.flag("rn")
    form.end()
    form.operands(4)
    value = f"F.{_FMA[numbers.type]}({', '.join(numbers.read(ins))})"
    if numbers.brain and clamp:
        numbers.write(ins, f"F.widen({value})", clamp=clamp)
    else:
        numbers.write(ins, value, rounded=True, clamp=clamp)


def divide(e: Emitter, ins: Instruction, form: Form) -> None:
    numbers = _opened(e, form)
    form.choice("rn", "full", "approx")
    form.end()
    form.operands(3)
    a, b = numbers.read(ins)
    numbers.write(ins, f"({a} / {b})")


def extreme(e: Emitter, ins: Instruction, form: Form) -> None:
    numbers, nan = _opened(e, form), form.flag("NaN")
    form.end()
    form.operands(3)
    a, b = numbers.read(ins)
    numbers.write(ins, f"F.{'minimum' if ins.name == 'min' else 'maximum'}({a}, {b}, {nan})")


def sign(e: Emitter, ins: Instruction, form: Form) -> None:
    """abs, neg."""
    numbers = _opened(e, form)
    form.end()
    form.operands(2)
    (a,) = numbers.read(ins)
    numbers.write(ins, f"np.abs({a})" if ins.name == "abs" else f"np.negative({a})")


def copy_sign(e: Emitter, ins: Instruction, form: Form) -> None:
    numbers = _opened(e, form)
    form.end()
    form.operands(3)
    of, to = numbers.read(ins)
    numbers.write(ins, f"np.copysign({to}, {of})")


def elementary(e: Emitter, ins: Instruction, form: Form) -> None:
    """rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh."""
    numbers = _opened(e, form)
    form.choice("approx", "rn")
    form.end()
    form.operands(2)
    (a,) = numbers.read(ins)
    name = e.constant(ins.name)
    if ins.name == "sqrt":
        return numbers.write(ins, f"np.sqrt({a})")
    numbers.write(ins, f"F.approximate({name}, {a})")


def test_property(e: Emitter, ins: Instruction, form: Form) -> None:
    type_, tested = form.type("f32", "f64"), form.first()
    form.end()
    form.operands(2)
    a = e.value(ins.operands[1], type_)
    tiny = "2.0 ** -126" if type_ == "f32" else "2.0 ** -1022"
    tests = {
        "finite": f"np.isfinite({a})",
        "infinite": f"np.isinf({a})",
        "number": f"~np.isnan({a})",
        "notanumber": f"np.isnan({a})",
        "normal": f"(np.isfinite({a}) & (np.abs({a}) >= {tiny}))",
        "subnormal": f"((np.abs({a}) < {tiny}) & ({a} != 0))",
    }
    if tested not in tests:
        raise form.refuse(f"unknown property '.{tested}'")
    e.set(ins.operands[0], tests[tested])


HANDLERS = {
    "add": binary, "sub": binary, "mul": binary, "fma": fused, "mad": fused, "div": divide,
    "min": extreme, "max": extreme, "abs": sign, "neg": sign, "copysign": copy_sign,
    "testp": test_property,
    **dict.fromkeys(("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"), elementary),
}  # fmt: skip
