"""The second half of gpu_bench: groups of a folder measured, in a process that a failure may end.

    python -m rcompiler.tools._gpu_bench_run '{"folder": ..., "jobs": [...], ...}' RESULTS

appends one line of JSON to RESULTS for the device, then one for each job; see `_gpu_bench_jobs`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.driver.gpu_devices import open_device
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.tools import _measure, _torch_baselines
from rcompiler.tools._gpu_bench_figures import Figure
from rcompiler.tools._gpu_bench_group import (
    TOLERANCE,
    Group,
    difference,
    get_arrays,
    read_groups,
)
from rcompiler.tools._gpu_engines import DeviceEngine, Feeds, describe, device_ms, engine, loaded
from rcompiler.tools._packed_folder import PackedFolder
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
        self.policy, self.lost = policy, isinstance(error, DeviceError)


def measure(folder: PackedFolder, group: Group, job: Job, settings: Settings) -> Figure:
    """Check the results of all engines, time them by turns.

    Raises PolicyFailed. Engines of others that fail are left out.
    """
    about = (group.model, group.kind, group.precision, group.target, group.flops)
    found = Figure(*about, unmeasured=dict(job.unmeasured))
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
    found: Figure,
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
    found: Figure,
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


def main(argv: Sequence[str]) -> None:
    """Ends after a job whose failure may have destroyed the CUDA context."""
    given = json.loads(argv[0])
    settings = Settings(**given["settings"])
    folder = PackedFolder(settings.folder)
    groups = read_groups(folder)
    with Path(argv[1]).open("a") as results:

        def write(**line: Any) -> None:
            print(json.dumps(line), file=results, flush=True)

        jobs = [Job(**job) for job in given["jobs"]]
        try:
            write(device=describe_device(folder, groups[jobs[0].number]))
        except CompilerError as error:
            return write(refused=str(error))
        for job in jobs:
            try:
                write(figure=vars(measure(folder, groups[job.number], job, settings)))
            except PolicyFailed as error:
                write(failed=error.policy, why=str(error))
                if error.lost:
                    return None
            except CompilerError as error:
                write(failed="", why=str(error))
                return None
            _torch_baselines.release()
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
