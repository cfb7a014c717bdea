"""Top-K with measuring (Roller §3.3): of the K best tilings by the model the fastest, measured."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rcompiler.codegen.cpu import ObjectCache, Target
from rcompiler.device.model import Device
from rcompiler.device.store import fingerprint
from rcompiler.errors import DeviceError
from rcompiler.passes.roller_tile import Body
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.profile import Profile, Profiler
from rcompiler.profiler.storage import NAME
from rcompiler.roller.decision import Decision
from rcompiler.roller.policy import shortlist
from rcompiler.roller.ranking import choose, with_times

TOP = 10  # tilings that are measured


class KernelWarning(UserWarning):
    """A candidate kernel was wrong and was left out: a defect of the compiler, but not of what it
    compiled.
    """


@dataclass
class Tuner:
    """Decides the kernels of operators by measuring; `profiles` are those of them so far.

    policy: whose tilings are measured, see `roller.policy`. eus: how many EUs an operator may get,
    None for all of the device.
    """

    profiler: Profiler
    top: int = TOP
    policy: str = "roller"
    eus: int | None = None
    profiles: dict[str, Profile] = field(default_factory=dict)

    def decide(self, body: Body) -> list[Decision]:
        """The decisions for an operator, the fastest first.

        Those that construction has besides are measured too. An operator with one tiling only is
        not measured, nor is one with stages, nor one that updates a state: alone it would leave
        most of its result as it was. Raises as `Profiler.profile`, and WrongKernel if all
        candidates are wrong.
        """
        if body.stages or body.traced.touched:
            return body.construct(self.profiler.device, eus=self.eus)
        expr, device = body.expression(), self.profiler.device
        best, model = shortlist(expr, device, self.top, self.policy, self.eus)
        wanted = [*best, *(d for d in model if d not in best)]
        if len(wanted) == 1:
            return wanted
        found = self.profiles[body.signature] = self.profiler.profile(body, wanted)
        for error in found.errors:
            warnings.warn(f"a kernel was left out: {error}", KernelWarning, stacklevel=2)
        right = [c for c in found.candidates if c.ns is not None]
        if not right:
            raise found.errors[0]
        decisions = [c.decision for c in right]
        beside = [c.beside_ns for c in right if c.beside_ns is not None]
        timed = with_times(decisions, [c.ns for c in right if c.ns is not None], beside)
        slow = [t for t, d in zip(timed, decisions, strict=True) if d in best]
        fast = [t for t, d in zip(timed, decisions, strict=True) if d in model[1:]]
        return choose(expr, device, slow or timed, fast, self.eus)


@contextmanager
def kernel_tuner(
    device: Device,
    base: Device,
    target: Target,
    folder: Path | None,
    policy: str = "roller",
    eus: int | None = None,
    machine: str | None = None,
) -> Iterator[Tuner]:
    """A tuner with the index and the objects in the folder `folder`, or without.

    device: whose figures the model uses. base: this machine, as it was detected. policy, eus: as
    for `Tuner`. machine: whose times decide, see `device.store.fingerprint`; by default this one's.
    Those of another one must all be in the index. Raises DeviceError for a target that does not run
    here, if kernels may have to be measured.
    """
    here = fingerprint(base)
    replayed = machine not in (None, here)
    missing = sorted({*target.required} - {*Target.named("host").required})
    if missing and not replayed:
        raise DeviceError(
            f"kernels for {target.name} cannot be measured here: this machine has no "
            f"{', '.join(missing)}; use tune='off', or a target that this machine can run"
        )
    index = ProfileIndex(folder / NAME if folder is not None else None)
    cache = ObjectCache(folder) if folder is not None else None
    try:
        profiler = Profiler(device, target, machine or here, index, eus or device.eus, cache)
        if replayed:
            profiler = replace(profiler, timer=None)
        yield Tuner(profiler, policy=policy, eus=eus)
    finally:
        index.close()
