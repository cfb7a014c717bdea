"""What the threads of a warp tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from rcompiler.emulator.ptx.syntax import Instruction, Pair
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form


@dataclass(frozen=True)
class _Exchange:
    """method: of the warps' unit. types, modes: of which the instruction names one, if there are
    any. operands: their types, "" for the one that is named. pair: whether there is a second
    result, which may be left out.
    """

    method: str
    types: tuple[str, ...]
    modes: tuple[str, ...]
    operands: tuple[str, ...]
    pair: bool = False


_EXCHANGES = {
    "shfl": _Exchange("shuffle", ("b32",), ("up", "down", "bfly", "idx"), ("b32",) * 4, pair=True),
    "vote": _Exchange("vote", ("pred", "b32"), ("all", "any", "uni", "ballot"), ("pred", "b32")),
    "match": _Exchange("match", ("b32", "b64"), ("any", "all"), ("", "b32"), pair=True),
    "redux": _Exchange(
        "reduce", ("u32", "s32", "b32"), ("add", "min", "max", "and", "or", "xor"), ("", "b32")
    ),
    "elect": _Exchange("elect", (), (), ("b32",), pair=True),
}


def exchange(e: Emitter, ins: Instruction, form: Form) -> None:
    """shfl, vote, match, redux, elect."""
    known = _EXCHANGES[ins.name]
    type_ = form.type(*known.types) if known.types else ""
    form.flag("sync")
    mode = form.choice(*known.modes)
    form.end(1 + len(known.operands))
    if known.modes and not mode:
        raise form.refuse("unknown form")
    into, *operands = ins.operands
    values = [e.wide(o, t or type_) for o, t in zip(operands, known.operands, strict=True)]
    given = ", ".join([str(e.at), e.mask, *([f"'{mode}'"] if mode else []), *values])
    made = f"S.warp.{known.method}({given})"
    if not known.pair:
        return e.set(into, made)
    e.line(f"v, c = {made}")
    first, second = (into.first, into.second) if isinstance(into, Pair) else (into, None)
    e.set(first, "v")
    if second is not None:
        e.set(second, "c")


def active(e: Emitter, ins: Instruction, form: Form) -> None:
    form.type("b32")
    form.end(1)
    e.set(ins.operands[0], f"S.warp.active({e.mask})")


HANDLERS = {**dict.fromkeys(_EXCHANGES, exchange), "activemask": active}
