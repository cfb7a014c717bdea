"""RandomUniform, RandomNormal (and Like), Multinomial.

Numbers are a hash of the element's position, of the node's seed and of the key of the call
(`support.random_keys`), so that they do not depend on the schedule. Without the attribute seed, the
node's name is the seed. (Bernoulli is a function of the standard.)
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
from rcompiler.frontend.scalar import Operand, Scalar
from rcompiler.frontend.value import extent_of
from rcompiler.support.extent import highest


def _seed(ctx: Context) -> int:
    seed = ctx.attr("seed")
    data = ctx.name.encode() if seed is None else struct.pack("<f", seed)
    return zlib.crc32(data)


def _hash(s: Body, x: Scalar) -> Scalar:
    """A bijection of uint32 that spreads every bit (C. Wellons, "lowbias32", 2018)."""
    x = (x ^ s.shift_right(x, 16)) * 0x7FEB352D
    x = (x ^ s.shift_right(x, 15)) * 0x846CA68B
    return x ^ s.shift_right(x, 16)


def _stream(ctx: Context, use: bytes = b"") -> Value:
    """What tells the numbers of a node, in one call and for one use, from all others: uint32[]."""
    if ctx.b.in_step:  # the loop is written out then
        raise ctx.refuse(
            "each iteration draws numbers of its own", "Give the loop fewer iterations"
        )
    seed = zlib.crc32(use, _seed(ctx))
    key = ctx.b.random_key
    if key is None:  # no output depends on these numbers
        return ctx.b.constant(seed, "uint32")
    reads = [(key, "0"), (key, "1")]
    return ctx.b.tabulate(
        [], "uint32", lambda s, own, call: _hash(s, _hash(s, own ^ seed) ^ call), *reads
    )


def _uniform(s: Body, shape: Sequence[Operand], stream: Scalar, dtype: str) -> Scalar:
    """A number in [0, 1) for the element of the enclosing generic over ``shape``."""
    flat = s.const(0, "index")
    for i, size in enumerate(shape):
        flat = flat * (s.cast(size, "index") if isinstance(size, Scalar) else size) + s.index(i)
    bits = _hash(s, _hash(s, s.cast(flat, "uint32") ^ stream) + stream * 0x9E3779B9)
    # 24 bits are exact in f32; a signed conversion is the cheap one.
    high = s.as_type(s.shift_right(bits, 8), "int32")
    return s.cast(high, dtype) * 2.0**-24


@lowering("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def _random(ctx: Context) -> Value:
    like = ctx.op.endswith("Like")
    sizes = list(ctx.input(0).sizes) if like else [int(d) for d in ctx.attr("shape", [])]
    shape, (reads, told) = [highest(size) for size in sizes], ctx.b.told_sizes(sizes)
    number = ctx.attr("dtype")
    dtype = dtypes.from_onnx(number) if number else ctx.input(0).dtype if like else "float32"
    if not dtypes.is_float(dtype):
        raise ctx.refuse(f"random numbers of {dtype} are not translated", "Set dtype to float32")
    ctx.check_size(shape, dtype)
    wide, streams = dtypes.wide(dtype), [_stream(ctx)]

    def uniform(s: Body, stream: Scalar, *counts: Scalar) -> Scalar:
        low, high = ctx.attr("low", 0.0), ctx.attr("high", 1.0)
        return s.cast(_uniform(s, told(counts), stream, wide) * (high - low) + low, dtype)

    def normal(s: Body, stream: Scalar, turns: Scalar, *counts: Scalar) -> Scalar:
        """The Box-Muller transform of two uniform numbers."""
        there = told(counts)
        radius = s.sqrt(s.log(1.0 - _uniform(s, there, stream, wide)) * -2.0)
        angle = _uniform(s, there, turns, wide) * (2 * math.pi)
        deviate = radius * s.cos(angle)
        return s.cast(deviate * ctx.attr("scale", 1.0) + ctx.attr("mean", 0.0), dtype)

    is_normal = "Normal" in ctx.op
    if is_normal:
        streams.append(_stream(ctx, b"angle"))
    reads = [*((stream, "") for stream in streams), *reads]
    made = ctx.b.tabulate(shape, dtype, normal if is_normal else uniform, *reads)
    return ctx.b.sized(made, map(extent_of, sizes))


@lowering("Multinomial")
def _multinomial(ctx: Context) -> Value:
    """Classes drawn with probabilities proportional to ``exp(x)``, x [batch, classes]."""
    ctx.need_float()
    b, x = ctx.b, ctx.input(0)
    dtype, count = dtypes.from_onnx(ctx.attr("dtype", 6)), ctx.attr("sample_size", 1)
    if x.rank != 2 or not x.size or count < 1 or dtype not in ("int32", "int64"):
        raise ctx.shape_error("the input is [batch, classes], the result int32 or int64")
    batch, classes = x.shape
    wide = "float32"
    x = b.cast(x, wide)
    top = b.reduce(x, [1], float("-inf"), lambda s, a, acc: s.maximum(acc, a), keepdims=True)
    weights = b.elementwise(lambda s, a, m: s.exp(a - m), x, top)
    sums = b.reshape(
        prefix(b, b.reshape(weights, [batch, classes, 1]), lambda a, c: a + c, 0, exclusive=False),
        [batch, classes],
    )

    def body(s: Body, reached: Scalar, total: Scalar, stream: Scalar, acc: Scalar) -> Scalar:
        draw = _uniform(s, [batch, count], stream, wide) * total
        # The last class is drawn also when rounding puts the draw on the total.
        passed = (reached <= draw) & (s.index(2) < classes - 1)
        return acc + s.cast(passed, dtype)

    reads = [(sums, "d0, d2"), (sums, f"d0, {classes - 1}"), (_stream(ctx), "")]
    return b.fold(reads, [batch, count], dtype, 0, "ppr", body)
