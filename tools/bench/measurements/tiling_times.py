"""What tiling the bodies of rKernels takes, beside generating code of them.

    python tools/bench tiling_times                     # all built-in networks
    python tools/bench tiling_times resnet50 lstm2 --device=zen5-2 --rounds=5

Networks are scheduled for the CPU of a record, so no machine is measured. CPU seconds, the best of
several rounds: the passes of rc-tile-kernels on the kernels of the schedule; vdevice-to-cpu of the
bodies of whole operators, and of those of tasks. "share" is the first divided by the second; "too
long" marks more than a fifth, and "other code" bodies of tasks that give other code.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.driver.collector import COLLECTOR
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx
from rcompiler.passes import Element
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.passes.ir.clone import copy_module
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.vdevice_to_cpu import VdeviceToCpu
from rcompiler.pipelines.rc_cpu import RcCpu
from rcompiler.pipelines.rc_tile_kernels import RcTileKernels
from rcompiler.tools import models
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table

_SHARE = 0.2
_COLUMNS = ("network", "kernels S3", "S4", "tiling s", "share", "code s, whole", "code s, tiled",
            "KB whole", "KB tiled", "")  # fmt: skip


@dataclass(frozen=True)
class Times:
    """Of one network. candidates, kernels: how many there are before and after scheduling; tiling,
    whole, tiled: seconds of the passes, and of code generation from either body; sizes: characters
    of either text; same: whether both give the same code.
    """

    candidates: int
    kernels: int
    tiling: float
    whole: float
    tiled: float
    sizes: tuple[int, int]
    same: bool

    @property
    def share(self) -> float:
        """Tiling, as a share of code generation."""
        return self.tiling / self.whole if self.whole else 0.0


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a network cannot be compiled."""
    device = find_device(options.device)
    if not device.is_cpu:
        raise CompilerError(f"--device={options.device}: a {device.kind} device; give one of a CPU")
    rows = []
    for name in options.networks or models.names():
        doing(name)
        rows.append(_row(name, times(name, device, options.rounds)))
    table(_COLUMNS, rows)
    return 0


def _row(name: str, found: Times) -> list[str]:
    seconds = [f"{s:.3f}" for s in (found.tiling, found.whole, found.tiled)]
    remarks = ["too long"] * (found.share > _SHARE) + ["other code"] * (not found.same)
    return [
        name,
        str(found.candidates),
        str(found.kernels),
        seconds[0],
        f"{found.share:.0%}",
        *seconds[1:],
        *(f"{size / 1000:.0f}" for size in found.sizes),
        ", ".join(remarks),
    ]


def times(network: str, device: Device, rounds: int) -> Times:
    """What a built-in network takes.

    Args:
        network: its name.
        device: the CPU that it is scheduled for, whose figures decide.
        rounds: how often each step is timed.

    Raises:
        InvalidModel: no network has that name.
    """
    imported = import_onnx(models.build(network))
    lowering = RcCpu(device)
    with dialects.load(ModelContext(imported.constants)) as context, ir.Location.unknown():
        module = imported.parse(context)
        _run_on(module, [*lowering.to_rtask(), *lowering.to_rkernel()])
        candidates = len(_kernels(module))
        _run_on(module, [RammerSchedule()])
        tiling, tiled = _timed(module, [RcTileKernels()], rounds)
        whole_s, whole_code = _timed(module, [VdeviceToCpu()], rounds)
        tiled_s, tiled_code = _timed(tiled, [VdeviceToCpu()], rounds)
        return Times(
            candidates,
            len(_kernels(module)),
            tiling,
            whole_s,
            tiled_s,
            (_size(module), _size(tiled)),
            str(whole_code) == str(tiled_code),
        )


def _timed(module: ir.Module, passes: list[Element], rounds: int) -> tuple[float, ir.Module]:
    """CPU seconds of passes on copies of a module, and what they make of it."""
    best, run = float("inf"), _pipeline(module, passes)
    for _ in range(rounds):
        made = copy_module(module)
        gc.collect()
        with COLLECTOR.seldom():  # as in a compilation
            start = time.process_time()
            run(made)
            best = min(best, time.process_time() - start)
    return best, made


def _run_on(module: ir.Module, passes: list[Element]) -> None:
    _pipeline(module, passes)(module)


def _pipeline(module: ir.Module, passes: list[Element]) -> Callable[[ir.Module], None]:
    """As compilations run passes: what comes out is verified by whom it is for."""
    return runner(passes, module.context, verify=False)


def _kernels(module: ir.Module) -> list[ir.Operation]:
    return [v.operation for v in module.body.operations if v.operation.name == "rtask.kernel"]


def _size(module: ir.Module) -> int:
    """Characters of the kernels of a module."""
    return sum(len(op.get_asm(assume_verified=True)) for op in _kernels(module))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="default: all built-in ones")
    parser.add_argument("--device", default="zen5-2", metavar="NAME", help="default: zen5-2")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="default: 3")


main = Command(__name__, __doc__, _options, _run)
