"""The second half of gpu_bench: groups of a folder measured, in a process that a failure may end.

See `_gpu_bench_jobs`, which asks.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from measurements import _torch_baselines
from measurements._gpu_bench_figures import GroupFigure
from measurements._gpu_bench_group import (
    TOLERANCE,
    Group,
    difference,
    get_arrays,
    read_groups,
)
from measurements._gpu_engines import DeviceEngine, Feeds, describe, device_ms, engine, loaded
from measurements._packed_folder import PackedFolder
from rcompiler.driver.gpu_devices import open_device
from rcompiler.errors import CompilerError
from rcompiler.support.workers import serve_answers
from rcompiler.tools import _measure
from rcompiler.tools._reference import check_equal

# Others round everything in half precision, not factors only: they are to compute the same model.
_LOOSER = 10.0


@dataclass
class Job:
    """number: of a group of the folder. policies: those to measure. unmeasured: what is known
    already of others.
    """

    number: int
    policies: list[str]
    unmeasured: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """seconds: timed of each engine, in so many rounds. baselines: names; None for those that suit
    the kind of a group. limit_s: until a baseline is ready. wait_limit_s: of waits in our kernels.
    """

    folder: str
    rounds: int
    seconds: float
    baselines: list[str] | None
    limit_s: float
    wait_limit_s: float

    def beside(self, group: Group) -> list[str]:
        """The baselines of a group: torch.compile tunes for longer than all else takes, so of
        operators only where it is asked for.
        """
        if self.baselines is not None:
            return self.baselines
        every = list(_torch_baselines.BASELINES)
        return every if group.kind == "network" else [n for n in every if n != "torch_compile"]


class PolicyFailed(CompilerError):
    """A policy's model that cannot run, or not rightly. policy: its name."""

    def __init__(self, policy: str, error: CompilerError) -> None:
        super().__init__(str(error))
        self.policy = policy


def measure(folder: PackedFolder, group: Group, job: Job, settings: Settings) -> GroupFigure:
    """Check the results of all engines, time them by turns.

    Raises PolicyFailed. Engines of others that fail are left out.
    """
    about = (group.model, group.kind, group.precision, group.target, group.flops)
    found = GroupFigure(*about, unmeasured=dict(job.unmeasured))
    feeds, wanted = get_arrays(folder, group.feeds), get_arrays(folder, group.wanted)
    allowed = TOLERANCE[group.precision]
    ours: dict[str, DeviceEngine] = {}
    for policy in job.policies:
        found.expected_ms[policy] = group.expected_ms[policy]
        try:
            model = loaded(folder, group, policy, wait_limit_s=settings.wait_limit_s)
            made = engine(model, feeds)
            found.difference[policy] = difference(made.outputs, wanted, allowed, policy)
            ours[policy] = made
            check_equal({name: engine.outputs for name, engine in ours.items()})
        except CompilerError as error:
            raise PolicyFailed(policy, error) from None
    beside = _beside(found, folder, group, settings, feeds, wanted)
    _time(found, ours, beside, settings)
    return found


def _beside(
    found: GroupFigure,
    folder: PackedFolder,
    group: Group,
    settings: Settings,
    feeds: Feeds,
    wanted: dict[str, np.ndarray],
) -> dict[str, DeviceEngine]:
    """The engines of others that compute the same; why not the others goes into the figure."""
    engines: dict[str, DeviceEngine] = {}
    onnx = folder.get(group.onnx)
    for name in settings.beside(group):
        try:
            made = _torch_baselines.bound(name, onnx, group.precision, feeds, settings.limit_s)
            allowed = _LOOSER * TOLERANCE[group.precision]
            found.difference[name] = difference(made.outputs, wanted, allowed, name)
            engines[name] = made
        except CompilerError as error:
            found.unmeasured[name] = str(error)
    return engines


def _time(
    found: GroupFigure,
    ours: dict[str, DeviceEngine],
    beside: dict[str, DeviceEngine],
    settings: Settings,
) -> None:
    engines = {**ours, **beside}
    rounds, block_s = settings.rounds, settings.seconds / settings.rounds
    runs = {name: each.run for name, each in engines.items()}
    times = _measure.interleaved(runs, rounds, block_s)
    found.ms = {name: _measure.percentiles(timing) for name, timing in times.items()}
    on_device = device_ms(engines, rounds, block_s)
    found.device_ms = {name: float(np.median(ms)) for name, ms in on_device.items()}
    found.load = os.getloadavg()[0]
    found.fastest = min(ours, key=lambda name: found.ms[name]["p50"], default="")
    if not ours:
        return
    best = min(ours, key=lambda name: found.device_ms[name])
    for name in beside:
        found.ratio[name] = _measure.ratio(times[found.fastest], times[name])
        theirs, mine = np.array(on_device[name]), np.array(on_device[best])
        found.device_ratio[name] = float(np.median(theirs / mine))


def describe_device(folder: PackedFolder, group: Group) -> dict[str, Any]:
    """What the groups are measured on. Raises DeviceError where there is nothing."""
    [policy, *_] = group.policies
    return describe(open_device(loaded(folder, group, policy).artifact))


def serve() -> None:
    """Settings and a job as JSON for each question; for the answer the device, where that is what
    is asked for, else the figure of the job, or why there is none."""
    serve_answers(_answer)


def _answer(question: bytes) -> tuple[int, bytes]:
    given = json.loads(question)
    settings, job = Settings(**given["settings"]), Job(**given["job"])
    try:
        folder, groups = _opened(settings.folder)
        group = groups[job.number]
        if given["kind"] == "device":
            told: dict[str, Any] = {"device": describe_device(folder, group)}
        else:
            told = {"figure": vars(measure(folder, group, job, settings))}
            _torch_baselines.release()
    except CompilerError as error:
        told = {"failed": getattr(error, "policy", ""), "why": str(error)}
    return 0, json.dumps(told).encode()


@cache
def _opened(path: str) -> tuple[PackedFolder, list[Group]]:
    folder = PackedFolder(path)
    return folder, read_groups(folder)
