"""TensorExpr: a tensor computation as axes and affine accesses (Roller §3.1).

An expression is what `linalg.generic` says and no more: an iteration space of parallel and
reduction axes, and for every operand an index expression per dimension. From it follows
statically what a tile of the axes reads and writes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rcompiler.roller.access import TensorAccess
from rcompiler.roller.index_expr import ExpressionError, Index, Number, floordiv, index, mod
from rcompiler.roller.matrix_unit import UnitProduct

__all__ = [
    "Axis",
    "ExpressionError",
    "Index",
    "TensorAccess",
    "TensorExpr",
    "floordiv",
    "index",
    "mod",
    "tensor_expr",
]

KINDS = (
    "contraction",
    "convolution",
    "reduction",
    "pooling",
    "transform",
    "elementwise",
    "movement",
    "gather",
    "sequential",
)
AXES = ("parallel", "reduction", "whole")
_POINTS = 1 << 56  # of a whole expression: what counts them stays within 64 bits


@dataclass(frozen=True)
class Axis:
    """One axis of the iteration space; kind is "parallel", "reduction" or "whole".

    Whole: every point reads all of it, without a loop (the few terms of a small linear map).
    `padding`: positions beside the `size` ones that are written, not computed: the results of a
    parallel axis end in a pad. `uncut`: no task may cut the axis.
    """

    name: str
    size: int
    kind: str
    padding: int = 0
    uncut: bool = False

    @property
    def extent(self) -> int:
        """Positions that the tasks share out among them."""
        return max(1, self.size + self.padding)

    def divisible(self, step: int) -> bool:
        """Whether tasks may cut the axis where register tiles are `step` long along it.

        A cut anywhere in a padded tensor leaves parts of the core whose lengths are not known
        before the task runs, and those are taken step by step.
        """
        return not self.uncut and (step == 1 or not self.padding)


@dataclass(frozen=True)
class TensorExpr:
    """Axes, accesses, and the arithmetic per point.

    `ops`: operations per point of the whole space, two for every slot of arithmetic (a multiply-add
    takes one, so does an addition); `epilogue_ops`: per point of the parallel space (what is fused
    before or after the root).
    `compute_bytes`: bytes of the widest element held in registers. `in_parts`: the running sums of
    a tile may wait in memory between two parts of the outermost reduction axis. `dot`: "" or the
    type of the elements ("i8", "bf16") that a point multiplies in groups and adds up: one group is
    a word, the element of the accesses, and `ops` are those of all its steps. `periods`: (axis,
    steps) of parallel axes along which what is computed repeats: register tiles take whole periods.
    `sweeps`: how often a task goes over its tile, for one result after the other. `unit`: the
    matrix unit that computes the sums; None: multiply-adds do. `abreast`: the axis along which
    vectors run in a sequential expression, whose iterations along it take the same way; -1: none.
    """

    axes: tuple[Axis, ...]
    inputs: tuple[TensorAccess, ...]
    outputs: tuple[TensorAccess, ...]
    kind: str
    ops: float
    epilogue_ops: float
    compute_bytes: int
    in_parts: bool = False
    dot: str = ""
    periods: tuple[tuple[int, int], ...] = ()
    sweeps: int = 1
    unit: UnitProduct | None = None
    abreast: int = -1

    @cached_property
    def distinct_inputs(self) -> frozenset[TensorAccess]:
        """The inputs, to ask whether an access is of one: of a concatenation they are many."""
        return frozenset(self.inputs)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def parallel(self) -> tuple[int, ...]:
        """Positions of the parallel axes."""
        return tuple(i for i, axis in enumerate(self.axes) if axis.kind == "parallel")

    @cached_property
    def reduction(self) -> tuple[int, ...]:
        """Positions of the reduction axes."""
        return tuple(i for i, axis in enumerate(self.axes) if axis.kind == "reduction")

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Per parallel axis the positions that the tasks share out among them."""
        return tuple(self.axes[p].extent for p in self.parallel)

    @cached_property
    def accesses(self) -> tuple[TensorAccess, ...]:
        return self.inputs + self.outputs

    def full(self, tile: Sequence[Number], step: Sequence[Number] | None = None) -> list[Number]:
        """A size per axis from a tile of the parallel axes (and of the reduction axes, else all).

        Tiles are cut off at the size of their axis.
        """
        sizes: list[Number] = list(self.sizes)
        for position, size in zip(self.parallel, tile, strict=True):
            sizes[position] = np.minimum(size, sizes[position])
        for position, size in zip(self.reduction, step or (), strict=step is not None):
            sizes[position] = np.minimum(size, sizes[position])
        return sizes

    def flops(self, tile: Sequence[int]) -> float:
        """Operations of one rTask of `tile` (a size per parallel axis)."""
        sizes = self.full(tile)
        outside = math.prod(int(sizes[p]) for p in self.parallel)
        inside = math.prod(int(sizes[r]) for r in self.reduction)
        return outside * (inside * self.ops + self.epilogue_ops)

    def footprint(self, tile: Sequence[int]) -> tuple[int, ...]:
        """Different bytes per access (inputs, then outputs) that one rTask of `tile` touches."""
        sizes = [int(size) for size in self.full(tile)]
        return tuple(access.elements(sizes) * access.itemsize for access in self.accesses)

    def windowed(self, axis: int) -> bool:
        """Whether a dimension of an input adds `axis` to another axis (a sliding window)."""
        return axis in self._windowed

    @cached_property
    def _windowed(self) -> frozenset[int]:
        dims = (dim for access in self.inputs for dim in access.dims or () if dim is not None)
        sliding = (dim for dim in dims if len(dim.axes()) > 1)
        return frozenset(axis for dim in sliding for axis in dim.axes() if dim.coefficient(axis))


def tensor_expr(
    axes: Iterable[tuple[str, int, str] | Axis],
    inputs: Iterable[TensorAccess],
    outputs: Iterable[TensorAccess],
    *,
    kind: str | None = None,
    ops: float = 2.0,
    epilogue_ops: float = 0.0,
    compute_bytes: int | None = None,
    in_parts: bool = False,
    dot: str = "",
    periods: tuple[tuple[int, int], ...] = (),
    sweeps: int = 1,
    abreast: int = -1,
) -> TensorExpr:
    """A TensorExpr from plain data; ExpressionError names what does not fit together.

    `axes`: an Axis or (name, size, kind), in the order that accesses number them.
    `kind` is inferred from the accesses, and `compute_bytes` is the widest itemsize, unless given.
    """
    built = tuple(axis if isinstance(axis, Axis) else Axis(*axis) for axis in axes)
    ins, outs = tuple(inputs), tuple(outputs)
    for axis in built:
        if axis.kind not in AXES:
            raise ExpressionError(f"axis {axis.name}: kind {axis.kind!r}; one of {', '.join(AXES)}")
        if not isinstance(axis.size, int) or axis.size < 0:
            raise ExpressionError(f"axis {axis.name}: size {axis.size!r}; an integer >= 0")
    if math.prod(max(axis.size, 1) for axis in built) > _POINTS:
        raise ExpressionError(f"more than {_POINTS} points: no machine computes so many")
    if not outs:
        raise ExpressionError("a tensor expression without an output; give at least one access")
    for access in ins + outs:
        _check_access(access, len(built))
    if kind is not None and kind not in KINDS:
        raise ExpressionError(f"kind {kind!r}; one of {', '.join(KINDS)}")
    wide = max(access.itemsize for access in ins + outs)
    draft = TensorExpr(
        built,
        ins,
        outs,
        "sequential",
        ops,
        epilogue_ops,
        compute_bytes or wide,
        in_parts,
        dot,
        periods,
        sweeps,
        abreast=abreast,
    )
    return replace(draft, kind=kind or _infer_kind(draft))


def _check_access(access: TensorAccess, rank: int) -> None:
    if access.itemsize < 1:
        raise ExpressionError(f"access with itemsize {access.itemsize}; bytes, at least 1")
    if access.dims is None:
        return
    if len(access.dims) != len(access.shape):
        raise ExpressionError(
            f"access of a tensor {access.shape} with {len(access.dims)} index expressions; "
            f"give one per dimension"
        )
    outside = sorted(axis for axis in access.axes() if not 0 <= axis < rank)
    if outside:
        raise ExpressionError(f"access names axis {outside[0]}, but there are {rank} axes")


def _infer_kind(expr: TensorExpr) -> str:
    reduction = set(expr.reduction)
    if any(access.data_dependent for access in expr.inputs):
        return "gather"
    if not reduction:
        return "elementwise" if expr.ops or expr.epilogue_ops else "movement"
    reduced = sum(bool(access.axes() & reduction) for access in expr.inputs)
    window = any(expr.windowed(axis) for axis in reduction)
    if reduced > 1:
        return "convolution" if window else "contraction"
    return "pooling" if window else "reduction"
