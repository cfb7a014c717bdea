"""Loops and branches: scf.for, scf.if, scf.forall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from numpy_linalg.tensors import box_of, insert_slice, mixed, segments

Run = Callable[[ir.Block, Sequence[Any]], list[Any]]  # of a block: what its terminator takes


def for_loop(op: ir.Operation, operands: Sequence[Any], run: Run) -> list[Any]:
    """scf.for; of a step of 0 or less, which has no meaning, ValueError."""
    low, high, step, *carried = operands
    if step <= 0:
        raise ValueError(f"scf.for by a step of {step}")
    block = op.regions[0].blocks[0]
    for number in range(int(low), int(high), int(step)):
        carried = run(block, [np.asarray(number, low.dtype), *carried])
    return list(carried)


def branch(op: ir.Operation, operands: Sequence[Any], run: Run) -> list[Any]:
    """scf.if."""
    [condition] = operands
    region = op.regions[0 if condition else 1]
    return run(region.blocks[0], []) if len(region.blocks) else []


def parallel_loop(
    op: ir.Operation, operands: Sequence[Any], run: Run, rng: np.random.Generator
) -> list[Any]:
    """scf.forall, its iterations in any order.

    Raises IndexError: an element of a result is written by two of them.
    """
    low, high, step, results = segments(op, operands)
    names = ("staticLowerBound", "staticUpperBound", "staticStep")
    bounds = [mixed(op, name, part) for name, part in zip(names, (low, high, step), strict=True)]
    steps = [range(*each) for each in zip(*bounds, strict=True)]
    block = op.regions[0].blocks[0]
    shared = list(block.arguments)[len(steps) :]
    written = [np.zeros(each.shape, np.bool_) for each in results]
    sizes = [len(each) for each in steps]
    results = [each.copy() for each in results]
    for flat in rng.permutation(int(np.prod(sizes))):
        point = np.unravel_index(flat, sizes)
        where = [np.asarray(each[int(k)]) for each, k in zip(steps, point, strict=True)]
        for insert, values in run(block, [*where, *results]):
            number = shared.index(insert.operands[1])
            box = box_of(insert, segments(insert, values)[2:], results[number].shape)
            if written[number][box].any():
                raise IndexError(f"two iterations write elements {box} of a result of scf.forall")
            written[number][box] = True
            insert_slice(insert, values, results[number])
    return results
