"""rtask-block-channels keeps the numbers of small networks, up to the order of accumulation."""

import sys
from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.frontend.builder import Builder
from rcompiler.passes import _pipeline_text

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from naive_linalg import Runner  # noqa: E402

RUN = Runner()
RNG = np.random.default_rng(7)
NETWORKS = {}


def network(*shapes):
    """Register a network: inputs of these shapes, returns its results."""

    def register(build):
        NETWORKS[build.__name__] = (shapes, build)
        return build

    return register


def weights(b, *shape):
    return b.constant((RNG.standard_normal(shape) / np.sqrt(shape[-1] * 9)).astype(np.float32))


def conv(b, x, co, kernel=3, stride=1, groups=1):
    rank = x.rank - 2
    w = weights(b, co, x.shape[1] // groups, *[kernel] * rank)
    pads = [kernel // 2] * (2 * rank)
    return b.conv(x, w, [stride] * rank, [1] * rank, pads, groups)


def relu(b, x):
    return b.elementwise(lambda s, a: s.maximum(a, 0.0), x)


def add(b, *values):
    return b.elementwise(lambda s, x, y: x + y, *values)


def mul(b, *values):
    return b.elementwise(lambda s, x, y: x * y, *values)


def max_pool(b, x, size=3, stride=2, pad=1):
    return b.window_reduce(
        x,
        [size] * 2,
        [stride] * 2,
        [1, 1],
        [pad] * 2,
        [pad] * 2,
        -np.inf,
        lambda s, a, acc: s.maximum(acc, a),
    )


def mean(b, x):
    total = b.reduce(x, [2, 3], 0.0, lambda s, a, acc: acc + a, keepdims=True)
    return b.elementwise(lambda s, a: a / float(x.shape[2] * x.shape[3]), total)


@network((2, 3, 9, 9))
def residual(b, x):
    x = max_pool(b, relu(b, conv(b, x, 32, 3, 2)))
    y = conv(b, relu(b, conv(b, x, 32)), 32, 1)
    x = relu(b, add(b, y, x))
    return [b.reshape(mean(b, x), (2, 32))]


@network((1, 3, 8, 8))
def ragged_channels(b, x):
    x = max_pool(b, conv(b, x, 20))
    x = add(b, conv(b, x, 24), weights(b, 24, 1, 1))
    return [conv(b, relu(b, x), 40, 1), x]


@network((1, 24, 6, 6))
def mobile(b, x):
    y = relu(b, conv(b, x, 72, 1))
    y = conv(b, y, 72, 3, 2, groups=72)
    gate = conv(b, relu(b, conv(b, mean(b, y), 18, 1)), 72, 1)
    gate = b.elementwise(lambda s, a: 1.0 / (1.0 + s.exp(-a)), gate)
    return [conv(b, mul(b, y, gate), 24, 1)]


@network((1, 32, 6, 6))
def depthwise_first(b, x):
    return [conv(b, x, 32, 3, 1, groups=32)]


@network((1, 32, 5, 5))
def groups_of_whole_blocks(b, x):
    return [conv(b, relu(b, conv(b, conv(b, x, 64, 1), 64, 3, 1, groups=2)), 16, 1)]


@network((1, 32, 5, 5))
def small_groups(b, x):
    return [conv(b, conv(b, conv(b, x, 32, 1), 32, 3, 1, groups=8), 32, 1)]


@network((1, 16, 4, 4))
def concat_slice_resize(b, x):
    y, z = conv(b, x, 16), conv(b, x, 24)
    y = b.concat([y, z], 1)
    first = b.slice(y, [0, 16, 0, 0], [1, 24, 4, 4])
    up = b.generic(
        [(first, "d0, d1, d2 floordiv 2, d3 floordiv 2")],
        [(b.empty((1, 24, 8, 8), "float32"), "d0, d1, d2, d3")],
        "pppp",
        lambda s, a, o: a,
    )[0]
    crooked = b.slice(y, [0, 3, 0, 0], [1, 7, 4, 4])
    return [conv(b, up, 16), crooked, b.concat([z, y], 1)]


@network((1, 16, 4, 4))
def padding_lanes_become_nan(b, x):
    x = b.elementwise(lambda s, a: s.abs(a) + 1.0, conv(b, x, 20))
    x = b.elementwise(
        lambda s, a, c: a / c, x, b.constant(np.arange(1, 21, dtype=np.float32).reshape(20, 1, 1))
    )
    return [conv(b, x, 16)]


@network((1, 16, 4, 4), (1, 20, 4, 4), (4, 4))
def plain_operands(b, x, y, mask):
    x = mul(b, add(b, conv(b, x, 20), y), mask)
    return [conv(b, x, 16), x]


@network((1, 3, 8, 8))
def patches(b, x):
    x = b.conv(x, weights(b, 32, 3, 4, 4), [4, 4], [1, 1], [0] * 4)
    x = b.transpose(b.reshape(x, (1, 32, 4)), [0, 2, 1])
    x = add(b, x, weights(b, 1, 4, 32))
    total = b.reduce(x, [2], 0.0, lambda s, a, acc: acc + a, keepdims=True)
    return [b.elementwise(lambda s, a, m: a - m / 32.0, x, total)]


@network((1, 16, 4, 4))
def across_channels(b, x):
    x = conv(b, x, 20)
    total = b.reduce(x, [1], 0.0, lambda s, a, acc: acc + a, keepdims=True)
    return [conv(b, b.elementwise(lambda s, a, m: a - m, x, total), 32)]


@network((1, 16, 4, 4))
def flatten(b, x):
    x = b.reshape(relu(b, conv(b, x, 32)), (1, 512))
    return [b.matmul(x, weights(b, 512, 10))]


@network((2, 16, 9))
def one_spatial_dim(b, x):
    return [relu(b, conv(b, relu(b, conv(b, x, 16, 3, 2)), 20))]


@network((1, 16, 3, 4, 5))
def three_spatial_dims(b, x):
    return [relu(b, conv(b, relu(b, conv(b, x, 20)), 16, 1))]


@network((1, 16, 4, 4))
def channel_shuffle(b, x):
    x = b.reshape(conv(b, x, 64), (1, 2, 32, 4, 4))
    x = b.reshape(b.transpose(x, [0, 2, 1, 3, 4]), (1, 64, 4, 4))
    return [conv(b, x, 16, 1)]


@network((1, 16, 4, 4))
def index_of_the_channel(b, x):
    x = conv(b, x, 32)
    own = "d0, d1, d2, d3"
    return [
        b.generic(
            [(x, own)],
            [(b.empty(x.shape, "float32"), own)],
            "pppp",
            lambda s, a, o: a * s.cast(s.index(1), "float32"),
        )[0]
    ]


@network((0, 16, 4, 4))
def no_elements(b, x):
    return [relu(b, conv(b, x, 16))]


@network((4, 16, 8), (4, 8, 16))
def batched_product_is_no_convolution(b, x, y):
    return [b.matmul(x, y)]


def transposed(b, x, co, groups=1):
    """The sub-pixel form of a 2x2 transposed convolution of stride 2."""
    n, c, height, width = x.shape
    w = weights(b, co, 2, 1, 2, 1, c // groups)
    w = b.transpose(w, [0, 5, 1, 2, 3, 4])
    y = b.conv_phases(x, w, [height, width], [1, 1], [True, True], groups)
    return b.reshape(y, [n, co, 2 * height, 2 * width])


@network((1, 16, 5, 4))
def transposed_convolutions(b, x):
    skip = conv(b, x, 32)
    x = relu(b, transposed(b, max_pool(b, skip), 24))
    return [conv(b, transposed(b, x, 32), 16)]


@network((2, 64, 4, 3))
def grouped_transposed_convolution(b, x):
    return [conv(b, transposed(b, conv(b, x, 64), 32, groups=2), 16)]


def conv_bytes(b, x, co, kernel=3, stride=1, groups=1):
    """An image of uint8 with weights of int8, summed in int32 and cut to uint8 again."""
    shape = (co, x.shape[1] // groups, kernel, kernel)
    w = b.constant(RNG.integers(-128, 128, shape).astype(np.int8))
    y = b.conv(x, w, [stride] * 2, [1, 1], [kernel // 2] * 4, groups, "int32", 3)
    return b.elementwise(lambda s, a: s.cast(a, "uint8"), y, dtype="uint8")


def bytes_of(b, x):
    return b.elementwise(lambda s, a: s.cast(a * 40.0 + 128.0, "uint8"), x, dtype="uint8")


@network((1, 3, 9, 9), (1, 24, 5, 5))
def convolutions_of_bytes(b, x, y):
    x = conv_bytes(b, conv_bytes(b, bytes_of(b, x), 20), 32, 1, 2)
    y = conv_bytes(b, conv_bytes(b, bytes_of(b, y), 32), 32, 3, 1, groups=32)
    return [add(b, conv_bytes(b, x, 24), conv_bytes(b, y, 24)), conv_bytes(b, y, 32, groups=2)]


@network((1, 3, 6, 6))
def extremes_over_channels(b, x):
    # beyond the channels there are the largest numbers of x and the smallest ones of y
    x = b.elementwise(lambda s, a: -s.abs(a) - 1.0, conv(b, x, 20))
    y = b.elementwise(lambda s, a: s.abs(a) + 1.0, x)
    largest = b.reduce(x, [0, 1, 2, 3], -np.inf, lambda s, a, acc: s.maximum(acc, a))
    smallest = b.reduce(y, [1], np.inf, lambda s, a, acc: s.minimum(acc, a))
    whole = b.reduce(conv(b, x, 32), [1, 2], -np.inf, lambda s, a, acc: s.maximum(acc, a))
    return [largest, smallest, whole]


@pytest.mark.parametrize(
    ("name", "lanes"), [*((name, 16) for name in NETWORKS), ("ragged_channels", 8), ("mobile", 4)]
)
def test_same_numbers(name, lanes):
    shapes, build = NETWORKS[name]
    b = Builder()
    inputs = [b.argument(f"x{i}", shape, "float32") for i, shape in enumerate(shapes)]
    text = b.module([(f"y{i}", v) for i, v in enumerate(build(b, *inputs))])
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    with ir.Context() as context:
        module = ir.Module.parse(text)
        plain = str(module)
        _pipeline_text.build(f"rtask-block-channels{{lanes={lanes}}}", context).run(
            module.operation
        )
        blocked = str(module)
    assert (blocked == plain) == (name in ("batched_product_is_no_convolution", "no_elements"))
    expected, found = (RUN.run(t, b.constants, arrays) for t in (text, blocked))
    for a, c in zip(expected, found, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(c, a, rtol=1e-4, atol=1e-5)


def test_phases_of_a_transposed_convolution_stay_blocked():
    b = Builder()
    x = b.argument("x", (1, 32, 6, 6), "float32")
    text = b.module([("y", conv(b, transposed(b, conv(b, x, 32), 16), 16))])
    with dialects.load(ir.Context()) as context:
        module = ir.Module.parse(text)
        _pipeline_text.build("rtask-block-channels{lanes=16},cse,rtask-form", context).run(
            module.operation
        )
        kinds = [line for line in str(module).splitlines() if "sym_name" in line]
    assert sum('"movement"' in line for line in kinds) == 7  # pack, unpack, 2 pads, 3 weights
    assert sum('"convolution"' in line for line in kinds) == 3
