"""Equal weights of models that are compiled one after the other lie in memory once.

Programs of one network for several shapes, as sessions and `torch.compile` have them, mostly read
their weights in one layout. Nobody writes to weights, so that models can share them.
"""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np

from rcompiler.runtime.artifact import Artifact

_LEAST = 64 << 10  # bytes that are worth a comparison
_PIECE = 1 << 20  # bytes that are compared at a time

# By their size, the blocks of models that are there. Threads that compile at the same time may miss
# each other's: then there are two.
_blocks: dict[int, list[weakref.ref[np.ndarray]]] = {}


def with_shared_weights(artifact: Artifact) -> Artifact:
    """The same, with the block of weights of another model where that has the same bytes.

    Args:
        artifact: of a model that was just compiled.
    """
    own = artifact.constants
    if own.size < _LEAST:
        return artifact
    blocks = [block for each in _blocks.get(own.size, ()) if (block := each()) is not None]
    for block in blocks:
        if block is own or _equal(block, own):
            return replace(artifact, constants=block)
    _blocks[own.size] = [*map(weakref.ref, blocks), weakref.ref(own)]
    return artifact


def with_weights_of(artifact: Artifact, block: np.ndarray) -> Artifact:
    """The same, with its weights in a block that begins with the same bytes; itself where none
    does, or they lie there already.

    Args:
        artifact: of a model.
        block: uint8[bytes], aligned as that of any artifact.
    """
    own = artifact.constants
    part = block[: own.size]
    if own.size < _LEAST or own.size != part.size or own.ctypes.data == part.ctypes.data:
        return artifact
    if not _equal(part, own):
        return artifact
    return replace(artifact, constants=part)


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    """Of uint8 of one size, piece by piece: numpy makes a boolean of each element."""
    pieces = [slice(start, start + _PIECE) for start in range(0, first.size, _PIECE)]
    return all(np.array_equal(_words(first[each]), _words(second[each])) for each in pieces)


def _words(piece: np.ndarray) -> np.ndarray:
    """In as few elements as possible."""
    return piece.view(np.uint64) if piece.size % 8 == 0 else piece
