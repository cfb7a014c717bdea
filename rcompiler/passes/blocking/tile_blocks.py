"""How many channels to a block make a function fastest, where tile registers multiply.

Wide blocks let tile registers take all bytes that fit into a step; but channels that are no
multiple of them are padded, which every operator then computes. What counts is the estimated time
of all convolutions, in cycles, with blocks of one size or another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch_mlir import ir

from rcompiler.linalg.convolution import convolution, depthwise_operand
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of
from rcompiler.passes.ir.operators import generics

_NARROW = {"i8", "bf16"}  # what tile registers multiply
_VECTOR = 32.0  # multiply-adds of vectors in a cycle: 2 ports of 16 lanes
_COLUMNS = 16.0  # results of tile registers in a cycle, each of a step
_EPILOGUE = 0.25  # cycles for each result, of which there are 16 in a vector


def best_lanes(body: ir.Block, lanes: int, step_bytes: int) -> int:
    """Channels of a block with which the convolutions of a function take least time: `lanes`, or
    twice that and so on, up to as many as a step of `step_bytes` takes.
    """
    sizes = {item_bytes(element) for _, _, element in _convolutions(body) if element in _NARROW}
    if not sizes or not step_bytes:
        return lanes
    most = step_bytes // min(sizes)
    choices = [lanes * n for n in range(1, most // lanes + 1) if most % (lanes * n) == 0]
    return min(choices or [lanes], key=lambda count: (_cycles(body, count, step_bytes), count))


def _convolutions(body: ir.Block) -> Iterator[tuple[Generic, set[int], str]]:
    """Each convolution with its channel dims, and the type that it multiplies; f32 where tile
    registers do not.
    """
    for op in generics(body):
        generic = Generic(op)
        found = convolution(op)
        if found is not None and not found.grouped:
            elements = {element_of(v) for v in generic.inputs}
            narrow = len(elements) == 1 and elements <= _NARROW
            channels = {found.input_channel, found.output_channel}
            yield generic, channels, elements.pop() if narrow else "f32"
        elif (image := depthwise_operand(op)) is not None:
            yield generic, {generic.dims[image][1]}, "f32"


def _cycles(body: ir.Block, lanes: int, step_bytes: int) -> float:
    """Of all convolutions, whose channels come in blocks of `lanes`."""
    total = 0.0
    for generic, channels, element in _convolutions(body):
        step = min(lanes, step_bytes // item_bytes(element))
        rate = _COLUMNS * step if element in _NARROW else _VECTOR
        sizes = [
            -(-size // lanes) * lanes if dim in channels else size
            for dim, size in enumerate(generic.sizes)
        ]
        results = math.prod(n for dim, n in enumerate(sizes) if dim not in generic.reduction_dims)
        total += math.prod(sizes) / rate + results * _EPILOGUE
    return total
