"""vdevice-pool-weights: S4 -> S4, equal weights lie at the same bytes, also those of other modules.

Before:
    "vdevice.buffer"() {kind = "constant", offset = 128 : i64, sym_name = "w", value = ...}
After, where a module that was compiled before has the same elements at 4096:
    "vdevice.buffer"() {kind = "constant", offset = 4096 : i64, sym_name = "w", value = ...}
Programs of one model for several sizes are modules of their own, and read one block of weights
(`constants.weight_pool`): each finds there what the others have. A buffer that is a part of another
stays that part. One with the bytes of a buffer of another type becomes a part of that, or, where it
is in another program, lies apart: a place has one name. `constants` of the programs is then the
size of the block so far.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects.attributes import to_attribute
from rcompiler.linalg.values import integer, string
from rcompiler.passes import Pass
from rcompiler.passes.constants.fold import constant_of
from rcompiler.passes.constants.model_context import context_of
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.passes.ir.operators import ops_in_module, ops_of
from rcompiler.passes.schedule.schedule_graph import constant_key


@dataclass(frozen=True)
class VdevicePoolWeights(Pass):
    """Let programs of one model for several sizes read one block of weights."""

    def run(self, module: ir.Operation) -> None:
        context = context_of(module)
        pool = WeightPool() if context.pool is None else context.pool
        programs = ops_in_module(module, "vdevice.program")
        keys: dict[int, str] = {}  # by offset
        for program in programs:
            first: dict[int, str] = {}  # by offset, of the buffers of the program
            buffers = [op for op in ops_of(program.regions[0].blocks[0]) if _is_constant(op)]
            before = {string(op, "sym_name"): integer(op, "offset") for op in buffers}
            after: dict[str, int] = {}
            for op in buffers:
                name = string(op, "sym_name")
                whole = op.attributes["alias_of"].value if "alias_of" in op.attributes else ""
                if whole in after:
                    after[name] = after[whole] + before[name] - before[whole]
                else:
                    key = constant_key(op.attributes["value"])
                    array = constant_of(op.attributes["value"], context.arrays)
                    offset = pool.place(array)
                    if keys.setdefault(offset, key) != key and offset in first:
                        op.attributes["alias_of"] = ir.FlatSymbolRefAttr.get(first[offset])
                    elif keys[offset] != key:
                        offset = pool.place(array, key)
                    first.setdefault(offset, name)
                    after[name] = offset
                op.attributes["offset"] = to_attribute(after[name])
        for program in programs:
            program.attributes["constants"] = to_attribute(pool.size)


def _is_constant(op: ir.Operation) -> bool:
    return op.name == "vdevice.buffer" and "value" in op.attributes
