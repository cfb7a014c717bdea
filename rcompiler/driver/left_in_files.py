"""Weights of a model that is compiled from a file, left there when it is imported.

The import reads a weight to know what it is, and what is written of it later is made of the bytes
of the file: until then nobody needs it. So a model of 2 GB takes 2 GB while it is compiled, in the
order of the code, and none for what `save` writes in the place of what a load can make.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rcompiler.errors import InvalidModel
from rcompiler.frontend.weights_outside import File, origin_of
from rcompiler.runtime.deferred import Constant
from rcompiler.runtime.recipes import Derived, Permute
from rcompiler.runtime.stored import Stored

_WEIGHT = 1 << 16  # bytes of one that is worth to be read again
_MODEL = 16 << 20  # bytes of all of them that are worth files that stay open


def left_in_files(arrays: Mapping[str, np.ndarray]) -> dict[str, Constant]:
    """The same constants, those that were read of files as what is there.

    Args:
        arrays: by their keys, as they were imported.

    Raises:
        InvalidModel: the system refuses to keep a file open.
    """
    found = {key: _in_a_file(array) for key, array in arrays.items() if array.nbytes >= _WEIGHT}
    if sum(arrays[key].nbytes for key, place in found.items() if place is not None) < _MODEL:
        return dict(arrays)
    kept: dict[File, File] = {}
    made: dict[str, Constant] = dict(arrays)
    for key, place in found.items():
        if place is not None:
            file, start, order = place
            made[key] = _stored(arrays[key], _another(file, kept), start, order)
    return made


def _in_a_file(array: np.ndarray) -> tuple[File, int, list[int]] | None:
    """The file of an array, where its bytes begin there, and the order of the dims in which they
    lie one behind the other; None where there is none.
    """
    order = np.argsort([-stride for stride in array.strides], kind="stable")
    plain = array.transpose(order)
    origin = origin_of(plain) if plain.flags.c_contiguous else None
    return None if origin is None else (origin.file, origin.start, order.tolist())


def _another(file: File, kept: dict[File, File]) -> File:
    """The file that stays open for as long as a weight in it is needed."""
    if file not in kept:
        try:
            kept[file] = file.another()
        except OSError as error:
            raise InvalidModel(f"the file of the model: {error.strerror or error}") from None
    return kept[file]


def _stored(array: np.ndarray, file: File, start: int, order: list[int]) -> Constant:
    plain = array.transpose(order)
    stored = Stored(file, start, plain.shape, plain.dtype)
    if order == sorted(order):
        return stored
    return Derived(stored, Permute(tuple(np.argsort(order).tolist())))
