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

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.dialects import rtask
from rcompiler.kernelgen.region import Generic, element_of, shape_of, yielded
from rcompiler.options import Precision
from rcompiler.passes import Pass
from rcompiler.passes.ir.clone import remap
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.structure import structure
from rcompiler.passes.ir.tensor_ir import defining
from rcompiler.passes.roller_tile import Body, body_of
from rcompiler.passes.rtask_defer_normalisation import defer_normalisation
from rcompiler.passes.rtask_stage_rows import stage_rows
from rcompiler.passes.schedule.schedule_graph import tensor_size
from rcompiler.roller.staged import kept_room

_KINDS = ("contraction", "convolution", "reduction", "pooling")


@dataclass(frozen=True)
class RTaskStitch(Pass):
    """Connect rOperators whose tiles can stay on chip from one to the next."""

    device: str = "cpu"
    precision: Precision = "f32"

    def run(self, module: ir.Operation) -> None:
        device = find_device(self.device)
        for body in bodies(module):
            _Stitcher(body, device, self.precision).run()


@dataclass(frozen=True)
class _Estimate:
    """ns; infinite if the stages cannot be kept.

    time: of all rTasks, one after the other. latency: until all are done, and all EUs know, if the
    operator has the device for itself. aligned: a tile of the result needs the same tile of every
    stage, so that no axis has to stay whole for one.
    """

    time: float
    latency: float
    aligned: bool = True


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
        self._faster: dict[int, bool] = {}

    def run(self) -> None:
        for view in list(self._block.operations):
            if view.operation.name == "rtask.operator":
                self._operator(view.operation)

    def _operator(self, reader: ir.Operation) -> None:
        if not self._can_stitch(reader):
            return
        for position, value in enumerate(rtask.captures(reader)):
            producer = defining(value)
            # of narrower elements the product kernels read several at once, in place
            if producer is None or element_of(value) not in ("f32", "f64"):
                continue
            if not self._can_stitch(producer) or not _only_reader(producer, reader):
                continue
            pair = self._numbered((self._number(reader), position, self._number(producer)))
            if pair not in self._faster:
                self._faster[pair] = self._is_faster(producer, reader, pair)
            if self._faster[pair]:
                _join(producer, reader)
                self._number_of[reader.results[0]] = pair

    def _can_stitch(self, op: ir.Operation) -> bool:
        if op.name != "rtask.operator" or ir.StringAttr(op.attributes["kind"]).value not in _KINDS:
            return False
        number = self._number(op)
        if number not in self._fit:
            self._fit[number] = _reduces(op)
        return self._fit[number]

    def _is_faster(self, producer: ir.Operation, reader: ir.Operation, pair: int) -> bool:
        """Whether both as one operator, which is numbered `pair`, are better than apart."""
        first = self._estimate(producer)
        large = tensor_size(producer.results[0]) > kept_room(self._device)
        eus, costs = self._device.eus, self._device.costs
        if not large and first.time >= eus * costs.min_task_ns:
            return False
        second = self._estimate(reader)
        joined = _joined(producer, reader)
        self._number_of[joined.results[0]] = pair
        together = self._estimate(joined)
        del self._number_of[joined.results[0]]
        joined.erase()
        if large:
            return together.time < first.time + second.time
        # if both run at once, and only what joins them waits
        apart = max((first.time + second.time) / eus, first.latency, second.latency)
        return together.aligned and together.latency < apart + costs.hand_off_ns + costs.task_ns

    def _estimate(self, operator: ir.Operation) -> _Estimate:
        """Of what the passes behind this one will make of `operator`."""
        number = self._number(operator)
        if number not in self._estimates:
            with _finished(operator) as finished, body_of(finished) as body:
                self._estimates[number] = _estimate(body, self._device, self._precision)
        return self._estimates[number]

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


def _estimate(body: Body, device: Device, precision: Precision) -> _Estimate:
    found = body.construct(device, precision=precision) if body.stages_fit else []
    if not found:
        return _Estimate(float("inf"), float("inf"))
    latencies = (
        d.estimated_ns * -(-d.tasks // device.eus)
        + (device.costs.hand_off_ns if min(d.tasks, device.eus) > 1 else 0.0)
        for d in found
    )
    aligned = all(
        axis >= 0 or size == 1
        for stage in body.stages
        for axis, size in zip(stage.axes, shape_of(stage.op.results[0]), strict=True)
    )
    return _Estimate(found[0].estimated_ns * found[0].tasks, min(latencies), aligned)


def _reduces(op: ir.Operation) -> bool:
    """Whether a reduction computes what an operator yields, without a pad around it."""
    block = op.regions[0].blocks[0]
    names = {v.operation.name for v in block.operations}
    return not names & {"tensor.pad", "tensor.concat", "scf.for"} and any(
        v.operation.name == "linalg.generic" and Generic(v.operation).reduction_dims
        for v in block.operations
    )


def _only_reader(producer: ir.Operation, reader: ir.Operation) -> bool:
    """Whether all that reads `producer`, which has one result, is inside `reader`."""
    if len(yielded(producer.regions[0].blocks[0])) > 1:
        return False
    return all(_outermost(use.owner.operation) == reader for use in producer.results[0].uses)


def _outermost(op: ir.Operation) -> ir.Operation:
    while op.parent is not None and op.parent.operation.name != "func.func":
        op = op.parent.operation
    return op


def _join(producer: ir.Operation, reader: ir.Operation) -> None:
    """Move the body of `producer` into `reader`, with a stage in between."""
    first = next(iter(reader.regions[0].blocks[0].operations)).operation
    [inner] = yielded(producer.regions[0].blocks[0])
    *body, _ = (view.operation for view in producer.regions[0].blocks[0].operations)
    for op in body:
        op.move_before(first)
    with ir.InsertionPoint(first), reader.location:
        stage = rtask.StageOp(value=inner, output=inner.type).operation
    producer.results[0].replace_all_uses_with(stage.results[0])
    producer.erase()


def _joined(producer: ir.Operation, reader: ir.Operation) -> ir.Operation:
    """In front of `reader`, what `_join` would make of it."""
    with ir.InsertionPoint(reader):
        copies = producer.clone(), reader.clone()
    remap(copies[1], {producer.results[0]: copies[0].results[0]})
    _join(*copies)
    return copies[1]
