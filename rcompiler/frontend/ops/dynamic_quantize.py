"""DynamicQuantizeLinear: what is quantised by the range of its numbers while the network runs."""

from __future__ import annotations

import math

import numpy as np

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, dims
from rcompiler.frontend.ops.quantize import round_to
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

_STEPS = 255.0  # from the smallest byte to the largest


@lowering("DynamicQuantizeLinear")
def _dynamic_quantize(ctx: Context) -> list[Value]:
    """Bytes, scale and zero point; of zeros the scale is 1, as in onnxruntime.

    By the letter of ONNX that scale is 0, and zeros are divided by it.
    """
    b, x = ctx.b, ctx.input(0)
    if x.dtype != "float32":
        raise ctx.refuse(f"quantising {x.dtype} by its range is not translated", "Use float32")
    ends = _ends(b, x)

    def step(s: Body, negative_low: Scalar, high: Scalar) -> Scalar:
        low = s.minimum(-negative_low, 0.0)
        quotient = (s.maximum(high, 0.0) - low) / _STEPS
        return s.select(quotient.eq(0.0), 1.0, quotient)

    def middle(s: Body, negative_low: Scalar, scale: Scalar) -> Scalar:
        low = s.minimum(-negative_low, 0.0)
        return round_to(s, s.clamp(0.0 - low / scale, 0.0, _STEPS), None, "uint8")

    def byte(s: Body, number: Scalar, scale: Scalar, zero: Scalar) -> Scalar:
        return round_to(s, number / scale, s.cast(zero, "int32"), "uint8")

    scale = b.tabulate([], "float32", step, (ends, "0"), (ends, "1"))
    zero = b.tabulate([], "uint8", middle, (ends, "0"), (scale, ""))
    own = ", ".join(dims(x.rank))
    return [b.tabulate(x.shape, "uint8", byte, (x, own), (scale, ""), (zero, "")), scale, zero]


def _ends(b: Builder, x: Value) -> Value:
    """f32 [2]: the smallest number times -1, and the largest one, by one pass over memory."""
    signs = b.constant(np.array([-1, 1], np.float32))
    reads = [(x, ", ".join(dims(x.rank + 1)[1:])), (signs, "d0")]
    kinds = "p" + "r" * x.rank
    return b.fold(reads, [2], x.dtype, -math.inf, kinds, lambda s, a, k, acc: s.maximum(acc, a * k))
