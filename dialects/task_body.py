"""The body of one rTask: what of it puts tiles into memory."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.dialects import rtask

MEMORY = "bufferization.alloc_tensor"
"""What a task puts tiles into that are no results: a tensor of its own, each time it is made."""

_PUT = ("tensor.insert_slice", "vector.transfer_write")  # a tile into operand 1
_LOOP = "scf.for"  # into what it carries: the operands from the third on


def stores_in(block: ir.Block) -> dict[ir.Operation, None]:
    """The ops that put a tile into memory, in their order, also in loops and branches: into a
    result as other tasks left it, or into memory of the task's own; with tiles in it or not, or
    carried by a loop. Operands are read only.
    """
    [result] = list(block.operations)[-1].operation.operands
    operands = len(rtask.operands_of(block, len(rtask.unpacked_types(result.type))))
    memory: set[ir.Value] = {*list(block.arguments)[operands:]}
    found: dict[ir.Operation, None] = {}
    _note_stores(block, memory, found)
    return found


def _note_stores(block: ir.Block, memory: set[ir.Value], found: dict[ir.Operation, None]) -> None:
    """memory: the tensors that lie in memory, to which those of the block are added."""
    for view in block.operations:
        op = view.operation
        if op.name in ("tensor.empty", MEMORY):
            memory.add(op.result)
        elif op.name in _PUT and op.operands[1] in memory:
            found[op] = None
            memory.update(op.results)
        elif op.name == _LOOP:
            inner = op.regions[0].blocks[0]
            carried = zip(list(op.operands)[3:], list(inner.arguments)[1:], strict=True)
            memory.update(argument for init, argument in carried if init in memory)
            memory.update(op.results)
            _note_stores(inner, memory, found)
        elif op.name == "scf.if":
            memory.update(op.results)
            for region in op.regions:
                _note_stores(region.blocks[0], memory, found)
