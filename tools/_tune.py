"""The work of rc-tune MODEL: its operators and its schedule, measured into the profile index."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from torch_mlir import ir

import rcompiler
from rcompiler.codegen.cpu import Target
from rcompiler.compile import operators_of
from rcompiler.device.model import Device
from rcompiler.device.store import fingerprint
from rcompiler.driver.host import given_device, measured_device, target_device
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.ir.structure import structure
from rcompiler.passes.roller_tile import body_of, distinct_bodies
from rcompiler.profiler.index import ProfileIndex, code_version, digest
from rcompiler.profiler.profile import Profile
from rcompiler.profiler.records import ProgramTime, utc_date
from rcompiler.profiler.storage import NAME
from rcompiler.profiler.tuner import kernel_tuner
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._console import number, table
from rcompiler.tools._measure import interleaved, percentiles
from rcompiler.tools._progress import Progress

_ROUNDS = 5  # that the launches of a program are spread over


@dataclass(frozen=True)
class Tuning:
    """A model (onnx.ModelProto) on this machine, `eus` EUs of it or all, with the index in
    `folder`. shapes: as for compile_onnx.
    """

    model: Any
    shapes: Mapping[str, Any]
    eus: int | None
    folder: Path
    base: Device
    device: Device

    @staticmethod
    def here(model: Any, shapes: Mapping[str, Any], eus: int | None, folder: Path) -> Tuning:
        """By the figures that compile_onnx would go by."""
        base = target_device("cpu")
        device = given_device("cpu", base, None) or measured_device(base, folder)
        return Tuning(model, shapes, eus, folder, base, device)

    def kernels(self, told: Progress) -> None:
        """Profile all operators, and print a table."""
        rows = []
        with (
            operators_of(self.model, self.device, shapes=self.shapes) as module,
            kernel_tuner(
                self.device, self.base, Target.named("host"), self.folder, eus=self.eus
            ) as tuner,
        ):
            names = _names(module.operation)
            for place, body in enumerate(distinct_bodies(module.operation), 1):
                start = perf_counter()
                name = _shown(names[body.signature])
                told(f"operator {place} of {len(names)}: {name}, {body.kind}")
                tuner.decide(body)
                if body.signature in tuner.profiles:
                    profile, spent = tuner.profiles[body.signature], perf_counter() - start
                    rows.append((name, body.kind, *_figures(profile), f"{spent:.2f}"))
        if rows:
            figures = ("tilings", "model us", "best us", "beside us", "ratio", "tile", "rounds")
            table(("operator", "kind", *figures, "s"), rows)
            spans = [float(row[-1]) for row in rows]
            each = f"median {median(spans):.2f}, most {max(spans):.2f}"
            print(f"{len(rows)} operators, seconds each: {each}")

    def program(self, seconds: float, told: Progress) -> None:
        """Compile with these kernels, launch it for so long, and print its times: expected,
        recorded before, and measured now. The index keeps the shortest.
        """
        model = rcompiler.compile_onnx(
            self.model,
            device=self.device,
            shapes=self.shapes,
            eus=self.eus,
            tune="kernels",
            cache=self.folder,
            progress=lambda step, _: told(f"the program: {step}"),
        )
        told(f"the program: launched for {seconds:g} s")
        index = ProfileIndex(self.folder / NAME)
        try:
            schedule, machine = digest(model.stage("vdevice")), fingerprint(self.base)
            before = index.program(schedule, machine, code_version(), model.eus)
            found = percentiles_of(model, seconds)
            now = ProgramTime(
                schedule=schedule,
                machine=machine,
                code=code_version(),
                eus=model.eus,
                ns=found["p5"] * 1e6,
                median_ns=found["p50"] * 1e6,
                launches=int(found["calls"]),
                date=utc_date(),
            )
            if before is None or now.ns < before.ns:  # the same code: slower if others disturbed it
                index.record([now])
        finally:
            index.close()
            model.close()
        recorded = before.ns / 1e3 if before else None
        expected = f"{model.report().makespan_ns / 1e3:.1f}"
        measured = f"{now.ns / 1e3:.1f}", f"{now.median_ns / 1e3:.1f}", now.launches
        table(
            (
                "schedule",
                "EUs",
                "expected us",
                "recorded us",
                "measured us",
                "median us",
                "launches",
            ),
            [[schedule[:12], now.eus, expected, number(recorded, ".1f"), *measured]],
        )


def _names(module: ir.Operation) -> dict[str, list[str]]:
    """The rOperators by what they compute, in their order; equal ones share measurements."""
    found: dict[str, list[str]] = {}
    signatures: dict[Hashable, str] = {}
    for op in operators(module):
        key = structure(op)
        if key not in signatures:
            with body_of(op) as body:
                signatures[key] = body.signature
        name = ir.StringAttr(op.attributes["sym_name"]).value
        found.setdefault(signatures[key], []).append(name)
    return found


def _shown(names: Sequence[str]) -> str:
    """The first of several equal rOperators stands for them."""
    return names[0] if len(names) == 1 else f"{names[0]} (+{len(names) - 1} equal)"


def percentiles_of(model: Any, seconds: float) -> dict[str, float]:
    """Of launches of a model in a row on random inputs, see `_measure.percentiles`.

    One EU is timed by the clock of its thread, which others disturb least.
    """
    engines = {"program": model.bind(random_inputs(model.inputs))}
    clock = "cpu" if model.eus == 1 else "wall"
    times = interleaved(engines, _ROUNDS, seconds / _ROUNDS, clock)
    return percentiles(times["program"])


def _figures(profile: Profile) -> tuple[str, ...]:
    """How many tilings, the time of the model's choice, that of the fastest, alone and beside
    others, and its tile, rounds.
    """
    right = [(c.beside_ns or c.ns, c.ns, c) for c in profile.candidates if c.ns is not None]
    first = profile.candidates[0].ns
    _, alone, best = min(right, key=lambda found: found[0])
    return (
        str(len(right)),
        "wrong" if first is None else f"{first / 1e3:.1f}",
        f"{alone / 1e3:.1f}",
        number(best.beside_ns and best.beside_ns / 1e3, ".1f"),
        number(best.beside_ns and best.beside_ns / alone, ".2f"),
        "x".join(map(str, best.decision.tile)),
        "+".join(str(times.rounds) for times in profile.times.values()) or "index",
    )
