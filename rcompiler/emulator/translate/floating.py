"""Floating-point arithmetic, on single numbers and on packed pairs."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Instruction
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form

FLOATING = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
# Name: roundings, of which one may be named; number of operands; what is computed of them.
_ARITHMETIC: dict[str, tuple[tuple[str, ...], int, str]] = {
    "add": (("rn",), 2, "({} + {})"),
    "sub": (("rn",), 2, "({} - {})"),
    "mul": (("rn",), 2, "({} * {})"),
    "div": (("rn", "full", "approx"), 2, "({} / {})"),
    "abs": ((), 1, "np.abs({})"),
    "neg": ((), 1, "np.negative({})"),
    "copysign": ((), 2, "np.copysign({1}, {0})"),
}
_FMA = {"f16": "fma16", "f16x2": "fma16", "bf16": "fma_bf16", "bf16x2": "fma_bf16",
        "f32": "fma32", "f64": "fma64"}  # fmt: skip


class _Numbers:
    """How numbers of a type are read and written; flush: subnormal f32 as zeros."""

    def __init__(self, e: Emitter, type_: str, flush: bool) -> None:
        self.e, self.type, self.flush = e, type_, flush and type_ == "f32"
        self.brain = type_.startswith("bf16")

    def read(self, ins: Instruction) -> list[str]:
        return [self.e.number_value(o, self.type, self.flush) for o in ins.operands[1:]]

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


def arithmetic(e: Emitter, ins: Instruction, form: Form) -> None:
    """What has no modifiers but those of rounding."""
    rounding, count, text = _ARITHMETIC[ins.name]
    numbers = _opened(e, form)
    clamp = _clamp(form) if ins.name in ("add", "sub", "mul") else ""
    form.choice(*rounding)
    form.end(1 + count)
    numbers.write(ins, text.format(*numbers.read(ins)), clamp=clamp)


def fused(e: Emitter, ins: Instruction, form: Form) -> None:
    """fma; mad of floats is the same."""
    numbers, clamp = _opened(e, form), _clamp(form)
    form.flag("rn")
    form.end(4)
    value = f"F.{_FMA[numbers.type]}({', '.join(numbers.read(ins))})"
    if numbers.brain and clamp:
        numbers.write(ins, f"F.widen({value})", clamp=clamp)
    else:
        numbers.write(ins, value, rounded=True, clamp=clamp)


def extreme(e: Emitter, ins: Instruction, form: Form) -> None:
    numbers, nan = _opened(e, form), form.flag("NaN")
    form.end(3)
    a, b = numbers.read(ins)
    numbers.write(ins, f"F.{'minimum' if ins.name == 'min' else 'maximum'}({a}, {b}, {nan})")


def elementary(e: Emitter, ins: Instruction, form: Form) -> None:
    """rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh."""
    numbers = _opened(e, form)
    form.choice("approx", "rn")
    form.end(2)
    (a,) = numbers.read(ins)
    name = e.constant(ins.name)
    if ins.name == "sqrt":
        return numbers.write(ins, f"np.sqrt({a})")
    numbers.write(ins, f"F.approximate({name}, {a})")


def test_property(e: Emitter, ins: Instruction, form: Form) -> None:
    type_, tested = form.type("f32", "f64"), form.first()
    form.end(2)
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
    "fma": fused, "mad": fused, "min": extreme, "max": extreme, "testp": test_property,
    **dict.fromkeys(_ARITHMETIC, arithmetic),
    **dict.fromkeys(("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"), elementary),
}  # fmt: skip
