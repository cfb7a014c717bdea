"""The operators to measure one by one, as ONNX models: of the shapes of known networks.

A convolution in a network reads and writes what its neighbours do, blocked by channels, so that no
layout is changed. That cannot be seen of one alone, whose input and output are NCHW. So there are
three models of it:

    alone      convolution
    around     depthwise 3x3, 1x1 of one pixel
    within     depthwise 3x3, convolution, 1x1 of one pixel

within - around: what the convolution adds to a network. The depthwise convolution leaves its result
in whatever layout the compiler likes, and the last one, whose stride is the image, takes it from
there; it reads one pixel, so it costs next to nothing. The first convolution of a network does read
NCHW: nothing is before it, and there is no model around it.

Attention is measured twice. "attention" is its core, softmax(q k^T / sqrt(size)) v, on q, k and v
that are split into heads already. "attention block" is all that an exported transformer has between
the projections: q, k and v of (1, tokens, heads * size) are split into heads, and the results of
the core are joined to one row per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from onnx import ModelProto

from measurements._bench_ordering import Case, cases, elements_of
from rcompiler.support.random_inputs import Range
from rcompiler.tools.models.attention import Heads
from rcompiler.tools.models.graph import ModelGraph

ALONE, AROUND, WITHIN = "alone", "around", "within"
Models = Mapping[str, ModelProto]  # by ALONE, and where layout matters by AROUND and WITHIN
Seed = int | np.random.Generator

_BLOCKED = 16  # channels below which an image is the input of a network
_PIXEL = 16  # channels of the one pixel


@dataclass(frozen=True)
class Operator:
    """An operator, or a block of a few, of batch 1.

    flops: of one run, 2 per multiply-add; 0 where that is not what limits it. nbytes: operands and
    result. build: its models, with weights by a seed.
    """

    kind: str
    name: str
    flops: int
    nbytes: int
    build: Callable[[Seed], Models]
    ranges: Mapping[str, Range] = field(default_factory=dict)

    def models(self, seed: Seed = 0) -> Models:
        """The models to measure."""
        return self.build(seed)


@dataclass(frozen=True)
class Convolution:
    """With bias and ReLU, and as much padding as keeps the size of the image."""

    channels: int
    out: int
    kernel: int
    stride: int
    image: int
    groups: int = 1

    @property
    def side(self) -> int:
        """Of the result."""
        return -(-self.image // self.stride)

    @property
    def weights(self) -> int:
        return self.out * self.channels // self.groups * self.kernel**2

    def add(self, g: ModelGraph, x: str) -> str:
        """The convolution of x as nodes."""
        x = g.conv(x, self.out, self.kernel, self.stride, groups=self.groups, bias=True)
        return g.op("Relu", x)


def operators() -> Iterator[Operator]:
    """All of them, kind by kind."""
    for m, n, k in [
        *((256, 256, 256), (512, 512, 512), (1024, 1024, 1024)),
        *((128, 768, 768), (128, 3072, 768), (128, 768, 3072)),
    ]:
        yield product("gemm", m, n, k)
    yield product("gemm", 128, 768, 768, relu=True)
    for c in [
        *(Convolution(64, 64, 1, 1, 56), Convolution(64, 256, 1, 1, 56)),
        *(Convolution(256, 64, 1, 1, 56), Convolution(512, 128, 1, 1, 28)),
        *(Convolution(1024, 256, 1, 1, 14), Convolution(512, 2048, 1, 1, 7)),
        *(Convolution(64, 64, 3, 1, 56), Convolution(128, 128, 3, 1, 28)),
        *(Convolution(256, 256, 3, 1, 14), Convolution(512, 512, 3, 1, 7)),
        *(Convolution(128, 128, 3, 2, 56), Convolution(3, 64, 7, 2, 224)),
    ]:
        stride = f" s{c.stride}" if c.stride > 1 else ""
        yield _convolution(
            "convolution", f"{c.kernel}x{c.kernel}{stride} {c.channels}->{c.out} @{c.image}", c
        )
    for channels, image in [(32, 112), (144, 56), (384, 14), (960, 7)]:
        c = Convolution(channels, channels, 3, 1, image, groups=channels)
        yield _convolution("depthwise", f"3x3 {channels} @{image}", c)
    for rows in (128, 512):
        yield _rowwise("layer norm", rows, 768, lambda g, x: g.layer_norm(x))
    for rows, width in [(1536, 128), (6144, 512), (128, 768)]:
        yield _rowwise("softmax", rows, width, lambda g, x: g.op("Softmax", x, axis=-1))
    yield _rowwise("gelu", 128, 3072, lambda g, x: g.op("Gelu", x, approximate="none"))
    for tokens in (128, 512):
        yield _attention(Heads(1, tokens, 12, 64))
    for tokens in (128, 512):
        yield _attention_block(Heads(1, tokens, 12, 64))
    for k, n in [(768, 768), (768, 3072), (1024, 1000), (4096, 4096)]:
        yield product("gemv", 1, n, k)
    yield from ordering_operators()


def ordering_operators() -> Iterator[Operator]:
    """Reductions, sorts, prefix sums, scatters, determinants."""
    for case in cases():
        kind, name, _, _, _, indices = case
        ranges = {index: bounds for index, (_, bounds) in indices.items()}
        yield Operator(
            kind, name, 0, 4 * elements_of(case), partial(_ordering_models, case), ranges
        )


def _ordering_models(case: Case, seed: Seed) -> Models:
    _, _, shape, result, build, indices = case
    g = ModelGraph("ordering", seed)
    x = g.input("x", shape)
    for index, (of, _) in indices.items():
        g.input(index, of, "int64")
    return {ALONE: g.model(y=(build(g, x), result))}


def product(kind: str, m: int, n: int, k: int, *, relu: bool = False) -> Operator:
    """A matrix (m, k) times weights (k, n); relu: with bias and ReLU."""

    def models(seed: Seed) -> Models:
        g = ModelGraph("product", seed)
        x = g.input("x", (m, k))
        y = g.op("Relu", g.gemm(x, n)) if relu else g.matmul(x, n, bias=False, name="product")
        return {ALONE: g.model(y=(y, (m, n)))}

    name = f"{m}x{n}x{k}" + (" + bias + relu" if relu else "")
    return Operator(kind, name, 2 * m * n * k, 4 * (m * k + k * n + m * n), models)


def _convolution(kind: str, name: str, c: Convolution) -> Operator:
    pixels = c.side**2 * c.out
    nbytes = 4 * (c.image**2 * c.channels + c.weights + pixels)
    flops = 2 * pixels * c.weights // c.out
    return Operator(kind, name, flops, nbytes, partial(_convolution_models, c))


def _convolution_models(c: Convolution, seed: Seed) -> Models:
    shape = (1, c.channels, c.image, c.image)
    g = ModelGraph("convolution", seed)
    x = g.input("x", shape)
    found = {ALONE: g.model(y=(c.add(g, x), (1, c.out, c.side, c.side)))}
    first = c.channels < _BLOCKED
    for name, middle in ((WITHIN, True),) if first else ((AROUND, False), (WITHIN, True)):
        g = ModelGraph("convolution", seed)
        x = g.input("x", shape)
        if not first:
            x = g.conv(x, c.channels, 3, groups=c.channels, bias=True, name="before")
        x = c.add(g, x) if middle else x
        side = c.side if middle else c.image
        y = g.conv(x, _PIXEL, 1, stride=side, bias=True, name="after")
        found[name] = g.model(y=(y, (1, _PIXEL, 1, 1)))
    return found


def _rowwise(kind: str, rows: int, width: int, op: Callable[[ModelGraph, str], str]) -> Operator:
    """Each row of a matrix for itself."""

    def models(seed: Seed) -> Models:
        g = ModelGraph("rowwise", seed)
        return {ALONE: g.model(y=(op(g, g.input("x", (rows, width))), (rows, width)))}

    return Operator(kind, f"{rows}x{width}", 0, 2 * 4 * rows * width, models)


def _attention(h: Heads) -> Operator:
    """softmax(q k^T / sqrt(size)) v of operands that are heads already."""
    shape = (h.batch, h.heads, h.length, h.size)

    def models(seed: Seed) -> Models:
        g = ModelGraph("attention", seed)
        q, k, v = (g.input(name, shape) for name in "qkv")
        scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g.op("Mul", scores, float(h.size) ** -0.5)
        return {ALONE: g.model(y=(g.op("MatMul", g.op("Softmax", scores, axis=-1), v), shape))}

    return _of_heads("attention", h, models)


def _attention_block(h: Heads) -> Operator:
    """The same of operands as projections leave them, split into heads, and joined for the next."""
    shape = (h.batch, h.length, h.heads * h.size)

    def models(seed: Seed) -> Models:
        g = ModelGraph("attention block", seed)
        q, k, v = (g.input(name, shape) for name in "qkv")
        scores = h.scores(g, h.split(g, q), h.split(g, k, keys=True))
        return {ALONE: g.model(y=(h.mix(g, scores, h.split(g, v)), shape))}

    return _of_heads("attention block", h, models)


def _of_heads(kind: str, h: Heads, build: Callable[[Seed], Models]) -> Operator:
    products = 2 * h.batch * h.heads * h.length * h.length * h.size
    nbytes = 4 * 4 * h.batch * h.length * h.heads * h.size
    return Operator(kind, f"{h.heads} heads, {h.length} tokens", 2 * products, nbytes, build)
