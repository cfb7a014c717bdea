"""Tensor expressions of the operators the tiling must handle, for the unit tests."""

import math

from rcompiler.device.cpu import cpu_device
from rcompiler.roller.construct import construct
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorAccess, TensorExpr, floordiv, index, mod, tensor_expr


def first(expr: TensorExpr, level: str) -> Decision:
    """The efficient decision on a CPU of that feature level."""
    return construct(expr, cpu_device(level))[0]


def vectors(decision: Decision) -> int:
    """Vectors of one register tile."""
    return math.prod(decision.register_tile) // decision.lanes


def at(axis: int):
    return index((1, axis))


def gemm(m: int, n: int, k: int) -> TensorExpr:
    """C[m, n] = A[m, k] B[n/16][k][16] with bias, B packed for vectors of 16."""
    panel = (index((1, floordiv(at(1), 16))), at(2), index((1, mod(at(1), 16))))
    return tensor_expr(
        [("m", m, "parallel"), ("n", n, "parallel"), ("k", k, "reduction")],
        [
            TensorAccess((m, k), 4, (at(0), at(2))),
            TensorAccess((-(-n // 16), k, 16), 4, panel),
            TensorAccess((n,), 4, (at(1),)),
        ],
        [TensorAccess((m, n), 4, (at(0), at(1)))],
        epilogue_ops=1,
    )


def conv(c: int, size: int, co: int, kernel: int, stride: int = 1, n: int = 1) -> TensorExpr:
    """Blocked [n][c/16][h][w][16] * [co/16][c/16][kh][kw][16][16], with the halo in the input."""
    out = (size - 1) // stride + 1
    span = (out - 1) * stride + kernel
    row, column = index((stride, 2), (1, 6)), index((stride, 3), (1, 7))
    return tensor_expr(
        [
            *[("n", n, "parallel"), ("cob", co // 16, "parallel"), ("oh", out, "parallel")],
            *[("ow", out, "parallel"), ("co", 16, "parallel"), ("cib", c // 16, "reduction")],
            *[("kh", kernel, "reduction"), ("kw", kernel, "reduction"), ("ci", 16, "reduction")],
        ],
        [
            TensorAccess((n, c // 16, span, span, 16), 4, (at(0), at(5), row, column, at(8))),
            TensorAccess(
                (co // 16, c // 16, kernel, kernel, 16, 16),
                4,
                (at(1), at(5), at(6), at(7), at(8), at(4)),
            ),
        ],
        [TensorAccess((n, co // 16, out, out, 16), 4, tuple(map(at, range(5))))],
        epilogue_ops=2,
    )


def plain_conv(c: int, size: int, co: int, kernel: int) -> TensorExpr:
    """Convolution in NCHW, not blocked: only the columns of the image are contiguous."""
    span = size + kernel - 1
    row, column = index((1, 1), (1, 4)), index((1, 2), (1, 5))
    return tensor_expr(
        [
            *[("co", co, "parallel"), ("oh", size, "parallel"), ("ow", size, "parallel")],
            *[("c", c, "reduction"), ("kh", kernel, "reduction"), ("kw", kernel, "reduction")],
        ],
        [
            TensorAccess((c, span, span), 4, (at(3), row, column)),
            TensorAccess((co, c, kernel, kernel), 4, (at(0), at(3), at(4), at(5))),
        ],
        [TensorAccess((co, size, size), 4, (at(0), at(1), at(2)))],
    )


def first_conv() -> TensorExpr:
    """7x7, stride 2, [3][230][230] -> [4][112][112][16]."""
    row, column = index((2, 1), (1, 5)), index((2, 2), (1, 6))
    return tensor_expr(
        [
            *[("cob", 4, "parallel"), ("oh", 112, "parallel"), ("ow", 112, "parallel")],
            *[("co", 16, "parallel"), ("c", 3, "reduction")],
            *[("kh", 7, "reduction"), ("kw", 7, "reduction")],
        ],
        [
            TensorAccess((3, 229, 229), 4, (at(4), row, column)),
            TensorAccess((4, 3, 7, 7, 16), 4, (at(0), at(4), at(5), at(6), at(3))),
        ],
        [TensorAccess((4, 112, 112, 16), 4, tuple(map(at, range(4))))],
    )


def depthwise(c: int, out: int, kernel: int = 3, *, pool: bool = False) -> TensorExpr:
    """Depthwise convolution, or max pooling, on [c/16][h][w][16]."""
    span = out + kernel - 1
    image = (at(0), index((1, 1), (1, 4)), index((1, 2), (1, 5)), at(3))
    inputs = [TensorAccess((c // 16, span, span, 16), 4, image)]
    if not pool:
        inputs.append(TensorAccess((c // 16, kernel, kernel, 16), 4, (at(0), at(4), at(5), at(3))))
    return tensor_expr(
        [
            *[("cb", c // 16, "parallel"), ("oh", out, "parallel"), ("ow", out, "parallel")],
            *[("c", 16, "parallel"), ("kh", kernel, "reduction"), ("kw", kernel, "reduction")],
        ],
        inputs,
        [TensorAccess((c // 16, out, out, 16), 4, tuple(map(at, range(4))))],
        ops=1 if pool else 2,
    )


def elementwise(*shape: int) -> TensorExpr:
    access = TensorAccess(shape, 4, tuple(map(at, range(len(shape)))))
    axes = [(f"d{i}", size, "parallel") for i, size in enumerate(shape)]
    return tensor_expr(axes, [access, access], [access], ops=1)


def softmax(rows: int, columns: int) -> TensorExpr:
    access = TensorAccess((rows, columns), 4, (at(0), at(1)))
    axes = [("r", rows, "parallel"), ("c", columns, "reduction")]
    return tensor_expr(axes, [access], [access], ops=20)


def column_sum(rows: int, columns: int) -> TensorExpr:
    axes = [("c", columns, "parallel"), ("r", rows, "reduction")]
    image = TensorAccess((rows, columns), 4, (at(1), at(0)))
    return tensor_expr(axes, [image], [TensorAccess((columns,), 4, (at(0),))], ops=1)


def transpose(rows: int, columns: int) -> TensorExpr:
    axes = [("r", rows, "parallel"), ("c", columns, "parallel")]
    image = TensorAccess((columns, rows), 4, (at(1), at(0)))
    return tensor_expr(axes, [image], [TensorAccess((rows, columns), 4, (at(0), at(1)))], ops=0)


def dot_rows(m: int, n: int, k: int) -> TensorExpr:
    """C[m, n] = A[m, k] B[n, k]: only the reduction is contiguous in both."""
    axes = [("m", m, "parallel"), ("n", n, "parallel"), ("k", k, "reduction")]
    inputs = [TensorAccess((m, k), 4, (at(0), at(2))), TensorAccess((n, k), 4, (at(1), at(2)))]
    return tensor_expr(axes, inputs, [TensorAccess((m, n), 4, (at(0), at(1)))])


def embedding(rows: int, vocabulary: int, width: int) -> TensorExpr:
    """out[i, j] = table[ids[i], j]."""
    axes = [("i", rows, "parallel"), ("j", width, "parallel")]
    inputs = [
        TensorAccess((rows,), 8, (at(0),)),
        TensorAccess((vocabulary, width), 4, (None, at(1))),
    ]
    output = TensorAccess((rows, width), 4, (at(0), at(1)))
    return tensor_expr(axes, inputs, [output], ops=0, compute_bytes=4)


def scalar() -> TensorExpr:
    return tensor_expr([], [TensorAccess((), 4, ())], [TensorAccess((), 4, ())], ops=1)


CASES: dict[str, TensorExpr] = {
    "gemm": gemm(128, 768, 768),
    "gemm_square": gemm(1024, 1024, 1024),
    "gemm_odd": gemm(37, 1000, 99),
    "gemv": gemm(1, 1000, 2048),
    "gemm_tiny": gemm(4, 10, 64),
    "conv_3x3": conv(64, 56, 64, 3),
    "conv_7x7_image": conv(512, 7, 512, 3),
    "conv_stride": conv(128, 56, 128, 3, stride=2),
    "conv_batch": conv(64, 56, 64, 1, n=8),
    "plain_conv": plain_conv(64, 56, 64, 3),
    "first_conv": first_conv(),
    "depthwise": depthwise(384, 14),
    "pool": depthwise(64, 56, pool=True),
    "elementwise": elementwise(1 << 20),
    "elementwise_small": elementwise(3, 5),
    "softmax": softmax(1536, 128),
    "column_sum": column_sum(128, 3072),
    "transpose": transpose(512, 768),
    "dot_rows": dot_rows(128, 128, 64),
    "embedding": embedding(128, 30522, 768),
    "scalar": scalar(),
    "empty": elementwise(4, 0, 16),
}
