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

  traffic   the result is too large for the private caches, and a tile of the reader needs whole
            rows of it (Welder's tile graph, OSDI'23 §3): less EU time.
  hand-off  the operator, spread over all EUs, is too short to be placed on its own, and a tile of
            the reader needs the same tile of it: the gates of a recurrent cell. Sooner done, as no
            EU waits for another in between.

Other results stay in the caches anyway, and apart the two operators can run beside others. Like
tiles, what is joined depends on the device and not on the EUs that one program gets.
Needs: rOperators (rtask-form), static shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.dialects import rtask
from rcompiler.kernelgen.region import Generic, element_of, yielded
from rcompiler.passes import Pass
from rcompiler.passes._clone import Values, clone
from rcompiler.passes._schedule_graph import tensor_size
from rcompiler.passes.roller_tile import Body, body_of
from rcompiler.passes.rtask_defer_normalisation import defer_normalisation
from rcompiler.passes.rtask_stage_rows import stage_rows
from rcompiler.roller.staged import kept_room

_KINDS = ("contraction", "convolution", "reduction", "pooling")


@dataclass(frozen=True)
class RtaskStitch(Pass):
    """Connect rOperators whose tiles can stay on chip from one to the next."""

    device: str = "cpu"

    def run(self, module: ir.Operation) -> None:
        device = find_device(self.device)
        for view in list(module.regions[0].blocks[0].operations):
            if view.operation.name == "func.func":
                _Stitcher(view.operation, device).run()


class _Stitcher:
    """Goes through the operators of a function; each takes in the producers that it can."""

    def __init__(self, function: ir.Operation, device: Device) -> None:
        self._block = function.regions[0].blocks[0]
        self._device = device
        self._times: dict[str, _Estimate] = {}

    def run(self) -> None:
        for view in list(self._block.operations):
            op = view.operation
            if op.name == "rtask.operator" and _can_stitch(op):
                self._take_producers(op)

    def _take_producers(self, reader: ir.Operation) -> None:
        for value in rtask.captures(reader):
            if isinstance(value.owner, ir.Block):
                continue
            producer = value.owner.operation
            # of narrower elements the product kernels read several at once, in place
            if element_of(value) not in ("f32", "f64"):
                continue
            large = tensor_size(value) > kept_room(self._device)
            if not large and not self._is_short(producer):
                continue
            if not _only_reader(producer, reader):
                continue
            joined = _joined(producer, reader)
            faster = self._saves_time if large else self._saves_hand_off
            if faster(joined, producer, reader):
                reader.results[0].replace_all_uses_with(joined.results[0])
                reader.erase()
                producer.erase()
                reader = joined
            else:
                joined.erase()

    def _saves_time(
        self, joined: ir.Operation, producer: ir.Operation, reader: ir.Operation
    ) -> bool:
        return self._time(joined) < self._time(producer) + self._time(reader)

    def _is_short(self, producer: ir.Operation) -> bool:
        if producer.name != "rtask.operator" or not _can_stitch(producer):
            return False
        return self._time(producer) < self._device.eus * self._device.costs.min_task_ns

    def _saves_hand_off(
        self, joined: ir.Operation, producer: ir.Operation, reader: ir.Operation
    ) -> bool:
        """Whether all is done sooner than if both run at once and only what joins them waits."""
        costs, eus = self._device.costs, self._device.eus
        work = self._time(producer) + self._time(reader)
        apart = max(work / eus, self._latency(producer), self._latency(reader))
        return self._latency(joined) < apart + costs.hand_off_ns + costs.task_ns

    def _time(self, operator: ir.Operation) -> float:
        """ns of all tasks, one after the other."""
        return self._estimate(operator).time

    def _latency(self, operator: ir.Operation) -> float:
        """ns until all tasks are done, and all EUs know, if the operator has the device alone."""
        return self._estimate(operator).latency

    def _estimate(self, operator: ir.Operation) -> _Estimate:
        """Of what the passes behind this one will make of `operator`."""
        with _finished(operator) as finished, body_of(finished) as body:
            if body.signature not in self._times:
                self._times[body.signature] = _estimate(body, self._device)
            return self._times[body.signature]


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


@dataclass(frozen=True)
class _Estimate:
    """ns, see _Stitcher; infinite if the stages cannot be kept."""

    time: float
    latency: float


def _estimate(body: Body, device: Device) -> _Estimate:
    found = body.construct(device) if body.stages_fit else []
    if not found:
        return _Estimate(float("inf"), float("inf"))
    latencies = (
        d.estimated_ns * -(-d.tasks // device.eus)
        + (device.costs.hand_off_ns if min(d.tasks, device.eus) > 1 else 0.0)
        for d in found
    )
    return _Estimate(found[0].estimated_ns * found[0].tasks, min(latencies))


def _can_stitch(op: ir.Operation) -> bool:
    """Whether a reduction computes what an operator yields, without a pad around it."""
    if ir.StringAttr(op.attributes["kind"]).value not in _KINDS:
        return False
    block = op.regions[0].blocks[0]
    names = {v.operation.name for v in block.operations}
    whole = not names & {"tensor.pad", "tensor.concat", "scf.for"}
    reduces = any(
        v.operation.name == "linalg.generic" and Generic(v.operation).reduction_dims
        for v in block.operations
    )
    return whole and reduces


def _only_reader(producer: ir.Operation, reader: ir.Operation) -> bool:
    """Whether `producer` is an operator that can join, and all that reads it is inside `reader`."""
    if producer.name != "rtask.operator" or not _can_stitch(producer):
        return False
    if len(yielded(producer.regions[0].blocks[0])) > 1:
        return False
    return all(_outermost(use.owner.operation) == reader for use in producer.results[0].uses)


def _outermost(op: ir.Operation) -> ir.Operation:
    while op.parent is not None and op.parent.operation.name != "func.func":
        op = op.parent.operation
    return op


def _joined(producer: ir.Operation, reader: ir.Operation) -> ir.Operation:
    """A new operator in front of `reader` that computes both, with a stage in between."""
    with ir.InsertionPoint(reader), reader.location:
        operator = rtask.OperatorOp.build(
            sym_name=ir.StringAttr(reader.attributes["sym_name"]).value,
            kind=ir.StringAttr(reader.attributes["kind"]).value,
            outputs=[v.type for v in yielded(reader.regions[0].blocks[0])],
        )
    if rtask.ROOT in reader.attributes:
        operator.operation.attributes[rtask.ROOT] = reader.attributes[rtask.ROOT]
    mapped: Values = {}
    with ir.InsertionPoint(operator.body.blocks[0]), reader.location:
        _copy(producer, mapped)
        [inner] = yielded(producer.regions[0].blocks[0])
        stage = rtask.StageOp(value=mapped[inner], output=inner.type)
        mapped[producer.results[0]] = stage.operation.results[0]
        _copy(reader, mapped)
        [*_, end] = reader.regions[0].blocks[0].operations
        rtask.YieldOp(value=mapped[end.operation.operands[0]])
    return operator.operation


def _copy(operator: ir.Operation, mapped: Values) -> None:
    """The ops of a body but its yield, at the insertion point."""
    for view in list(operator.regions[0].blocks[0].operations)[:-1]:
        clone(view.operation, mapped)
