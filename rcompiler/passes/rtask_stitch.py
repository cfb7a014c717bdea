"""rtask-stitch: S2 -> S2, connect rOperators on chip where that is predicted to be faster.

Before:
    %s = "rtask.operator"() ({ contraction of %q, %k }) {kind = "contraction", ...}
    %p = "rtask.operator"() ({ softmax of %s }) {kind = "reduction", ...}
    %o = "rtask.operator"() ({ contraction of %p, %v }) {kind = "contraction", ...}
After:
    %o = "rtask.operator"() ({
      %0 = contraction of %q, %k
      %1 = "rtask.stage"(%0)
      %2 = softmax of %1
      %3 = "rtask.stage"(%2)
      %4 = contraction of %3, %v
      "rtask.yield"(%4)
    }) {kind = "contraction", ...}
An operator joins its only reader if the kept tiles fit and the cost model expects the two together,
as rtask-defer-normalisation and rtask-stage-rows will leave them, to be faster than apart:

  weights   the operator makes weights of constants, as of words of a few bits: less EU time.
  traffic   the result is too large for the private caches, and a tile of the reader needs whole
            rows of it (Welder's tile graph, OSDI'23 §3): less EU time.
  hand-off  the operator, spread over all EUs, is too short to be placed on its own, and a tile of
            the reader needs the same tile of it: the gates of a recurrent cell. All that may join
            so is weighed at once: it does where no EU waiting for another makes up for what no
            longer runs side by side.

Other results stay in the caches anyway, and apart the two operators can run beside others. Like
tiles, what is joined depends on the device and not on the EUs that one program gets.
Needs: rOperators (rtask-form), static shapes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects.uses import captures
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import (
    bytes_of,
    defining,
    element_of,
    ops_of,
    shape_of,
    string,
    yielded,
)
from rcompiler.options import Precision
from rcompiler.passes import OptionalPass
from rcompiler.passes.forming.stitching import OperatorTree, unpacks_constants
from rcompiler.passes.ir.module_device import attached
from rcompiler.passes.ir.operators import bodies, top_level, with_own_scalars
from rcompiler.passes.ir.structure import structure
from rcompiler.passes.roller_tile import Body, body_of
from rcompiler.passes.rtask_defer_normalisation import defer_normalisation
from rcompiler.passes.rtask_stage_rows import stage_rows
from rcompiler.roller.staged import kept_room

_CLEARLY = 0.8  # of the time that operators take by estimate, one after the other
_KINDS = ("contraction", "convolution", "reduction", "pooling")


@dataclass(frozen=True)
class RTaskStitch(OptionalPass):
    """Connect rOperators whose tiles can stay on chip from one to the next."""

    def run(self, module: ir.Operation) -> None:
        on = attached(module)
        for body in bodies(module):
            _Stitcher(with_own_scalars(body), on.device, on.precision).run()


@dataclass(frozen=True)
class _Estimate:
    """ns; infinite if the stages cannot be kept.

    time: of all rTasks, one after the other. latency: until all are done, and all EUs know, if the
    operator has the device for itself.
    """

    time: float
    latency: float


@dataclass(frozen=True)
class _Branch:
    """A producer that may join its reader; place: where that, or what joined it, captures it."""

    place: tuple[int, ...]
    producer: ir.Operation


class _Link(Enum):
    """What is between an operator and its only reader."""

    NONE = auto()
    HAND_OFF = auto()  # they join where all is done sooner then
    TRAFFIC = auto()  # less EU time as one


class _Stitcher:
    """Goes through the operators of a function's body; each takes in the producers that it can.

    Recurrent networks have thousands of equal operators: what is known of one is kept by a number
    that equal ones share (`_number`).
    """

    def __init__(self, block: ir.Block, device: Device, precision: Precision) -> None:
        """precision: how matrix units multiply factors of f32."""
        self._block = block
        self._device, self._precision = device, precision
        self._numbers: dict[Hashable, int] = {}
        self._number_of: dict[ir.Value, int] = {}  # by result: it stays when an operator grows
        self._fit: dict[int, bool] = {}
        self._estimates: dict[int, _Estimate] = {}
        self._orders: dict[int, list[int]] = {}  # of the body that joining a tree makes
        self._links: dict[int, _Link] = {}
        self._sooner: dict[int, bool] = {}
        self._branches: dict[ir.Value, list[_Branch]] = {}  # by result of the reader

    def run(self) -> None:
        for op in ops_of(self._block):
            if op.name == "rtask.operator":
                self._operator(op)
        inner = {b.producer.results[0] for found in self._branches.values() for b in found}
        for result in [value for value in self._branches if value not in inner]:
            self._join_sooner(self._tree(result.owner))

    def _operator(self, reader: ir.Operation) -> None:
        """Join what takes less time then; note what may join."""
        if not self._can_stitch(reader):
            return
        branches: list[_Branch] = []
        for position, value in enumerate(captures(reader)):
            producer = defining(value)
            # of narrower elements the product kernels read several at once, in place
            if producer is None or element_of(value) not in ("f32", "f64"):
                continue
            unpacks = unpacks_constants(producer)
            if not (unpacks or self._can_stitch(producer)) or not _only_reader(producer, reader):
                continue
            pair = self._numbered((self._number(reader), ((position,), self._number(producer))))
            tree = OperatorTree(reader, (self._alone(producer),), pair)
            if pair not in self._links:
                self._links[pair] = self._link(tree)
            if self._links[pair] is _Link.TRAFFIC:
                own = self._branches.pop(producer.results[0], [])
                branches += [replace(b, place=(position, *b.place)) for b in own]
                tree.join(self._orders[pair])
                self._number_of[reader.results[0]] = pair
            elif self._links[pair] is _Link.HAND_OFF:
                branches.append(_Branch((position,), producer))
        if branches:
            self._branches[reader.results[0]] = branches

    def _join_sooner(self, tree: OperatorTree) -> None:
        """Join all of a tree if that is done sooner than its operators apart, else the largest
        parts of it that are.
        """
        if not tree.producers:
            return
        if tree.number not in self._sooner:
            self._sooner[tree.number] = self._is_sooner(tree)
        if self._sooner[tree.number]:
            tree.join(self._orders[tree.number])
        else:
            for producer in tree.producers:
                self._join_sooner(producer)

    def _tree(self, operator: ir.Operation) -> OperatorTree:
        branches = self._branches.get(operator.results[0], [])
        found = tuple(self._tree(branch.producer) for branch in branches)
        places = ((b.place, tree.number) for b, tree in zip(branches, found, strict=True))
        number = self._number(operator)
        return OperatorTree(operator, found, self._numbered((number, *places)) if found else number)

    def _alone(self, operator: ir.Operation) -> OperatorTree:
        return OperatorTree(operator, (), self._number(operator))

    def _can_stitch(self, op: ir.Operation) -> bool:
        if op.name != "rtask.operator" or string(op, "kind") not in _KINDS:
            return False
        number = self._number(op)
        if number not in self._fit:
            self._fit[number] = _reduces(op)
        return self._fit[number]

    def _link(self, pair: OperatorTree) -> _Link:
        """What is between two operators, the second of which reads the first."""
        [producer] = (tree.operator for tree in pair.producers)
        first = self._estimate(producer).time
        if unpacks_constants(producer) or bytes_of(producer.results[0]) > kept_room(self._device):
            apart = first + self._estimate(pair.operator).time
            return _Link.TRAFFIC if self._together(pair).time < apart else _Link.NONE
        short = first < self._device.eus * self._device.costs.min_task_ns
        return _Link.HAND_OFF if short and _aligned(pair) else _Link.NONE

    def _is_sooner(self, tree: OperatorTree) -> bool:
        """Whether one operator is done sooner than those of a tree ever are, or clearly sooner than
        they are one after the other, as they read each other.
        """
        own = [self._estimate(op) for op in tree.operators()]
        spread = sum(one.time for one in own) / self._device.eus
        bound = max(spread, *(one.latency for one in own)) + self._handed_on
        apart = max(bound, _CLEARLY * self._latency(tree))
        return self._together(tree).latency < apart

    def _latency(self, tree: OperatorTree) -> float:
        """ns until the last operator is done, if each begins when those it reads are handed on."""
        before = (self._latency(producer) + self._handed_on for producer in tree.producers)
        return max(before, default=0.0) + self._estimate(tree.operator).latency

    @property
    def _handed_on(self) -> float:
        """ns from an operator to one that reads it."""
        return self._device.costs.hand_off_ns + self._device.costs.task_ns

    def _together(self, tree: OperatorTree) -> _Estimate:
        """Of what joining all of a tree would make."""
        if tree.number not in self._estimates:
            joined, self._orders[tree.number] = tree.joined()
            self._estimates[tree.number] = self._estimated(joined)
            joined.erase()
        return self._estimates[tree.number]

    def _estimate(self, operator: ir.Operation) -> _Estimate:
        number = self._number(operator)
        if number not in self._estimates:
            self._estimates[number] = self._estimated(operator)
        return self._estimates[number]

    def _estimated(self, operator: ir.Operation) -> _Estimate:
        """Of what the passes behind this one will make of `operator`."""
        with _finished(operator) as finished, body_of(finished) as body:
            return _estimate(body, self._device, self._precision)

    def _number(self, operator: ir.Operation) -> int:
        result = operator.results[0]
        if result not in self._number_of:
            self._number_of[result] = self._numbered(structure(operator))
        return self._number_of[result]

    def _numbered(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


@contextmanager
def _finished(operator: ir.Operation) -> Iterator[ir.Operation]:
    """A copy of `operator` as it will be when its kernels are constructed."""
    with ir.InsertionPoint(operator):
        copy = operator.clone()
    try:
        defer_normalisation(copy)
        stage_rows(copy)
        yield copy
    finally:
        copy.erase()


def _aligned(pair: OperatorTree) -> bool:
    """Whether a tile of the result needs the same tile of every stage of both as one, so that no
    axis has to stay whole for one.
    """
    joined, _ = pair.joined()
    try:
        with _finished(joined) as finished, body_of(finished) as body:
            return body.stages_fit and all(
                axis >= 0 or size == 1
                for stage in body.stages
                for axis, size in zip(stage.axes, shape_of(stage.op.results[0]), strict=True)
            )
    finally:
        joined.erase()


def _estimate(body: Body, device: Device, precision: Precision) -> _Estimate:
    found = body.construct(device, precision=precision) if body.stages_fit else []
    if not found:
        return _Estimate(float("inf"), float("inf"))
    latencies = (
        d.estimated_ns * -(-d.tasks // device.eus)
        + (device.costs.hand_off_ns if min(d.tasks, device.eus) > 1 else 0.0)
        for d in found
    )
    return _Estimate(found[0].estimated_ns * found[0].tasks, min(latencies))


def _reduces(op: ir.Operation) -> bool:
    """Whether a reduction computes what an operator yields, without a pad around it."""
    inner = ops_of(op.regions[0].blocks[0])
    return not {o.name for o in inner} & {"tensor.pad", "tensor.concat", "scf.for"} and any(
        o.name == "linalg.generic" and Generic(o).reduction_dims for o in inner
    )


def _only_reader(producer: ir.Operation, reader: ir.Operation) -> bool:
    """Whether all that reads `producer`, which has one result, is inside `reader`."""
    if len(yielded(producer.regions[0].blocks[0])) > 1:
        return False
    return all(top_level(use.owner.operation) == reader for use in producer.results[0].uses)
