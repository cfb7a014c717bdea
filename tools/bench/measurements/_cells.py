"""Cells of operators as neural architecture search draws them, with given times and no bodies.

Five to nine operators, a 3x3 or 1x1 convolution or a pooling each, over values of one size; every
operator reads one or two earlier ones, and what nobody reads goes to the output (NAS-Bench-101's
cells; times per rTask as in the simulations that the schedules are compared with).
"""

import random

from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel

_BYTES = 1 << 20  # of every value
# Least and most us of an rTask, by kind.
_TIMES = {"conv3x3": (6.0, 12.0), "conv1x1": (2.0, 5.0), "pool": (1.0, 3.0)}
_TASKS = (8, 16, 32, 64, 128)


def cell(seed: int, whole: bool = True) -> Graph:
    """A random cell. whole: every rTask needs all of an operand, not its own part only."""
    draw = random.Random(seed)
    count = draw.randint(5, 9)
    kernels, operators, values = [], [], [Value("x", _BYTES, "input", index=0)]
    read: set[int] = set()
    for i in range(count):
        earlier = [draw.randrange(-1, i) for _ in range(draw.randint(1, 2))]
        if i == count - 1:
            earlier = [j for j in range(i) if j not in read] or earlier
        sources = sorted(set(earlier))
        read.update(sources)
        kernels.append(_kernel(draw, i, len(sources), whole))
        names = tuple("x" if j < 0 else f"v{j}" for j in sources)
        operators.append(Operator(f"o{i}", (kernels[-1].name,), names, (f"v{i}",)))
        last = i == count - 1
        values.append(Value(f"v{i}", _BYTES, "output" if last else "temp", index=0 if last else -1))
    return Graph(tuple(operators), tuple(values), tuple(kernels))


def _kernel(draw: random.Random, number: int, operands: int, whole: bool) -> Kernel:
    kind = draw.choice(sorted(_TIMES))
    tasks = draw.choice(_TASKS)
    size = _BYTES // tasks
    own = Access((_BYTES,), 1, (DimAccess(0, size, 0, size),))
    read = Access.whole((_BYTES,), 1) if whole else own
    ns = round(draw.uniform(*_TIMES[kind]), 1) * 1e3
    return Kernel(f"{kind}_{number}", (tasks,), (read,) * operands, (own,), ns)
