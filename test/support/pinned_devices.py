"""Devices whose figures stay: what tests compute by hand does not change where one is measured."""

from dataclasses import replace

from rcompiler.device.gpu import gpu_device
from rcompiler.device.model import Costs, Device


def h200_by_datasheet() -> Device:
    """An H200 as its record was before anything of it was measured."""
    device = gpu_device("h200")
    first, l2, dram = device.memory
    per_sm = 64 * 1.98
    l2 = replace(l2, bandwidth=per_sm, shared_bandwidth=5500.0)
    dram = replace(dram, bandwidth=per_sm, shared_bandwidth=4800.0)
    costs = Costs(
        task_ns=200.0, hand_off_ns=1000.0, barrier_ns=2000.0, launch_ns=5000.0, min_task_ns=5000.0
    )
    return replace(device, memory=(first, l2, dram), costs=costs)
