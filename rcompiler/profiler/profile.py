"""Profile one operator: build its candidate kernels, verify every one, measure the right ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from torch_mlir import ir

from rcompiler.codegen.cpu import ObjectCache, Target
from rcompiler.device.cgroups import usable_cpus
from rcompiler.device.model import Device
from rcompiler.errors import DeviceError, WrongKernel
from rcompiler.kernelgen.cpu import CpuFeatures
from rcompiler.kernelgen.stages import workspace_bytes
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.linalg.values import element_of, shape_of, yielded
from rcompiler.passes.roller_tile import Body
from rcompiler.passes.vdevice_to_cpu import cpu_features
from rcompiler.profiler.beside import Others
from rcompiler.profiler.code import KernelRunner, KernelSource, Loaded, write, write_tiled
from rcompiler.profiler.index import ProfileIndex, code_version, digest
from rcompiler.profiler.operands import Operands, OperandType, draw
from rcompiler.profiler.records import Measurement, utc_date
from rcompiler.profiler.timing import TimedWork, Timings, interleaved
from rcompiler.profiler.verify import check_bits, check_value, untiled, widened
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorExpr

_REFERENCE, _EXACT = "reference", "reference_f64"
_SEED = 2022
_OVERFLOW = 1.5  # times the largest private cache is what sets of operands fill
_MOST_COPIES = 255  # of tiny operands, which nobody waits for
_MOST_BYTES = 1 << 30  # of operands of other EUs; beyond it some of them share theirs

Timer = Callable[[Sequence[TimedWork]], Timings]


@dataclass(frozen=True)
class Candidate:
    """A decision; `tiling`: digest of all that code generation takes from it. `workspace`: bytes
    that each EU needs for it. Once measured, `ns`: of all tasks, one after the other on one EU;
    `beside_ns`: the same while the other EUs do so, too, if there are any. `error`: why it was
    rejected.
    """

    decision: Decision
    tiling: str
    workspace: int = 0
    ns: float | None = None
    beside_ns: float | None = None
    error: WrongKernel | None = None


@dataclass(frozen=True)
class Profile:
    """The candidates of one operator. times: those that were measured now, by the number of EUs."""

    candidates: tuple[Candidate, ...]
    times: Mapping[int, Timings] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[WrongKernel, ...]:
        return tuple(c.error for c in self.candidates if c.error is not None)


@dataclass(frozen=True)
class Profiler:
    """Builds, verifies and times kernels for `device`, with code for `target`.

    machine: `device.store.fingerprint`. eus: of the programs that the kernels are for. A kernel is
    timed alone, and with as many EUs at once, but no more than there are CPUs. cache, jobs: of
    compiling. timer: measures several runs; None where nothing may be measured, as it would be on
    another machine. writer: makes the code of a kernel.
    """

    device: Device
    target: Target
    machine: str
    index: ProfileIndex
    eus: int = 1
    cache: ObjectCache | None = None
    jobs: int | None = None
    timer: Timer | None = interleaved
    writer: Callable[[ir.Operation, CpuFeatures], KernelSource] = write_tiled

    def profile(self, body: Body, decisions: Sequence[Decision]) -> Profile:
        """The decisions with their times, out of the index if it has all of them.

        Decisions with equal code are one candidate. Raises WrongKernel if the untiled kernel is
        wrong, CompilerError where code cannot be generated, DeviceError for too little memory, or
        if the index lacks what may not be measured.
        """
        operator, version = digest(body.signature), code_version()
        candidates = self.candidates(body, decisions)
        tilings = {c.tiling for c in candidates}
        known = {
            eus: self.index.find(operator, self.machine, version, eus)
            for eus in sorted({1, self.eus})
        }
        missing = [eus for eus, found in known.items() if not tilings <= set(found)]
        profile = Profile(tuple(candidates))
        if missing and self.timer is None:
            raise DeviceError(
                f"profile index: no times of a {body.kind} on {missing[-1]} EUs by this version of "
                f"the compiler on the machine '{self.machine}'; run rc-tune there, and import its "
                "index"
            )
        if missing:
            profile = self.run(body, candidates, missing)
            self._record(operator, version, profile)
        return replace(
            profile, candidates=tuple(self._complete(c, known) for c in profile.candidates)
        )

    def _complete(
        self, candidate: Candidate, known: Mapping[int, Mapping[str, Measurement]]
    ) -> Candidate:
        """With the times of the index, by number of EUs and tiling, that were not measured now."""
        tiling, ns, beside_ns = candidate.tiling, candidate.ns, candidate.beside_ns
        if candidate.error is not None:
            return candidate
        if ns is None:
            ns = known[1][tiling].ns
        if beside_ns is None and self.eus > 1:
            beside_ns = known[self.eus][tiling].ns
        return replace(candidate, ns=ns, beside_ns=beside_ns)

    def _record(self, operator: str, version: str, profile: Profile) -> None:
        date = utc_date()
        self.index.record(
            Measurement(
                operator=operator,
                tiling=c.tiling,
                machine=self.machine,
                code=version,
                ns=ns,
                spread=round(times.spread, 6),
                rounds=times.rounds,
                date=date,
                eus=eus,
                tasks=int(c.decision.tasks),
                registers=int(c.decision.registers),
                on_chip_bytes=int(c.decision.on_chip_bytes),
                workspace=c.workspace,
            )
            for eus, times in profile.times.items()
            for c in profile.candidates
            if (ns := c.ns if eus == 1 else c.beside_ns) is not None
        )

    def candidates(self, body: Body, decisions: Sequence[Decision]) -> list[Candidate]:
        """The decisions without those that lead to the same code as one before."""
        found: dict[str, Candidate] = {}
        for decision in decisions:
            kernel = body.build_kernel("candidate", decision).operation
            tiling = Tiling.of(kernel)
            name, workspace = digest(repr(tiling)), workspace_bytes(kernel, tiling.tile)
            kernel.erase()
            found.setdefault(name, Candidate(decision, name, workspace))
        return list(found.values())

    def run(
        self, body: Body, candidates: Sequence[Candidate], eus: Sequence[int] = (1,)
    ) -> Profile:
        """Verify all candidates, and measure those that are right.

        eus: alone (1) and, for `self.eus`, beside others; () not at all. Raises as `profile`.
        """
        body = replace(body, guards=None)  # what takes time is what it computes
        expr = body.expression()
        names = [f"candidate_{k}" for k in range(len(candidates))]
        codes = [
            self._code(body, name, c.decision) for name, c in zip(names, candidates, strict=True)
        ]
        references = self._references(body, expr)
        context = body.prototype.context
        loaded = Loaded(
            [*codes, *references], context, self.target, cache=self.cache, jobs=self.jobs
        )
        operands, expected = _expected(body, expr, loaded, len(references) > 1)
        errors = {
            name: _check(loaded, name, c.decision, operands, expected, body.kind)
            for name, c in zip(names, candidates, strict=True)
        }
        right = [name for name in names if errors[name] is None]
        times = {n: self._times(loaded, operands, right, n) for n in eus if right}
        ns = {n: dict(zip(right, found.ns, strict=True)) for n, found in times.items()}
        alone, beside = ns.get(1, {}), ns.get(self.eus, {}) if self.eus > 1 else {}
        done = [
            replace(c, ns=alone.get(n), beside_ns=beside.get(n), error=errors[n])
            for n, c in zip(names, candidates, strict=True)
        ]
        return Profile(tuple(done), times)

    def _times(self, loaded: Loaded, operands: Operands, names: Sequence[str], eus: int) -> Timings:
        """Of kernels on one EU, while the others of `eus` EUs run them, too."""
        assert self.timer is not None
        sets = self._sets(operands)
        unit = KernelRunner(loaded, sets)
        others = min(eus, usable_cpus()) - 1
        if others == 0:
            return self.timer([TimedWork(partial(unit.run, name)) for name in names])
        several = 1 + min(others - 1, _MOST_BYTES // max(1, len(sets) * operands.size))
        theirs = [self._sets(operands) for _ in range(several)]
        busy = Others(loaded, [theirs[k % several] for k in range(others)])
        with busy.here():
            return self.timer(
                [TimedWork(partial(unit.run, name), partial(busy.running, name)) for name in names]
            )

    def _sets(self, operands: Operands) -> list[Operands]:
        """As many copies as drive each other out of the caches of one EU: what an operator reads
        was written by another one, so the cost model takes it from the last cache.
        """
        wanted = math.ceil(_OVERFLOW * self.device.private_bytes / max(operands.size, 1))
        return operands.copies(1 + min(wanted, _MOST_COPIES))

    def _code(self, body: Body, name: str, decision: Decision) -> KernelSource:
        kernel = body.build_kernel(name, decision).operation
        try:
            return self.writer(kernel, cpu_features(self.device))
        finally:
            kernel.erase()

    def _references(self, body: Body, expr: TensorExpr) -> list[KernelSource]:
        """The untiled kernel, and the same in f64 if there is one: of the body of the whole
        operator, so that what tiling does to a candidate is compared with what was never tiled.
        """
        features = cpu_features(self.device)
        stages = body.stage_expressions()[0] if body.stages else []
        decision = replace(untiled(expr), stages=tuple(untiled(s.expr) for s in stages))
        kernel = body.build_kernel(_REFERENCE, decision).operation
        try:
            codes = [write(kernel, features)]
            wide = widened(kernel)
        finally:
            kernel.erase()
        if wide is not None:
            module = ir.Module.parse(wide, body.prototype.context)
            [view] = module.body.operations
            view.operation.attributes["sym_name"] = ir.StringAttr.get(_EXACT)
            codes.append(write(view.operation, features))
        return codes


def _expected(
    body: Body, expr: TensorExpr, loaded: Loaded, exactly: bool
) -> tuple[Operands, list[np.ndarray]]:
    """Operands to run on, and the results: of inputs that give numbers, if there are such.

    exactly: there is a kernel in f64 to check them with.
    """
    block = body.prototype.body.blocks[0]
    inputs = [_tensor(v) for v in block.arguments]
    results = [_tensor(v) for v in yielded(block)]
    for positive in (False, True):
        arrays = draw(inputs, _SEED, positive=positive)
        operands = Operands(arrays, results)
        operands.clear()
        KernelRunner(loaded, [operands]).run(_REFERENCE)
        outputs = [o.copy() for o in operands.outputs()]
        if not any(o.dtype.kind not in "biu" and np.isnan(o).any() for o in outputs):
            break
    if exactly:
        wide = Operands(
            [a.astype(_wide(t).dtype) for a, t in zip(arrays, inputs, strict=True)],
            [_wide(t) for t in results],
        )
        wide.clear()
        KernelRunner(loaded, [wide]).run(_EXACT)
        check_value(outputs, wide.outputs(), expr, f"{body.kind} kernel, untiled")
    return operands, outputs


def _check(
    loaded: Loaded,
    name: str,
    decision: Decision,
    operands: Operands,
    expected: list[np.ndarray],
    kind: str,
) -> WrongKernel | None:
    """Run one candidate; what is wrong with it."""
    operands.clear()
    KernelRunner(loaded, [operands]).run(name)
    tile, registers = ("x".join(map(str, s)) for s in (decision.tile, decision.register_tile))
    called = f"{kind} kernel of tile {tile}, {registers} in registers"
    try:
        number = operands.overrun()
        if number is not None:
            raise WrongKernel(f"{called}: it writes beyond result {number}")
        check_bits(operands.outputs(), expected, called)
    except WrongKernel as error:
        return error
    return None


def _tensor(value: ir.Value) -> OperandType:
    return OperandType(shape_of(value), str(element_of(value)))


def _wide(tensor: OperandType) -> OperandType:
    return OperandType(tensor.shape, "f64") if tensor.element == "f32" else tensor
