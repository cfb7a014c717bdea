"""What rTasks compute, and what the graph computes: operator by operator, in graph order."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from oracles.interpret.tasks import Bytes, box_bytes
from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, waves
from rcompiler.rammer.kernel import Kernel

Shape = tuple[int, ...]
# (operator, task, one array (*box, itemsize) of bytes per operand, shapes of the results' boxes) ->
# one such array per result. A box of a typed body: `operand.view(np.float32)[..., 0]`.
Body = Callable[[str, int, Sequence[Bytes], Sequence[Shape]], Sequence[Bytes]]


def digest(
    operator: str, task: int, operands: Sequence[Bytes], results: Sequence[Shape]
) -> list[Bytes]:
    """Every byte depends on all bytes read, on the operator and on the task.

    So a schedule that lets any task read any wrong byte ends, but for a chance of 1 in 256 for
    each byte written, in other results.
    """
    state = hashlib.shake_128(f"{operator} {task}".encode())
    for operand in operands:
        state.update(operand.tobytes())
    found = []
    for number, shape in enumerate(results):
        mine = state.copy()
        mine.update(bytes([number]))
        found.append(np.frombuffer(mine.digest(prod(shape)), np.uint8).reshape(shape))
    return found


def content(name: str, size: int) -> Bytes:
    """Random bytes of an input, a constant, or of memory that nobody has written."""
    return np.frombuffer(hashlib.shake_128(name.encode()).digest(size), np.uint8).copy()


def outer_bytes(graph: Graph, root: str) -> Bytes:
    """Content of an input or constant: equal keys, equal bytes."""
    value = graph.value[root]
    name = f"input {value.index}" if value.kind == "input" else f"constant {value.key or root}"
    return content(name, value.bytes)


def reference(
    graph: Graph, kernels: Mapping[str, Kernel], bodies: Mapping[str, Body]
) -> dict[str, Bytes]:
    """The bytes of every root value once all operators ran one after the other.

    kernels: the rKernel of each operator; bodies: of operators, `digest` for the others.
    """
    memory: dict[str, Bytes] = {}
    for root in graph.views:
        known = graph.value[root].kind in ("input", "constant")
        memory[root] = outer_bytes(graph, root) if known else content(root, graph.value[root].bytes)
    for wave in waves(graph):
        for op in wave:
            kernel = kernels[op.name]
            for task in range(kernel.tasks):
                operands = []
                for name, access in zip(op.inputs, kernel.reads, strict=True):
                    at, shape = box_bytes(kernel.grid, access, task)
                    root, offset = graph.root(name)
                    operands.append(memory[root][at + offset].reshape(shape))
                boxes = [box_bytes(kernel.grid, access, task) for access in kernel.writes]
                body = bodies.get(op.name, digest)
                results = compute(body, op.name, task, operands, [shape for _, shape in boxes])
                for name, (at, _), result in zip(op.outputs, boxes, results, strict=True):
                    root, offset = graph.root(name)
                    memory[root][at + offset] = result
    return memory


def compute(
    body: Body, operator: str, task: int, operands: Sequence[Bytes], shapes: Sequence[Shape]
) -> list[Bytes]:
    """Results as flat bytes. Raises ScheduleError when they do not fill the task's boxes."""
    results = [np.ascontiguousarray(r).reshape(-1) for r in body(operator, task, operands, shapes)]
    sizes = [prod(shape) for shape in shapes]
    if [r.size for r in results] != sizes or any(r.dtype != np.uint8 for r in results):
        raise ScheduleError(
            f"the body of operator {operator} returns {[r.size for r in results]} bytes for rTask "
            f"{task}, its boxes have {sizes}: return one array of bytes per result"
        )
    return results
