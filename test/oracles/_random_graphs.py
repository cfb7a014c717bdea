"""Random graphs for the scheduler: all that a graph may hold, in a few hundred bytes.

Operators with one or two results and up to three rKernels of different grids; reads by tiles,
overlapping and strided windows, diagonals and whole tensors; reshapes, slices and concatenations;
operators that may work in place; constants, some with equal content; several inputs and outputs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from math import prod

from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel

Shape = tuple[int, ...]


def random_graph(rng: random.Random, operators: int, most: int = 64) -> Graph:
    """A graph of so many operators over tensors of at most `most` elements."""
    made = _Making(rng, most)
    for number in range(rng.randint(1, 3)):
        made.add(Value(f"x{number}", 0, "input", index=number), made.shape(), rng.choice((1, 2, 4)))
    for number in range(rng.randint(0, 3)):
        shape, key = ((4, 4), f"key{number // 2}") if rng.random() < 0.5 else (made.shape(), "")
        made.add(Value(f"w{number}", 0, "constant", key=key), shape, 2)
    for number in range(operators):
        made.operator(number)
        if rng.random() < 0.25:
            made.concatenate(f"c{number}")
    return made.graph()


@dataclass
class _Making:
    """A graph in the making. tensors: shape and itemsize of each value that may be read."""

    rng: random.Random
    most: int
    values: dict[str, Value] = field(default_factory=dict)
    tensors: dict[str, tuple[Shape, int]] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)

    def shape(self) -> Shape:
        """A random shape."""
        shape: list[int] = []
        for _ in range(self.rng.choice((1, 2, 2, 3))):
            shape.append(self.rng.randint(1, max(1, min(9, self.most // prod(shape)))))
        if self.rng.random() < 0.1:
            return (self.rng.randint(1, self.most),)
        return tuple(shape)

    def add(self, value: Value, shape: Shape, itemsize: int) -> str:
        """A new value of this shape."""
        self.values[value.name] = replace(value, bytes=prod(shape) * itemsize)
        self.tensors[value.name] = (shape, itemsize)
        return value.name

    def operator(self, number: int) -> None:
        """One more operator, that reads any of the values so far."""
        rng = self.rng
        recent = [*self.tensors][-6:]
        inputs = [self._seen(rng.choice(recent)) for _ in range(rng.randint(1, 3))]
        shape = self.tensors[inputs[0]][0] if rng.random() < 0.5 else self.shape()
        size = self.tensors[inputs[0]][1] if rng.random() < 0.7 else rng.choice((1, 2, 4))
        results = rng.choice((1, 1, 1, 2))
        kernels = [
            self._kernel(f"k{number}_{i}", inputs, shape, size, results)
            for i in range(rng.choice((1, 1, 2, 3)))
        ]
        names = [f"v{number}", f"u{number}"][:results]
        outputs = tuple(self.add(Value(name, 0), shape, size) for name in names)
        self.kernels += kernels
        self.operators.append(
            Operator(f"o{number}", tuple(k.name for k in kernels), tuple(inputs), outputs)
        )

    def _seen(self, name: str) -> str:
        """The value, or now and then a view of it: a reshape, or a slice of the first dim."""
        rng = self.rng
        shape, size = self.tensors[name]
        kind = rng.random()
        if kind > 0.2 or self.values[name].kind in ("input", "constant"):
            return name
        low, high = 0, shape[0]
        if kind < 0.1:
            low = rng.randrange(shape[0])
            high = rng.randint(low + 1, shape[0])
        row = prod(shape[1:])
        count = (high - low) * row
        split = rng.choice([d for d in range(1, count + 1) if count % d == 0])
        view = Value(f"{name}_{len(self.values)}", 0, "temp", name, -1, low * row * size)
        return self.add(view, (split, count // split), size)

    def _kernel(
        self, name: str, inputs: list[str], shape: Shape, itemsize: int, results: int
    ) -> Kernel:
        rng = self.rng
        axes = [*range(len(shape))]
        rng.shuffle(axes)
        tile = [rng.choice((1, 2, 3, -(-size // 2), size)) for size in shape]
        grid = [0] * len(shape)
        dims = []
        for axis, step, size in zip(axes, tile, shape, strict=True):
            grid[axis] = -(-size // step)
            dims.append(DimAccess(axis, step, 0, step) if step < size else DimAccess())
        write = Access(shape, itemsize, tuple(dims))
        reads = tuple(self._read(name, tuple(grid), write) for name in inputs)
        places = [(i, r) for i, read in enumerate(reads) if read == write for r in range(results)]
        in_place = tuple(places[:1]) if rng.random() < 0.8 else ()
        cost = 10.0 ** rng.uniform(1, 4)
        return Kernel(name, tuple(grid), reads, (write,) * results, cost, in_place=in_place)

    def _read(self, name: str, grid: Shape, write: Access) -> Access:
        rng = self.rng
        shape, itemsize = self.tensors[name]
        if (shape, itemsize) == (write.shape, write.itemsize) and rng.random() < 0.5:
            return write
        return Access(shape, itemsize, tuple(self._dim(size, grid) for size in shape))

    def _dim(self, size: int, grid: Shape) -> DimAccess:
        rng = self.rng
        kind = rng.random()
        if kind < 0.25:
            return DimAccess()
        axis = rng.randrange(len(grid))
        step = -(-size // grid[axis])
        if kind < 0.7:  # a window, or without a halo a tile
            halo = rng.choice((0, 0, 1, 2))
            return DimAccess(axis, step, -halo, step + 2 * halo)
        return DimAccess(axis, rng.randint(0, 4), rng.randint(-2, 3), rng.randint(0, 5))

    def concatenate(self, name: str) -> None:
        """Two results become parts of a value that later operators read as a whole."""
        whole = {v.alias_of for v in self.values.values()}
        written = [n for op in self.operators for n in op.outputs]
        free = [n for n in written if self.values[n].alias_of is None and n not in whole]
        if len(free) < 2:
            return
        offset = 0
        for part in self.rng.sample(free, 2):
            self.values[part] = replace(self.values[part], alias_of=name, alias_offset=offset)
            offset += self.values[part].bytes
        self.add(Value(name, 0), (offset,), 1)
        if self.rng.random() < 0.8:  # else the parts may still be read by themselves
            self.tensors = {n: t for n, t in self.tensors.items() if self._root(n) != name
                            or n == name}  # fmt: skip

    def _root(self, name: str) -> str:
        while (parent := self.values[name].alias_of) is not None:
            name = parent
        return name

    def graph(self) -> Graph:
        """The graph; some of what nobody reads becomes outputs, directly or through a view."""
        read = {self._root(n) for op in self.operators for n in op.inputs}
        made = [n for op in self.operators for n in op.outputs]
        roots = [n for n in made if self._root(n) == n]
        index = 0
        for name in roots:
            if (name in read and self.rng.random() < 0.8) or self.rng.random() < 0.1:
                continue
            value = self.values[name]
            if self.rng.random() < 0.3:
                self.values[f"y{index}"] = Value(f"y{index}", value.bytes, "output", name, index)
            else:
                self.values[name] = replace(value, kind="output", index=index)
            index += 1
        return Graph(tuple(self.operators), tuple(self.values.values()), tuple(self.kernels))
