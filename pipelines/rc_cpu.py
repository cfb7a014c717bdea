"""rc-cpu: S1 -> S4 for the cores of a CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from rcompiler.device.cpu import fitted
from rcompiler.device.matrix_unit import AMX_BYTES
from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.errors import DeviceError, PipelineError
from rcompiler.passes import SHOWN, Element
from rcompiler.passes.fold_constants import FoldConstants
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.rtask_batch_products import RTaskBatchProducts
from rcompiler.passes.rtask_block_channels import RTaskBlockChannels
from rcompiler.passes.rtask_fuse_axes import RTaskFuseAxes
from rcompiler.passes.rtask_group_dots import RTaskGroupDots
from rcompiler.passes.rtask_guard import RTaskGuard
from rcompiler.passes.rtask_lift_scales import RTaskLiftScales
from rcompiler.passes.rtask_merge_siblings import RTaskMergeSiblings
from rcompiler.passes.rtask_pack_weights import RTaskPackWeights
from rcompiler.passes.rtask_round_factors import RTaskRoundFactors
from rcompiler.passes.rtask_round_tables import RTaskRoundTables
from rcompiler.passes.rtask_sink_reshapes import RTaskSinkReshapes
from rcompiler.passes.rtask_split_k import RTaskSplitK
from rcompiler.passes.rtask_split_reductions import RTaskSplitReductions
from rcompiler.passes.rtask_update_state import RTaskUpdateState
from rcompiler.passes.rtask_widen_bytes import RTaskWidenBytes
from rcompiler.passes.rtask_widen_factors import RTaskWidenFactors
from rcompiler.passes.rtask_widen_halves import RTaskWidenHalves
from rcompiler.passes.rtask_winograd import RTaskWinograd
from rcompiler.passes.vdevice_attach_device import VdeviceAttachDevice
from rcompiler.pipelines._lowering import Lowering
from rcompiler.pipelines.rc_connect_operators import RcConnectOperators
from rcompiler.pipelines.rc_linalg_to_rtask import RcLinalgToRtask
from rcompiler.pipelines.rc_tile_kernels import RcTileKernels


@dataclass(frozen=True)
class RcCpu(Lowering):
    """Lower a model to a schedule for the cores of a CPU.

    Of a device with more features than the target has, those of the target count.
    """

    device: Device = field(default_factory=partial(find_device, "cpu"), metadata={SHOWN: "cpu"})

    def __post_init__(self) -> None:
        if not self.device.is_cpu:
            raise PipelineError(
                f"rc-cpu: device {self.device.name} is of kind {self.device.kind}; run rc-gpu"
            )
        if self.target:
            object.__setattr__(self, "device", fitted(self.device, _cpu(self.target)))

    def to_rtask(self) -> list[Element]:
        lanes, multiplied = self.device.lanes(4), self.device.word_elements
        # where cores multiply words of two, the multiplications that Winograd saves cost less
        on_units = self.precision == "bf16" and "bf16" in multiplied
        roots = "direct" if on_units and self.roots == "auto" else self.roots
        halves: list[Element] = []
        if self.precision in ("f16", "bf16"):
            factors = RTaskRoundFactors(self.precision, weights=True)
            tables = RTaskRoundTables(self.precision)
            halves = ["cse", factors, "cse", tables, "cse", FoldConstants()]
        siblings: list[Element] = ["cse", RTaskBatchProducts(), RTaskMergeSiblings()]
        return [
            VdeviceAttachDevice(self.device, self.precision, self.target),
            RTaskWidenHalves(),
            *halves,
            *(siblings if self.normalise else []),
            "cse",
            RTaskWidenFactors(bf16="bf16" not in multiplied),
            *([] if "i8" in multiplied else [RTaskWidenBytes()]),
            RTaskBlockChannels(lanes, AMX_BYTES.depth if self.device.tile_elements else 0),
            RTaskWinograd(roots),
            RTaskSinkReshapes(),
            RTaskPackWeights(lanes),
            RTaskGroupDots(),
            RTaskSplitK(),
            RTaskSplitReductions(),
            "cse",
            FoldConstants(),
            RcLinalgToRtask(self.fusion, flat_rows=True, apart=True),
            *([RcConnectOperators()] if self.fusion else []),
            RTaskWidenHalves(operators=True, bf16=True),
            *([RTaskLiftScales()] if self.device.has_fma else []),
            RTaskFuseAxes(),
            FoldConstants(),  # weights in the shapes of fused axes
            RTaskUpdateState(),
            RTaskGuard(),
        ]

    def to_schedule(self) -> list[Element]:
        return [RammerSchedule(self.policy, self.eus, self.kernels, self.memory)]

    def to_tasks(self) -> list[Element]:
        return [RcTileKernels()]


def _cpu(target: str) -> Device:
    """The CPU that a target names. Raises PipelineError for another kind, or no target at all."""
    try:
        device = find_device(target)
    except DeviceError as error:
        raise PipelineError(f"rc-cpu: {error}") from error
    if not device.is_cpu:
        raise PipelineError(f"rc-cpu: target {target!r} is of kind {device.kind}; run rc-gpu")
    return device
