"""Operators of onnxruntime's domain. The standard has no schema of them: types are named here."""

from __future__ import annotations

from collections.abc import Callable

from fuzz import catalog
from fuzz.maker import Maker, Value
from rcompiler.frontend.contrib import DOMAIN

FLOATS = ("float32", "float16", "bfloat16", "float64")
_EPSILON = [None, 1e-3]

Write = Callable[[Maker, str], None]


def generator(*ops: str) -> Callable[[Write], Write]:
    return catalog.generator(*ops, domain=DOMAIN, opsets=range(21, catalog.NEWEST + 1))


def rows(g: Maker, rank: int = 3) -> Value:
    return g.value(FLOATS, shape=(*g.shape(rank - 1, rank - 1, empty=False), g.int(1, 4) * 2))


def vector(g: Maker, x: Value, size: int | None = None) -> Value:
    return g.leaf(x.dtype, (x.shape[-1] if size is None else size,), -1, 1)


def maybe(g: Maker, make: Callable[[], Value], probability: float = 0.5) -> Value | None:
    return make() if g.chance(probability) else None


@generator("Gelu", "QuickGelu", "FastGelu", "BiasGelu", "BiasSplitGelu", "BiasAdd", "BiasDropout",
           "BiasSoftmax", "SwiGLU")  # fmt: skip
def activations(g: Maker, op: str) -> None:
    x = rows(g)
    found: dict[str, object] = {}
    inputs: list[Value | None] = [x]
    match op:
        case "FastGelu":
            inputs.append(maybe(g, lambda: vector(g, x)))
        case "QuickGelu":
            found["alpha"] = g.pick([None, 0.5])
        case "SwiGLU":
            inputs.append(maybe(g, lambda: g.like(x)))
            found = {"limit": g.pick([None, 0.5]), "activation_alpha": g.pick([None, 1.5]),
                     "activation_beta": g.pick([None, 1.0])}  # fmt: skip
        case "Gelu":
            pass
        case _:
            inputs.append(vector(g, x))
    if op == "BiasAdd":
        inputs.append(g.like(x))
    if op == "BiasDropout":
        inputs.append(maybe(g, lambda: g.like(x)))
    if op == "BiasSoftmax":
        found = {"is_inner_broadcast": 0, "axis": g.int(0, 2)}
    g.node(op, inputs, domain=DOMAIN, **found)


@generator("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "FusedGemm", "GemmFastGelu")
def products(g: Maker, op: str) -> None:
    m, k, n = (g.int(1, 5) for _ in range(3))
    turns = [g.pick([None, 0, 1]) for _ in "AB"] if op != "GemmFastGelu" else [None, None]
    lead = g.shape(0, 2, empty=False) if op not in ("FusedGemm", "GemmFastGelu") else ()
    a = g.value(FLOATS, shape=(*lead, *((k, m) if turns[0] else (m, k))))
    b = g.value([a.dtype], shape=(*lead, *((n, k) if turns[1] else (k, n))))
    inputs: list[Value | None] = [a, b]
    found: dict[str, object] = {}
    if op != "GemmFastGelu":
        found = {"transA": turns[0], "transB": turns[1], "alpha": g.pick([None, 0.5])}
    if op in ("FusedGemm", "GemmFastGelu"):
        inputs.append(maybe(g, lambda: vector(g, a, n)))
    if op in ("FusedGemm", "FusedMatMulActivation"):
        found["activation"] = g.pick(["Relu", "Tanh", "LeakyRelu", "HardSigmoid"])
        found["activation_alpha"] = g.pick([None, 0.25])
    g.node(op, inputs, domain=DOMAIN, **found)


@generator("FusedConv", "NhwcFusedConv", "NhwcConv")
def convolutions(g: Maker, op: str) -> None:
    groups, size = g.pick([1, 1, 2]), g.pick([1, 3])
    channels, filters, extents = groups * g.int(1, 3), groups * g.int(1, 3), (g.int(3, 6),) * 2
    last = op != "FusedConv"

    def image(depth: int) -> tuple[int, ...]:
        return (1, *extents, depth) if last else (1, depth, *extents)

    x = g.value(FLOATS, shape=image(channels))
    w = g.value([x.dtype], shape=(filters, channels // groups, size, size))
    inputs = [x, w, maybe(g, lambda: vector(g, x, filters))]
    found: dict[str, object] = {"group": groups, "pads": [size // 2] * 4}
    if op != "NhwcConv":
        inputs.append(maybe(g, lambda: g.value([x.dtype], shape=image(filters)), 0.3))
        found["activation"] = g.pick([None, "Relu", "Tanh", "Clip"])
        found["activation_params"] = [-0.5, 0.5] if found["activation"] == "Clip" else None
    g.node(op, inputs, domain=DOMAIN, **found)


@generator("NhwcMaxPool")
def pools(g: Maker, op: str) -> None:
    x = g.value(("float32", "int8", "uint8"), shape=(1, *[g.int(3, 6)] * 2, g.int(1, 3)))
    g.node(op, [x], domain=DOMAIN, kind=x.dtype, kernel_shape=[2, 2],
           strides=g.pick([None, [2, 2]]))  # fmt: skip


@generator("ConvTransposeWithDynamicPads")
def transposed(g: Maker, op: str) -> None:
    x = g.value(FLOATS, shape=(1, g.int(1, 3), g.int(2, 4), g.int(2, 4)))
    w = g.value([x.dtype], shape=(x.shape[1], g.int(1, 3), 3, 3))
    pads = maybe(g, lambda: g.fixed([1, 1, 1, 1]))
    bias = maybe(g, lambda: vector(g, x, w.shape[1]))
    g.node(op, [x, w, pads, bias], domain=DOMAIN, strides=g.pick([None, [2, 2]]))


@generator("LayerNormalization", "SimplifiedLayerNormalization")
def norms(g: Maker, op: str) -> None:
    x = rows(g)
    shift = [maybe(g, lambda: vector(g, x))] if op == "LayerNormalization" else []
    g.node(op, [x, vector(g, x), *shift], domain=DOMAIN, epsilon=g.pick(_EPSILON))


@generator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skips(g: Maker, op: str) -> None:
    x = rows(g, g.int(2, 3))
    inputs = [x, g.like(x), vector(g, x)]
    if op == "SkipLayerNormalization":
        inputs.append(maybe(g, lambda: vector(g, x)))
    inputs.append(maybe(g, lambda: vector(g, x)))
    wanted = g.pick([[True], [True, False, False, True]])
    g.node(op, inputs, wanted, domain=DOMAIN, epsilon=g.pick(_EPSILON))


@generator("EmbedLayerNormalization")
def embedded(g: Maker, op: str) -> None:
    batch, steps, columns = g.int(1, 2), g.int(1, 4), g.int(2, 5)
    ids, word = g.leaf("int32", (batch, steps), 0, 5), g.value(FLOATS, shape=(6, columns))
    place, segments, segment = g.value([word.dtype], shape=(steps + 1, columns)), None, None
    if g.chance(0.5):
        segments = g.leaf("int32", (batch, steps), 0, 1)
        segment = g.value([word.dtype], shape=(2, columns))
    scales = [vector(g, word) for _ in range(2)]
    inputs = [ids, segments, word, place, segment, *scales]
    g.node(op, inputs, domain=DOMAIN, epsilon=g.pick(_EPSILON))


@generator("GroupNorm", "SkipGroupNorm")
def groups(g: Maker, op: str) -> None:
    count = g.int(1, 2)
    shape = (g.int(1, 2), g.int(1, 3), g.int(1, 3), count * g.int(1, 3))
    x = g.value(FLOATS, shape=shape)
    inputs = [x, vector(g, x), vector(g, x)]
    if op == "SkipGroupNorm":
        inputs += [g.value([x.dtype], shape=g.pick([shape, (shape[0], shape[-1])])),
                   maybe(g, lambda: vector(g, x))]  # fmt: skip
    g.node(op, inputs, domain=DOMAIN, groups=count, activation=g.int(0, 1), epsilon=1e-3)


def _masks(
    g: Maker, dtype: str, batch: int, heads: int, steps: int, keys: int
) -> list[Value | None]:
    """A mask of keys and a bias of scores."""
    kept = maybe(g, lambda: g.leaf("int32", (batch, keys), 0, 1), 0.4)
    lead = (g.pick([1, batch]), g.pick([1, heads]))
    return [kept, maybe(g, lambda: g.value([dtype], shape=(*lead, steps, keys)), 0.3)]


@generator("Attention")
def attention(g: Maker, op: str) -> None:
    batch, steps, heads, size = g.int(1, 2), g.int(1, 4), g.int(1, 2), g.int(1, 4)
    depth, columns = g.int(1, 5), heads * size
    x = g.value(FLOATS, shape=(batch, steps, depth), low=-1, high=1)
    w = g.leaf(x.dtype, (depth, 3 * columns), -1, 1)
    bias = maybe(g, lambda: vector(g, x, 3 * columns))
    before = g.int(1, 3) if g.chance(0.3) else 0
    past = g.value([x.dtype], shape=(2, batch, heads, before, size)) if before else None
    mask, added = _masks(g, x.dtype, batch, heads, steps, before + steps)
    g.node(op, [x, w, bias, mask, past, added], [True, before > 0], domain=DOMAIN, num_heads=heads,
           unidirectional=g.int(0, 1), scale=g.pick([None, 0.5]))  # fmt: skip


@generator("MultiHeadAttention", "DecoderMaskedMultiHeadAttention")
def multi_head(g: Maker, op: str) -> None:
    batch, heads, size = g.int(1, 2), g.int(1, 2), g.int(1, 4)
    step = op != "MultiHeadAttention"
    steps = 1 if step else g.int(1, 4)
    shape = (batch, steps, heads * size)
    q = g.value(FLOATS, shape=shape)
    k, v = (g.value([q.dtype], shape=shape) for _ in "kv")
    bias = maybe(g, lambda: vector(g, q, 3 * heads * size))
    before = g.int(1, 3) if g.chance(0.4) else 0
    past = [g.value([q.dtype], shape=(batch, heads, before, size)) if before else None
            for _ in "kv"]  # fmt: skip
    mask, added = _masks(g, q.dtype, batch, heads, steps, before + steps)
    wanted = [True, before > 0, before > 0]
    if step:
        inputs = [q, k, v, mask, added, *past, None, None, None, bias]
        g.node(op, inputs, wanted, domain=DOMAIN, num_heads=heads)
        return
    g.node(op, [q, k, v, bias, mask, added, *past], wanted, domain=DOMAIN, num_heads=heads,
           unidirectional=g.int(0, 1))  # fmt: skip


@generator("GroupQueryAttention")
def grouped(g: Maker, op: str) -> None:
    shared, group, size = g.int(1, 2), g.int(1, 2), g.pick([2, 4])
    steps, batch, heads = g.int(1, 3), g.int(1, 2), shared * group
    q = g.value(FLOATS, shape=(batch, steps, heads * size))
    k, v = (g.value([q.dtype], shape=(batch, steps, shared * size)) for _ in "kv")
    before = g.int(1, 3) if g.chance(0.5) else 0
    total = before + steps
    past = [g.value([q.dtype], shape=(batch, shared, before, size)) if before else None
            for _ in "kv"]  # fmt: skip
    ends = g.leaf("int32", (batch,), total - 1, total - 1)
    caches = [g.leaf(q.dtype, (8, size // 2), -1, 1) for _ in "cs"] if g.chance(0.5) else []
    inputs: list[Value | None] = [q, k, v, *past, ends, g.fixed(total, "int32"), *caches]
    g.node(op, inputs, [True, before > 0, before > 0], domain=DOMAIN, num_heads=heads,
           kv_num_heads=shared, do_rotary=int(bool(caches)), softcap=g.pick([None, 2.0]),
           local_window_size=g.pick([None, 2]), smooth_softmax=g.pick([None, 1]),
           rotary_interleaved=g.int(0, 1))  # fmt: skip


@generator("RotaryEmbedding")
def rotary(g: Maker, op: str) -> None:
    batch, steps, heads, size = g.int(1, 2), g.int(1, 4), g.int(1, 2), g.pick([2, 4])
    flat = (batch, steps, heads * size)
    x = g.value(FLOATS, shape=g.pick([flat, (batch, heads, steps, size)]))
    shape = g.pick([(1,), (batch, steps)])
    positions = g.leaf("int64", shape, 0, 4)
    caches = [g.leaf(x.dtype, (8, size // 2), -1, 1) for _ in "cs"]
    g.node(op, [x, positions, *caches], domain=DOMAIN, interleaved=g.int(0, 1))


@generator("RelativePositionBias")
def distances(g: Maker, op: str) -> None:
    table = g.value(FLOATS, shape=(8, g.int(1, 3)))
    lengths = [g.fixed([g.int(1, 9)]) for _ in "qk"]
    g.node(op, [table, *lengths], domain=DOMAIN, max_distance=20, is_bidirectional=g.int(0, 1))


@generator("GatedRelativePositionBias")
def gates(g: Maker, op: str) -> None:
    batch, steps, heads, size = g.int(1, 2), g.int(1, 3), g.int(1, 2), g.int(1, 3)
    x = g.value(FLOATS, shape=(batch, steps, heads * size))
    rest = [(heads * size,), (1, heads, steps, steps), (size, 4), (4,), (1, heads, 1, 1)]
    inputs = [g.value([x.dtype], shape=shape) for shape in rest]
    g.node(op, [x, *inputs], domain=DOMAIN, num_heads=heads)


@generator("GatherBlockQuantized")
def gathered(g: Maker, op: str) -> None:
    data, scales = g.leaf("uint8", (4, 32)), g.leaf("float32", (4, 2), 0.1, 1)
    g.node(op, [data, g.leaf("int64", (2,), 0, 3), scales], domain=DOMAIN, bits=8, block_size=16)


@generator("CDist")
def far(g: Maker, op: str) -> None:
    a = g.value(("float32", "float64"), shape=(g.int(1, 4), g.int(1, 4)))
    b = g.value([a.dtype], shape=(g.int(1, 4), a.shape[1]))
    g.node(op, [a, b], domain=DOMAIN, metric="sqeuclidean")


@generator("GridSample")
def sampled(g: Maker, op: str) -> None:
    x = g.value(("float32",), shape=(1, g.int(1, 2), g.int(2, 4), g.int(2, 4)))
    grid = g.leaf("float32", (1, 2, 3, 2), -1, 1)
    g.node(op, [x, grid], domain=DOMAIN, align_corners=g.int(0, 1), mode="bilinear")


@generator("Trilu", "ExpandDims", "Pad", "GatherND", "TorchEmbedding")
def moved(g: Maker, op: str) -> None:
    x = g.value((*FLOATS, "int64", "uint8"), rank=2, empty=False)
    inputs: list[Value | None] = [x]
    match op:
        case "Trilu":
            inputs.append(maybe(g, lambda: g.fixed(g.int(-1, 1))))
        case "ExpandDims":
            inputs.append(g.fixed(g.int(-3, 2), "int32"))
        case "Pad":
            inputs.append(g.fixed([g.int(0, 2) for _ in range(4)]))
        case "GatherND":
            inputs.append(g.leaf("int64", (2, 1), 0, x.shape[0] - 1))
        case "TorchEmbedding":
            inputs.append(g.leaf("int64", (3,), 0, x.shape[0] - 1))
    g.node(op, inputs, domain=DOMAIN, kind=x.dtype)


@generator("Range")
def counted(g: Maker, op: str) -> None:
    inputs = [g.fixed(n, "int64") for n in (g.int(-2, 2), g.int(3, 6), g.int(1, 2))]
    g.node(op, inputs[: g.int(2, 3)], domain=DOMAIN, kind="int64")


@generator("Unique")
def unique(g: Maker, op: str) -> None:
    g.node(op, [g.fixed([2, 1, 1, 3], "int64")], domain=DOMAIN, kind="int64")


@generator("QuantizeLinear", "DequantizeLinear")
def quantised(g: Maker, op: str) -> None:
    small = g.pick(["int8", "uint8", "uint16"])
    to = op == "QuantizeLinear"
    x = g.value(["float32"] if to else [small], shape=(2, 3))
    zero = g.fixed(3, small)
    g.node(op, [x, g.fixed(0.5, "float32"), zero], domain=DOMAIN,
           kind=small if to else "float32")  # fmt: skip


@generator("Rfft")
def spectrum(g: Maker, op: str) -> None:
    g.node(op, [g.value(("float32",), rank=(1, 3), empty=False)], domain=DOMAIN)


@generator("MulInteger", "ReduceSumInteger")
def integers(g: Maker, op: str) -> None:
    x = g.value(("int8", "uint8"), shape=(2, 3))
    inputs: list[Value | None] = [x]
    if op == "MulInteger":
        inputs += [g.fixed(1, x.dtype), g.value([x.dtype], shape=(2, 3))]
    axes = [g.int(0, 1)] if op == "ReduceSumInteger" else None
    g.node(op, inputs, domain=DOMAIN, kind="int32", axes=axes)
