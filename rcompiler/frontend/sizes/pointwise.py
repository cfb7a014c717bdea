"""Operators that work element by element: what is not there stays where it is."""

from __future__ import annotations

from rcompiler.errors import ShapeError
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.value import SizeAtRunTime

from .agreement import in_common, meets_in_some_calls
from .rules import Results, as_usual, need_along, need_whole, of_whole, rule, with_extents


def _alike(ctx: Context, lower: Lowering) -> Results:
    """Of operands that have one size along each axis."""
    alike = in_common(ctx)
    try:
        return lower(alike)
    except ShapeError as error:
        if meets_in_some_calls(alike):
            raise SizeAtRunTime("sizes of its inputs are one in some calls only") from error
        raise


rule(
    *(
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr "
        "BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu "
        "Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log "
        "Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid "
        "Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor "
    ).split()
)(_alike)

# The numbers of an element are those of its position among all that are there.
rule("RandomNormalLike", "RandomUniformLike")(as_usual)
rule("BitCast")(as_usual)

# The distance of an element to the diagonal does not depend on how many there are.
rule("Trilu", "Transpose")(as_usual)


@rule("Dropout")
def _dropout(ctx: Context, lower: Lowering) -> Results:
    """As the identity; its mask has the same size."""
    need_whole(ctx, 1, 2)
    x = ctx.input(0)
    return with_extents(ctx, of_whole(ctx, lower), x.extents, x.extents)


@rule("EyeLike")
def _eye_like(ctx: Context, lower: Lowering) -> Results:
    """Ones lie where a row and a column have the same number, as far as there are both."""
    return with_extents(ctx, of_whole(ctx, lower), ctx.input(0).extents)


@rule("Det")
def _det(ctx: Context, lower: Lowering) -> Results:
    """Of each matrix of a batch."""
    x = ctx.input(0)
    need_along(ctx, x, range(max(x.rank - 2, 0), x.rank))
    return with_extents(ctx, of_whole(ctx, lower), x.extents[:-2])


@rule("Multinomial")
def _multinomial(ctx: Context, lower: Lowering) -> Results:
    """A row of draws for each row of probabilities."""
    x = ctx.input(0)
    need_along(ctx, x, [x.rank - 1])
    return with_extents(ctx, of_whole(ctx, lower), (x.extents[0], None))


@rule("QuantizeLinear", "DequantizeLinear")
def _quantize(ctx: Context, lower: Lowering) -> Results:
    """By one scale, or by those of an axis of which all is there."""
    need_whole(ctx, 1, 2)
    x: Value = ctx.input(0)
    if ctx.input(1).rank > 1:  # of blocks
        need_whole(ctx, 0)
    elif ctx.input(1).size > 1:
        need_along(ctx, x, [ctx.axis(ctx.attr("axis", 1), x.rank)])
    return with_extents(ctx, of_whole(ctx, lower), x.extents)


@rule("DynamicQuantizeLinear")
def _dynamic_quantize(ctx: Context, lower: Lowering) -> Results:
    """Its range is widened by 0 anyway, so zeros in the place of what is not there change none."""
    x = ctx.input(0)
    made = of_whole(ctx, lower, {0: ctx.b.masked(x)})
    return with_extents(ctx, made, x.extents, (), ())


@rule("BatchNormalization")
def _batch_normalization(ctx: Context, lower: Lowering) -> Results:
    if ctx.attr("training_mode", 0):
        need_whole(ctx, 0)
    return lower(ctx)
