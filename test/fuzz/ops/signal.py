"""Transforms of signals."""

from __future__ import annotations

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import FLOATS, Maker
from rcompiler.frontend import dtypes


@generator("DFT")
def dft(g: Maker, op: str) -> None:
    inverse, onesided = g.int(0, 1), g.int(0, 1)
    if inverse and onesided:
        onesided = 0
    parts = 1 if onesided else g.int(1, 2)
    shape = (*g.shape(1, 2, empty=False), g.pick([2, 3, 4, 5, 8, 12, 16]), parts)
    x = g.value([t for t in g.types(op, "T1") if t in FLOATS], shape=shape[-4:])
    axis = g.int(0, x.rank - 2)
    length = None
    if g.chance(0.3):
        length = g.fixed(np.array(g.int(1, x.shape[axis] + 3)), g.pick(["int64", "int32"]))
    at = g.fixed(np.array(axis - x.rank if g.chance(0.4) else axis))
    g.node(op, [x, length, at], inverse=inverse or None, onesided=onesided or None)


@generator("STFT")
def stft(g: Maker, op: str) -> None:
    size, length = g.int(6, 16), g.int(2, 6)
    onesided = g.int(0, 1)
    parts = 1 if onesided else g.int(1, 2)
    x = g.value([t for t in g.types(op, "T1") if t in FLOATS], shape=(g.int(1, 2), size, parts))
    window = g.value([x.dtype], shape=(length,), low=0, high=1) if g.chance(0.6) else None
    kind = g.pick(["int64", "int32"])
    step, frame = (g.fixed(np.array(n), kind) for n in (g.int(1, 3), length))
    g.node(op, [x, step, window, frame], onesided=onesided)


@generator("MelWeightMatrix")
def mel(g: Maker, op: str) -> None:
    whole = g.dtype(g.among(g.types(op, "T1"), ("int64",)))
    given = [g.fixed(np.array(v), whole) for v in (g.int(2, 6), g.pick([16, 32]), 8192)]
    kind = g.dtype(g.among(g.types(op, "T2"), ("float32",)))
    edges = [g.fixed(np.array(v), kind) for v in (0.0, g.pick([2048.0, 4096.0]))]
    to = g.pick(["float32", "float64"])
    g.node(op, [*given, *edges], output_datatype=dtypes.to_onnx(to))


@generator("BlackmanWindow", "HammingWindow", "HannWindow")
def window(g: Maker, op: str) -> None:
    size = g.fixed(np.array(g.int(2, 12)), g.pick(["int32", "int64"]))
    g.node(op, [size], periodic=g.pick([None, 0, 1]),
           output_datatype=g.pick([None, 1, 11]))  # fmt: skip
