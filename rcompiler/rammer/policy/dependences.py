"""Which shares of a producer a share of a consumer needs: per tile, from the kernels' boxes."""

from collections.abc import Hashable, Sequence

import numpy as np

from rcompiler.rammer.graph import Graph
from rcompiler.rammer.kernel import WHOLE, Access, Kernel
from rcompiler.rammer.overlap import Bools, Overlaps, shares_of
from rcompiler.rammer.regions import Ints

Split = tuple[Kernel, Ints, Ints]  # kernel, first (n,), count (n,) of contiguous task ranges


class Dependences:
    """Exact dependences between splits of operators, remembered by kernel and split."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._links: dict[tuple[str, str], list[tuple[int, int, int, int]]] = {}
        self._needs: dict[Hashable, Bools] = {}
        self._touching = Overlaps()

    def links(self, producer: str, consumer: str) -> list[tuple[int, int, int, int]]:
        """(result, operand, byte offset of each in their root value) pairs with common bytes."""
        key = (producer, consumer)
        if key not in self._links:
            graph = self.graph
            found = []
            for i, written in enumerate(graph.operator[producer].outputs):
                root, low = graph.root(written)
                high = low + graph.value[written].bytes
                for j, read in enumerate(graph.operator[consumer].inputs):
                    other, start = graph.root(read)
                    end = start + graph.value[read].bytes
                    if root == other and low < end and start < high:
                        found.append((i, j, low, start))
            self._links[key] = found
        return self._links[key]

    def needs(self, producer: str, source: Split, consumer: str, target: Split) -> Bools:
        """(n consumer shares, m producer shares): which must be over before which may start.

        Read-only. Only the distance between what is written and what is read counts: the steps of a
        network have the same.
        """
        links = self.links(producer, consumer)
        distances = tuple([(i, j, start - low) for i, j, low, start in links])
        key = (_key(source), _key(target), distances)
        found = self._needs.get(key)
        if found is None:
            found = self._needs[key] = self._found(links, source, target)
            found.flags.writeable = False
        return found

    def _found(
        self, links: Sequence[tuple[int, int, int, int]], source: Split, target: Split
    ) -> Bools:
        result = np.zeros((len(target[1]), len(source[1])), bool)
        for i, j, low, start in links:
            write, read = source[0].writes[i], target[0].reads[j]
            if _all_of(target[0], read, start, write, low):
                result[:] = True
                return result
            result |= self._touching(
                shares_of(target[0], read, start, target[1], target[2]),
                shares_of(source[0], write, low, source[1], source[2]),
            )
        return result


def _key(split: Split) -> Hashable:
    """Equal for equal splits; the rKernels of a graph have names of their own."""
    kernel, first, count = split
    return kernel.name, first.tobytes(), count.tobytes()


def _all_of(kernel: Kernel, read: Access, start: int, write: Access, low: int) -> bool:
    """Whether every task of the consumer reads all that the producer writes."""
    if start > low or start + read.bytes < low + write.bytes:
        return False
    return all(d.axis == WHOLE or kernel.grid[d.axis] == 1 for d in read.dims) and all(
        _full(d.scale, d.offset, d.extent, size) if d.axis != WHOLE else True
        for d, size in zip(read.dims, read.shape, strict=True)
    )


def _full(scale: int, offset: int, extent: int, size: int) -> bool:
    """Whether the only coordinate, 0, of an axis covers the dim."""
    return offset <= 0 and offset + extent >= size
