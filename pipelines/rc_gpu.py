"""rc-gpu: S1 -> S4 for the blocks of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.errors import PipelineError
from rcompiler.passes import SHOWN, Element
from rcompiler.passes.fold_constants import FoldConstants
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.rtask_batch_products import RTaskBatchProducts
from rcompiler.passes.rtask_block_channels import RTaskBlockChannels
from rcompiler.passes.rtask_expand_products import RTaskExpandProducts
from rcompiler.passes.rtask_fuse_axes import RTaskFuseAxes
from rcompiler.passes.rtask_merge_siblings import RTaskMergeSiblings
from rcompiler.passes.rtask_pack_weights import RTaskPackWeights
from rcompiler.passes.rtask_round_factors import RTaskRoundFactors
from rcompiler.passes.rtask_sink_reshapes import RTaskSinkReshapes
from rcompiler.passes.rtask_split_k import RTaskSplitK
from rcompiler.passes.rtask_split_reductions import RTaskSplitReductions
from rcompiler.passes.rtask_turn_bytes import RTaskTurnBytes
from rcompiler.passes.rtask_update_state import RTaskUpdateState
from rcompiler.passes.rtask_widen_halves import RTaskWidenHalves
from rcompiler.passes.rtask_winograd import RTaskWinograd
from rcompiler.passes.vdevice_attach_device import VdeviceAttachDevice
from rcompiler.passes.vdevice_pin import VdevicePin
from rcompiler.passes.vdevice_prefetch import VdevicePrefetch
from rcompiler.pipelines._lowering import Lowering
from rcompiler.pipelines.rc_connect_operators import RcConnectOperators
from rcompiler.pipelines.rc_linalg_to_rtask import RcLinalgToRtask
from rcompiler.pipelines.rc_tile_threads import RcTileThreads


@dataclass(frozen=True)
class RcGpu(Lowering):
    """Lower a model to a schedule for the blocks of a GPU, or of another accelerator.

    Factors are rounded to the precision where the matrix units of the device multiply it.
    """

    device: Device = field(
        default_factory=partial(find_device, "cuda:h200"), metadata={SHOWN: "cuda:h200"}
    )

    def __post_init__(self) -> None:
        if self.device.is_cpu:
            raise PipelineError(f"rc-gpu: device {self.device.name} is a CPU; run rc-cpu")

    def to_rtask(self) -> list[Element]:
        lanes, units = self.device.lanes(4), self.device.matrix_elements
        on_units, bytes_on_units = self.precision in units, "i8" in units
        # Winograd's filtering saves multiplications, which are what matrix units have plenty of
        roots = "direct" if on_units and self.roots == "auto" else self.roots
        halves: list[Element] = (
            ["cse", RTaskRoundFactors(self.precision), "cse", FoldConstants()]
            if on_units and self.precision in ("f16", "bf16")
            else []
        )
        siblings: list[Element] = ["cse", RTaskBatchProducts(), RTaskMergeSiblings()]
        # of results as the model splits them, and as packing does
        expand: list[Element] = (
            ["cse", RTaskExpandProducts(bytes_only=not on_units)]
            if on_units or bytes_on_units
            else []
        )
        return [
            VdeviceAttachDevice(self.device, self.precision, self.target),
            RTaskWidenHalves(sums=True),
            *halves,
            *(siblings if self.normalise else []),
            *expand,
            "cse",
            RTaskBlockChannels(lanes),
            RTaskWinograd(roots),
            RTaskSinkReshapes(),
            RTaskPackWeights(lanes, not self.device.has_wgmma, not bytes_on_units, lines=True),
            *(expand if on_units else expand[1:]),
            *([RTaskTurnBytes()] if bytes_on_units else []),
            RTaskSplitK(),
            RTaskSplitReductions(),
            "cse",
            FoldConstants(),
            RcLinalgToRtask(self.fusion),
            *([RcConnectOperators()] if self.fusion else []),
            RTaskWidenHalves(operators=True, bf16=True),
            RTaskFuseAxes(),
            FoldConstants(),  # weights in the shapes of fused axes
            RTaskUpdateState(),
        ]

    def to_schedule(self) -> list[Element]:
        pinned = [VdevicePin(), VdevicePrefetch()] if self.device.is_nvidia else []
        return [RammerSchedule(self.policy, self.eus, self.kernels, self.memory), *pinned]

    def to_tasks(self) -> list[Element]:
        return [RcTileThreads()]
