"""The body of one rTask: what of it puts tiles into memory."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.dialects import rtask

MEMORY = "bufferization.alloc_tensor"
"""What a task puts tiles into that are no results: a tensor of its own, each time it is made."""

SHARED = "#gpu.address_space<workgroup>"
"""`memory_space` of MEMORY that all threads of a block have."""

BARRIER = "gpu.barrier"
"""Where all threads of a block meet: what they put into SHARED before is there behind it."""

VECTOR_DIM = "rtask.vector_dim"
"""Of MEMORY: the dim of it that vectors go along, where that is not the kernel's `vector_dim`."""

PUT = ("tensor.insert_slice", "tensor.parallel_insert_slice", "vector.transfer_write")
"""Ops that put a tile into a tensor, their operand 1."""

THREADS = "scf.forall"
"""What the threads of a block share in, see `roller-tile-threads`; of tensors it carries, each of
its points puts other tiles into them."""

IN_PARALLEL = "scf.forall.in_parallel"
"""The end of the body of THREADS, where the tiles are put."""

IN_FLIGHT = "rtask.in_flight"
"""Of THREADS: how many elements a thread has read before it stores the first of them."""

LOOP = "scf.for"
"""What carries tensors, its operands from the third on, that tiles are put into in each turn."""


def stores_in(block: ir.Block, *, own: bool = True) -> dict[ir.Operation, None]:
    """The ops of a task's body that put a tile into memory, also in its loops and branches.

    Memory is a result as other tasks left it and, with `own`, memory of the task's own; with tiles
    in it or not, or carried by a loop. Operands are read only.

    Returns:
        the ops as keys, in their order.
    """
    [result] = list(block.operations)[-1].operation.operands
    operands = len(rtask.operands_of(block, len(rtask.unpacked_types(result.type))))
    memory: set[ir.Value] = {*list(block.arguments)[operands:]}
    found: dict[ir.Operation, None] = {}
    _note_stores(block, memory, found, own=own)
    return found


def _note_stores(
    block: ir.Block, memory: set[ir.Value], found: dict[ir.Operation, None], *, own: bool
) -> None:
    """memory: the tensors that lie in memory, to which those of the block are added."""
    for view in block.operations:
        op = view.operation
        if own and op.name in ("tensor.empty", MEMORY):
            memory.add(op.result)
        elif op.name in PUT and op.operands[1] in memory:
            found[op] = None
            memory.update(op.results)
        elif op.name == LOOP:
            inner = op.regions[0].blocks[0]
            carried = zip(list(op.operands)[3:], list(inner.arguments)[1:], op.results, strict=True)
            for init, argument, result in carried:
                if init in memory:
                    memory.update((argument, result))
            _note_stores(inner, memory, found, own=own)
        elif op.name == THREADS:
            inner = op.regions[0].blocks[0]
            shared = list(op.operands)[-len(op.results) :]
            carried = zip(shared, list(inner.arguments)[-len(shared) :], op.results, strict=True)
            for init, argument, result in carried:
                if init in memory:
                    memory.update((argument, result))
            _note_stores(inner, memory, found, own=own)
        elif op.name == IN_PARALLEL:
            _note_stores(op.regions[0].blocks[0], memory, found, own=own)
        elif op.name == "scf.if":
            for region in op.regions:
                _note_stores(region.blocks[0], memory, found, own=own)
            last = list(op.regions[0].blocks[0].operations)[-1].operation
            yielded = zip(last.operands, op.results, strict=True)
            memory.update(result for value, result in yielded if value in memory)
