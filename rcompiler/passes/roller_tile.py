"""roller-tile: S2 -> S3, construct the rKernels of every rOperator.

Before:
    %0 = "rtask.operator"() ({ ... }) {kind = "contraction", sym_name = "fc"} : ...
After:
    "rtask.kernel"() ({ the same body on arguments }) {grid = array<i64: 11, 24>, tile = array<i64:
    12, 32>, ...,
                                          sym_name = "k_3f09a1b2c4d5e6f7"} : () -> ()
    %0 = "rtask.operator"() ({ ... }) {kernels = [@k_3f09a1b2c4d5e6f7], ...} : ...
Operators with equal bodies share their kernels. Needs: static shapes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch_mlir import ir

from rcompiler.device.target import find_device
from rcompiler.dialects import rtask
from rcompiler.kernelgen.region import shape_of, yielded
from rcompiler.passes import Pass
from rcompiler.passes._clone import copy_block
from rcompiler.passes._task_boxes import in_place_pairs, read_box, write_box
from rcompiler.passes._tensor_expr import Traced, Tracer, core_of, tensor_expr
from rcompiler.roller.construct import Decision, construct
from rcompiler.roller.expr import TensorExpr


@dataclass(frozen=True)
class RollerTile(Pass):
    """Construct the rKernels of every rOperator for a device."""

    device: str = "cpu"
    candidates: int = 3

    def run(self, module: ir.Operation) -> None:
        device = find_device(self.device)

        def decide(body: Body) -> list[Decision]:
            return construct(body.expression(), device)[: self.candidates]

        tile_operators(module, decide)


@dataclass(frozen=True)
class Body:
    """What an rOperator computes, apart from its operands.

    prototype: a kernel without a tiling, with the body on arguments. signature: equal for operators
    that compute the same. root: which algorithm it is one of, and why; "" if there was no choice.
    """

    kind: str
    prototype: rtask.KernelOp
    signature: str
    root: str = ""

    @cached_property
    def traced(self) -> Traced:
        return Tracer(self.prototype.body.blocks[0]).trace()

    def expression(self) -> TensorExpr:
        """The body for the cost model."""
        return tensor_expr(self.prototype.body.blocks[0], self.kind, self.traced)

    def build_kernel(self, name: str, decision: Decision) -> rtask.KernelOp:
        """A kernel in front of the prototype, with its body and the decision."""
        return _build_kernel(name, self, decision)


Decide = Callable[[Body], list[Decision]]


def tile_operators(module: ir.Operation, decide: Decide) -> None:
    """Build the kernels that `decide` wants for every rOperator, the preferred first.

    It is asked once for operators with equal bodies.
    """
    known: dict[str, list[str]] = {}
    for op, operator in _bodies(module):
        if operator.signature not in known:
            known[operator.signature] = _build_kernels(operator, decide(operator))
        symbols = [ir.FlatSymbolRefAttr.get(n, op.context) for n in known[operator.signature]]
        op.attributes["kernels"] = ir.ArrayAttr.get(symbols, op.context)


def distinct_bodies(module: ir.Operation) -> Iterator[Body]:
    """The bodies of all rOperators, equal ones once. Each lives until the next one is asked for."""
    known = set()
    for _, operator in _bodies(module):
        if operator.signature not in known:
            known.add(operator.signature)
            yield operator


def _bodies(module: ir.Operation) -> Iterator[tuple[ir.Operation, Body]]:
    body = module.regions[0].blocks[0]
    for function in [v.operation for v in body.operations if v.operation.name == "func.func"]:
        for view in list(function.regions[0].blocks[0].operations):
            op = view.operation
            if op.name == "rtask.operator":
                prototype = _prototype(op, body)
                kind = ir.StringAttr(op.attributes["kind"]).value
                root = op.attributes.get(rtask.ROOT)
                text = "" if root is None else ir.StringAttr(root).value
                yield op, Body(kind, prototype, kind + canonical_signature(prototype), text)
                prototype.operation.erase()


def _build_kernels(operator: Body, decisions: list[Decision]) -> list[str]:
    """The names of the kernels."""
    names = []
    for decision in decisions:
        text = f"{operator.signature}{decision}"
        name = "k_" + hashlib.sha256(text.encode()).hexdigest()[:16]
        if name not in names:
            names.append(name)
            operator.build_kernel(name, decision)
    return names


def canonical_signature(kernel: rtask.KernelOp) -> str:
    """The text of a body on arguments, without names and locations: equal for operators that
    compute the same.
    """
    text = kernel.operation.get_asm(use_local_scope=True, enable_debug_info=False)
    return text[text.index("({") : text.rindex("})")]


def _build_kernel(name: str, body: Body, decision: Decision) -> rtask.KernelOp:
    prototype, traced = body.prototype, body.traced
    block = prototype.body.blocks[0]
    results = yielded(block)
    first = shape_of(results[0])
    shape = _Tiles(decision, traced, first, results)
    with ir.InsertionPoint(prototype), prototype.location:
        kernel = rtask.KernelOp.build(
            sym_name=name,
            kind=body.kind,
            grid=shape.grid,
            tile=shape.tile,
            register_tile=shape.register_tile,
            vector_dim=shape.vector_dim,
            lanes=decision.lanes,
            on_chip_bytes=decision.on_chip_bytes,
            registers=decision.registers,
            # padding may leave fewer and larger tasks than decided
            estimated_ns=round(decision.estimated_ns * decision.tasks / math.prod(shape.grid), 1),
            source=decision.source,
            reads=[
                read_box(v, traced.reads[k], shape.tile, shape.grid, traced, shape.low)
                for k, v in enumerate(block.arguments)
            ],
            writes=[write_box(r, first, shape.tile, shape.grid) for r in results],
        )
    attributes = kernel.operation.attributes
    attributes["order"] = ir.DenseI64ArrayAttr.get(shape.order)
    if decision.reduction_tile:
        attributes["reduction_tile"] = ir.DenseI64ArrayAttr.get(decision.reduction_tile)
    reason = f"{body.root}; {decision.reason}" if body.root else decision.reason
    attributes["reason"] = ir.StringAttr.get(reason)
    if decision.measured_ns:
        ns = round(decision.measured_ns * decision.tasks / math.prod(shape.grid), 1)
        attributes["measured_ns"] = ir.FloatAttr.get(ir.F64Type.get(), ns)
    pairs = in_place_pairs(block, traced)
    if pairs:
        attributes["in_place"] = ir.DenseI64ArrayAttr.get(pairs)
    copy_block(block, kernel.body, list(block.arguments))
    return kernel


def _prototype(op: ir.Operation, body: ir.Block) -> rtask.KernelOp:
    """A kernel without a tiling: the operator's body with its captures as arguments."""
    with ir.InsertionPoint.at_block_begin(body), op.location:
        kernel = rtask.KernelOp.build(
            sym_name="prototype", kind="sequential", grid=(), tile=(), register_tile=(),
            vector_dim=-1, lanes=1, on_chip_bytes=0, registers=0, estimated_ns=0.0, source="roller",
            reads=[], writes=[],
        )  # fmt: skip
    copy_block(op.regions[0].blocks[0], kernel.body, rtask.captures(op))
    return kernel


class _Tiles:
    """A decision over the parallel axes, spelled out over all dims of the first result.

    The decision counts in the core of a padded result; the tiles of a task cut the padded tensor,
    so that every element of the padding is written by exactly one task too.
    """

    def __init__(
        self, decision: Decision, traced: Traced, first: tuple[int, ...], results: list[ir.Value]
    ) -> None:
        core, self.low = core_of(results[0])
        inner = shape_of(core)
        parallel = [d for d in range(len(first)) if traced.kinds[d] == "parallel"]
        self.tile = [max(size, 1) for size in first]
        self.grid = [1] * len(first)
        self.register_tile = [1] * len(first)
        for position, d in enumerate(parallel):
            self.register_tile[d] = min(decision.register_tile[position], max(inner[d], 1))
            shared = all(d < len(shape_of(r)) and shape_of(r)[d] == first[d] for r in results)
            if shared and (inner[d] == first[d] or self.register_tile[d] == 1):
                self._cut(d, decision.tile[position], decision.grid[position], inner[d], first[d])
        order = [parallel[p] for p in decision.order]
        self.order = order + [d for d in range(len(first)) if d not in order]
        self.vector_dim = parallel[decision.vector_dim] if decision.vector_dim >= 0 else -1
        columns = sorted(d for d in traced.columns if d < len(first))
        if self.vector_dim < 0 and columns:
            self.vector_dim = columns[-1]
            width = 4 * decision.lanes
            self.register_tile[columns[-1]] = (
                width if first[columns[-1]] >= width else max(first[columns[-1]], 1)
            )

    def _cut(self, dim: int, tile: int, grid: int, inner: int, padded: int) -> None:
        """As many tiles as decided for the core, over the padded extent."""
        self.tile[dim] = tile if inner == padded else max(-(-padded // max(grid, 1)), 1)
        self.grid[dim] = max(-(-padded // self.tile[dim]), 1)
