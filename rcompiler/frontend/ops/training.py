"""One step of an optimizer: Adagrad, Adam and Momentum (domain ai.onnx.preview.training).

Inputs are the learning rate R, the count of earlier steps T, then for several tensors at once
their values X1 .. Xn, their gradients G1 .. Gn and the optimizer's state; results are the new
values, then the new state, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

DOMAIN = "ai.onnx.preview.training"
# (ctx, R, T, x, regularized gradient, states) -> (new x, *new states)
Step = Callable[..., list[Value]]


def _optimizer(op: str, states: int) -> Callable[[Step], Step]:
    """Register the step of one tensor with ``states`` state tensors."""

    def register(step: Step) -> Step:
        def lower(ctx: Context) -> list[Value | None]:
            tensors = [ctx.input(i) for i in range(2, len(ctx.inputs))]
            count, rest = divmod(len(tensors), 2 + states)
            if rest or not count:
                raise ctx.shape_error(f"there are {2 + states} inputs for each tensor")
            made = [_one(ctx, step, tensors[i::count]) for i in range(count)]
            return [result for column in zip(*made, strict=True) for result in column]

        lowering(op, domain=DOMAIN)(lower)
        return step

    return register


def _one(ctx: Context, step: Step, tensors: list[Value]) -> list[Value]:
    """One tensor with its gradient and state, all of one shape and type."""
    b, (x, gradient, *states) = ctx.b, tensors
    rate, time = ctx.input(0), ctx.input(1)
    if any((v.shape, v.dtype) != (x.shape, x.dtype) for v in tensors) or not dtypes.is_float(
        x.dtype
    ):
        raise ctx.shape_error("a tensor, its gradient and its state are floats of one shape")
    if rate.size != 1 or time.size != 1:
        raise ctx.shape_error("the learning rate and the count of steps are scalars")
    rate, time = (b.cast(b.reshape(v, []), x.dtype) for v in (rate, time))
    norm = ctx.attr("norm_coefficient", 0.0)
    if norm:
        gradient = b.elementwise(lambda s, a, g: a * norm + g, x, gradient)
    return step(ctx, rate, time, x, gradient, *states)


@_optimizer("Adagrad", 1)
def _adagrad(
    ctx: Context, rate: Value, time: Value, x: Value, gradient: Value, squares: Value
) -> list[Value]:
    b, decay, epsilon = ctx.b, ctx.attr("decay_factor", 0.0), ctx.attr("epsilon", 1e-6)
    squares = b.elementwise(lambda s, h, g: h + g * g, squares, gradient)
    rate = b.elementwise(lambda s, r, t: r / (t * decay + 1.0), rate, time)

    def step(s: Body, a: Scalar, g: Scalar, h: Scalar, r: Scalar) -> Scalar:
        return a - r * g / (s.sqrt(h) + epsilon)

    return [b.elementwise(step, x, gradient, squares, rate), squares]


@_optimizer("Adam", 2)
def _adam(
    ctx: Context,
    rate: Value,
    time: Value,
    x: Value,
    gradient: Value,
    mean: Value,
    squares: Value,
) -> list[Value]:
    """Moving averages of the gradient and of its square, corrected for their start at zero."""
    b, epsilon = ctx.b, ctx.attr("epsilon", 1e-6)
    alpha, beta = ctx.attr("alpha", 0.9), ctx.attr("beta", 0.999)
    keep = 1.0 - ctx.attr("norm_coefficient_post", 0.0)
    mean = b.elementwise(lambda s, v, g: v * alpha + g * (1 - alpha), mean, gradient)
    squares = b.elementwise(lambda s, h, g: h * beta + g * g * (1 - beta), squares, gradient)

    def corrected(s: Body, r: Scalar, t: Scalar) -> Scalar:
        first, second = (1.0 - s.pow(s.const(base, r.dtype), t) for base in (alpha, beta))
        return s.select(t > 0, r * s.sqrt(second) / first, r)

    rate = b.elementwise(corrected, rate, time)

    def step(s: Body, a: Scalar, v: Scalar, h: Scalar, r: Scalar) -> Scalar:
        return (a - r * (v / (s.sqrt(h) + epsilon))) * keep

    return [b.elementwise(step, x, mean, squares, rate), mean, squares]


@_optimizer("Momentum", 1)
def _momentum(
    ctx: Context, rate: Value, time: Value, x: Value, gradient: Value, velocity: Value
) -> list[Value]:
    """Of mode "standard" or "nesterov"; beta weighs the gradient from the second step on."""
    b, alpha, beta = ctx.b, ctx.attr("alpha"), ctx.attr("beta")
    mode = ctx.attr("mode")
    if mode not in ("standard", "nesterov"):
        raise ctx.shape_error(f"mode is standard or nesterov, not {mode}")

    def move(s: Body, v: Scalar, g: Scalar, t: Scalar) -> Scalar:
        return v * alpha + s.select(t > 0, g * beta, g)

    velocity = b.elementwise(move, velocity, gradient, time)
    if mode == "nesterov":
        gradient = b.elementwise(lambda s, g, v: g + v * alpha, gradient, velocity)
    else:
        gradient = velocity
    return [b.elementwise(lambda s, a, g, r: a - r * g, x, gradient, rate), velocity]
