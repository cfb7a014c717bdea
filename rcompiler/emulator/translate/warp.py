"""What the threads of a warp tell each other."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Instruction, Operand, Pair
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form


def _results(operand: Operand) -> tuple[Operand, Operand | None]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


def shuffle(e: Emitter, ins: Instruction, form: Form) -> None:
    form.type("b32")
    form.flag("sync")
    mode = form.choice("up", "down", "bfly", "idx")
    form.end()
    if not mode:
        raise form.refuse("unknown form")
    form.operands(5)
    values = ", ".join(e.wide(operand, "b32") for operand in ins.operands[1:])
    e.line(f"v, c = S.warp.shuffle({e.at}, {e.mask}, '{mode}', {values})")
    into, valid = _results(ins.operands[0])
    e.set(into, "v")
    if valid is not None:
        e.set(valid, "c")


def vote(e: Emitter, ins: Instruction, form: Form) -> None:
    form.type("pred", "b32")
    form.flag("sync")
    mode = form.choice("all", "any", "uni", "ballot")
    form.end()
    if not mode:
        raise form.refuse("unknown form")
    form.operands(3)
    asked, members = e.wide(ins.operands[1], "pred"), e.wide(ins.operands[2], "b32")
    e.set(ins.operands[0], f"S.warp.vote({e.at}, {e.mask}, '{mode}', {asked}, {members})")


def match(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type("b32", "b64")
    form.flag("sync")
    mode = form.choice("any", "all")
    form.end()
    if not mode:
        raise form.refuse("unknown form")
    form.operands(3)
    value, members = e.wide(ins.operands[1], type_), e.wide(ins.operands[2], "b32")
    e.line(f"v, c = S.warp.match({e.at}, {e.mask}, '{mode}', {value}, {members})")
    into, same = _results(ins.operands[0])
    e.set(into, "v")
    if same is not None:
        e.set(same, "c")


def reduce(e: Emitter, ins: Instruction, form: Form) -> None:
    type_ = form.type("u32", "s32", "b32")
    form.flag("sync")
    mode = form.choice("add", "min", "max", "and", "or", "xor")
    form.end()
    if not mode:
        raise form.refuse("unknown form")
    form.operands(3)
    value, members = e.wide(ins.operands[1], type_), e.wide(ins.operands[2], "b32")
    e.set(ins.operands[0], f"S.warp.reduce({e.at}, {e.mask}, '{mode}', {value}, {members})")


def elect(e: Emitter, ins: Instruction, form: Form) -> None:
    form.flag("sync")
    form.end()
    form.operands(2)
    e.line(f"v, c = S.warp.elect({e.at}, {e.mask}, {e.wide(ins.operands[1], 'b32')})")
    into, chosen = _results(ins.operands[0])
    e.set(into, "v")
    if chosen is not None:
        e.set(chosen, "c")


def active(e: Emitter, ins: Instruction, form: Form) -> None:
    form.type("b32")
    form.end()
    form.operands(1)
    e.set(ins.operands[0], f"S.warp.active({e.mask})")


HANDLERS = {
    "shfl": shuffle, "vote": vote, "match": match, "redux": reduce, "elect": elect,
    "activemask": active,
}  # fmt: skip
