"""roller-tile: S2 -> S3, construct the rKernels of every rOperator.

Before:
    %0 = "rtask.operator"() ({ ... }) {kind = "contraction", sym_name = "fc"} : ...
After:
    "rtask.kernel"() ({ the same body on arguments }) {grid = array<i64: 11, 24>, tile = array<i64:
    12, 32>, ...,
                                          sym_name = "k_3f09a1b2c4d5e6f7"} : () -> ()
    %0 = "rtask.operator"() ({ ... }) {kernels = [@k_3f09a1b2c4d5e6f7], ...} : ...
Operators with equal bodies share their kernels. score, pad-banks and tensor-core are what the paper
has and its published runs leave out (`roller.published.Variant`). Needs: static shapes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects import rtask
from rcompiler.dialects.attributes import enclosing_module, to_attribute
from rcompiler.dialects.uses import captures
from rcompiler.errors import PipelineError
from rcompiler.linalg.independent_loops import updated_operands
from rcompiler.linalg.pieces import core_of
from rcompiler.linalg.values import STAGE, ops_of, shape_of, string, yielded
from rcompiler.options import RollerPolicy
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.constants.model_context import tell_built
from rcompiler.passes.ir.clone import copy_block
from rcompiler.passes.ir.module_device import attached
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.ir.structure import structure
from rcompiler.passes.tiling.staged import StageBody, stage_bodies, stage_expressions
from rcompiler.passes.tiling.task_boxes import in_place_pairs, read_box, write_box
from rcompiler.passes.tiling.tensor_expr import Traced, Tracer, tensor_expr
from rcompiler.passes.tiling.unit_product import Multiplier
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.osdi22 import Score
from rcompiler.roller.policy import decisions, left_over
from rcompiler.roller.published import AS_PUBLISHED, Variant
from rcompiler.roller.staged import StageExpr, construct_staged
from rcompiler.support import lookups
from rcompiler.support.lru_cache import LruCache


@dataclass(frozen=True)
class RollerTile(Pass):
    """Construct the rKernels of every rOperator for a device.

    Attributes:
        candidates: rKernels of an operator at most.
        policy: who decides: roller (the cost model), or osdi22 (the search as published, with one
            kernel per operator).
        eus: how many EUs an operator may get; 0: all.
        score: for osdi22, what a larger tile gains: intensity as in the artifact, or paper by its
            formula (Roller §3.2).
        pad_banks: for osdi22, whether what is added to rows against bank conflicts counts (§3.1).
        tensor_core: for osdi22, whether tiles consist of fragments of a matrix unit.
    """

    candidates: int = 3
    policy: RollerPolicy = "roller"
    eus: int = 0
    score: Score = "intensity"
    pad_banks: bool = False
    tensor_core: bool = False

    def __post_init__(self) -> None:
        if self.policy != "osdi22" and self._variant != AS_PUBLISHED:
            raise PipelineError(
                "roller-tile: score, pad-banks and tensor-core are of the published search: give "
                "policy=osdi22, too"
            )

    @property
    def _variant(self) -> Variant:
        return Variant(self.score, self.pad_banks, self.tensor_core)

    def run(self, module: ir.Operation) -> None:
        on = attached(module)
        eus, variant = self.eus or None, self._variant

        def choose(body: Body) -> list[Decision]:
            found = body.construct(
                on.device, self.policy, eus, precision=on.precision, variant=variant
            )
            return found[: self.candidates]

        tile_operators(module, choose)


@dataclass(frozen=True)
class _Guards:
    """What an rOperator is guarded by.

    conditions: numbers of the kernels' operands, and what they have to be. unread: numbers of those
    that nothing else reads.
    """

    conditions: tuple[tuple[int, bool], ...]
    unread: tuple[int, ...]

    @staticmethod
    def taken_from(prototype: rtask.KernelOp) -> _Guards | None:
        """Remove the guards of a body, and the arguments that it needs for nothing else."""
        block = prototype.body.blocks[0]
        guards = [op for op in ops_of(block) if op.name == "rtask.guard"]
        if not guards:
            return None
        numbers = {argument: number for number, argument in enumerate(block.arguments)}
        found = [(numbers[op.operands[0]], ir.BoolAttr(op.attributes["holds"])) for op in guards]
        for op in guards:
            op.erase()
        unread = sorted({n for n, _ in found if not len(list(block.arguments[n].uses))})
        for number in reversed(unread):
            block.erase_argument(number)
        return _Guards(tuple((n, holds.value) for n, holds in found), tuple(unread))

    def with_unread(self, items: Sequence[Any], item: Any) -> list[Any]:
        """What there is for each argument, with `item` for those that the body has not."""
        found = list(items)
        for number in self.unread:
            found.insert(number, item)
        return found

    def renumbered(self, pairs: Sequence[int]) -> tuple[int, ...]:
        """Flat (operand, result) pairs of the body as those of the rKernel."""
        own = iter(range(max(pairs, default=0) + len(self.unread) + 1))
        numbers = [number for number in own if number not in self.unread]
        return tuple(n if k % 2 else numbers[n] for k, n in enumerate(pairs))


@dataclass(frozen=True)
class Body:
    """What an rOperator computes, apart from its operands.

    prototype: a kernel without a tiling, with the body on arguments. signature: equal for operators
    that compute the same. root: which algorithm it is one of, and why; "" if there was no choice.
    guards: conditions of it, which the body has no arguments for unless it reads them.
    """

    kind: str
    prototype: rtask.KernelOp
    signature: str
    root: str = ""
    guards: _Guards | None = None

    @cached_property
    def traced(self) -> Traced:
        block = self.prototype.body.blocks[0]
        return Tracer(list(block.arguments), yielded(block)).trace()

    @cached_property
    def _stages(self) -> list[StageBody] | None:
        return stage_bodies(self.prototype.body.blocks[0], self.traced)

    @property
    def stages_fit(self) -> bool:
        """Whether a task can compute its tile of every stage."""
        return self._stages is not None

    @property
    def stages(self) -> list[StageBody]:
        """What a task computes first and keeps on chip. Raises PassFailure unless `stages_fit`."""
        if self._stages is None:
            raise PassFailure(
                self.prototype.operation,
                "a stage is read along an axis that is neither whole nor one of the first result; "
                "remove the rtask.stage",
            )
        return self._stages

    def expression(self, multiplier: Multiplier | None = None) -> TensorExpr:
        """The body for the cost model, as if it had no stages; `multiplier`: whose matrix units
        compute products, None for multiply-adds.
        """
        block = self.prototype.body.blocks[0]
        leaves, results = list(block.arguments), yielded(block)
        expr = tensor_expr(leaves, results, self.kind, self.traced)
        if multiplier is None:
            return expr
        return multiplier.on_unit(expr, leaves, results, self.traced)

    def construct(
        self,
        device: Device,
        policy: str = "roller",
        eus: int | None = None,
        *,
        precision: str = "f32",
        variant: Variant = AS_PUBLISHED,
    ) -> list[Decision]:
        """Tilings, the preferred first, see `roller.policy`; with stages by the cost model, [] if
        they fit in no way. precision: how matrix units multiply factors of f32. variant: of the
        published search.

        The answer for equal bodies is remembered: passes ask for the same one, and so do the
        plans and sizes of a model.
        """
        key = self.signature, device, policy, eus, precision, variant
        found = _DECIDED.get(key)
        if found is None:
            found = tuple(self._construct(device, policy, eus, precision, variant))
            _DECIDED.put(key, found, len(self.signature) + _DECISION * len(found))
        return list(found)

    def _construct(
        self, device: Device, policy: str, eus: int | None, precision: str, variant: Variant
    ) -> list[Decision]:
        multiplier = Multiplier(device, precision)
        if not self.stages:
            return decisions(self.expression(multiplier), device, policy, eus, variant)
        found = construct_staged(*self.stage_expressions(multiplier), device, eus)
        return found if policy == "roller" else left_over(found, "it has stages")

    def stage_expressions(
        self, multiplier: Multiplier | None = None
    ) -> tuple[list[StageExpr], TensorExpr]:
        """The stages for the cost model, and what is left to do after them; see `expression`."""
        block = self.prototype.body.blocks[0]
        return stage_expressions(block, self.kind, self.traced, self.stages, multiplier)

    def build_kernel(self, name: str, decision: Decision) -> rtask.KernelOp:
        """A kernel in front of the prototype, with its body and the decision."""
        kernel = _build_kernel(name, self, decision)
        ops = [op for op in ops_of(kernel.body.blocks[0]) if op.name == STAGE]
        for op, stage, tiling in zip(ops, self.stages, decision.stages, strict=True):
            _tile_stage(op, stage, tiling)
        return kernel


_DECISION = 4000  # bytes of one, about
_DECIDED: LruCache[tuple[Decision, ...]] = LruCache(16 << 20)  # bytes

Decide = Callable[[Body], list[Decision]]


def tile_operators(module: ir.Operation, choose: Decide) -> None:
    """Build the kernels that `choose` wants for every rOperator, the preferred first.

    It is asked once for operators with equal bodies.
    """
    names: dict[str, list[str]] = {}
    known: dict[Hashable, list[str]] = {}
    for op in operators(module):
        key = structure(op)
        lookups.note(known=key in known)
        if key not in known:
            with body_of(op) as body:
                if body.signature not in names:
                    kernels = _build_kernels(body, choose(body))
                    names[body.signature] = list(kernels)
                    for preferred in list(kernels.values())[:1]:
                        tell_built(preferred)
                known[key] = names[body.signature]
        symbols = [ir.FlatSymbolRefAttr.get(n, op.context) for n in known[key]]
        op.attributes["kernels"] = ir.ArrayAttr.get(symbols, op.context)


def distinct_bodies(module: ir.Operation) -> Iterator[Body]:
    """The bodies of all rOperators, equal ones once. Each lives until the next one is asked for, or
    the iterator goes.
    """
    seen: set[Hashable] = set()
    signatures: set[str] = set()
    for op in operators(module):
        key = structure(op)
        if key in seen:
            continue
        seen.add(key)
        with body_of(op) as body:
            if body.signature not in signatures:
                signatures.add(body.signature)
                yield body


@contextmanager
def body_of(operator: ir.Operation) -> Iterator[Body]:
    """What one rOperator computes; it lives inside of the context."""
    prototype = _prototype(operator)
    guards = _Guards.taken_from(prototype)
    kind = string(operator, "kind")
    root = string(operator, rtask.ROOT) if rtask.ROOT in operator.attributes else ""
    try:
        signature = kind + canonical_signature(prototype) + (str(guards) if guards else "")
        yield Body(kind, prototype, signature, root, guards)
    finally:
        prototype.operation.erase()


def kernel_symbol(signature: str, decision: Decision) -> str:
    """The name of an rKernel: what a body computes, and how."""
    text = f"{signature}{decision}"
    return "k_" + hashlib.sha256(text.encode()).hexdigest()[:16]


def _build_kernels(operator: Body, decisions: list[Decision]) -> dict[str, ir.Operation]:
    """The kernels by their names."""
    kernels: dict[str, ir.Operation] = {}
    for decision in decisions:
        name = kernel_symbol(operator.signature, decision)
        if name not in kernels:
            kernels[name] = operator.build_kernel(name, decision).operation
    return kernels


def canonical_signature(kernel: rtask.KernelOp) -> str:
    """The text of a body on arguments, without names and locations: equal for operators that
    compute the same.
    """
    # As any text, without the time to verify: the ops are those of an operator that is right.
    text = kernel.operation.get_asm(
        use_local_scope=True,
        enable_debug_info=False,
        print_generic_op_form=True,
        assume_verified=True,
    )
    return text[text.index("({") : text.rindex("})")]


def _build_kernel(name: str, body: Body, decision: Decision) -> rtask.KernelOp:
    prototype, traced = body.prototype, body.traced
    block = prototype.body.blocks[0]
    results = yielded(block)
    first = shape_of(results[0])
    shape = _Tiles(decision, traced, results[0])
    guards = body.guards or _Guards((), ())
    reads = [
        read_box(v, traced.reads[k], shape.tile, shape.grid, traced, shape.low)
        for k, v in enumerate(block.arguments)
    ]
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
            estimated_ns=decision.estimated_ns,
            source=decision.source,
            reads=guards.with_unread(reads, []),
            writes=[write_box(r, first, shape.tile, shape.grid) for r in results],
        )
    more: dict[str, Any] = {"order": tuple(shape.order)}
    if decision.reduction_tile:
        more["reduction_tile"] = tuple(decision.reduction_tile)
    if decision.explanation is not None:
        if body.root:
            more[rtask.ROOT] = body.root
        more["reason"] = decision.reason
        more["explanation"] = decision.explanation.plain()
    if decision.timed_ns:
        more["measured_ns"] = float(decision.timed_ns)
    pairs = in_place_pairs(block, traced)
    if pairs:
        more["in_place"] = guards.renumbered(pairs)
    if updated := updated_operands(results, list(block.arguments)):
        more["updates"] = guards.renumbered(updated)
    if guards.conditions:
        more["guards"] = tuple(int(number) for guard in guards.conditions for number in guard)
    set_attributes(kernel.operation, more)
    condition = ir.Type.parse(rtask.CONDITION, block.owner.context)
    copy_block(block, kernel.body, guards.with_unread(list(block.arguments), condition))
    return kernel


def _tile_stage(op: ir.Operation, stage: StageBody, decision: Decision) -> None:
    shape = _Tiles(decision, stage.traced, op.operands[0])
    more = {
        "axes": stage.axes,
        "register_tile": tuple(shape.register_tile),
        "order": tuple(shape.order),
        "vector_dim": shape.vector_dim,
        "lanes": decision.lanes,
    }
    set_attributes(op, more)


def set_attributes(op: ir.Operation, values: Mapping[str, Any]) -> None:
    """Set attributes of an op from Python values."""
    with op.location:
        for name, value in values.items():
            op.attributes[name] = to_attribute(value)


def _prototype(op: ir.Operation) -> rtask.KernelOp:
    """A kernel without a tiling: the operator's body with its captures as arguments."""
    module = enclosing_module(op)
    assert module is not None
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), op.location:
        kernel = rtask.KernelOp.build(
            sym_name="prototype", kind="sequential", grid=(), tile=(), register_tile=(),
            vector_dim=-1, lanes=1, on_chip_bytes=0, registers=0, estimated_ns=0.0, source="roller",
            reads=[], writes=[],
        )  # fmt: skip
    copy_block(op.regions[0].blocks[0], kernel.body, captures(op))
    return kernel


class _Tiles:
    """A decision over the parallel axes, spelled out over all dims of the first result."""

    def __init__(self, decision: Decision, traced: Traced, result: ir.Value) -> None:
        first = shape_of(result)
        core, self.low = core_of(result)
        inner = shape_of(core)
        parallel = [d for d in range(len(first)) if traced.kinds[d] == "parallel"]
        self.tile = [max(size, 1) for size in first]
        self.grid = [1] * len(first)
        self.register_tile = [1] * len(first)
        for position, d in enumerate(parallel):
            self.register_tile[d] = min(decision.register_tile[position], max(inner[d], 1))
            if d not in traced.touched:  # of which all is one task's
                self.tile[d], self.grid[d] = decision.tile[position], decision.grid[position]
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
