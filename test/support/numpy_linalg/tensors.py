"""Slices, reshapes and elements of tensors. Whatever lies outside of a tensor is an IndexError."""

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from numpy_linalg.elements import tensor_dtype, unwritten

DYNAMIC = ir.ShapedType.get_dynamic_size()


def element(tensor: np.ndarray, *where: np.ndarray) -> np.ndarray:
    """tensor.extract, at one place or at many."""
    _check_inside(tensor, where)
    return np.asarray(tensor[tuple(where)])


def inserted_element(value: np.ndarray, tensor: np.ndarray, *where: np.ndarray) -> np.ndarray:
    """tensor.insert."""
    _check_inside(tensor, where)
    made = tensor.copy()
    made[tuple(where)] = value
    return made


def _check_inside(tensor: np.ndarray, where: Sequence[np.ndarray]) -> None:
    for dim, (index, size) in enumerate(zip(where, tensor.shape, strict=True)):
        index = np.asarray(index)
        if index.size and not (0 <= index.min() and index.max() < size):
            raise IndexError(
                f"elements {index.min()} to {index.max()} of dim {dim} of a tensor {tensor.shape}"
            )


# -- slices --------------------------------------------------------------------------------------
def mixed(op: ir.Operation, name: str, dynamic: Sequence[np.ndarray]) -> list[int]:
    """Static numbers of an op, with its dynamic ones where they belong."""
    rest = iter(dynamic)
    return [int(next(rest)) if n == DYNAMIC else n for n in op.attributes[name]]


def segments(op: ir.Operation, operands: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """The operands of an op in the groups that they have in the IR."""
    found, start = [], 0
    for count in op.attributes["operandSegmentSizes"]:
        found.append(list(operands[start : start + count]))
        start += count
    return found


def box_of(
    op: ir.Operation, parts: Sequence[Sequence[np.ndarray]], shape: Sequence[int]
) -> tuple[slice, ...]:
    """The elements that a slice op takes of a tensor, from its dynamic offsets, sizes, strides."""
    names = ("static_offsets", "static_sizes", "static_strides")
    found = []
    numbers = [mixed(op, name, part) for name, part in zip(names, parts, strict=True)]
    for dim, (offset, size, stride) in enumerate(zip(*numbers, strict=True)):
        last = offset + (size - 1) * stride
        inside = 0 <= min(offset, last) and max(offset, last) < shape[dim]
        if size < 0 or not (inside if size else 0 <= offset <= shape[dim]):
            raise IndexError(
                f"{op.name}: {size} elements from {offset} by {stride} of dim {dim} of a tensor "
                f"{tuple(shape)}"
            )
        end = last + (1 if stride >= 0 else -1)
        found.append(slice(offset, offset) if not size else _range(offset, end, stride))
    return tuple(found)


def _range(first: int, end: int, stride: int) -> slice:
    """Of a stride that may be negative or 0; the latter is of one element only."""
    return slice(first, None if end < 0 else end, stride or 1)


def extract_slice(op: ir.Operation, operands: Sequence[np.ndarray]) -> np.ndarray:
    [[source], *parts] = segments(op, operands)
    tile = source[box_of(op, parts, source.shape)]
    # the result drops dims of static size 1 only: those of dynamic size are all there, in order
    sizes = iter(parts[1])
    shape = ir.RankedTensorType(op.result.type).shape
    return tile.reshape([int(next(sizes)) if n == DYNAMIC else n for n in shape])


def insert_slice(op: ir.Operation, operands: Sequence[np.ndarray], into: np.ndarray) -> None:
    """Of tensor.insert_slice and tensor.parallel_insert_slice: put the first operand into a tensor
    that has the elements of the second one.
    """
    [[source], _, *parts] = segments(op, operands)
    place = into[(*box_of(op, parts, into.shape), ...)]  # of no dims, too, a view
    if [n for n in place.shape if n != 1] != [n for n in source.shape if n != 1]:
        raise IndexError(f"{op.name}: a tensor {source.shape} in a place {place.shape}")
    place[...] = source.reshape(place.shape)


# -- shapes --------------------------------------------------------------------------------------
def expand_shape(op: ir.Operation, operands: Sequence[np.ndarray]) -> np.ndarray:
    source, *sizes = operands
    return source.reshape(mixed(op, "static_output_shape", sizes))


def collapse_shape(op: ir.Operation, operands: Sequence[np.ndarray]) -> np.ndarray:
    [source] = operands
    groups = [[ir.IntegerAttr(d).value for d in group] for group in op.attributes["reassociation"]]
    return source.reshape([int(np.prod([source.shape[d] for d in g])) for g in groups])


def concat(op: ir.Operation, operands: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(operands, ir.IntegerAttr(op.attributes["dim"]).value)


def empty(op: ir.Operation, operands: Sequence[np.ndarray]) -> np.ndarray:
    type_ = ir.RankedTensorType(op.result.type)
    rest = iter(operands)
    shape = [int(next(rest)) if n == DYNAMIC else n for n in type_.shape]
    return unwritten(shape, tensor_dtype(type_))


def dim(op: ir.Operation, operands: Sequence[np.ndarray]) -> np.ndarray:
    source, number = operands
    return np.asarray(source.shape[int(number)], np.int64)


def pad_widths(op: ir.Operation, operands: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """Of a tensor.pad: how many elements come in front and behind, along each dim."""
    _, low, high = segments(op, operands)
    widths = [mixed(op, "static_low", low), mixed(op, "static_high", high)]
    if min((n for side in widths for n in side), default=0) < 0:
        raise IndexError(f"{op.name}: fewer than no elements: {widths}")
    return list(zip(*widths, strict=True))
