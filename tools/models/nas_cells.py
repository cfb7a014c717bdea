"""Networks of one random cell repeated, of the space of NAS-Bench-101 (Ying et al. 2019).

A cell is a directed graph; its inner vertices are a 1x1 or a 3x3 convolution or a maximum, and what
goes into a vertex is added up. Rammer's evaluation of waits draws 5,000 of them (OSDI'20).
"""

from typing import NamedTuple

import numpy as np
from onnx import ModelProto

from rcompiler.errors import InvalidModel

from .graph import ModelGraph

MODELS = ("nas_cells",)

_OPERATORS = ("conv1x1", "conv3x3", "maxpool3x3")


def nas_cells(
    seed: int = 0,
    batch: int = 1,
    image: int = 32,
    channels: int = 128,
    cells: int = 3,
    stacks: int = 3,
    vertices: int = 7,
    edges: int = 9,
    classes: int = 10,
) -> ModelProto:
    """Input (batch, 3, image, image), logits (batch, classes). The seed draws the cell as well.

    channels: of the first stack; each of the ``stacks`` after it has half the height and width and
    twice the channels. cells: of a stack. vertices, edges: of a cell, at most, its input and output
    included.
    """
    if vertices < 3 or edges < 2:
        raise InvalidModel("nas_cells: a cell has 3 vertices and 2 edges or more")
    g = ModelGraph("nas_cells", seed)
    cell = _drawn(g.rng, vertices, edges)
    x = g.conv_bn(g.input("input", (batch, 3, image, image)), channels, 3, name="stem")
    for stack in range(stacks):
        x = g.max_pool(x, 2, 2) if stack else x
        for index in range(cells):
            with g.scope(f"stack{stack}.{index}"):
                x = _cell(g, x, cell, channels << stack)
    return g.model(output=(g.classifier(x, classes), (batch, classes)))


class _Cell(NamedTuple):
    """Vertex 0 is the input, the last one the output; an edge goes to a higher number."""

    edges: np.ndarray  # (vertices, vertices) of bool: [from, to]
    operators: tuple[str, ...]  # of the inner vertices


def _drawn(rng: np.random.Generator, vertices: int, edges: int) -> _Cell:
    """A uniform cell with an inner vertex and no more edges; every vertex lies on a path."""
    while True:
        drawn = np.triu(rng.random((vertices, vertices)) < 0.5, 1)
        operators = rng.integers(len(_OPERATORS), size=vertices - 2)
        kept = np.flatnonzero(_reached(drawn) & _reached(drawn.T[::-1, ::-1])[::-1])
        inner = drawn[np.ix_(kept, kept)]
        if len(kept) > 2 and kept[0] == 0 and kept[-1] == vertices - 1 and inner.sum() <= edges:
            return _Cell(inner, tuple(_OPERATORS[operators[k - 1]] for k in kept[1:-1]))


def _reached(edges: np.ndarray) -> np.ndarray:
    """Which vertices there is a path to from vertex 0; edges go to higher numbers only."""
    reached = np.arange(len(edges)) == 0
    for vertex in range(1, len(edges)):
        reached[vertex] = (edges[:vertex, vertex] & reached[:vertex]).any()
    return reached


def _widths(cell: _Cell, out: int) -> list[int]:
    """Channels of the vertices 1...: those at the output share its channels, as equally as they
    can; another has as many as the widest that reads it.
    """
    last = len(cell.edges) - 1
    ends = [v for v in range(1, last) if cell.edges[v, last]]
    widths = [0] * last + [out]
    for rank, vertex in enumerate(ends):
        widths[vertex] = out // len(ends) + (rank < out % len(ends))
    for vertex in range(last - 1, 0, -1):
        if vertex not in ends:
            widths[vertex] = max(widths[t] for t in range(vertex, last) if cell.edges[vertex, t])
    return widths


def _cell(g: ModelGraph, x: str, cell: _Cell, out: int) -> str:
    """A cell's input goes through a 1x1 convolution to every vertex that reads it."""
    widths, last = _widths(cell, out), len(cell.edges) - 1
    values = [x]
    for vertex in range(1, last):
        with g.scope(f"vertex{vertex}"):
            n = widths[vertex]
            scale = cell.edges[:, vertex].sum() ** -0.5  # of each summand: the sum is as large
            sources = [
                _narrowed(g, values[s], n) for s in range(1, vertex) if cell.edges[s, vertex]
            ]
            if cell.edges[0, vertex]:
                sources.append(g.conv_bn(x, n, 1, name="input", scale=scale))
            values.append(_vertex(g, _sum(g, sources), cell.operators[vertex - 1], scale))
    ends = [values[v] for v in range(1, last) if cell.edges[v, last]]
    y = g.concat(ends) if len(ends) > 1 else ends[0]
    if not cell.edges[0, last]:
        return y
    return g.op("Add", y, g.conv_bn(x, out, 1, name="output", scale=0.5))


def _vertex(g: ModelGraph, x: str, operator: str, scale: float) -> str:
    if operator == "maxpool3x3":
        return g.max_pool(x, 3, 1, 1)
    return g.conv_bn(x, g.width(x), int(operator[-1]), name=operator, scale=scale)


def _narrowed(g: ModelGraph, x: str, width: int) -> str:
    """The first ``width`` channels."""
    return x if g.width(x) == width else g.op("Slice", x, [0], [width], [1], width=width)


def _sum(g: ModelGraph, values: list[str]) -> str:
    total = values[0]
    for value in values[1:]:
        total = g.op("Add", total, value)
    return total
