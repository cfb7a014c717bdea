"""Whether blocks of as many channels as a step of tile registers takes make a function faster.

Wide blocks let tile registers take all bytes that fit; but channels that are no multiple of them
are padded, which every operator then computes. What counts is the estimated time of all
convolutions, in cycles, with one block or the other.
"""

from __future__ import annotations

import math

from torch_mlir import ir

from rcompiler.linalg.convolution import convolution, depthwise_operand
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of
from rcompiler.passes.ir.operators import generics

_VECTOR = 32.0  # multiply-adds of vectors in a cycle: 2 ports of 16 lanes
_TILE = 16.0  # of tile registers, for each byte of a step: one row of 16 columns a cycle
_EPILOGUE = 0.25  # cycles for each result, of which there are 16 in a vector


def tile_blocks_pay(body: ir.Block, lanes: int, tile_lanes: int) -> bool:
    """Whether blocks of `tile_lanes` channels are faster than those of `lanes`; not where nothing
    multiplies bytes.
    """
    some, wide, narrow = False, 0.0, 0.0
    for op in generics(body):
        generic = Generic(op)
        found = convolution(op)
        channels = set()
        if found is not None and not found.grouped:
            channels = {found.input_channel, found.output_channel}
        elif (image := depthwise_operand(op)) is not None:
            channels = {generic.dims[image][1]}
        if not channels:
            continue
        tiles = len(channels) == 2 and all(element_of(v) == "i8" for v in generic.inputs)
        some |= tiles
        wide += _cycles(generic, channels, tile_lanes, _TILE * tile_lanes if tiles else _VECTOR)
        narrow += _cycles(generic, channels, lanes, _TILE * lanes if tiles else _VECTOR)
    return some and wide < narrow


def _cycles(generic: Generic, channels: set[int], lanes: int, rate: float) -> float:
    """Of a convolution whose channels come in blocks of `lanes`; rate: multiply-adds in a cycle."""
    sizes = [
        -(-size // lanes) * lanes if dim in channels else size
        for dim, size in enumerate(generic.sizes)
    ]
    results = math.prod(n for dim, n in enumerate(sizes) if dim not in generic.reduction_dims)
    return math.prod(sizes) / rate + results * _EPILOGUE
