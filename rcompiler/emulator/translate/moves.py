"""Moving, choosing and comparing."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Instruction, Pair, Vector
from rcompiler.emulator.ptx.types import FLOATS, size_of
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
LOGIC = {"and": "&", "or": "|", "xor": "^"}
_READ_AS = {"bf16": "f32", "bf16x2": "f32", "f16x2": "f16"}  # types that numpy compares as others
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def move(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type()
    form.end(2)
    into, source = ins.operands
    if isinstance(into, Vector):
        return _unpack(e, into, e.wide(source, type_), type_)
    if isinstance(source, Vector):
        return e.set(into, _pack(e, source, type_))
    e.set(into, e.value(source, type_))


def _unpack(e: Emitter, into: Vector, value: str, type_: str) -> None:
    width = size_of(type_) // len(into.items)
    e.line(f"v = np.ascontiguousarray({value}).view('u{width}').reshape(-1, {len(into.items)})")
    for k, item in enumerate(into.items):
        e.set(item, f"np.ascontiguousarray(v[:, {k}])")


def _pack(e: Emitter, source: Vector, type_: str) -> str:
    width = 8 * size_of(type_) // len(source.items)
    parts = ", ".join(e.wide(item, f"b{width}") for item in source.items)
    return f"np.stack(({parts},), axis=1).view('u{size_of(type_)}').ravel()"


def select(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type()
    form.end(4)
    into, yes, no, which = ins.operands
    e.set(into, f"np.where({e.value(which, 'pred')}, {e.value(yes, type_)}, {e.value(no, type_)})")


def _comparison(e: Emitter, form: Form, a: str, b: str, compare: str, type_: str) -> str:
    floating = type_ in FLOATS
    if compare in ("num", "nan"):
        nan = f"(np.isnan({a}) | np.isnan({b}))"
        return nan if compare == "nan" else f"~{nan}"
    if compare in _UNSIGNED:
        return f"({a} {_UNSIGNED[compare]} {b})"
    if compare[:-1] in _COMPARE and floating:  # unordered: true of NaN
        return f"(({a} {_COMPARE[compare[:-1]]} {b}) | np.isnan({a}) | np.isnan({b}))"
    if compare not in _COMPARE:
        raise form.refuse(f"unknown comparison '.{compare}'")
    if compare == "ne" and floating:
        return f"(({a} != {b}) & ~np.isnan({a}) & ~np.isnan({b}))"
    return f"({a} {_COMPARE[compare]} {b})"


def set_predicate(e: Emitter, ins: Instruction, form: Form) -> None:
    """A comparison, and what it is combined with by a fourth operand.

    Two predicates are it and its opposite; of packed pairs, those of the lower and the upper
    numbers (PTX ISA 9.7.7.2).
    """
    type_, compare = form.type(), form.first()
    combine = form.choice("and", "or", "xor")
    flush = form.flag("ftz")
    form.end()
    into, a, b = ins.operands[0], *(e.number_value(o, type_, flush) for o in ins.operands[1:3])
    form.operands(4 if combine else 3)
    kind, packed = _READ_AS.get(type_, type_), type_ in ("f16x2", "bf16x2")
    result = _comparison(e, form, a, b, compare, kind)
    other = f" {LOGIC[combine]} {e.value(ins.operands[3], 'pred')}" if combine else ""
    if not isinstance(into, Pair):
        if packed:
            raise form.refuse("two predicates are needed for the comparison of pairs")
        return e.set(into, f"{result}{other}")
    e.line(f"c = {result if packed else f'S.wide({result})'}")
    first, second = ("c[0::2]", "c[1::2]") if packed else ("c", "~c")
    e.line(f"c, d = {first}{other}, {second}{other}")  # `other` may be one of the two results
    e.set(into.first, "c")
    e.set(into.second, "d")


def predicate_logic(e: Emitter, ins: Instruction) -> None:
    symbol = LOGIC.get(ins.name)
    values = [e.value(operand, "pred") for operand in ins.operands[1:]]
    if ins.name == "not" and len(values) == 1:
        return e.set(ins.operands[0], f"~S.wide({values[0]})")
    if symbol is None or len(values) != 2:
        raise e.refuse("unknown form")
    e.set(ins.operands[0], f"{values[0]} {symbol} {values[1]}")


HANDLERS = {"mov": move, "selp": select, "setp": set_predicate}
