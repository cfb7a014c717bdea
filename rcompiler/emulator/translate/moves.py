"""Moving, choosing and comparing."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Instruction, Pair, Vector
from rcompiler.emulator.ptx.types import FLOATS, size_of
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def move(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type()
    form.end()
    form.operands(2)
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
    form.end()
    form.operands(4)
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


def _compared(e: Emitter, ins: Instruction, form: Form) -> tuple[str, str]:
    """The comparison of setp and set, and what it is combined with by a third operand."""
    type_, compare = form.type(), form.first()
    combine = form.choice("and", "or", "xor")
    flush = form.flag("ftz")
    a, b = (e.value(operand, type_) for operand in ins.operands[1:3])
    if type_ == "bf16":
        a, b = f"F.widen(S.wide({a}))", f"F.widen(S.wide({b}))"
    elif flush:
        a, b = f"F.flush({a})", f"F.flush({b})"
    result = _comparison(e, form, a, b, compare, "f32" if type_ == "bf16" else type_)
    if not combine:
        form.operands(3)
        return result, ""
    form.operands(4)
    symbol = {"and": "&", "or": "|", "xor": "^"}[combine]
    return result, f" {symbol} {e.value(ins.operands[3], 'pred')}"


def set_predicate(e: Emitter, ins: Instruction, form: Form) -> None:
    result, other = _compared(e, ins, form)
    form.end()
    into = ins.operands[0]
    if isinstance(into, Pair):
        e.line(f"c = S.wide({result})")
        e.set(into.first, f"c{other}")
        e.set(into.second, f"~c{other}")
    else:
        e.set(into, f"{result}{other}")


def predicate_logic(e: Emitter, ins: Instruction) -> None:
    symbol = {"and": "&", "or": "|", "xor": "^"}.get(ins.name)
    values = [e.value(operand, "pred") for operand in ins.operands[1:]]
    if ins.name == "not" and len(values) == 1:
        return e.set(ins.operands[0], f"~S.wide({values[0]})")
    if symbol is None or len(values) != 2:
        raise e.refuse("unknown form")
    e.set(ins.operands[0], f"{values[0]} {symbol} {values[1]}")


HANDLERS = {"mov": move, "selp": select, "setp": set_predicate}
