"""The custom-wirer in traffic (Astra §4.6): plans that differ in who runs what, where and when.

Every plan was compiled and proved before the first request, all of them have the same kernels and
the same bits, and a request computes its answer once: trials are requests. A bucket of tokens
bounds what they add.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from rcompiler.astra import Explorer, Leaf, Sample, Settings, Step, Variable
from rcompiler.astra.budget import Budget
from rcompiler.astra.explorer import FROZEN, SERVE
from rcompiler.astra.variables import WHOLE, mangled
from rcompiler.device.store import fingerprint
from rcompiler.errors import CompilerError, DroppedPlanWarning
from rcompiler.options import CompileOptions
from rcompiler.profiler.index import ProfileIndex, code_version
from rcompiler.profiler.trials import KeptMeasurements
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.plans import Launch, Plans
from rcompiler.tuning.anchor import Anchor
from rcompiler.tuning.branch import Branch, Subject
from rcompiler.tuning.space import MEMORY, SCHEDULE
from rcompiler.tuning.warmup import open_index

PLACEMENT = "placement"  # the one variable: combinations of schedule and memory
SHARE = 0.02  # of the served time that trials may add
_SHADOWS = 3  # runs of a plan whose results are compared with those of the one that serves
_SKIP, _SKIP_FROZEN = 7, 63  # launches that nobody looks at after one that was timed
_ANCHOR_EVERY = 64  # launches that were timed


class OnlineChooser:
    """Who chooses while a model serves: a `runtime.plans.Chooser` that explores.

    Attributes:
        explorer: what it goes by.
        shadows: launches whose results were compared.
    """

    def __init__(
        self,
        explorer: Explorer,
        numbers: Mapping[str, int],
        *,
        anchor: Callable[[], float] = lambda: 1.0,
        clock: Callable[[], float] = time.monotonic,
        settled: Callable[[], None] = lambda: None,
    ) -> None:
        """numbers: of the plans, by choice of `PLACEMENT`. anchor: see `Anchor.read`. settled:
        called after each trial, and when the plan is found.
        """
        self.explorer, self.shadows = explorer, 0
        self._numbers, self._anchor, self._clock = numbers, anchor, clock
        self._settled, self._tried = settled, explorer.tried
        self._step: Step | None = None
        self._skipped, self._timed, self._factor = 0, 0, 1.0
        self._runs: dict[int, int] = {}
        self._told = explorer.phase, explorer.settled

    @property
    def serving(self) -> int:
        return self._numbers[self.explorer.incumbent[PLACEMENT]]

    def next(self) -> Launch:
        self.explorer.served(self._skipped)
        self._step = self.explorer.next(self._clock())
        number = self._numbers[self._step.plan[PLACEMENT]]
        self._skipped = 0
        if self._step.kind == SERVE:
            self._skipped = _SKIP_FROZEN if self.explorer.phase == FROZEN else _SKIP
        own = number != self.serving
        shadow = own and self._runs.get(number, 0) < _SHADOWS
        self._runs[number] = self._runs.get(number, 0) + own
        return Launch(number, timed=True, shadow=shadow, skip=self._skipped)

    def ran(self, ns: int, delay_ns: int) -> None:
        assert self._step is not None
        if self._timed % _ANCHOR_EVERY == 0:
            self._factor = self._anchor()
        self._timed += 1
        sample = Sample({WHOLE: float(ns)}, delay_ns / max(ns, 1), self._factor)
        self.explorer.ran(self._step, sample, self._clock())
        now = self.explorer.phase, self.explorer.settled
        if now != self._told:
            self._told = now
            self._settled()

    def shadowed(self, ns: int) -> None:
        self.shadows += 1
        self.explorer.lost(float(ns))

    def failed(self, ns: int, why: str) -> None:
        assert self._step is not None
        plan = self._step.plan[PLACEMENT]
        warnings.warn(f"plan '{plan}' was dropped: {why}", DroppedPlanWarning, stacklevel=2)
        self.explorer.failed(self._step, float(ns))
        self._settled()


def placements(branch: Branch) -> dict[str, Artifact]:
    """All combinations of schedule and memory that share the weights of the static plan, which is
    the first one.

    They have the same kernels; those that are equal to another one are left out.
    """
    static = branch.static
    first, *others = product(branch.schedules(), branch.memories())
    found = {", ".join(first): static}
    schedules = {static.provenance["schedule"]}
    for schedule, memory in others:
        try:
            made = branch.artifact({SCHEDULE: schedule, MEMORY: memory})
        except CompilerError:  # no such plan: the ones before it serve
            continue
        digest = made.provenance["schedule"]
        if digest in schedules or not np.array_equal(made.constants, static.constants):
            continue
        schedules.add(digest)
        # one block of weights in memory for all
        found[f"{schedule}, {memory}"] = replace(made, constants=static.constants)
    return found


def online_plans(subject: Subject, share: float = SHARE) -> tuple[Artifact, Plans | None]:
    """The plan that serves first, and the others with who chooses; None where that is settled.

    subject: of its dimensions those count that change no bit. share: of the served time that trials
    may add.

    Raises CompilerError as compile_onnx does.
    """
    placement = "".join(each for each in subject.dimensions if each in "sm")
    found = placements(Branch(replace(subject, dimensions=placement)))
    digests = [artifact.provenance["schedule"] for artifact in found.values()]
    place = mangled(["online", *found, *digests])
    key = place, fingerprint(subject.base), code_version()
    index = open_index(subject.options)
    try:
        chosen = index.plan(*key)
        if chosen is not None and chosen.plan in found:
            return found[chosen.plan], None
        if len(found) == 1:
            return next(iter(found.values())), None
        kept = KeptMeasurements(index, *key[1:])
    finally:
        index.close()
    tree = Leaf(Variable(PLACEMENT, (*found,), WHOLE))
    explorer = Explorer(tree, kept, place, settings=Settings(), budget=Budget(share=share))
    keeper = _Keeper(subject.options, kept, explorer, key)
    chooser = OnlineChooser(
        explorer,
        {name: number for number, name in enumerate(found)},
        anchor=Anchor().read,
        settled=keeper.keep,
    )
    first, *others = found.values()
    return first, Plans(others, chooser)


class _Keeper:
    """Writes what was measured into the index, in a thread of its own: no request waits for a disk.

    The index may be in use elsewhere; what cannot be kept is measured again by the next process.
    """

    def __init__(
        self,
        options: CompileOptions,
        kept: KeptMeasurements,
        explorer: Explorer,
        key: tuple[str, str, str],
    ) -> None:
        self._options, self._kept, self._explorer, self._key = options, kept, explorer, key
        self._lock = threading.Lock()

    def keep(self) -> None:
        chosen = None
        if self._explorer.phase == FROZEN:
            chosen = self._explorer.incumbent[PLACEMENT], self._explorer.won
        threading.Thread(
            target=self._write, args=(chosen,), name="rcompiler plans", daemon=True
        ).start()

    def _write(self, chosen: tuple[str, float] | None) -> None:
        with self._lock:
            index: ProfileIndex = open_index(self._options)
            try:
                self._kept.keep(index)
                if chosen is not None:
                    index.choose(self._key, *chosen)
            finally:
                index.close()
