"""Several sizes of one model, compiled one after the other over one block of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rcompiler.frontend.size_sets import SizeSets
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.family import Family, together
from rcompiler.runtime.memory import arena


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
    pool = WeightPool() if pool is None else pool
    programs = [compile_one(binding, pool) for binding in sizes.bindings]
    weights, storage = pool.block(memory)
    programs[0] = replace(programs[0], constants=weights, storage=storage)
    axes = [sizes.axes[tensor.name] for tensor in programs[0].given]
    return together(sizes.symbols, axes, sizes.buckets, programs)
