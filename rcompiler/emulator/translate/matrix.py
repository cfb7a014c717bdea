"""Tensor cores: ldmatrix, stmatrix, mma.sync and wgmma."""

from __future__ import annotations

import re

from rcompiler.emulator.ptx.syntax import Instruction, Operand, Register, Vector
from rcompiler.emulator.ptx.types import bits_of
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form

# Input type -> bits of an element.
INPUTS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8}


def _list(e: Emitter, operand: Operand) -> str:
    return f"({', '.join(e.wide(item, 'b32') for item in e.items(operand))},)"


def _assign(e: Emitter, operand: Operand) -> None:
    for k, item in enumerate(e.items(operand)):
        e.set(item, f"v[{k}]")


def _matrices(e: Emitter, form: Form) -> tuple[int, bool]:
    form.type("b16")
    form.skip("sync", "aligned")
    shape, count = form.choice("m8n8"), form.choice("x1", "x2", "x4")
    trans = form.flag("trans")
    form.choice("shared", "shared::cta")
    form.end()
    if not shape or not count:
        raise form.refuse("unknown form")
    return int(count[1:]), trans


def load(e: Emitter, ins: Instruction, form: Form) -> None:
    count, trans = _matrices(e, form)
    if len(e.items(ins.operands[0])) != count:
        raise form.refuse("wrong number of registers")
    address = e.address(ins.operands[1])
    e.line(f"v = S.matrix.load({e.at}, {e.mask}, {address}, {count}, {trans})")
    _assign(e, ins.operands[0])


def store(e: Emitter, ins: Instruction, form: Form) -> None:
    count, trans = _matrices(e, form)
    if len(e.items(ins.operands[1])) != count:
        raise form.refuse("wrong number of registers")
    address = e.address(ins.operands[0])
    e.line(f"S.matrix.store({e.at}, {e.mask}, {address}, {_list(e, ins.operands[1])}, {trans})")


def multiply(e: Emitter, ins: Instruction, form: Form) -> None:
    into, *others = (form.type("f32", "f16", "s32", *INPUTS) for _ in range(4))
    c, b, a = into, others[0], others[1]
    into = others[2]
    form.skip("sync", "aligned", "row", "col")
    saturate, shape = form.flag("satfinite"), form.first()
    form.end(4)
    match = re.fullmatch(r"m16n8k(\d{1,3})", shape)
    if match is None or saturate or into != c or a not in INPUTS or b not in INPUTS:
        raise form.refuse("unknown shape or types")
    per, depth = 32 // INPUTS[a], int(match[1])
    counts = [len(e.items(operand)) for operand in ins.operands]
    results = 2 if into == "f16" else 4
    if depth not in (4 * per, 8 * per) or INPUTS[a] != INPUTS[b]:
        raise form.refuse("unknown shape or types")
    if counts != [results, depth // (2 * per), depth // (4 * per), results]:
        raise form.refuse("wrong number of registers")
    lists = ", ".join(_list(e, operand) for operand in ins.operands[1:])
    e.line(f"v = S.matrix.multiply({e.at}, {e.mask}, {depth}, ('{a}', '{b}', '{c}'), {lists})")
    _assign(e, ins.operands[0])


def warpgroup(e: Emitter, ins: Instruction, form: Form) -> None:
    kind = form.choice("fence", "commit_group", "wait_group", "mma_async")
    if kind == "mma_async":
        return _asynchronous(e, ins, form)
    form.skip("sync", "aligned")
    form.end()
    if kind == "commit_group":
        e.line(f"S.warpgroup.commit({e.mask})")
    elif kind == "wait_group":
        e.line(f"S.warpgroup.wait({e.mask}, {e.number(ins.operands[0])})")
    elif kind == "fence":
        e.line(f"S.warpgroup.fence({e.mask})")
    else:
        raise form.refuse("unknown form")


def _asynchronous(e: Emitter, ins: Instruction, form: Form) -> None:
    b, a = form.type(*INPUTS), form.type(*INPUTS)
    c = form.type("f32", "f16", "s32")
    form.skip("sync", "aligned")
    match = re.fullmatch(r"m64n(\d{1,3})k(\d{1,3})", form.first())
    form.end()
    if match is None or a not in INPUTS or INPUTS.get(a) != INPUTS.get(b):
        raise form.refuse("unknown shape or types")
    columns, depth = int(match[1]), int(match[2])
    odd_bytes = INPUTS[a] == 8 and columns % 16 and columns not in (8, 24)
    if columns % 8 or odd_bytes or not 8 <= columns <= 256 or depth != 256 // INPUTS[a]:
        raise form.refuse("unknown shape")
    into, left, right, scale, *immediates = ins.operands
    results = columns // 2 if c != "f16" else columns // 4
    flags = [e.number(operand) for operand in immediates]
    in_registers = isinstance(left, Vector)
    if len(e.items(into)) != results or (len(flags) < 2) != (INPUTS[a] == 8):
        raise form.refuse("wrong number of operands")
    signs = (flags[0], flags[1]) if flags else (1, 1)
    results_in = [r for r in e.items(into) if isinstance(r, Register) and bits_of(r.type) == "u4"]
    if len(results_in) != results:
        raise form.refuse("results must be registers of 32 bits")
    registers = tuple(e.base + register.index for register in results_in)
    factors = tuple(
        e.base + item.index
        for item in (e.items(left) if in_registers else ())
        if isinstance(item, Register)
    )
    # Behind the signs of A and B come their transpositions, of 16-bit types; A's in memory only.
    transposed = flags[2:] if INPUTS[a] == 16 else []
    left_turned = bool(transposed[0]) if len(transposed) == 2 and not in_registers else False
    right_turned = bool(transposed[-1]) if transposed else False
    given = _list(e, left) if in_registers else e.wide(left, "b64")
    e.line(
        f"v = S.warpgroup.multiply({e.at}, {e.mask}, ({columns}, {depth}), ('{a}', '{b}', '{c}'), "
        f"{_list(e, into)}, {given}, {e.wide(right, 'b64')}, {e.wide(scale, 'pred')}, "
        f"{signs}, ({left_turned}, {right_turned}), {registers}, {factors})"
    )
    _assign(e, into)


HANDLERS = {"ldmatrix": load, "stmatrix": store, "mma": multiply, "wgmma": warpgroup}
