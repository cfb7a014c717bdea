"""rammer-schedule: S3 -> S4, one static schedule of all rTasks over the EUs of a device.

Before:
    "rtask.kernel"() ... ; func.func @main(%x: ...) { %0 = "rtask.operator"(%x, %w) ({...}) {kernels
    = [@k], ...} ... }
After:
    "rtask.kernel"() ... (the chosen ones)
    "vdevice.device"() {eus = 2 : i64, sym_name = "device"} : () -> ()
    "vdevice.program"() ({ buffers, events, one list of run/wait/signal/barrier for each EU, or the
    queues that EUs take }) {sym_name = "main_0", ...} func.func @main() attributes {rtask.inputs =
    [...], rtask.outputs = [...]} { "vdevice.launch"() {program = @main_0} ... }
Needs: rKernels (roller-tile). The policy is one of the compiler's, or `module:function`, see
`rcompiler.rammer.policy`; its result is validated before it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from rcompiler.dialects import vdevice
from rcompiler.dialects.attributes import to_attribute
from rcompiler.errors import ScheduleError
from rcompiler.linalg.element_types import dtype_of
from rcompiler.options import Kernels, Memory, OwnPolicy, PolicyChoice
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import kernels_by_name
from rcompiler.passes.schedule.guards import check_guards
from rcompiler.passes.schedule.program_ir import write_program
from rcompiler.passes.schedule.schedule_graph import GraphBuilder, ScheduleGraph
from rcompiler.rammer.program import Run
from rcompiler.rammer.schedule import Schedule, schedule
from rcompiler.rammer.states import Pair

DEVICE_SYMBOL = "device"


@dataclass(frozen=True)
class RammerSchedule(Pass):
    """Schedule all rTasks over the EUs of a device (policy: the paper's, a baseline or yours).

    Attributes:
        policy: one of the compiler's, or `module:function`.
        eus: how many EUs there are; 0: all of the device.
        kernels: which rKernels of an operator run; auto: what suits the policy.
        memory: how temporary tensors get their bytes: reuse, they share them; auto, the same, and
            EUs wait for one another where that saves many; apart, each has its own.
    """

    policy: PolicyChoice = "rammer"
    eus: int = 0
    kernels: Kernels = "auto"
    memory: Memory = "auto"

    def run(self, module: ir.Operation) -> None:
        device = device_of(module)
        check_guards(module)
        builder = GraphBuilder(module)
        states = _states(builder.functions[0])
        source = builder.build()
        eus = self.eus or device.eus
        policy = self.policy.load() if isinstance(self.policy, OwnPolicy) else self.policy
        try:
            chosen: dict[str, Any] = {"kernels": self.kernels, "memory": self.memory}
            chosen["states"] = states
            found = schedule(source.graph, eus, device.costs, policy=policy, **chosen)
        except ScheduleError as error:
            raise PassFailure(module, str(error)) from error
        _write(module, builder.functions, source, found, eus)


def _write(
    module: ir.Operation,
    functions: Sequence[ir.Operation],
    source: ScheduleGraph,
    found: Schedule,
    eus: int,
) -> None:
    """functions: @main, whose place the program takes, and those that it calls."""
    function = functions[0]
    used = {i.kernel for p in found.programs for q in p.queues for i in q if isinstance(i, Run)}
    for name, op in kernels_by_name(module).items():
        if name not in used:
            op.erase()
    with ir.InsertionPoint(function), function.location:
        vdevice.DeviceOp.build(DEVICE_SYMBOL, eus)
        for program in found.programs:
            write_program(program, source, DEVICE_SYMBOL, found.memory.bound)
        main = ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": to_attribute("main"),
                "function_type": to_attribute(ir.FunctionType.get([], [])),
                "rtask.inputs": _signature(function, "arg_attrs"),
                "rtask.outputs": _signature(
                    function,
                    "res_attrs",
                    {output: why for (_, output), why in found.double_buffered.items()},
                ),
            },
        )
        with ir.InsertionPoint(main.regions[0].blocks.append()):
            for program in found.programs:
                vdevice.LaunchOp.build(program.name)
            ir.Operation.create("func.return")
    for each in functions:
        each.erase()


def _states(function: ir.Operation) -> list[Pair]:
    """The arguments and results of @main that are the last and next values of states."""
    sides = [
        {
            ir.StringAttr(known["rtask.state"]).value: number
            for number, known in enumerate(_said(function, side))
            if "rtask.state" in known
        }
        for side in ("arg_attrs", "res_attrs")
    ]
    if sides[0].keys() != sides[1].keys():
        raise PassFailure(
            function, "rtask.state is of one argument and of one result, and of both: name it twice"
        )
    return [(number, sides[1][name]) for name, number in sides[0].items()]


def _said(function: ir.Operation, side: str) -> list[dict[str, ir.Attribute]]:
    """The attributes of each argument or result, by name."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if side not in function.attributes:
        return [{} for _ in (type_.inputs if side == "arg_attrs" else type_.results)]
    given = ir.ArrayAttr(function.attributes[side])
    return [{item.name: item.attr for item in ir.DictAttr(own)} for own in given]


def _signature(
    function: ir.Operation, side: str, double_buffered: Mapping[int, str] | None = None
) -> ir.Attribute:
    """[{name, dtype, type}] of the arguments or results; with indices and state where something is
    said of them, and with sizes that are known at run time. double_buffered: why results lie not in
    the place of the last values of states.
    """
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = type_.inputs if side == "arg_attrs" else type_.results
    entries = []
    for k, (tensor, known) in enumerate(zip(types, _said(function, side), strict=True)):
        entry: dict[str, Any] = {
            "type": tensor,
            "name": f"{'in' if side == 'arg_attrs' else 'out'}{k}",
            # of a signless element type, for functions that do not say (rc-opt tests)
            "dtype": dtype_of(str(ir.RankedTensorType(tensor).element_type)).name,
        }
        # as the front end wrote them
        for name in ("name", "dtype", "indices", "extents", "size", "state"):
            if f"rtask.{name}" in known:
                entry[name] = known[f"rtask.{name}"]
        if double_buffered and k in double_buffered:
            entry["double_buffered"] = double_buffered[k]
        entries.append(entry)
    return to_attribute(entries)
