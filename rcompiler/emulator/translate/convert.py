"""Conversions between types."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Instruction
from rcompiler.emulator.ptx.types import DTYPES, FLOATS, size_of
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form

_WHOLE = ("rni", "rzi", "rmi", "rpi")
_NUMBERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", *sorted(FLOATS))


def convert(e: Emitter, ins: Instruction, form: Form) -> None:
    if len(ins.operands) == 3:
        return _pack(e, ins, form)
    form.operands(2)
    source = form.type(*_NUMBERS)
    into = form.type(*_NUMBERS, "tf32")
    mode = form.choice("rn", "rz", "rm", "rp", "rna", *_WHOLE)
    flush, saturate, relu = form.flag("ftz"), form.flag("sat"), form.flag("relu")
    form.end()
    value = e.value(ins.operands[1], source)
    if source == "bf16":
        value = f"F.widen(S.wide({value}))"
    if flush and source == "f32":
        value = f"F.flush({value})"
    if into == "tf32":
        return e.set(ins.operands[0], f"F.tf32({value})")
    if into not in FLOATS:
        return _to_integer(e, ins, form, value, source, into, mode, saturate)
    value = _to_float(form, value, source, into, mode)
    for wanted, name in ((saturate, "saturate"), (relu, "relu")):
        if wanted:
            if into == "bf16":
                raise form.refuse("clamped bf16")
            value = f"F.{name}(np.asarray({value}))"
    if flush and into == "f32":
        value = f"F.flush({value})"
    e.set(ins.operands[0], value, into)


def _to_integer(
    e: Emitter, ins: Instruction, form: Form, value: str, source: str, into: str, mode: str,
    saturate: bool,
) -> None:  # fmt: skip
    target = DTYPES[into]
    if source in FLOATS:
        if mode not in _WHOLE:
            raise form.refuse("a conversion to an integer without .rni, .rzi, .rmi or .rpi")
        return e.set(ins.operands[0], f"F.to_integer({value}, '{mode}', '{target}')", into)
    if saturate:
        value = f"I.clamp({value}, '{target}')"
    e.set(ins.operands[0], f"S.wide({value}).astype('{target}')", into)


def _to_float(form: Form, value: str, source: str, into: str, mode: str) -> str:
    target = "f4" if into == "bf16" else DTYPES[into]
    if source not in FLOATS:
        value = f"np.asarray({value}).astype('{target}')"
        if mode not in ("", "rn"):
            raise form.refuse("an integer converted to a float with another rounding than .rn")
        return f"F.bf16({value})" if into == "bf16" else value
    if mode in _WHOLE:
        value = f"F.integral({value}, '{mode}')"
        mode = ""
    if into == "bf16":
        if mode not in ("", "rn", "rz"):
            raise form.refuse("bf16 with another rounding than .rn or .rz")
        narrowed = value if source != "f64" else f"np.asarray({value}).astype('f4')"
        return f"F.{'bf16_down' if mode == 'rz' else 'bf16'}({narrowed})"
    if size_of(into) >= (4 if source == "bf16" else size_of(source)):
        return f"np.asarray({value}).astype('{target}')"
    if mode not in ("", "rn", "rz", "rm", "rp"):
        raise form.refuse("unknown rounding")
    return f"F.narrow(np.asarray({value}), '{target}', '{mode or 'rn'}')"


def _pack(e: Emitter, ins: Instruction, form: Form) -> None:
    """Two f32 into one register, the first one high."""
    form.type("f32")
    into, mode = form.choice("f16x2", "bf16x2"), form.choice("rn", "rz", default="rn")
    relu = form.flag("relu")
    form.end()
    high, low = (e.wide(operand, "f32") for operand in ins.operands[1:])
    if relu:
        high, low = f"F.relu({high})", f"F.relu({low})"
    if into == "f16x2":
        halves = [f"F.narrow({x}, 'f2', '{mode}').view('u2')" for x in (low, high)]
    elif into == "bf16x2":
        halves = [f"F.{'bf16' if mode == 'rn' else 'bf16_down'}({x})" for x in (low, high)]
    else:
        raise form.refuse("unknown packed type")
    e.set(ins.operands[0], f"np.stack(({', '.join(halves)}), axis=1).view('u4').ravel()")


HANDLERS = {"cvt": convert}
