"""Loads, stores, atomics and addresses."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Address, Instruction, Operand, Register, Symbol
from rcompiler.emulator.ptx.types import DTYPES, size_of
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form
from rcompiler.emulator.translate.layout import LOCAL, PARAM, SHARED

SCOPES = ("cta", "cluster", "gpu", "sys")
_SPACES = {
    **{name: name for name in ("global", "shared", "local", "const", "param")},
    "shared::cta": "shared", "shared::cluster": "shared",
    "param::entry": "param", "param::func": "param",
}  # fmt: skip
_WEAK = ("weak", "nc")
_COUNTS = {"v2": 2, "v4": 4, "v8": 8}
_ATOMICS = ("add", "min", "max", "inc", "dec", "cas", "exch", "and", "or", "xor")


def space_of(form: Form) -> str:
    """The state space; "generic" of none."""
    return _SPACES.get(form.choice(*_SPACES), "generic")


def order_of(form: Form) -> str:
    """An access's order: weak, nc, relaxed, acquire, release, acq_rel; with .cta for that scope.

    A cluster is one block.
    """
    order = form.choice("weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "nc")
    scope = form.choice(*SCOPES)
    if order == "volatile":
        return "relaxed"
    return f"{order or 'weak'}{'.cta' if scope in ('cta', 'cluster') else ''}"


def _param_variable(operand: Operand) -> Symbol | None:
    """The parameter that an address names, unless a register holds the address."""
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        return operand.base if operand.base.variable.space == "param" else None
    return None


def load(e: Emitter, ins: Instruction, form: Form) -> None:
    form.hints()
    type_ = form.type()
    count = _COUNTS.get(form.choice(*_COUNTS), 1)
    space, order = space_of(form), order_of(form)
    if form.flag("mmio") or len(ins.operands) not in (2, 3):
        raise form.refuse("unknown form")
    form.end()
    into, source = e.items(ins.operands[0]), ins.operands[1]
    if len(into) != count:
        raise form.refuse("the vector has another length than the modifier says")
    width, named = size_of(type_), _param_variable(source)
    if space == "param" and named is not None and isinstance(source, Address):
        offsets = e.layout.arguments if named.variable in e.layout.arguments else e.layout.frame
        where = "argument" if offsets is e.layout.arguments else "read_frame"
        offset = offsets[named.variable] + source.offset
        if not 0 <= source.offset <= named.variable.size - width * count:
            raise form.refuse("an access beyond the parameter")
        e.line(f"v = S.{where}({offset}, {width}, {count})")
    else:
        unit, used = "atomics", ""
        if order in _WEAK:
            unit, used = "memory", _used(e, ins, width * count)
        e.line(
            f"v = S.{unit}.load({e.at}, '{space}', {e.address(source)}, {e.masked()}, "
            f"{width}, {count}, '{order}'{used})"
        )
    for k, item in enumerate(into):
        value = f"v[{k}]" if DTYPES[type_][0] == "u" else f"v[{k}].view('{DTYPES[type_]}')"
        e.set(item, value, type_)


def _used(e: Emitter, ins: Instruction, size: int) -> str:
    """The argument that says which bytes of a load count, unless all do: (offset, bytes) of aligned
    pieces.
    """
    if ins.used is None or not (ins.used + 1) & ((1 << size) - 1):
        return ""
    pieces, at = [], 0
    while at < size:
        piece = next(p for p in (8, 4, 2, 1) if at % p == 0 and at + p <= size)
        while piece > 1 and ~ins.used >> at & ((1 << piece) - 1):
            piece //= 2
        pieces += [(at, piece)] * (ins.used >> at & 1)
        at += piece
    return f", {e.constant(tuple(pieces))}"


def store(e: Emitter, ins: Instruction, form: Form) -> None:
    form.hints()
    type_ = form.type()
    count = _COUNTS.get(form.choice(*_COUNTS), 1)
    space, order = space_of(form), order_of(form)
    form.end()
    target, source = ins.operands[0], e.items(ins.operands[1])
    if len(source) != count:
        raise form.refuse("the vector has another length than the modifier says")
    width = size_of(type_)
    values = ", ".join(e.wide(item, f"b{8 * width}") for item in source)
    if space == "param":
        named = _param_variable(target)
        if named is None or named.variable not in e.layout.frame or not isinstance(target, Address):
            raise form.refuse("a store to a parameter of the kernel")
        if not 0 <= target.offset <= named.variable.size - width * count:
            raise form.refuse("an access beyond the parameter")
        offset = e.layout.frame[named.variable] + target.offset
        return e.line(f"S.write_frame({offset}, ({values},), {e.masked()})")
    place = f"{e.at}, '{space}', {e.address(target)}, {e.masked()}, {width}, ({values},)"
    e.line(f"S.memory.store({place})" if order in _WEAK else f"S.atomics.store({place}, '{order}')")


def atomic(e: Emitter, ins: Instruction, form: Form) -> None:
    """atom and red."""
    form.hints()
    type_ = form.type()
    form.flag("noftz")
    operation = form.choice(*_ATOMICS)
    space, order = space_of(form), order_of(form)
    if not operation:
        raise form.refuse("unknown operation")
    form.end()
    returns = ins.name == "atom"
    address, *values = ins.operands[returns:]
    if len(values) != (2 if operation == "cas" else 1):
        raise form.refuse("wrong number of operands")
    given = ", ".join(e.wide(value, type_) for value in values)
    e.line(
        f"v = S.atomics.update({e.at}, '{space}', {e.address(address)}, {e.mask}, '{type_}', "
        f"'{operation}', ({given},), '{order}', {returns})"
    )
    if returns:
        e.set(ins.operands[0], "v")


def convert_address(e: Emitter, ins: Instruction, form: Form) -> None:
    """cvta: between a space's own addresses and generic ones."""
    form.type("u64", "b64")
    to, space = form.flag("to"), space_of(form)
    form.end(2)
    value = e.value(ins.operands[1], "u64")
    window = {"shared": SHARED, "local": LOCAL, "param": PARAM}.get(space)
    if space == "generic":
        raise form.refuse("an address conversion without a space")
    if window is None:
        return e.set(ins.operands[0], value)
    e.set(ins.operands[0], f"{value} {'-' if to else '+'} np.uint64({window})")


def is_space(e: Emitter, ins: Instruction, form: Form) -> None:
    space = space_of(form)
    form.end()
    name = e.constant(space)
    e.set(ins.operands[0], f"S.memory.lies_in({e.wide(ins.operands[1], 'u64')}, {name})")


def hint(e: Emitter, ins: Instruction, form: Form) -> None:
    """Prefetches and the like change nothing."""


def policy(e: Emitter, ins: Instruction, form: Form) -> None:
    """createpolicy: a cache policy is a hint; its value is never looked at."""
    into = ins.operands[0]
    if not isinstance(into, Register):
        raise form.refuse("a result that is no register")
    e.set(into, "np.uint64(0)")


HANDLERS = {
    "ld": load, "ldu": load, "st": store, "atom": atomic, "red": atomic,
    "cvta": convert_address, "isspacep": is_space, "createpolicy": policy,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority"), hint),
}  # fmt: skip
