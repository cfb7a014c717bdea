"""Several sizes of one model, compiled one after the other over one block of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from rcompiler.frontend.packed.packing import Packing, Packings
from rcompiler.frontend.size_sets import SizeSets
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.family import Family, together
from rcompiler.runtime.memory import arena
from rcompiler.support.packed_names import ROWS

_Sizes = TypeVar("_Sizes")


def compile_family(
    sizes: SizeSets,
    compile_one: Callable[[Mapping[str, Any], WeightPool], Artifact],
    pool: WeightPool | None = None,
    memory: Callable[[int, str], np.ndarray] = arena,
) -> Family:
    """The programs of a model.

    Args:
        sizes: what there shall be programs for.
        compile_one: a program for the shapes of a binding, whose weights are in the pool.
        pool: where their weights are, None for a new one.
        memory: for the block of weights, see `WeightPool.block`.

    Raises:
        CompilerError: as `compile_one`, of the first that fails.
    """
    programs = _programs(sizes.bindings, compile_one, pool, memory)
    fixed = (None,)  # of a key of random numbers, which is no input of the model
    axes = [sizes.axes.get(tensor.name, fixed) for tensor in programs[0].given]
    return together(sizes.symbols, axes, sizes.buckets, programs)


def compile_packed(
    packings: Packings, compile_one: Callable[[Packing, WeightPool], Artifact]
) -> Family:
    """The programs of a model for packed requests.

    Args:
        packings: what there shall be programs for.
        compile_one: as of `compile_family`.

    Raises:
        CompilerError: as `compile_one`, of the first that fails.
    """
    programs = _programs(packings.bindings, compile_one)
    axes = [
        tuple(0 if str(size) == ROWS else None for size in tensor.sizes)
        for tensor in programs[0].given
    ]
    found = together(packings.symbols, axes, packings.buckets, programs)
    return replace(found, packed=True)


def _programs(
    bindings: Sequence[_Sizes],
    compile_one: Callable[[_Sizes, WeightPool], Artifact],
    pool: WeightPool | None = None,
    memory: Callable[[int, str], np.ndarray] = arena,
) -> list[Artifact]:
    """One for each, over one block of weights, which the first has."""
    pool = WeightPool() if pool is None else pool
    programs = [compile_one(binding, pool) for binding in bindings]
    weights, storage = pool.block(memory)
    programs[0] = replace(programs[0], constants=weights, storage=storage)
    return programs
