"""A packed model on a device, as gpu_bench times it beside others; the device, and its clock."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measurements._gpu_bench_group import Group
from measurements._packed_folder import PackedFolder
from rcompiler.codegen.cuda_tools import run_tool
from rcompiler.errors import CompilerError, ToolError
from rcompiler.model import GpuModel, model_of
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.tools._measure import Engine

_FEW = 3
Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class DeviceEngine:
    """A loaded model with inputs and outputs at fixed places on the device.

    run: one inference, until it is done. elapsed_ns: time of so many, one after another, by the
    device's clock. outputs: of an inference that has been run.
    """

    run: Engine
    elapsed_ns: Callable[[int], float]
    outputs: list[np.ndarray]


def loaded(folder: PackedFolder, group: Group, policy: str, **options: Any) -> GpuModel:
    """The model of a policy. options: as for `GpuExecutable`. Raises CompilerError."""
    return gpu_model(folder, group.policies[policy], str(group), **options)


def gpu_model(folder: PackedFolder, keys: Sequence[str], what: str, **options: Any) -> GpuModel:
    """The model of an artifact. what: names it in errors. options: as for `GpuExecutable`.

    Raises CompilerError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        artifact = folder.get_artifact(keys, Path(scratch, "model.rcx"))
    model = model_of(artifact, **options)
    if not isinstance(model, GpuModel):
        raise CompilerError(f"{what}: is compiled for {artifact.target}, which is no GPU")
    return model


def describe(driver: Driver) -> dict[str, Any]:
    """What a figure or a verdict has to say of the device that it comes from."""
    return {
        "name": driver.name,
        "capability": list(driver.capability),
        "multiprocessors": driver.multiprocessors,
        "real": driver.real,
        "settings": _settings() if driver.real else "",
    }


def _settings() -> str:
    """Driver, clocks and power as nvidia-smi reads them; nothing where it is not there."""
    asked = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit"
    try:
        command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]
        return run_tool(command, 30.0).stdout.strip()
    except ToolError:
        return ""


def engine(model: GpuModel, feeds: Feeds) -> DeviceEngine:
    """The model bound to these inputs, and run once. Raises DeviceError."""
    binding = model.bind()
    for array, tensor in zip(binding.inputs, model.inputs, strict=True):
        array.write(feeds[tensor.name])
    for output in binding.outputs:  # what is not written shows: of floats, no number
        poison = np.full(output.shape + (output.dtype.itemsize,), 0xFF, np.uint8)
        output.write(poison.view(output.dtype).reshape(output.shape))
    binding()
    return DeviceEngine(binding, binding.elapsed_ns, [output.numpy() for output in binding.outputs])


def device_ms(
    engines: Mapping[str, DeviceEngine], rounds: int, block_s: float
) -> dict[str, list[float]]:
    """Of each engine and round the ms of an inference by the device's clock.

    Engines take turns, each for about block_s seconds of the host, at least one inference.
    """
    counts = {}
    for name, each in engines.items():
        start = time.perf_counter()
        each.elapsed_ns(_FEW)
        took = time.perf_counter() - start
        counts[name] = max(1, int(block_s * _FEW / took))
    found: dict[str, list[float]] = {name: [] for name in engines}
    order = list(engines)
    for _ in range(rounds):
        for name in order:
            found[name].append(engines[name].elapsed_ns(counts[name]) / counts[name] / 1e6)
        order.reverse()
    return found
