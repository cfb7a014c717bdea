"""Boxes of tensors: where a tile lies in its tensor, and the slice that takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir import ir

from rcompiler.dialects.task_body import MEMORY
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import integers
from rcompiler.passes.tiles.indices import Indices

DYNAMIC = ir.ShapedType.get_dynamic_size()


class Box(NamedTuple):
    """Elements offset, offset + stride, ... of each dim, `size` of them."""

    offsets: tuple[Linear, ...]
    sizes: tuple[Linear, ...]
    strides: tuple[int, ...]

    @staticmethod
    def dense(offsets: Sequence[Linear], sizes: Sequence[Linear]) -> Box:
        """Neighbouring elements along each dim."""
        return Box(tuple(offsets), tuple(sizes), (1,) * len(offsets))

    @property
    def rank(self) -> int:
        return len(self.offsets)

    @property
    def shape(self) -> list[int]:
        """Of the tile, as tensor types have it: DYNAMIC for a size that only a run knows."""
        return [n.constant if n.is_constant else DYNAMIC for n in self.sizes]

    @property
    def is_dense(self) -> bool:
        return all(stride == 1 for stride in self.strides)

    def covers(self, value: ir.Value) -> bool:
        """Whether the box is all of a tensor."""
        for size, extent in zip(self.sizes, type_of(value).shape, strict=True):
            if size.constant != extent or size.terms:
                return False
        return self.is_dense and all(not o.constant and not o.terms for o in self.offsets)

    def within(self, outer: Box) -> Box:
        """A box of the tile that `outer` takes, as a box of the tensor."""
        return Box(
            tuple(
                o + i * stride
                for o, i, stride in zip(outer.offsets, self.offsets, outer.strides, strict=True)
            ),
            self.sizes,
            tuple(a * b for a, b in zip(outer.strides, self.strides, strict=True)),
        )


def type_of(value: ir.Value) -> ir.RankedTensorType:
    """The type of a tensor."""
    return ir.RankedTensorType(value.type)


def tile_type(value: ir.Value, shape: Sequence[int]) -> ir.RankedTensorType:
    """The type of a tile of a tensor."""
    return ir.RankedTensorType.get(list(shape), type_of(value).element_type)


def sizes_of(value: ir.Value, indices: Indices) -> list[Linear]:
    """The sizes of a tensor, which may be the tile of an op whose sizes are operands."""
    shape = type_of(value).shape
    if DYNAMIC not in shape:
        return [Linear(n) for n in shape]
    op = value.owner.operation
    if op.name == "tensor.extract_slice":
        _, sizes, _ = slice_parts(op, indices)
        kept = [n for n, full in zip(sizes, _kept(op), strict=True) if full]
        return kept
    if op.name in ("tensor.empty", MEMORY):
        dynamic = iter(op.operands)
        return [indices.read(next(dynamic)) if n == DYNAMIC else Linear(n) for n in shape]
    if op.name in ("linalg.generic", "linalg.fill", "rtask.stage"):
        return sizes_of(list(op.operands)[-len(op.results) :][0], indices)
    raise ValueError(f"{op.name} has results of unknown size")


def slice_parts(op: ir.Operation, indices: Indices) -> tuple[list[Linear], list[Linear], list[int]]:
    """Offsets, sizes and strides of a tensor.extract_slice or tensor.insert_slice."""
    front = 2 if op.name == "tensor.insert_slice" else 1
    dynamic = iter(list(op.operands)[front:])

    def parts(name: str) -> list[Linear]:
        numbers = integers(op, name)
        return [indices.read(next(dynamic)) if n == DYNAMIC else Linear(n) for n in numbers]

    offsets, sizes, strides = map(parts, ("static_offsets", "static_sizes", "static_strides"))
    return offsets, sizes, [stride.constant for stride in strides]


def _kept(op: ir.Operation) -> list[bool]:
    """Of each dim of an extract_slice that drops none of run-time size, whether it keeps it."""
    shape = list(type_of(op.result).shape)
    sizes = integers(op, "static_sizes")
    kept, position = [False] * len(sizes), len(shape) - 1
    for d in reversed(range(len(sizes))):
        spare = d + 1 > position + 1  # more dims than are left in the result
        if position >= 0 and sizes[d] == shape[position] and not (sizes[d] == 1 and spare):
            kept[d], position = True, position - 1
    return kept


def extract(value: ir.Value, box: Box, indices: Indices) -> ir.Value:
    """The tile of a tensor, at the insertion point; the tensor itself where it is all of it."""
    if box.covers(value):
        return value
    numbers, operands = _mixed(box, indices)
    return ir.Operation.create(
        "tensor.extract_slice",
        results=[tile_type(value, box.shape)],
        operands=[value, *operands],
        attributes=_attributes([1], numbers),
    ).results[0]


def insert(tile: ir.Value, into: ir.Value, box: Box, indices: Indices) -> ir.Value:
    """A tensor with a tile put into it, at the insertion point."""
    numbers, operands = _mixed(box, indices)
    return ir.Operation.create(
        "tensor.insert_slice",
        results=[into.type],
        operands=[tile, into, *operands],
        attributes=_attributes([1, 1], numbers),
    ).results[0]


def empty(sizes: Sequence[Linear], element: ir.Type, indices: Indices) -> ir.Value:
    """tensor.empty at the insertion point: the type of results, which nothing is put into."""
    type_, dynamic = _sized(sizes, element, indices)
    return ir.Operation.create("tensor.empty", results=[type_], operands=dynamic).results[0]


def memory(sizes: Sequence[Linear], element: ir.Type, indices: Indices) -> ir.Value:
    """bufferization.alloc_tensor at the insertion point: what tiles are put into.

    MLIR neither moves it out of a loop nor takes two of them for one, as it does with tensor.empty,
    and with loops that begin with one: then tiles would be put over others that are still read.
    """
    type_, dynamic = _sized(sizes, element, indices)
    segments = ir.DenseI32ArrayAttr.get([len(dynamic), 0, 0])
    return ir.Operation.create(
        MEMORY, results=[type_], operands=dynamic, attributes={"operandSegmentSizes": segments}
    ).results[0]


def _sized(
    sizes: Sequence[Linear], element: ir.Type, indices: Indices
) -> tuple[ir.Type, list[ir.Value]]:
    """The type of a tensor, and its sizes that only a run knows."""
    shape = [n.constant if n.is_constant else DYNAMIC for n in sizes]
    dynamic = [indices.value(n) for n in sizes if not n.is_constant]
    return ir.RankedTensorType.get(shape, element), dynamic


def _mixed(box: Box, indices: Indices) -> tuple[list[list[int]], list[ir.Value]]:
    """Static numbers of offsets, sizes and strides, and the operands that stand for the others."""
    numbers: list[list[int]] = []
    operands: list[ir.Value] = []
    for parts in (box.offsets, box.sizes):
        numbers.append([p.constant if p.is_constant else DYNAMIC for p in parts])
        operands += [indices.value(p) for p in parts if not p.is_constant]
    numbers.append(list(box.strides))
    return numbers, operands


def _attributes(front: list[int], numbers: list[list[int]]) -> dict[str, ir.Attribute]:
    offsets, sizes, strides = numbers
    counts = [*front, offsets.count(DYNAMIC), sizes.count(DYNAMIC), strides.count(DYNAMIC)]
    return {
        "static_offsets": ir.DenseI64ArrayAttr.get(offsets),
        "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get(strides),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts),
    }
