"""Asynchronous copies and the objects that count them: cp.async, bulk copies, mbarrier."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import Address, Instruction
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form

_SHARED = ("shared", "shared::cta", "shared::cluster")


def copy(e: Emitter, ins: Instruction, form: Form) -> None:
    """cp: asynchronous copies of 4 to 16 bytes by every thread, and bulk ones."""
    if not form.flag("async"):
        raise form.refuse("unknown form")
    if form.flag("bulk"):
        return _bulk(e, ins, form)
    if form.flag("mbarrier"):
        return _arrive(e, ins, form)
    if form.flag("commit_group"):
        form.end()
        return e.line(f"S.copies.commit({e.mask})")
    if form.flag("wait_group"):
        form.end()
        return e.line(f"S.copies.wait({e.at}, {e.mask}, {e.number(ins.operands[0])})")
    if form.flag("wait_all"):
        form.end()
        return e.line(f"S.copies.wait_all({e.at}, {e.mask})")
    form.hints()
    form.choice(*_SHARED)
    form.flag("global")
    form.end()
    size = e.number(ins.operands[2])
    if size not in (4, 8, 16) or not 3 <= len(ins.operands) <= 5:
        raise form.refuse("a copy of another size than 4, 8 or 16 bytes")
    filled = "None"  # bytes that are copied; the others become zeros
    if len(ins.operands) > 3 and "L2::cache_hint" not in ins.modifiers:
        filled = e.wide(ins.operands[3], "u32")
    target, source = (e.address(operand) for operand in ins.operands[:2])
    e.line(f"S.copies.issue({e.at}, {e.mask}, {target}, {source}, {size}, {filled})")


def _arrive(e: Emitter, ins: Instruction, form: Form) -> None:
    """cp.async.mbarrier.arrive: once all copies of the thread so far are done."""
    form.type("b64")
    form.flag("arrive")
    free = form.flag("noinc")
    form.choice(*_SHARED)
    form.end()
    e.line(f"S.copies.arrive({e.at}, {e.mask}, {e.address(ins.operands[0])}, {not free})")


def _bulk(e: Emitter, ins: Instruction, form: Form) -> None:
    if form.flag("commit_group"):
        form.end()
        return e.line(f"S.bulk.commit({e.mask})")
    if form.flag("wait_group"):
        form.flag("read")
        form.end()
        return e.line(f"S.bulk.wait({e.at}, {e.mask}, {e.number(ins.operands[0])})")
    form.hints()
    if form.flag("prefetch"):
        return  # a hint
    tensor = form.flag("tensor")
    rank = int(form.choice("1d", "2d", "3d", "4d", "5d", default="0")[0]) if tensor else 0
    into = form.first()
    form.choice("global", *_SHARED)
    form.flag("tile")
    counted = form.flag("mbarrier::complete_tx::bytes")
    if form.flag("bulk_group") == counted:
        raise form.refuse("unknown form")
    form.end()
    loads = into in _SHARED
    if tensor:
        return _tensor(e, ins, form, rank, loads)
    target, source = (e.address(operand) for operand in ins.operands[:2])
    size = e.wide(ins.operands[2], "u32")
    if loads and counted:
        barrier = e.address(ins.operands[3])
        return e.line(f"S.bulk.load({e.at}, {e.mask}, {target}, {source}, {size}, {barrier})")
    if loads or into != "global":
        raise form.refuse("unknown form")
    e.line(f"S.bulk.store({e.at}, {e.mask}, {target}, {source}, {size})")


def _tensor(e: Emitter, ins: Instruction, form: Form, rank: int, loads: bool) -> None:
    where = ins.operands[1 if loads else 0]
    if not isinstance(where, Address) or len(where.coordinates) != rank or not rank:
        raise form.refuse("as many coordinates as the tensor has dimensions are needed")
    descriptor = e.address(Address(where.base, where.offset))
    places = ", ".join(e.wide(c, "s32") for c in where.coordinates)
    if loads:
        target, barrier = e.address(ins.operands[0]), e.address(ins.operands[2])
        return e.line(
            f"S.bulk.load_tile({e.at}, {e.mask}, {target}, {descriptor}, ({places},), {barrier})"
        )
    source = e.address(ins.operands[1])
    e.line(f"S.bulk.store_tile({e.at}, {e.mask}, {descriptor}, ({places},), {source})")


def barrier(e: Emitter, ins: Instruction, form: Form) -> None:
    kind = form.choice(
        "init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "try_wait",
        "test_wait",
    )  # fmt: skip
    form.type("b64")
    if kind == "arrive":
        return _arrival(e, ins, form)
    parity = form.flag("parity")
    form.choice("acquire", "relaxed")
    form.choice("cta", "cluster")
    form.choice(*_SHARED)
    form.end()
    if kind in ("try_wait", "test_wait"):
        address, phase = (
            e.address(ins.operands[1]),
            e.wide(ins.operands[2], "u32" if parity else "u64"),
        )
        e.line(f"v = S.counters.test({e.at}, {e.mask}, {address}, {phase}, {parity})")
        return e.set(ins.operands[0], "v")
    address = e.address(ins.operands[0])
    if kind == "init":
        count = e.wide(ins.operands[1], "u32")
        return e.line(f"S.counters.create({e.at}, {e.mask}, {address}, {count})")
    if kind == "inval":
        return e.line(f"S.counters.remove({e.at}, {e.mask}, {address})")
    if kind == "expect_tx":
        count = e.wide(ins.operands[1], "u32")
        return e.line(f"S.counters.expect({e.at}, {e.mask}, {address}, {count})")
    raise form.refuse("unknown form")


def _arrival(e: Emitter, ins: Instruction, form: Form) -> None:
    expects = form.flag("expect_tx")
    form.flag("noComplete")
    form.choice("release", "relaxed")
    form.choice("cta", "cluster")
    form.choice(*_SHARED)
    form.end()
    returns = not isinstance(ins.operands[0], Address)
    address, *values = ins.operands[returns:]
    count = e.wide(values[0], "u32") if values else "None"
    e.line(
        f"v = S.counters.arrive({e.at}, {e.mask}, {e.address(address)}, "
        f"{'None' if expects else count}, {count if expects else 'None'})"
    )
    if returns:
        e.set(ins.operands[0], "v")


HANDLERS = {"cp": copy, "mbarrier": barrier}
