"""Whether a task puts tiles over no tensor that is still read.

    %a = tensor.insert_slice %t into %s[0] ...    the tile is put into the memory of %s,
    %b = tensor.extract_slice %s[0] ...           where %s is no more

A tensor of the IR is a value, which nothing changes. In memory a tile is put into the bytes of what
the tensor was before; nothing is copied. That is the same as long as each tensor has tiles put into
it once, and is not used after that. An insertion into what an op computes, such as into zeros, is a
value like any other: its elements are computed where they are read.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from torch_mlir import ir

from rcompiler.dialects.task_body import LOOP
from rcompiler.errors import CompilerError


def check_overwritten(block: ir.Block, stores: Container[ir.Operation], kernel: str) -> None:
    """Of the body of one task, by its `stores_in`. Raises CompilerError naming the kernel and what
    comes too late.
    """
    order = _Order()
    for put, number in _puts(block, stores):
        tensor = put.operands[number]
        if not isinstance(tensor.type, ir.RankedTensorType):
            continue
        for use in tensor.uses:
            other = use.owner.operation
            if other == put and use.operand_number == number:
                continue
            if not order.is_apart(other, put, tensor):
                raise _wrong(kernel, put, f"{other.name} uses that tensor, too, at the same time")
        if order.is_repeated(put, tensor):
            raise _wrong(kernel, put, "it does so in every turn of a loop that begins behind it")


def _wrong(kernel: str, put: ir.Operation, what: str) -> CompilerError:
    return CompilerError(
        f"kernel {kernel}: {put.name} puts tiles into a tensor, and {what}; let each begin as a "
        "tensor of its own, such as bufferization.alloc_tensor"
    )


def _puts(block: ir.Block, stores: Container[ir.Operation]) -> Iterator[tuple[ir.Operation, int]]:
    """All ops that put tiles into a tensor, and the number of the operand that it is."""
    for view in block.operations:
        op = view.operation
        if op in stores:
            yield op, 1
        elif op.name == LOOP:
            yield from ((op, number) for number in range(3, len(op.operands)))
        if op.name.startswith("scf."):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _puts(inner, stores)


class _Order:
    """Which ops of a body come before which."""

    def __init__(self) -> None:
        self._numbers: dict[ir.Block, dict[ir.Operation, int]] = {}

    def is_apart(self, use: ir.Operation, put: ir.Operation, tensor: ir.Value) -> bool:
        """Whether a use of a tensor is over before a tile is put into it, or on the other side of a
        branch.
        """
        first, second = (_way(op, tensor) for op in (use, put))
        for a, b in zip(first, second, strict=False):
            if a == b:
                continue
            if a.block != b.block:
                return True  # the sides of an scf.if
            numbers = self._of(a.block)
            return numbers[a] < numbers[b]
        return False  # one is inside of the other

    def is_repeated(self, put: ir.Operation, tensor: ir.Value) -> bool:
        """Whether a loop that begins behind a tensor puts tiles into it in each turn."""
        return any(op.name == LOOP for op in _way(put, tensor)[:-1])

    def _of(self, block: ir.Block) -> dict[ir.Operation, int]:
        found = self._numbers.get(block)
        if found is None:
            ops = (view.operation for view in block.operations)
            found = self._numbers[block] = {op: number for number, op in enumerate(ops)}
        return found


def _way(op: ir.Operation, tensor: ir.Value) -> list[ir.Operation]:
    """The ops that an op is in, from one in the block of a tensor to the op itself."""
    owner = tensor.owner
    home = owner if isinstance(owner, ir.Block) else owner.operation.block
    found = [op]
    while found[0].block != home:
        found.insert(0, found[0].parent.operation)
    return found
