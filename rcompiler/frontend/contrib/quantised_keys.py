"""Keys and values that lie in their buffers as integers of 8 or 4 bits, with a scale for the tensor
or for each column of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

from .node import Node

_RANGES = {8: (-128, 127), 4: (-8, 7)}


@dataclass(frozen=True)
class Numbers:
    """How numbers lie in a buffer: as floats where `bits` is 0, else as integers. Of 4 bits, a byte
    has two neighbours, each 8 more than it is, the first one in its lower half.
    """

    bits: int
    scale: str

    def width(self, size: int) -> int:
        """How many elements a row of a buffer has for a head of `size`."""
        return size // 2 if self.bits == 4 else size

    def stored(self, n: Node, x: str, shape: tuple[int, ...], dtype: str) -> str:
        """Floats [batch, heads, steps, size] as a buffer has them."""
        if not self.bits:
            return x
        steps = n.op("Round", n.op("Div", n.cast(x, "float32"), self.scale))
        low, high = (n.constant(bound, "float32") for bound in _RANGES[self.bits])
        steps = n.op("Clip", steps, low, high)
        if self.bits == 8:
            return n.cast(steps, dtype)
        above = n.cast(n.op("Add", steps, n.constant(8, "float32")), "uint8")
        first, second = (
            n.op("Squeeze", part, n.ints(-1))
            for part in n.split(n.reshaped(above, *shape[:-1], shape[-1] // 2, 2), -1, 1, 1)
        )
        upper = n.op("BitShift", second, n.constant(4, "uint8"), direction="LEFT")
        return n.op("BitwiseOr", first, upper)

    def real(self, n: Node, x: str, shape: tuple[int, ...], dtype: str) -> str:
        """A buffer as floats of `shape`."""
        if not self.bits:
            return x
        if self.bits == 4:
            first = n.op("BitwiseAnd", x, n.constant(15, "uint8"))
            second = n.op("BitShift", x, n.constant(4, "uint8"), direction="RIGHT")
            both = n.op("Concat", *(n.unsqueezed(part, -1) for part in (first, second)), axis=-1)
            steps = n.cast(n.reshaped(both, *shape), "float32")
            steps = n.op("Sub", steps, n.constant(8, "float32"))
        else:
            steps = n.cast(x, "float32")
        return n.cast(n.op("Mul", steps, self.scale), dtype)


def numbers_of(n: Node, letter: str, past: str, heads: int, size: int) -> Numbers:
    """Those of a buffer "k" or "v" of GroupQueryAttention.

    Raises UnsupportedOp of a form that is not translated, ShapeError of what does not fit.
    """
    kind, name, bits = n.attr(f"{letter}_quant_type"), f"{letter}_scale", 0
    if kind == "NONE":
        if n.has(name):
            raise n.shape_error(f"'{name}' is given, and {letter}_quant_type is NONE")
        if n.has(past) and n.dtype(past) != n.dtype("query"):
            raise n.shape_error(f"'{past}' is {n.dtype(past)}; {n.dtype('query')} is expected")
        return Numbers(0, "")
    if kind not in ("PER_TENSOR", "PER_CHANNEL"):
        raise n.shape_error(
            f"{letter}_quant_type '{kind}' is none of NONE, PER_TENSOR, PER_CHANNEL"
        )
    bits = n.attr("kv_cache_bit_width")
    if not n.has(past) or not n.has(name):
        raise n.shape_error(f"'{past}' or '{name}' is missing, which {kind} needs")
    if (bits, n.dtype(past)) not in ((8, "int8"), (4, "uint8")) or size % 2:
        reason = f"'{past}' of {n.dtype(past)} with {bits} bits is not translated"
        raise n.refuse(reason, "Use int8 with kv_cache_bit_width 8, or uint8 with 4")
    if kind == "PER_TENSOR":
        n.need_shape(name, (), (1,))
        return Numbers(bits, n.cast(name, "float32"))
    each = (1, heads, 1, size)
    n.need_shape(name, each, (heads, 1, size), (heads * size,), (heads, size))
    return Numbers(bits, n.reshaped(n.cast(name, "float32"), *each))
