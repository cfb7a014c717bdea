"""What an artifact says of how it was made: options, processor, device record, versions."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from rcompiler.device.model import Device
from rcompiler.device.record import to_option
from rcompiler.options import CompileOptions


@dataclass(frozen=True)
class Machine:
    """What code was generated for.

    name: of the target; kind: "cpu" or "gpu"; model: LLVM's name of it; features: LLVM's, beside
    those of the model; flags: that a CPU must have; tools: versions of programs of others that made
    the code.
    """

    name: str
    kind: str
    model: str
    features: str = ""
    flags: tuple[str, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)


def provenance(
    options: CompileOptions,
    machine: Machine,
    device: Device,
    schedule: str,
    left_out: Sequence[str] = (),
) -> dict[str, str]:
    """Equal for equal code: neither a date nor a machine's name is in it. schedule: the S4 text.
    left_out: names of optional passes that failed.
    """
    found = {"policy": str(options.policy), "target": options.target}
    names = ("kernels", "roller_policy", "tune", "roots")
    found |= {name: getattr(options, name) for name in names}
    if options.precision != "f32":
        found["precision"] = options.precision
    found[machine.kind] = machine.model
    found |= machine.tools
    if left_out:
        found["passes left out"] = ", ".join(left_out)
    if machine.features:
        found["features"] = machine.features
    # as it decided: without the date of the measurement, which decides nothing
    found["device"] = to_option(replace(device, measurement=None))
    found["schedule"] = hashlib.sha256(schedule.encode()).hexdigest()
    return found | _versions()


@cache
def _versions() -> dict[str, str]:
    """Of the packages that make code: those that this process has imported, whatever is installed
    in their place meanwhile."""
    found = {}
    for package in ("rcompiler", "torch-mlir", "llvmlite", "onnx"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
