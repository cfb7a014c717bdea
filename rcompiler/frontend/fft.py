"""Fast complex Fourier transforms: mixed radix, self-sorting (Stockham), in the type's own
precision.

A pass splits off one factor p of the length: butterflies over p points at a distance, twiddle
factors, results stored in order. n log n operations, and the rounding of a fast transform, where a
product with the matrix needs n^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.scalar import Scalar

Complex = tuple[Scalar, Scalar]


def factors(length: int) -> list[int] | None:
    """Radices 4, 2, 3 and 5 whose product is ``length``, a 2 first; None if there are none."""
    found = []
    for radix in (4, 2, 3, 5):
        while length % radix == 0:
            found.append(radix)
            length //= radix
    if 2 in found:
        found.insert(0, found.pop(found.index(2)))
    return found if length == 1 and found else None


def transform(b: Builder, x: Value, inverse: bool) -> Value:
    """Transform of [..., n, 2] along n; n has ``factors``. The inverse divides by n.

    x: float32 or float64, real and imaginary part in the last dim.
    """
    *lead, length, _ = x.shape
    rows, done = math.prod(lead), 1
    for radix in factors(length) or []:
        x = _pass(b, b.reshape(x, [rows, done, radix, length // (done * radix), 2]), inverse)
        done *= radix
    x = b.reshape(x, [*lead, length, 2])
    if not inverse:
        return x
    return b.elementwise(lambda s, v: v * s.const(1 / length, x.dtype), x)


def _pass(b: Builder, x: Value, inverse: bool) -> Value:
    """One radix: [rows, done, radix, rest, 2] -> [rows, radix, done, rest, 2]."""
    rows, done, radix, rest, _ = x.shape
    angles = np.outer(np.arange(radix), np.arange(rest)) * (2 * np.pi / (radix * rest))
    sign = 1.0 if inverse else -1.0
    table = np.stack([np.cos(angles), sign * np.sin(angles)], -1)
    twiddles = b.constant(table.astype(dtypes.numpy_dtype(x.dtype)))
    points = [(x, f"d0, d1, {j}, d2, {part}") for j in range(radix) for part in (0, 1)]
    columns = []
    for u in range(radix):

        def one(_: Body, *values: Scalar, u: int = u) -> Complex:
            inputs = [(values[2 * j], values[2 * j + 1]) for j in range(radix)]
            real, imaginary = _butterfly(inputs, u, sign)
            if u == 0 or rest == 1:
                return real, imaginary
            wr, wi = values[2 * radix], values[2 * radix + 1]
            return real * wr - imaginary * wi, real * wi + imaginary * wr

        weights = [(twiddles, f"{u}, d2, {part}") for part in (0, 1)] if u and rest > 1 else []
        outs = [(b.empty([rows, done, rest], x.dtype), "d0, d1, d2")] * 2
        parts = b.generic([*points, *weights], outs, "ppp", one)
        columns.append(b.concat([b.reshape(p, [rows, 1, done, rest, 1]) for p in parts], 4))
    return b.concat(columns, 1)


def _butterfly(a: Sequence[Complex], u: int, sign: float) -> Complex:
    """Result ``u`` of the transform of 2, 3, 4 or 5 points."""
    if len(a) == 2:
        return _add(*a) if u == 0 else _sub(*a)
    if len(a) == 4:
        return _four(a, u, sign)
    pairs = [(_add(a[j], a[-j]), _sub(a[j], a[-j])) for j in range(1, len(a) // 2 + 1)]
    total = a[0]
    if u == 0:
        for even, _ in pairs:
            total = _add(total, even)
        return total
    low = min(u, len(a) - u)
    rotated: Complex | None = None
    for j, (even, odd) in enumerate(pairs, 1):
        angle = 2 * math.pi * j * low / len(a)
        total = _add(total, _scale(even, math.cos(angle)))
        part = _scale(odd, sign * math.sin(angle))
        rotated = part if rotated is None else _add(rotated, part)
    assert rotated is not None
    turned = (-rotated[1], rotated[0])  # times i
    return _add(total, turned) if u == low else _sub(total, turned)


def _four(a: Sequence[Complex], u: int, sign: float) -> Complex:
    even, odd = (_add(a[0], a[2]), _add(a[1], a[3]))
    if u % 2 == 0:
        return _add(even, odd) if u == 0 else _sub(even, odd)
    straight, crossed = _sub(a[0], a[2]), _sub(a[1], a[3])
    turned = (-crossed[1], crossed[0])
    return _add(straight, turned) if (u == 1) == (sign > 0) else _sub(straight, turned)


def _add(a: Complex, c: Complex) -> Complex:
    return a[0] + c[0], a[1] + c[1]


def _sub(a: Complex, c: Complex) -> Complex:
    return a[0] - c[0], a[1] - c[1]


def _scale(a: Complex, factor: float) -> Complex:
    return a[0] * factor, a[1] * factor
