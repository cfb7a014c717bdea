"""Boxes of tensors: where a tile lies in its tensor, and the slice that takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple, TypeVar

from torch_mlir import ir
from torch_mlir.dialects import bufferization, tensor

from rcompiler.dialects.task_body import MEMORY, PUT
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import element_type, integer, integers
from rcompiler.passes.tiles.indices import DYNAMIC, Indices

Size = TypeVar("Size")


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
    return ir.RankedTensorType.get(list(shape), element_type(value))


def sizes_of(value: ir.Value, number: Callable[[int | ir.Value], Size]) -> list[Size]:
    """The sizes of a tensor, which may be the tile of an op whose sizes are operands.

    number: of an int, or of an index value. Raises ValueError for an op that does not tell.
    """
    shape = type_of(value).shape
    if DYNAMIC not in shape:
        return [number(n) for n in shape]
    op = value.owner.operation
    if op.name in ("linalg.generic", "linalg.fill", "rtask.stage", "tensor.cast"):
        return sizes_of(list(op.operands)[-len(op.results)], number)
    if op.name == "tensor.concat":
        axis, parts = integer(op, "dim"), [sizes_of(v, number) for v in op.operands]
        parts[0][axis] = reduce(add, (part[axis] for part in parts))
        return parts[0]
    if op.name in ("tensor.empty", MEMORY):
        dynamic: Iterator[Size] = map(number, op.operands)
    elif op.name == "tensor.extract_slice":  # what it drops is one element long
        pairs = zip(slice_parts(op, number)[1], integers(op, "static_sizes"), strict=True)
        dynamic = (size for size, n in pairs if n == DYNAMIC)
    else:
        raise ValueError(f"{op.name} makes a tile of unknown size")
    return [next(dynamic) if n == DYNAMIC else number(n) for n in shape]


def slice_parts(op: ir.Operation, number: Callable[[int | ir.Value], Size]) -> list[list[Size]]:
    """Offsets, sizes and strides of a slice, or of where a tile is put."""
    dynamic = iter(list(op.operands)[2 if op.name in PUT else 1 :])
    return [
        [number(next(dynamic) if n == DYNAMIC else n) for n in integers(op, name)]
        for name in ("static_offsets", "static_sizes", "static_strides")
    ]


def extract(value: ir.Value, box: Box, indices: Indices) -> ir.Value:
    """The tile of a tensor, at the insertion point; the tensor itself where it is all of it."""
    if box.covers(value):
        return value
    (offsets, starts), (shape, sizes) = indices.mixed(box.offsets), indices.mixed(box.sizes)
    return tensor.ExtractSliceOp(
        tile_type(value, shape), value, starts, sizes, [], offsets, shape, box.strides
    ).result


def insert(tile: ir.Value, into: ir.Value, box: Box, indices: Indices) -> ir.Value:
    """A tensor with a tile put into it, at the insertion point."""
    (offsets, starts), (shape, sizes) = indices.mixed(box.offsets), indices.mixed(box.sizes)
    return tensor.InsertSliceOp(
        tile, into, starts, sizes, [], offsets, shape, box.strides, results=[into.type]
    ).result


def empty(sizes: Sequence[Linear], element: ir.Type, indices: Indices) -> ir.Value:
    """tensor.empty at the insertion point: the type of results, which nothing is put into."""
    mixed = [n.constant if n.is_constant else indices.value(n) for n in sizes]
    return tensor.EmptyOp(mixed, element).result


def memory(
    sizes: Sequence[Linear], element: ir.Type, indices: Indices, space: str = ""
) -> ir.Value:
    """bufferization.alloc_tensor at the insertion point: what tiles are put into.

    MLIR neither moves it out of a loop nor takes two of them for one, as it does with tensor.empty,
    and with loops that begin with one: then tiles would be put over others that are still read.

    space: the memory that it is in, an attribute; "": none is said.
    """
    shape, dynamic = indices.mixed(sizes)
    where = ir.Attribute.parse(space) if space else None
    type_ = ir.RankedTensorType.get(shape, element)
    return bufferization.AllocTensorOp(type_, dynamic, memory_space=where).result
