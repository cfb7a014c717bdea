"""The work of rc-tune MODEL --budget=S: plans of the whole model, explored on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rcompiler.codegen import emit
from rcompiler.driver.host import given_device, measured_device, target_device
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.frontend import import_onnx
from rcompiler.options import CompileOptions, checked_eus
from rcompiler.runtime.program import MAX_EUS
from rcompiler.tools._console import table
from rcompiler.tools._progress import progress
from rcompiler.tuning import space
from rcompiler.tuning.branch import Subject
from rcompiler.tuning.warmup import Tuning


def explore(
    model: Any,
    shapes: Mapping[str, Any],
    eus: int | None,
    folder: Path,
    budget_s: float,
    dimensions: str,
    *,
    tree: bool = False,
) -> None:
    """Explore the plans of a model (onnx.ModelProto) for so many seconds, and print what was found.

    shapes, eus: as for compile_onnx. folder: of the profile index. dimensions: see
    `space.DIMENSIONS`. tree: print the choices, too.
    """
    base = target_device("cpu")
    device = given_device("cpu", base, None) or measured_device(base, folder)
    options = CompileOptions("cpu", eus=checked_eus(eus, MAX_EUS), cache=folder, tune="warmup")
    emit.prepare()
    with progress("rc-tune") as told:
        imported = ImportedModel.of(import_onnx(model, shapes), options, base)
        subject = Subject(imported, options, base, device, dimensions)
        tuning = Tuning(subject, told=told)
    try:
        if tree and tuning.tree is not None:
            print(space.text(tuning.tree))
        _announce(tuning, budget_s)
        with progress("rc-tune") as told:
            tuning.told = told
            found = tuning.run(budget_s)
    finally:
        tuning.close()
    rows = tuning.described(found.plan)
    if rows:
        table(("what", "choice"), rows)
    took = f"{found.trials} trials, {found.seconds:.1f} s"
    if not found.done:
        print(f"{took}: the budget is spent; the same command goes on from here")
    elif rows:
        print(f"{took}: {1 / found.ratio:.3f} times as fast as the static plan in the final duel")
    else:
        print(f"{took}: no plan is faster than the static one by more than 1 %, which stays")
    print("compile with it: compile_onnx(..., tune='warmup'), rc-compile --tune=warmup")


def _announce(tuning: Tuning, budget_s: float) -> None:
    """What comes, before it begins."""
    estimate = tuning.estimate
    if not estimate.trials:
        print(f"static plan: {tuning.static_ms:.3f} ms; nothing is left to try")
        return
    short = "" if estimate.seconds <= budget_s else f", more than the budget of {budget_s:g} s"
    print(
        f"static plan: {tuning.static_ms:.3f} ms; estimate: at most {estimate.trials} trials, "
        f"{estimate.seconds:.0f} s on a quiet machine{short}",
        flush=True,
    )
