"""Integer arithmetic, bits and shifts."""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.emulator.ptx.syntax import Instruction
from rcompiler.emulator.ptx.types import DTYPES, bits_of, size_of
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form
from rcompiler.emulator.translate.moves import LOGIC, predicate_logic

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
PAIRS = ("u16x2", "s16x2")
_BITS = ("b16", "b32", "b64")
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_SYMBOLS = {"add": "+", "sub": "-", **LOGIC}
_EXTREMES = {"min": "np.minimum", "max": "np.maximum"}


# Name: its types; those of its operands, "" for its own; and what is computed of them.
_PLAIN: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "div": (INTEGERS, ("", ""), "I.divide({}, {})"),
    "rem": (INTEGERS, ("", ""), "I.remainder({}, {})"),
    "abs": (("s16", "s32", "s64"), ("",), "np.abs({})"),
    "neg": (("s16", "s32", "s64"), ("",), "-{}"),
    "bfe": (("u32", "s32", "u64", "s64"), ("", "u32", "u32"), "I.extract({}, {}, {})"),
    "bfi": (("b32", "b64"), ("", "", "u32", "u32"), "I.insert({}, {}, {}, {})"),
    "clz": (("b32", "b64"), ("",), "I.leading_zeros({})"),
    "popc": (("b32", "b64"), ("",), "I.population({})"),
    "brev": (("b32", "b64"), ("",), "I.reverse({})"),
    "prmt": (("b32",), ("u32", "u32", "u32"), "I.permute({}, {}, {})"),
}


def plain(e: Emitter, ins: Instruction, form: Form) -> None:
    """What has no modifiers but its type."""
    types, operands, text = _PLAIN[ins.name]
    type_ = form.type(*types)
    form.end(1 + len(operands))
    into, *given = ins.operands
    e.set(into, text.format(*(e.wide(o, t or type_) for o, t in zip(given, operands, strict=True))))


def _wide(e: Emitter, ins: Instruction, type_: str) -> list[str]:
    return [e.wide(operand, type_) for operand in ins.operands[1:]]


def _pairs(e: Emitter, ins: Instruction, form: Form, type_: str) -> None:
    """An operation on each half of 32-bit registers."""
    form.end(3)
    half = "i2" if type_ == "s16x2" else "u2"
    a, b = (f"np.ascontiguousarray({value}).view('{half}')" for value in _wide(e, ins, "b32"))
    name = _EXTREMES.get(ins.name) or ("np.add" if ins.name == "add" else "np.subtract")
    e.set(ins.operands[0], f"{name}({a}, {b}).view('u4')")


def add(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type(*INTEGERS, *PAIRS)
    if type_ in PAIRS:
        return _pairs(e, ins, form, type_)
    carry, saturate = form.flag("cc"), form.flag("sat")
    form.end(3)
    if carry:
        return _with_carry(e, ins, type_, carry_in=False, carry_out=True)
    a, b = (e.value(operand, type_) for operand in ins.operands[1:])
    if saturate:
        a, b = _wide(e, ins, type_)
        return e.set(ins.operands[0], f"I.saturating({a}, {b}, {ins.name == 'sub'})")
    e.set(ins.operands[0], f"{a} {_SYMBOLS[ins.name]} {b}")


def add_with_carry(e: Emitter, ins: Instruction, form: Form) -> None:
    type_, out = form.type(*INTEGERS), form.flag("cc")
    form.end(3)
    _with_carry(e, ins, type_, carry_in=True, carry_out=out)


def _with_carry(
    e: Emitter, ins: Instruction, type_: str, *, carry_in: bool, carry_out: bool
) -> None:
    """Subtraction adds the complement; its carry is the borrow, negated."""
    unsigned = f"u{8 * size_of(type_)}"
    a, b = (e.wide(operand, unsigned) for operand in ins.operands[1:3])
    subtract = ins.name.startswith("sub")
    carry = "S.carry" if carry_in else "S.wide(np.False_)"
    if subtract:
        b, carry = f"~({b})", f"~{carry}"
    e.line(f"v, c = I.add_carry({a}, {b}, {carry})")
    _finish_carry(e, ins, "~c" if subtract else "c", carry_out)


def _finish_carry(e: Emitter, ins: Instruction, carry: str, carry_out: bool) -> None:
    e.set(ins.operands[0], "v")
    if carry_out:
        e.line(f"S.carry = np.where({e.mask}, {carry}, S.carry)")


def multiply(e: Emitter, ins: Instruction, form: Form) -> None:
    type_, half = form.type(*INTEGERS), form.choice("lo", "hi", "wide", default="lo")
    form.end(3)
    e.set(ins.operands[0], _product(e, ins, form, type_, half))


def _product(e: Emitter, ins: Instruction, form: Form, type_: str, half: str) -> str:
    if half == "lo":
        a, b = (e.value(operand, type_) for operand in ins.operands[1:3])
        return f"{a} * {b}"
    a, b = (e.wide(operand, type_) for operand in ins.operands[1:3])
    if half == "hi":
        return f"I.multiply_high({a}, {b})"
    if type_ not in _WIDER:
        raise form.refuse("a wide product of 64 bits")
    return f"I.multiply_wide({a}, {b}, '{DTYPES[_WIDER[type_]]}')"


def multiply_add(e: Emitter, ins: Instruction, form: Form) -> None:
    type_, half = form.type(*INTEGERS), form.choice("lo", "hi", "wide", default="lo")
    carry_in, carry_out = ins.name == "madc", form.flag("cc")
    form.end(4)
    product = _product(e, ins, form, type_, half)
    of = _WIDER[type_] if half == "wide" else type_
    if carry_in or carry_out:
        unsigned = f"u{size_of(of)}"
        e.line(
            f"v, c = I.add_carry(S.wide({product}).view('{unsigned}'), "
            f"{e.wide(ins.operands[3], f'u{8 * size_of(of)}')}, "
            f"{'S.carry' if carry_in else 'S.wide(np.False_)'})"
        )
        return _finish_carry(e, ins, "c", carry_out)
    e.set(ins.operands[0], f"{product} + {e.value(ins.operands[3], of)}")


def multiply_24(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type("u32", "s32")
    form.flag("lo")
    form.end()
    a, b = (e.wide(operand, type_) for operand in ins.operands[1:3])
    plus = f" + {e.value(ins.operands[3], type_)}" if ins.name == "mad24" else ""
    e.set(ins.operands[0], f"I.multiply_24({a}, {b}){plus}")


def extreme(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type(*INTEGERS, *PAIRS)
    if type_ in PAIRS:
        return _pairs(e, ins, form, type_)
    relu = form.flag("relu")
    form.end(3)
    a, b = (e.value(operand, type_) for operand in ins.operands[1:])
    result = f"{_EXTREMES[ins.name]}({a}, {b})"
    e.set(ins.operands[0], f"np.maximum({result}, 0)" if relu else result)


def logic(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type(*_BITS, "pred")
    form.end()
    if type_ == "pred":
        return predicate_logic(e, ins)
    values = [e.value(operand, type_) for operand in ins.operands[1:]]
    if ins.name in ("not", "cnot") and len(values) == 1:
        bits = bits_of(type_)
        zero = f"({values[0]} == 0).astype('{bits}')"
        return e.set(ins.operands[0], f"~{values[0]}" if ins.name == "not" else zero)
    form.operands(3)
    e.set(ins.operands[0], f"{values[0]} {_SYMBOLS[ins.name]} {values[1]}")


def shift(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type(*INTEGERS, *_BITS)
    form.end(3)
    a, by = e.wide(ins.operands[1], type_), e.value(ins.operands[2], "u32")
    e.set(ins.operands[0], f"I.{'shift_left' if ins.name == 'shl' else 'shift_right'}({a}, {by})")


def funnel(e: Emitter, ins: Instruction, form: Form) -> None:
    form.type("b32")
    left, wrap = form.choice("l", "r") == "l", form.choice("wrap", "clamp") == "wrap"
    form.end(4)
    low, high, by = _wide(e, ins, "u32")
    e.set(ins.operands[0], f"I.funnel({low}, {high}, {by}, {left}, {wrap})")


def find(e: Emitter, ins: Instruction, form: Form) -> None:
    type_, amount = form.type("u32", "s32", "u64", "s64"), form.flag("shiftamt")
    form.end(2)
    e.set(ins.operands[0], f"I.find_bit({e.wide(ins.operands[1], type_)}, {amount})")


def logic3(e: Emitter, ins: Instruction, form: Form) -> None:
    form.type("b32")
    form.end(5)
    values = ", ".join(e.wide(operand, "u32") for operand in ins.operands[1:4])
    e.set(ins.operands[0], f"I.logic3({values}, {e.number(ins.operands[4]) & 255})")


def dot4(e: Emitter, ins: Instruction, form: Form) -> None:
    second, first = form.type("u32", "s32"), form.choice("u32", "s32")
    form.end(4)
    values = ", ".join(_wide(e, ins, "u32"))
    types = ["i1" if t == "s32" else "u1" for t in (first or second, second)]
    e.set(ins.operands[0], f"I.dot4({values}, ('{types[0]}', '{types[1]}'))")


HANDLERS: dict[str, Callable[[Emitter, Instruction, Form], None]] = {
    "add": add, "sub": add, "addc": add_with_carry, "subc": add_with_carry,
    "mul": multiply, "mad": multiply_add, "madc": multiply_add,
    "mul24": multiply_24, "mad24": multiply_24, "min": extreme, "max": extreme,
    "and": logic, "or": logic, "xor": logic, "not": logic, "cnot": logic,
    "shl": shift, "shr": shift, "shf": funnel, "bfind": find, "lop3": logic3, "dp4a": dot4,
    **dict.fromkeys(_PLAIN, plain),
}  # fmt: skip
