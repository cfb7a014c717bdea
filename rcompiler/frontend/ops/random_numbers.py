"""RandomUniform, RandomNormal (and Like), Multinomial.

Numbers come from a hash of the element's position and the node's seed, so that they do not depend
on the schedule, and every run of a compiled model gives the same ones. Without the attribute seed,
the node's name is the seed. (Bernoulli is a function of the standard.)
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.prefix import prefix
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar


def _seed(ctx: Context) -> int:
    seed = ctx.attr("seed")
    data = ctx.name.encode() if seed is None else struct.pack("<f", seed)
    return zlib.crc32(data)


def _hash(s: Body, x: Scalar) -> Scalar:
    """A bijection of uint32 that spreads every bit (C. Wellons, "lowbias32", 2018)."""
    x = (x ^ s.shift_right(x, 16)) * 0x7FEB352D
    x = (x ^ s.shift_right(x, 15)) * 0x846CA68B
    return x ^ s.shift_right(x, 16)


def _uniform(s: Body, shape: Sequence[int], seed: int, dtype: str) -> Scalar:
    """A number in [0, 1) for the element of the enclosing generic over ``shape``."""
    flat = s.const(0, "index")
    for i, size in enumerate(shape):
        flat = flat * size + s.index(i)
    bits = _hash(s, _hash(s, s.cast(flat, "uint32") ^ seed) + (seed * 0x9E3779B9 & 0xFFFFFFFF))
    # 24 bits are exact in f32; a signed conversion is the cheap one.
    high = s.as_type(s.shift_right(bits, 8), "int32")
    return s.cast(high, dtype) * 2.0**-24


@lowering("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def _random(ctx: Context) -> Value:
    like = ctx.op.endswith("Like")
    shape = list(ctx.input(0).shape) if like else [int(d) for d in ctx.attr("shape", [])]
    number = ctx.attr("dtype")
    dtype = dtypes.from_onnx(number) if number else ctx.input(0).dtype if like else "float32"
    if not dtypes.is_float(dtype):
        raise ctx.refuse(f"random numbers of {dtype} are not translated", "Set dtype to float32")
    ctx.check_size(shape, dtype)
    wide, seed = dtypes.wide(dtype), _seed(ctx)

    def uniform(s: Body) -> Scalar:
        low, high = ctx.attr("low", 0.0), ctx.attr("high", 1.0)
        return s.cast(_uniform(s, shape, seed, wide) * (high - low) + low, dtype)

    def normal(s: Body) -> Scalar:
        """The Box-Muller transform of two uniform numbers."""
        radius = s.sqrt(s.log(1.0 - _uniform(s, shape, seed, wide)) * -2.0)
        angle = _uniform(s, shape, zlib.crc32(b"angle", seed), wide) * (2 * math.pi)
        deviate = radius * s.cos(angle)
        return s.cast(deviate * ctx.attr("scale", 1.0) + ctx.attr("mean", 0.0), dtype)

    return ctx.b.tabulate(shape, dtype, uniform if "Uniform" in ctx.op else normal)


@lowering("Multinomial")
def _multinomial(ctx: Context) -> Value:
    """Classes drawn with probabilities proportional to ``exp(x)``, x [batch, classes]."""
    ctx.need_float()
    b, x = ctx.b, ctx.input(0)
    dtype, count = dtypes.from_onnx(ctx.attr("dtype", 6)), ctx.attr("sample_size", 1)
    if x.rank != 2 or not x.size or count < 1 or dtype not in ("int32", "int64"):
        raise ctx.shape_error("the input is [batch, classes], the result int32 or int64")
    batch, classes = x.shape
    wide, seed = "float32", _seed(ctx)
    x = b.cast(x, wide)
    top = b.reduce(x, [1], float("-inf"), lambda s, a, acc: s.maximum(acc, a), keepdims=True)
    weights = b.elementwise(lambda s, a, m: s.exp(a - m), x, top)
    sums = b.reshape(
        prefix(b, b.reshape(weights, [batch, classes, 1]), lambda a, c: a + c, 0, exclusive=False),
        [batch, classes],
    )

    def body(s: Body, reached: Scalar, total: Scalar, acc: Scalar) -> Scalar:
        draw = _uniform(s, [batch, count], seed, wide) * total
        # The last class is drawn also when rounding puts the draw on the total.
        passed = (reached <= draw) & (s.index(2) < classes - 1)
        return acc + s.cast(passed, dtype)

    reads = [(sums, "d0, d2"), (sums, f"d0, {classes - 1}")]
    return b.fold(reads, [batch, count], dtype, 0, "ppr", body)
