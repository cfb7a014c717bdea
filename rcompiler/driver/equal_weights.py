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
        if block is own or np.array_equal(_words(block), _words(own)):
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
    if not np.array_equal(_words(part), _words(own)):
        return artifact
    return replace(artifact, constants=part)


def _words(block: np.ndarray) -> np.ndarray:
    """In as few elements as possible."""
    return block.view(np.uint64) if block.size % 8 == 0 else block
