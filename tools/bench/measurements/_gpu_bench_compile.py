"""The first half of gpu_bench: models compiled into a folder, with all that measuring needs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from measurements._bench_operators import ALONE, Operator, operators, product
from measurements._gpu_bench_group import Group, Kind, add_group, put_arrays, sample
from measurements._packed_folder import PackedFolder
from rcompiler.compile import compile_policies
from rcompiler.device.model import Costs, Device
from rcompiler.device.target import find_device
from rcompiler.errors import DeviceError, InvalidModel
from rcompiler.options import Policy, Precision, Scheduler
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models
from rcompiler.tools._record import commit
from rcompiler.tools._reference import reference
from rcompiler.tools._sources import resolve

SWEEPS: tuple[Kind, ...] = ("gemm", "convolution")
STRESS = "stress"
# Beside those that CPUs are measured with: enough work for all of a GPU.
_LARGE = ((2048, 2048, 2048), (4096, 4096, 4096))
_STRESS_EUS = 8
# Forms that say in one operator what others spell out, as libraries have it; the best first.
_WHOLE = ("operator", "normalised")
# Handing work over is worth nothing here, and is to be done all the same.
_FREE = Costs(
    task_ns=1.0, hand_off_ns=1.0, barrier_ns=2.0, launch_ns=5.0, min_task_ns=1.0, step_ns=1.0
)


@dataclass(frozen=True)
class Case:
    """A model to compile.

    name, kind: of the group. proto: what is compiled. beside: the same function as other engines
    take it. device: whose figures decide, None for those of the target. flops: see `Group`.
    """

    name: str
    kind: Kind
    proto: ModelProto
    beside: ModelProto
    device: Device | None = None
    eus: int | None = None
    flops: int = 0


def cases(name: str, target: str, seed: int = 0) -> Iterator[Case]:
    """What a word of --models stands for: a sweep, "stress", a built-in model or an ONNX file.

    Weights of built-in models repeat (`Repeating`), those of a file are its own. Raises
    InvalidModel.
    """
    if name in SWEEPS:
        large = [product("gemm", *size) for size in _LARGE]
        for operator in (*operators(), *large):
            if operator.kind == name:
                yield _single(operator, seed)
    elif name == STRESS:
        proto = models.build("lstm2", sequence=4, features=16, hidden=32, seed=Repeating(seed))
        base = find_device(target)
        free = replace(base, name="free", costs=_FREE)
        yield Case(STRESS, "stress", proto, proto, free, min(_STRESS_EUS, base.eus))
    elif Path(name).exists() or name not in models.names():
        source = resolve(name)
        if source.proto is None:
            raise InvalidModel(f"{name}: is compiled already; give an ONNX model")
        yield Case(source.name, "network", source.proto, source.proto)
    else:
        proto = models.build(name, seed=Repeating(seed))
        forms = [form for form in _WHOLE if form in models.choices(name, "form")]
        beside = models.build(name, seed=Repeating(seed), form=forms[0]) if forms else proto
        yield Case(name, "network", proto, beside)


def _single(operator: Operator, seed: int) -> Case:
    proto = operator.models(Repeating(seed))[ALONE]
    name = f"{operator.kind} {operator.name}"
    kind: Kind = "gemm" if operator.kind == "gemm" else "convolution"
    return Case(name, kind, proto, proto, flops=operator.flops)


def compile_case(
    case: Case,
    folder: PackedFolder,
    target: str,
    precision: Precision,
    policies: Sequence[Policy],
    seed: int = 0,
) -> Group:
    """Compile a case and add its group to the folder.

    seed: of the inputs. Raises CompilerError where it cannot be compiled or run by a reference.
    """
    schedulers = [Scheduler(policy) for policy in policies]
    compiled = compile_policies(
        *(case.proto, schedulers),
        target=target,
        device=case.device,
        precision=precision,
        eus=case.eus,
    )
    group = Group(case.name, case.kind, precision, target, case.flops)
    with tempfile.TemporaryDirectory() as scratch:
        for by, model in compiled.items():
            report, file = model.report(), Path(scratch, "model.rcx")
            # Texts of the stages are many times as long as the rest, and nothing there reads them.
            plain = replace(model.artifact, stages={})
            group.policies[str(by.policy)] = folder.put_artifact(plain, file)
            group.expected_ms[str(by.policy)] = report.makespan_ns / 1e6
    [first, *_] = compiled.values()
    feeds = random_inputs(first.inputs, Repeating(seed))
    _, outputs = reference(case.proto, feeds)
    names = [tensor.name for tensor in first.outputs]
    group.onnx = folder.put(case.beside.SerializeToString(deterministic=True))
    group.feeds = put_arrays(folder, feeds)
    group.wanted = put_arrays(folder, dict(zip(names, map(sample, outputs), strict=True)))
    group.commit = commit(Path(__file__).resolve().parent)
    add_group(folder, group)
    return group


def nvidia_gpu(target: str) -> Device:
    """The record of a target. Raises DeviceError where it is none of NVIDIA's GPUs."""
    device = find_device(target)
    if not device.is_nvidia:
        raise DeviceError(f"target {target!r} is none of NVIDIA's GPUs; give cuda:h200, say")
    return device


# Primes, so that no two rows of a matrix are alike, nor two channels whose number differs by a
# power of two. Vectors have fewer values: those of a normalisation are multiplied into the weights
# of each channel in front of it, which then repeat only as far as these do.
_MATRIX = 4093
_VECTOR = 13


class Repeating(np.random.Generator):
    """Draws of two dimensions or more repeat after 4093 numbers, those of one after 13."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return _repeated(super().standard_normal, size, dtype)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return _repeated(super().random, size, dtype)


def _repeated(draw: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    period = _MATRIX if len(shape) > 1 else _VECTOR
    return np.resize(draw(min(int(np.prod(shape)), period), dtype=dtype), shape)
