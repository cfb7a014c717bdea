"""From the choices of a plan to the artifact that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch_mlir import ir

from rcompiler.astra import Plan
from rcompiler.device.model import Device
from rcompiler.driver.artifact_notes import rebuild
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.errors import CompilerError
from rcompiler.model import REPORT
from rcompiler.options import CompileOptions, policy_of
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.ir.structure import structure
from rcompiler.passes.roller_tile import Body, body_of, kernel_symbol
from rcompiler.profiler.index import digest
from rcompiler.rammer.expected import expected, timed
from rcompiler.rammer.placement import derive_graph
from rcompiler.rammer.timeline import Timeline
from rcompiler.report import Report
from rcompiler.roller.decision import Decision
from rcompiler.roller.policy import decisions, shortlist
from rcompiler.runtime.artifact import Artifact
from rcompiler.tuning import segments
from rcompiler.tuning.space import (
    MEMORY,
    SCHEDULE,
    Choices,
    Kernels,
    Segment,
    kernel_name,
    schedule_name,
)

TOP = 6  # tilings of a body that are tried
CANDIDATES = 3  # rKernels of an operator in the static plan, which its policy chooses from
WORST = 1.5  # what the cost model takes for slower than that many times the best is not tried
_STATIC = "rammer"  # the policy where none is named
_POLICIES = ("list", "bsp")  # instead of it: critical path first; barriers for events


@dataclass(frozen=True)
class _Body:
    """The rKernels that may run for one body, by the digest of the choice; the static plan's first.

    work: of all operators that have it, expected.
    """

    decisions: Mapping[str, list[Decision]]
    work: float

    @property
    def static(self) -> list[Decision]:
        return next(iter(self.decisions.values()))


@dataclass(frozen=True)
class Subject:
    """What is explored, and for whom.

    imported: the model. options: of the static plan; their cache folder has the index. base: the
    target, which is this machine. device: whose figures decide. dimensions: see
    `space.DIMENSIONS`.
    """

    imported: ImportedModel
    options: CompileOptions
    base: Device
    device: Device
    dimensions: str


class Branch:
    """A model fused in one way: its rOperators, and what may be chosen for them.

    Not thread-safe, and for one thread: MLIR's contexts are.
    """

    def __init__(self, subject: Subject, first: Branch | None = None) -> None:
        """S1 -> S2.

        first: the static plan's way of fusing: what schedules and strategies of memory there are
        for it, there are here; one that cannot be compiled here is dropped when it is tried.

        Raises CompilerError as compile_onnx does.
        """
        self._options, self._dimensions = subject.options, subject.dimensions
        self._first, run = first, Compilation(subject.options, subject.base, None)
        self._run, run.device = run, subject.device
        self._module = run.optional.compiled(lambda: run.to_operators(subject.imported))
        self._bodies: dict[str, _Body] = {}
        self._body_of: dict[str, str] = {}  # rKernel of the static plan -> its body
        with self._module.context, ir.Location.unknown():
            self._enumerate()
        self._segments: dict[str, Segment] = {}  # by operator
        self._names: dict[str, str] = {}  # of the variables of bodies that are in a segment
        self.static = self.artifact({})
        self._pieces = segments.cut(self._expected())
        report = Report.from_json(self.static.stages[REPORT])
        bodies = {op.name: self._body_of[op.kernel] for op in report.operators}
        self._segments = segments.joined(self._pieces, bodies)
        self._operators: dict[str, list[str]] = {}  # by body
        for operator, segment in self._segments.items():
            self._names[bodies[operator]] = kernel_name(bodies[operator], segment)
            self._operators.setdefault(bodies[operator], []).append(operator)

    # -- the enumerator ----------------------------------------------------------------------------
    @cached_property
    def choices(self) -> Choices:
        """What may be chosen here. Every schedule and strategy of memory was compiled once, and
        proved; those that cannot be, or lead to the same schedule as another, are none."""
        kernels = [Kernels(body, (*own.decisions,), own.work) for body, own in self._bodies.items()]
        seen = list(dict.fromkeys(self._segments.values()))
        if self._first is not None:
            whole = self._first.choices
            return Choices(kernels, seen, whole.schedules, whole.memories)
        schedules = self._different(self.schedules(), SCHEDULE)
        return Choices(kernels, seen, schedules, self._different(self.memories(), MEMORY))

    def _enumerate(self) -> None:
        keys: dict[object, str] = {}
        for op in operators(self._module.operation):
            key = structure(op)
            if key not in keys:
                with body_of(op) as body:
                    keys[key] = digest(body.signature)
                    if keys[key] not in self._bodies:
                        self._bodies[keys[key]] = self._tilings(body)
            own = self._bodies[keys[key]]
            self._bodies[keys[key]] = replace(own, work=own.work + _expected(own.static[0]))

    def _tilings(self, body: Body) -> _Body:
        """The static plan's, the best others by the cost model, and the published search's."""
        device, eus = self._run.device, self._options.eus or None
        static = body.construct(device, self._options.roller_policy, eus)[:CANDIDATES]
        for decision in static:
            self._body_of[kernel_symbol(body.signature, decision)] = digest(body.signature)
        found = {_name(static): static}
        if "k" in self._dimensions and not body.stages:
            best, _ = shortlist(body.expression(), device, TOP, eus=eus)
            best += decisions(body.expression(), device, "osdi22", eus)[:1]
            least = min(map(_expected, [*best, static[0]]))
            for decision in best:
                if _expected(decision) <= WORST * least and decision != static[0]:
                    found.setdefault(_name([decision]), [decision])
        return _Body(found, 0.0)

    def schedules(self) -> list[str]:
        """Choices of `SCHEDULE`, the static plan's first; perhaps some cannot be compiled.

        A policy that was named is kept; so is the number of EUs, which plans may leave idle.
        """
        options = self._options
        eus, policy = options.eus or self._run.device.eus, str(options.policy)
        wanted = [schedule_name(policy, eus)]
        if "s" in self._dimensions:
            others = _POLICIES if eus > 1 and options.policy == _STATIC else ()
            wanted += [schedule_name(other, eus) for other in others]
            fewer = [count for count in (eus // 2, 1) if 0 < count < eus]
            wanted += [schedule_name(policy, count) for count in dict.fromkeys(fewer)]
        return wanted

    def memories(self) -> list[str]:
        """The same of `MEMORY`."""
        others = ("auto", "reuse", "apart") if "m" in self._dimensions else ()
        return [*dict.fromkeys((self._options.memory, *others))]

    def _different(self, wanted: Sequence[str], variable: str) -> tuple[str, ...]:
        """Those that can be compiled, equal ones once."""
        found: dict[str, str] = {self._schedule(self.static): wanted[0]}
        for choice in wanted[1:]:
            try:
                made = self.artifact({variable: choice})
            except CompilerError:
                continue
            found.setdefault(self._schedule(made), choice)
        return (*found.values(),)

    @staticmethod
    def _schedule(artifact: Artifact) -> str:
        return artifact.provenance["schedule"]

    # -- from a plan to code -----------------------------------------------------------------------
    def artifact(self, plan: Plan) -> Artifact:
        """The model by a plan; what it does not say is as in the static plan.

        Raises CompilerError: it cannot be compiled so, or is not proved right.
        """
        chosen = {
            body: own.decisions[choice]
            for body, own in self._bodies.items()
            if (choice := plan.get(self._names.get(body, ""))) is not None
        }

        def decide(body: Body) -> list[Decision]:
            name = digest(body.signature)
            return chosen.get(name) or self._bodies[name].static

        return self._run.from_operators(self._module, decide, self._scheduler(plan))

    def described(self, plan: Plan) -> list[tuple[str, str]]:
        """What a plan chooses, to read: of kernels the operators and the tile, with its source."""
        bodies = {name: body for body, name in self._names.items()}
        rows = []
        for name, choice in sorted(plan.items()):
            if name not in bodies:
                rows.append((name, choice))
                continue
            first, *others = self._operators[bodies[name]]
            equal = f" (+{len(others)} equal)" if others else ""
            chosen = self._bodies[bodies[name]].decisions[choice][0]
            tile, form = (
                "x".join(map(str, sizes)) for sizes in (chosen.tile, chosen.register_tile)
            )
            rows.append(
                (f"{first}{equal}", f"tile {tile}, {form} in registers, by {chosen.source}")
            )
        return rows

    def scopes(self, columns: Mapping[str, Sequence[object]]) -> dict[str, float]:
        """ns of each segment, of the times of a launch (`Executable.times`)."""
        scope_of = {name: segment.scope for name, segment in self._segments.items()}
        return segments.scope_times(self._pieces, scope_of, segments.last_ends(columns))

    def _scheduler(self, plan: Plan) -> CompileOptions:
        options = self._options
        if SCHEDULE in plan:
            policy, _, eus = plan[SCHEDULE].partition(" on ")
            options = replace(options, policy=policy_of(policy), eus=int(eus))
        memory: Any = plan.get(MEMORY, options.memory)  # one of its own choices
        return replace(options, memory=memory)

    def _expected(self) -> Timeline:
        artifact = self.static
        programs, kernels = rebuild(artifact)
        report = Report.from_json(artifact.stages[REPORT])
        told = {op.kernel: op for op in report.operators}
        graph = derive_graph(programs, timed(kernels, told.values()))
        return expected(programs, graph, self._run.device)


def _name(decisions: Sequence[Decision]) -> str:
    """A digest of what they are, not of their place in a list."""
    return digest("\n".join(map(str, decisions)))


def _expected(decision: Decision) -> float:
    """ns of all rTasks, by the cost model."""
    return decision.tasks * decision.estimated_ns
