"""What is compiled: networks, targets, and every option that changes code.

No machine is measured, and none is asked what it is: CPUs are the default figures of a feature
level, GPUs are records. So the same comes out on every host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from onnx import ModelProto
from support.quantised_networks import convolutions, products
from support.short_networks import counted, dynamic_products, half_block
from support.small_networks import FORMS, LOOPS, SMALL

from rcompiler.device.cpu import cpu_device
from rcompiler.device.host_flags import EXTRA, V4
from rcompiler.device.record import to_option
from rcompiler.options import (
    CpuPrecision,
    GpuPrecision,
    Kernels,
    Memory,
    Policy,
    RollerPolicy,
    Roots,
)

# CPUs of two execution units by level, and GPUs.
CPUS = {f"cpu-{level}": to_option(cpu_device(level, 2)) for level in ("x86-64", "v3", "v4")}
# with all that multiplies words of bytes or bf16
_WORDS = {"cpu-words": to_option(cpu_device("v4", 2, features=V4 | EXTRA))}
GPUS = ("cuda:h200", "cuda:sm_80", "rocm:gfx942")
TARGETS = {**CPUS, **_WORDS, **{name: name for name in GPUS}}

# Networks of different structure: those that an option is tried with.
_VARIED = ("bert_base", "lstm2", "resnet50", "seq2seq")
_ROUNDED = ("bert_base", "resnet50")
_EVERYWHERE = ("cpu-v3", "cuda:h200")
_MATRIX_UNITS = ("cuda:h200", "cuda:sm_80")
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "policy": get_args(Policy),
    "kernels": get_args(Kernels),
    "roller_policy": get_args(RollerPolicy),
    "roots": get_args(Roots),
    "memory": get_args(Memory),
    "fusion": (True, False),
    "normalise": (True, False),
    "eus": (0, 1, 3),
}


# Networks of 8 and 16 bits, which are not built in, and where they are tried.
SHORT: Mapping[str, Callable[[], ModelProto]] = {
    "quantised_convolutions": lambda: convolutions(40, 17)[0],
    "quantised_convolutions_64": lambda: convolutions(64, 9)[0],
    "quantised_products": lambda: products(50, 192)[0],
    "dynamic_products": lambda: dynamic_products(33, 100),
    "half_block": lambda: half_block(33, 48),
    "counted": lambda: counted(9),
}
_SHORT_TARGETS = (*CPUS, *_WORDS, "cuda:h200")


@dataclass(frozen=True)
class Case:
    """One compilation.

    sizes: options of the network; settings: fields of `CompileOptions` beside the target. looped:
    whether the sizes are those of `LOOPS`.
    """

    network: str
    target: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    looped: bool = False

    @property
    def name(self) -> str:
        """As the record has it: "resnet50 cpu-v3 policy=wave"."""
        form = [self.sizes["form"]] if "form" in self.sizes else []
        form += ["looped"] * self.looped
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        return " ".join([self.network, *form, self.target, *settings])


def cases() -> dict[str, Case]:
    """By name: each small network and form on a CPU and a GPU, four of them on every target and
    with each option, loops over steps on every target, and networks of 8 and 16 bits on each level
    of CPUs and on a GPU.
    """
    found = [Case(network, target) for network in SHORT for target in _SHORT_TARGETS]
    for network, sizes in SMALL.items():
        targets = (*CPUS, *GPUS) if network in _VARIED else _EVERYWHERE
        found += [Case(network, target, sizes) for target in targets]
        for form in FORMS.get(network, ()):
            found += [Case(network, target, {**sizes, "form": form}) for target in _EVERYWHERE]
    for network, sizes in LOOPS.items():
        found += [Case(network, target, sizes, looped=True) for target in (*CPUS, *GPUS)]
    for network in _VARIED:
        for option, values in _CHOICES.items():
            found += [
                Case(network, target, SMALL[network], {option: value})
                for target in _EVERYWHERE
                for value in values[1:]
                if not (target in GPUS and value == "dynamic")  # whose queues no block takes
            ]
        found += [
            Case(network, target, SMALL[network], {"precision": precision})
            for target in _MATRIX_UNITS
            for precision in get_args(GpuPrecision)[1:]
        ]
    found += [
        Case(network, target, SMALL[network], {"precision": precision})
        for network in _ROUNDED
        for target in ("cpu-v3", *_WORDS)
        for precision in get_args(CpuPrecision)[1:]
    ]
    found += [Case("counted", target, settings={"bounds": {"kept": 4}}) for target in _EVERYWHERE]
    named = {case.name: case for case in found}
    assert len(named) == len(found)
    return named
