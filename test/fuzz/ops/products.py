"""Sums of products: matrices, convolutions, attention, determinants."""

from __future__ import annotations

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import FLOATS, Maker, Reject, Value


def square_free(g: Maker, x: Value, wide: int) -> Value:
    """A matrix that ``x`` [.., k] can be multiplied with: [.., k, wide]."""
    lead = [1 if g.chance(0.3) else d for d in x.shape[:-2]]
    lead = lead[g.int(0, len(lead)) :] if g.chance(0.5) else lead
    return g.value([x.dtype], shape=(*lead, x.shape[-1], wide))


@generator("MatMul")
def matmul(g: Maker, op: str) -> None:
    x = g.value(g.types(op), rank=(1, 4))
    if g.chance(0.1):
        w = g.value([x.dtype], shape=(x.shape[-1],))
    else:
        w = square_free(g, x, g.pick([1, 2, 3, 5, 8, 16]))
    g.node(op, [x, w])


@generator("Gemm")
def gemm(g: Maker, op: str) -> None:
    a = g.value(g.types(op), rank=2)
    across, down = g.int(0, 1), g.int(0, 1)
    m, k = a.shape[::-1] if across else a.shape
    n = g.pick([1, 2, 4, 7, 16])
    b = g.value([a.dtype], shape=(n, k) if down else (k, n))
    c = None
    if g.chance(0.7):
        c = g.value([a.dtype], shape=g.pick([(n,), (1, n), (m, 1), (m, n), (1,), ()]))
    scales = {}
    if a.dtype in FLOATS:
        scales = {n: g.pick([0.5, 1.0, 2.0]) for n in ("alpha", "beta") if g.chance(0.3)}
    g.node(op, [a, b, c], transA=across, transB=down, **scales)


def window(g: Maker, rank: int, size: int = 6) -> tuple[list[int], list[int], dict[str, object]]:
    """(extents, kernel, attributes) of sliding windows that fit."""
    kernel = [g.pick([1, 2, 3, 3]) for _ in range(rank)]
    strides = [g.pick([1, 1, 2]) for _ in range(rank)]
    dilations = [g.pick([1, 1, 1, 2]) for _ in range(rank)]
    if not g.has("dilations"):
        dilations = [1] * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    extents = [r + g.int(0, size) for r in reach]
    found: dict[str, object] = {"strides": strides, "dilations": dilations}
    if g.chance(0.3):
        # the standard's SAME is clear for windows without gaps only
        found["auto_pad"] = "VALID" if max(dilations) > 1 else g.pick(
            ["VALID", "SAME_UPPER", "SAME_LOWER"])  # fmt: skip
    else:
        found["pads"] = [g.int(0, min(1, k - 1)) for k in kernel * 2]
    return extents, kernel, found


def _channels(g: Maker) -> tuple[int, int, int]:
    """(groups, channels of the input, channels of the result)."""
    groups = g.pick([1, 1, 1, 2, 3, 4])
    return groups, groups * g.pick([1, 1, 2, 3, 4]), groups * g.pick([1, 2, 3, 8])


@generator("Conv")
def conv(g: Maker, op: str) -> None:
    extents, kernel, found = window(g, g.pick([1, 2, 2, 2, 3]))
    groups, ci, co = _channels(g)
    x = g.value(g.types(op), shape=(g.int(1, 2), ci, *extents))
    w = g.value([x.dtype], shape=(co, ci // groups, *kernel), constant=g.pick([None, True]))
    bias = g.value([x.dtype], shape=(co,)) if g.chance(0.5) else None
    g.node(op, [x, w, bias], group=groups, kernel_shape=g.pick([None, kernel]), **found)


@generator("ConvTranspose")
def transposed(g: Maker, op: str) -> None:
    extents, kernel, found = window(g, g.pick([1, 2, 2]), 3)
    groups, ci, co = _channels(g)
    x = g.value(g.types(op), shape=(g.int(1, 2), ci, *extents))
    w = g.value([x.dtype], shape=(ci, co // groups, *kernel))
    bias = g.value([x.dtype], shape=(co,)) if g.chance(0.4) else None
    if "pads" in found and g.chance(0.4):
        strides = found["strides"]
        assert isinstance(strides, list)
        found["output_padding"] = [g.int(0, s - 1) for s in strides]
    elif "pads" in found and g.chance(0.3):
        found["output_shape"] = _sizes(g, found, extents, kernel)
    g.node(op, [x, w, bias], group=groups, kernel_shape=g.pick([None, kernel]), **found)


def _sizes(g: Maker, found: dict[str, object], extents: list[int], kernel: list[int]) -> list[int]:
    """Extents of a transposed convolution's result, which say what is cut off instead of pads."""
    found.pop("pads")
    strides, dilations = found["strides"], found["dilations"]
    assert isinstance(strides, list) and isinstance(dilations, list)
    return [
        (n - 1) * s + (k - 1) * d + 1 - g.int(0, min(2, (k - 1) * d))
        for n, s, k, d in zip(extents, strides, kernel, dilations, strict=True)
    ]


@generator("DeformConv")
def deformed(g: Maker, op: str) -> None:
    extents, kernel, found = window(g, 2, 1)
    found.pop("auto_pad", None)
    pads = found.setdefault("pads", [0] * 4)
    assert isinstance(pads, list)
    groups, ci, co = g.pick([(1, 1, 2), (1, 2, 1), (2, 2, 2)])
    offsets = g.pick([1, 1, groups])
    strides, dilations = found["strides"], found["dilations"]
    assert isinstance(strides, list) and isinstance(dilations, list)
    out = [
        (extents[i] + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i in range(2)
    ]
    n, taps = g.int(1, 2), kernel[0] * kernel[1]
    x = g.value(g.types(op), shape=(n, ci, *extents))
    w = g.value([x.dtype], shape=(co, ci // groups, *kernel))
    moves = g.leaf(x.dtype, (n, offsets * taps * 2, *out), -1.4, 1.4)
    bias = g.value([x.dtype], shape=(co,)) if g.chance(0.4) else None
    mask = g.leaf(x.dtype, (n, offsets * taps, *out), 0, 1) if g.chance(0.4) else None
    g.node(op, [x, w, moves, bias, mask], group=groups, offset_group=offsets, kernel_shape=kernel,
           **found)  # fmt: skip


_EQUATIONS = (
    "ij,jk->ik", "ij->ji", "ij->", "ij->i", "ii->i", "i,j->ij", "bij,bjk->bik", "bij,bkj->bik",
    "...ij,...jk->...ik", "ij,ij->i", "bhid,bhjd->bhij", "ij,jk,kl->il", "ij,kj", "abc->cab",
    "i,i", "bij,bj->bi", "ii", "...i->...",
)  # fmt: skip


@generator("Einsum")
def einsum(g: Maker, op: str) -> None:
    equation = g.pick(_EQUATIONS)
    dtype = g.dtype(g.among(g.types(op), (*FLOATS, "int32", "int64")))
    sizes = {letter: g.int(1, 5) for letter in "abcdhijkl"}
    lead = g.shape(0, 2, empty=False)
    operands = []
    for term in equation.split("->")[0].split(","):
        dots = lead if "..." in term else ()
        shape = (*dots, *(sizes[c] for c in term if c != "."))
        operands.append(g.value([dtype], shape=shape))
    g.node(op, operands, equation=equation)


@generator("Det")
def det(g: Maker, op: str) -> None:
    n = g.int(1, 4)
    g.node(op, [g.value(g.types(op), shape=(*g.shape(0, 2, empty=False), n, n))])


@generator("Attention", opsets=range(23, 29))
def attention(g: Maker, op: str) -> None:
    batch, heads, groups = g.int(1, 2), g.int(1, 2), g.pick([1, 1, 2])
    queries, keys, size, wide = g.int(1, 5), g.int(1, 6), g.pick([1, 2, 4, 8]), g.pick([1, 4])
    dtype = g.dtype(g.types(op, "T1"))
    flat = g.chance(0.4)
    lengths = {"q": (heads * groups, queries, size), "k": (heads, keys, size),
               "v": (heads, keys, wide)}  # fmt: skip
    operands: list[Value | None] = []
    for h, rows, columns in lengths.values():
        shape = (batch, rows, h * columns) if flat else (batch, h, rows, columns)
        operands.append(g.value([dtype], shape=shape))
    found: dict[str, object] = {}
    if flat:
        found = {"q_num_heads": heads * groups, "kv_num_heads": heads}
    past: list[Value | None] = [None, None]
    before = g.int(1, 4) if g.chance(0.3) else 0
    if before:
        past = [g.value([dtype], shape=(batch, heads, before, n)) for n in (size, wide)]
    mask = None
    if g.chance(0.4):
        lead = g.pick([(), (1,), (heads * groups,), (batch, 1), (batch, heads * groups)])
        kind = g.dtype(g.among(g.types(op, "U"), ("bool" if g.chance(0.3) else dtype,)))
        mask = g.value([kind], shape=(*lead, queries, before + keys))
    if g.chance(0.3):
        found["is_causal"] = 1
    lengths_known = None
    if g.opset >= 24 and not before and g.chance(0.2):
        lengths_known = g.value(["int64"], shape=(batch,), low=1, high=keys)
    if g.opset >= 25 and g.chance(0.2):
        found["left_window_size"] = g.pick([-1, 0, 1, 3])
        found["right_window_size"] = g.pick([-1, 0, 2])
    if g.chance(0.3):
        found["scale"] = g.random.uniform(0.1, 1)
    if g.chance(0.2):
        found["softcap"] = g.random.uniform(1, 5)
    present = before > 0 and g.chance(0.7)
    wanted = [True, present, present]
    if g.chance(0.2):
        wanted.append(True)
        found["qk_matmul_output_mode"] = g.pick([None, 0, 1, 2, 3])
    if g.chance(0.2):
        found["softmax_precision"] = g.pick([1, 10, 11, 16])
    g.node(op, [*operands, mask, *past, lengths_known], wanted, **found)


@generator("FlexAttention", domain="ai.onnx.preview", opsets=range(26, 29))
def flexible(g: Maker, op: str) -> None:
    batch, heads, rows, keys, size = g.int(1, 2), g.int(1, 2), g.int(1, 5), g.int(1, 5), 4
    dtype = g.dtype([t for t in g.types(op, "T1", "ai.onnx.preview") if t in FLOATS])
    shapes = [(batch, heads, r, size) for r in (rows, keys, keys)]
    operands = [g.value([dtype], shape=shape) for shape in shapes]
    g.node(op, operands, domain="ai.onnx.preview", scale=0.5 if g.chance(0.4) else None,
           softmax_precision=g.pick([None, None, 1, 11]))  # fmt: skip


@generator("LinearAttention", opsets=range(27, 29))
def linear(g: Maker, op: str) -> None:
    batch, heads, steps, size, wide = g.int(1, 2), g.int(1, 2), g.int(1, 4), g.int(1, 4), 3
    dtype = g.dtype(g.types(op))
    rule = g.pick(["linear", "gated", "delta", "gated_delta"])
    q, k = (g.value([dtype], shape=(batch, steps, heads * size), low=-1, high=1) for _ in "qk")
    v = g.value([dtype], shape=(batch, steps, heads * wide), low=-1, high=1)
    state = None
    if g.chance(0.5):
        kinds = [t for t in g.types(op, "S") if t == dtype] or list(g.types(op, "S"))
        state = g.value(kinds, shape=(batch, heads, size, wide), low=-1, high=1)
    decay = beta = None
    if "gated" in rule:
        decay = g.value([dtype], shape=(batch, steps, heads * g.pick([1, size])), low=-1, high=0)
    if "delta" in rule:
        beta = g.value([dtype], shape=(batch, steps, heads), low=0, high=1)
    g.node(op, [q, k, v, state, decay, beta], 2, q_num_heads=heads, kv_num_heads=heads,
           update_rule=rule, scale=g.pick([None, 0.5]),
           chunk_size=g.pick([None, 2]))  # fmt: skip


@generator("CausalConvWithState", opsets=range(27, 29))
def causal(g: Maker, op: str) -> None:
    batch, channels, length, taps = g.int(1, 2), g.int(1, 4), g.int(1, 6), g.int(1, 4)
    x = g.value(g.types(op), shape=(batch, channels, length))
    w = g.value([x.dtype], shape=(channels, 1, taps))
    bias = g.value([x.dtype], shape=(channels,)) if g.chance(0.5) else None
    past = None
    if taps > 1 and g.chance(0.5):
        past = g.value([x.dtype], shape=(batch, channels, taps - 1))
    g.node(op, [x, w, bias, past], 2, activation=g.pick([None, "none", "silu", "swish"]))


@generator("RotaryEmbedding", opsets=range(23, 29))
def rotary(g: Maker, op: str) -> None:
    batch, heads, steps, half = g.int(1, 2), g.int(1, 3), g.int(1, 4), g.int(1, 4)
    dtype = g.dtype(g.types(op))
    flat, size = g.chance(0.4), 2 * half
    shape = (batch, steps, heads * size) if flat else (batch, heads, steps, size)
    turned = g.int(1, half) if g.chance(0.3) else half
    x, longest = g.value([dtype], shape=shape), steps + 2
    places = None
    if g.chance(0.5):
        places = g.value(["int64"], shape=(batch, steps), low=0, high=longest - 1)
    table = (batch, steps, turned) if places is None else (longest, turned)
    caches = [g.leaf(dtype, table, -1, 1) for _ in range(2)]
    g.node(op, [x, *caches, places], interleaved=g.pick([None, 0, 1]),
           num_heads=heads if flat else None,
           rotary_embedding_dim=2 * turned if turned < half else None)  # fmt: skip


@generator("SwiGLU", opsets=range(28, 29))
def swiglu(g: Maker, op: str) -> None:
    a = g.value(g.types(op))
    g.node(op, [a, g.like(a)], alpha=g.random.uniform(0.5, 2) if g.chance(0.5) else None)


@generator("AffineGrid")
def affine(g: Maker, op: str) -> None:
    rank, n = g.int(2, 3), g.int(1, 2)
    size = [n, g.int(1, 3), *(g.int(1, 4) for _ in range(rank))]
    theta = g.value(g.types(op, "T1"), shape=(n, rank, rank + 1))
    if not all(size):
        raise Reject
    g.node(op, [theta, g.fixed(np.array(size, np.int64))], align_corners=g.pick([None, 0, 1]))
