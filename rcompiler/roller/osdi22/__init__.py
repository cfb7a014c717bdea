"""The search that was published and evaluated (Roller, OSDI'22), quirks included.

    programs = construct(expr, device)      # at most 10 RPrograms; the first is the Top-1

Scale-up by depth-first growth along the axis with the best reuse score, then scale-out. Its results
are those of the paper's artifact, tile by tile and in the same order, which
`python -m rcompiler.roller.golden` shows. Every deviation of the artifact from the paper is marked
"quirk (parity)" where it is. The compiler's own policy is `rcompiler.roller.construct`.

Where the artifact does not end (an output smaller than the device) or loses a tile (one accepted
before it ever grew), this one goes on sensibly; no published run met either. It also stops a round
after `Options.visits` tiles. An operator may get no tile at all (a gather counts its whole table as
its footprint): the caller then has its own policy.
"""

from typing import get_args

from rcompiler.device.model import Device
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.osdi22.expression import Expression, Operand, expression_of
from rcompiler.roller.osdi22.hal import Hal, hal_of
from rcompiler.roller.osdi22.rules import rules_of
from rcompiler.roller.osdi22.search import Options, RProgram, Score, Search, shrink

__all__ = ["Expression", "Hal", "Operand", "Options", "RProgram", "Score", "construct", "emit"]

_SCORES = get_args(Score)


def construct(
    expr: TensorExpr,
    device: Device,
    options: Options | None = None,
    *,
    units: int | None = None,
    tensor_core: bool = False,
) -> list[RProgram]:
    """The tiles the published search emits for `expr` on `device`, best guess first.

    Sizes are per axis of `expr`, in its own order. `units`: execution units the operator may use
    (default: all); `tensor_core`: tiles of 16x16x16 fragments. Empty when nothing fits. Raises
    ExpressionError for an expression with an empty axis, CompilerError for options out of range,
    DeviceError for `tensor_core` on a device without matrix units.
    """
    ordered, order = expression_of(expr, tensor_core=tensor_core)
    found = emit(ordered, hal_of(device), options, units=units)
    back = [order.index(axis) for axis in range(len(expr.axes))]
    return [
        RProgram(
            tuple(program.shared[i] for i in back),
            tuple(program.register[i] for i in back),
            program.eps,
        )
        for program in found
    ]


def emit(
    expr: Expression, hal: Hal, options: Options | None = None, *, units: int | None = None
) -> list[RProgram]:
    """As `construct`, for an expression whose spatial axes come first."""
    options = options or Options()
    if options.score not in _SCORES:
        raise CompilerError(f"score {options.score!r}; one of {', '.join(_SCORES)}")
    if options.count < 1:
        raise CompilerError(f"{options.count} results wanted; at least 1")
    if not 0 <= options.eps_cap <= 8:
        raise CompilerError(f"padding of at most {options.eps_cap}; between 0 and 8")
    if expr.tensor_core and hal.matrix_gflops is None:
        raise DeviceError("the device has no matrix units; leave tensor_core off")
    rules = rules_of(expr)
    found = Search(expr, hal, rules, options).run()
    if rules.shrink:
        wanted = hal.sms if units is None else min(hal.sms, max(1, units))
        found = [shrink(expr, program, wanted) for program in found]
    return found[: options.count]
