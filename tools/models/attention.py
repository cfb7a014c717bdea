"""Multi-head attention in the nodes that exporters write; shared by the transformer models."""

from __future__ import annotations

from dataclasses import dataclass

from .graph import ModelGraph

LOWEST = -3.4028234663852886e38  # what exporters add to a masked score: the lowest float32


@dataclass(frozen=True)
class Heads:
    """Shape of an attention layer: (batch, length, heads * size) split into heads."""

    batch: int
    length: int
    heads: int
    size: int

    def split(self, g: ModelGraph, x: str, *, keys: bool = False) -> str:
        """(batch, length, heads * size) to (batch, heads, length, size), or transposed keys."""
        x = g.op("Reshape", x, [self.batch, self.length, self.heads, self.size])
        return g.op("Transpose", x, perm=[0, 2, 3, 1] if keys else [0, 2, 1, 3])

    def join(self, g: ModelGraph, x: str) -> str:
        """The inverse of ``split``."""
        x = g.op("Transpose", x, perm=[0, 2, 1, 3])
        width = self.heads * self.size
        return g.op("Reshape", x, [self.batch, self.length, width], width=width)

    def scores(self, g: ModelGraph, q: str, k: str) -> str:
        """q k^T / sqrt(size) of split operands: (batch, heads, length, length)."""
        return g.op("Div", g.op("MatMul", q, k), float(self.size) ** 0.5)

    def mix(self, g: ModelGraph, scores: str, v: str) -> str:
        """Softmax of the scores times the values, joined."""
        return self.join(g, g.op("MatMul", g.op("Softmax", scores, axis=-1), v))


def gelu_erf(g: ModelGraph, x: str) -> str:
    """x / 2 * (1 + erf(x / sqrt 2)) as exported: Div, Erf, Add, Mul, Mul."""
    y = g.op("Erf", g.op("Div", x, 2.0**0.5))
    return g.op("Mul", g.op("Mul", x, g.op("Add", y, 1.0)), 0.5)
