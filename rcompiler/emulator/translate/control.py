"""Branches, calls, barriers and fences."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import (
    Arguments,
    Instruction,
    Label,
    Operand,
    Register,
    Symbol,
    Variable,
)
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form
from rcompiler.emulator.translate.layout import callee_name
from rcompiler.runtime.gpu.tensor_maps import MAP_BYTES


def branch(e: Emitter, ins: Instruction, form: Form) -> None:
    form.flag("uni")
    form.end(1)
    target = e.flow.block_at(e.target(ins.operands[0]))
    pause = target <= e.here and e.flow.spins(target, e.here)
    e.line(f"S.{'pause' if pause else 'go'}({target}, {e.mask})")


def branch_indexed(e: Emitter, ins: Instruction, form: Form) -> None:
    form.skip("idx", "uni")
    form.end(2)
    index, name = ins.operands
    targets = e.flow.targets.get(name.name) if isinstance(name, Label) else None
    if targets is None:
        raise form.refuse("an unknown list of labels")
    e.line(f"i = {e.wide(index, 'u32')}")
    for k, target in enumerate(targets):
        e.line(f"S.go({e.flow.block_at(target)}, {e.mask} & (i == {k}))")
    e.line(f"S.wild({e.at}, {e.mask} & (i >= {len(targets)}))")


def leave(e: Emitter, ins: Instruction, form: Form) -> None:
    """ret and exit."""
    form.flag("uni")
    form.end()
    if ins.name == "exit" or e.flow.entry:
        e.line(f"S.exit({e.mask})")
    else:
        e.line(f"S.leave({e.flow.number}, {e.mask})")


def _variables(operand: Operand | None, form: Form) -> list[Variable]:
    items = operand.items if isinstance(operand, Arguments) else ()
    found = [item.variable for item in items if isinstance(item, Symbol)]
    if len(found) != len(items):
        raise form.refuse("a call whose parameters are not .param variables")
    return found


def call(e: Emitter, ins: Instruction, form: Form) -> None:
    form.flag("uni")
    form.end()
    callee = e.flow.functions[callee_name(ins)]
    at = next(k for k, operand in enumerate(ins.operands) if isinstance(operand, Label))
    results = _variables(ins.operands[0] if at else None, form)
    given = _variables(ins.operands[at + 1] if len(ins.operands) > at + 1 else None, form)
    if len(results) != len(callee.results) or len(given) != len(callee.params):
        raise form.refuse("a call with another number of parameters than the function has")
    for actual, formal in zip(given, callee.params, strict=True):
        e.copy_frame(formal, actual)
    e.line(f"S.call({e.flow.number_of(callee.name)}, {e.following}, {e.mask})")
    e.line(f"S.go({e.flow.start_of(callee.name)}, {e.mask})")


def results_of_call(e: Emitter, ins: Instruction) -> None:
    """At the return from a call: its results."""
    callee = e.flow.functions[callee_name(ins)]
    first = ins.operands[0]
    if isinstance(first, Arguments):
        for actual, formal in zip(first.items, callee.results, strict=True):
            if isinstance(actual, Symbol):
                e.copy_frame(actual.variable, formal)


def barrier(e: Emitter, ins: Instruction, form: Form) -> None:
    """bar and barrier."""
    form.flag("cta")
    if form.flag("warp"):
        form.flag("sync")
        form.end()
        return e.line(f"S.warp.sync({e.at}, {e.mask}, {e.wide(ins.operands[0], 'u32')})")
    if form.flag("cluster"):
        return _cluster_barrier(e, ins, form)
    kind = form.choice("sync", "arrive", "red")
    form.flag("aligned")
    if kind == "red":
        return _reducing_barrier(e, ins, form)
    form.end()
    if not kind or not 1 <= len(ins.operands) <= 2:
        raise form.refuse("unknown form")
    values = [e.wide(operand, "u32") for operand in ins.operands]
    count = values[1] if len(values) > 1 else "None"
    e.line(f"S.barriers.{kind}({e.at}, {e.following}, {e.mask}, {values[0]}, {count})")


def _cluster_barrier(e: Emitter, ins: Instruction, form: Form) -> None:
    kind, order = form.choice("arrive", "wait"), form.choice("release", "relaxed", "acquire")
    form.flag("aligned")
    form.end(0)
    if kind == "arrive" and order != "acquire":
        e.line(f"S.cluster.arrive({e.at}, {e.mask}, {order != 'relaxed'})")
        e.line(f"S.go({e.following}, {e.mask})")
    elif kind == "wait" and order in ("", "acquire"):
        e.line(f"S.cluster.wait({e.at}, {e.following}, {e.mask})")
    else:
        raise form.refuse("unknown form")


def _reducing_barrier(e: Emitter, ins: Instruction, form: Form) -> None:
    """The threads that meet learn how many, or whether any or all, of them say yes."""
    type_, mode = form.type("u32", "pred"), form.choice("popc", "and", "or")
    form.end()
    into, *values, asked = ins.operands
    if (mode == "popc") != (type_ == "u32") or not 1 <= len(values) <= 2:
        raise form.refuse("unknown form")
    if not isinstance(into, Register):
        raise form.refuse("a result that is no register")
    count = e.wide(values[1], "u32") if len(values) > 1 else "None"
    e.line(
        f"S.barriers.sync({e.at}, {e.following}, {e.mask}, {e.wide(values[0], 'u32')}, {count}, "
        f"('{mode}', {e.base + into.index}, {e.wide(asked, 'pred')}))"
    )


def fence(e: Emitter, ins: Instruction, form: Form) -> None:
    if form.flag("proxy"):
        return _proxy_fence(e, ins, form)
    if form.flag("mbarrier_init"):
        form.flag("release")
        form.flag("cluster")
        form.end()
        return e.line(f"S.proxies.publish_mbarriers({e.mask})")
    order = form.choice("acq_rel", "sc", "acquire", "release", default="acq_rel")
    scope = form.choice("cta", "cluster", "gpu", "gl", "sys")
    form.end()
    if not scope:
        raise form.refuse("a fence without a scope")
    acquire, release = order != "release", order != "acquire"
    e.line(f"S.order.fence({e.mask}, {acquire}, {release}, {e.constant(scope)})")


def _proxy_fence(e: Emitter, ins: Instruction, form: Form) -> None:
    if form.flag("alias"):
        return form.end()  # two addresses of one place do not exist here
    if form.flag("async"):
        space = form.choice("global", "shared::cta", "shared::cluster")
        form.end()
        spaces = (space.partition("::")[0],) if space else ("global", "shared")
        return e.line(f"S.proxies.fence({e.mask}, {e.constant(spaces)})")
    if not form.flag("tensormap::generic"):
        raise form.refuse("an unknown proxy")
    order, scope = form.choice("acquire", "release"), form.choice("cta", "cluster", "gpu", "sys")
    form.end()
    if not order or not scope:
        raise form.refuse("a fence without an order or a scope")
    if order == "release":
        form.operands(0)
        return e.line(f"S.proxies.release_maps({e.mask}, {e.constant(scope)})")
    form.operands(2)
    address, size = ins.operands
    if e.number(size) != MAP_BYTES:
        raise form.refuse(f"a tensor map has {MAP_BYTES} bytes")
    e.line(f"S.proxies.acquire_map({e.at}, {e.mask}, {e.address(address)}, {e.constant(scope)})")


def sleep(e: Emitter, ins: Instruction, form: Form) -> None:
    form.type("u32")
    form.end(1)
    e.line(f"S.sleep({e.wide(ins.operands[0], 'u32')}, {e.mask})")
    e.line(f"S.pause({e.following}, {e.mask})")


def trap(e: Emitter, ins: Instruction, form: Form) -> None:
    form.end()
    e.line(f"S.trap({e.at}, {e.mask})")


def nothing(e: Emitter, ins: Instruction, form: Form) -> None:
    """Registers of a warp, events of a profiler: no effect on what is computed."""


HANDLERS = {
    "bra": branch, "brx": branch_indexed, "ret": leave, "exit": leave, "call": call,
    "bar": barrier, "barrier": barrier, "fence": fence, "membar": fence,
    "nanosleep": sleep, "trap": trap, "brkpt": trap, "setmaxnreg": nothing, "pmevent": nothing,
    "griddepcontrol": nothing,
}  # fmt: skip
