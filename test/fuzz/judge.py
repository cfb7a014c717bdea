"""What became of a case.

A result is wrong where it is further from the f64 evaluation than rounding in the model's types
moves that one, and both other implementations, where they can run the model, are not: where they
disagree with each other as well, the standard does not say what is right ("disputed").
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import rcompiler
from rcompiler.emulator.faults import EmulationFault
from rcompiler.errors import CompilerError, OptionalPassWarning, UnsupportedOp
from rcompiler.frontend import dtypes
from rcompiler.frontend.value import SizeAtRunTime

from . import evaluate, far_indices, references
from .evaluate import EPSILON, Noise, Unjudged
from .graphs import Case

# Good ends, and ends that say nothing of the compiler; every other is a finding.
GOOD = ("ok", "undecided", "disputed", "no graph", "reference crash")
RUNS, MORE_RUNS = 5, 20  # with rounding errors
SAFETY = 6.0
_MATRIX_UNITS = {"tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8}
_WINOGRAD = {"auto": 64.0, "winograd2": 8.0, "winograd4": 64.0}
_PRODUCT = Path(rcompiler.__file__).parent
Report = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """status: ok, wrong, internal (an error that is none of ours), untyped (one of ours that names
    a defect), refused (a valid graph), skipped (an optional pass was left out), crash, hang,
    harness (a defect of the fuzzer itself), or one of GOOD. What tells two findings apart is in
    `key`. target: what a graph was compiled for. tried: how many mutants of it were, itself
    included where it is what is judged."""

    status: str
    reason: str = ""
    key: str = ""
    target: str = ""
    tried: int = 1

    @property
    def good(self) -> bool:
        return self.status in GOOD


Compile = Callable[..., Any]


def judge(
    case: Case, report: Report = lambda stage: None, compile: Compile = rcompiler.compile_onnx
) -> Outcome:
    """Compile, run and compare. report: told which part begins, for who sees only the crash."""
    return replace(_judge(case, report, compile), target=case.options.get("target", "cpu"))


def _judge(case: Case, report: Report, compile: Compile) -> Outcome:
    report("compile")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = compile(case.model, **case.options)
            report("run")
            results = model(**case.feeds) if case.feeds else model()
    except EmulationFault as error:  # of a program that may compute anything on a GPU
        return Outcome("wrong", f"EmulationFault: {error}", key_of(error))
    except UnsupportedOp as error:
        gap = error.gap
        if gap and gap.reason.startswith(SizeAtRunTime.reason):
            # what is counted at run time fits the other operand by chance
            return Outcome("no graph", str(error))
        return Outcome("refused", str(error), f"{gap.op}: {gap.reason}" if gap else str(error)[:80])
    except CompilerError as error:
        status = "untyped" if "defect" in str(error) else "refused"
        return Outcome(status, f"{type(error).__name__}: {error}", key_of(error))
    except MemoryError as error:
        return Outcome("internal", f"MemoryError: {error}", "MemoryError")
    except Exception as error:  # whatever a defect of the compiler raises
        return Outcome("internal", "".join(traceback.format_exception(error)[-6:]), key_of(error))
    left_out = [str(w.message) for w in caught if _names_a_pass(w)]
    if left_out:
        return Outcome("skipped", left_out[0], left_out[0][:60])
    report("judge")
    names = [v.name for v in case.model.graph.output]
    found = compared(case, dict(zip(names, map(np.asarray, results), strict=True)), report)
    report("run")
    if found.status == "ok" and (why := far_indices.wrongly_judged(case, model)):
        return Outcome("wrong", why, why.partition(":")[0])
    return found


def raised(error: Exception) -> Outcome:
    """What became of a case whose judging raised an error: "harness" where no function of the
    compiler had a part in it."""
    reason = "".join(traceback.format_exception(error)[-6:])
    if _ours(error):
        return Outcome("internal", reason, key_of(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.name}"
    return Outcome("harness", reason, f"{type(error).__name__} at {where}")


def key_of(error: BaseException) -> str:
    """What tells an error from others: its kind, and where of ours it was raised."""
    frames = _ours(error)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{where}"


def _ours(error: BaseException) -> list[traceback.FrameSummary]:
    """The functions of the compiler that it was raised in, in whatever folder that is."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if Path(frame.filename).is_relative_to(_PRODUCT)]


def _names_a_pass(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, OptionalPassWarning)


def _noisy(case: Case, exact: dict[str, Any], seed: int, times: float = 1.0) -> dict[str, Any]:
    """A run with rounding errors, as the options let products round. exact: without any."""
    unit = _MATRIX_UNITS.get(case.options.get("precision", "f32"), EPSILON["float32"])
    convolutions = _WINOGRAD.get(case.options.get("roots", "auto"), 1.0)
    return evaluate.evaluate(case.model, case.feeds, Noise(seed, times, unit, convolutions), exact)


def compared(case: Case, ours: Mapping[str, np.ndarray], report: Report) -> Outcome:
    """The judgement of results by name."""
    kinds, drawn = evaluate.value_types(case.model), evaluate.drawn(case.model)

    def apart_from(others: list[dict[str, Any]]) -> dict[str, str]:
        found = {}
        for name, result in ours.items():
            moved = [other[name] for other in others]
            if why := _difference(result, right[name], moved, kinds[name], name in drawn):
                found[name] = why
        return found

    try:
        right = evaluate.evaluate(case.model, case.feeds)
        # What is right beside fewer runs is so beside more: they only widen what may be.
        others: list[dict[str, Any]] = []
        for seed in range(RUNS + 1):
            wrong = apart_from(others)
            if not wrong:
                return Outcome("ok")
            if seed < RUNS:
                others.append(_noisy(case, right, seed))
        # Look harder before it is called wrong. Steps and jumps are hit more rarely than that; and
        # of ten thousand elements there is one which five times moves by less than a sixth of what
        # rounding may move it.
        discrete = any(not dtypes.is_float(k) for k in kinds.values())
        times = SAFETY if discrete else 1.0
        others += [_noisy(case, right, seed, times) for seed in range(RUNS, RUNS + MORE_RUNS)]
        wrong = apart_from(others)
        if not wrong:
            return Outcome("ok")
    except Unjudged as error:
        return Outcome("undecided", str(error))
    report("onnxruntime")
    ort = references.by_onnxruntime(case.model, case.feeds)
    report("judge")
    name, why = next(iter(wrong.items()))
    if ort is None:
        return Outcome("wrong", f"{name}: {why}; onnxruntime cannot run it", _maker(case, name))
    apart = [
        n for n in wrong
        if _difference(ort[n], right[n], [o[n] for o in others], kinds[n], n in drawn)
    ]  # fmt: skip
    if len(apart) == len(wrong):
        typed = references.by_onnx(case.model, case.feeds)
        agree = typed is not None and all(_same(ours[n], typed[n]) for n in wrong)
        nearer = all(_distance(ours[n], right[n]) <= 2 * _distance(ort[n], right[n]) for n in wrong)
        if nearer or agree:
            return Outcome("disputed", f"{name}: {why}; onnxruntime is as far", _maker(case, name))
    name = next((n for n in wrong if n not in apart), name)
    return Outcome("wrong", f"{name}: {wrong[name]}", _maker(case, name))


def _maker(case: Case, name: str) -> str:
    return next((n.op_type for n in case.model.graph.node if name in n.output), "input")


def _difference(
    ours: np.ndarray, right: Any, moved: list[Any], kind: str, drawn: bool
) -> str | None:
    """What is wrong with a result; None if nothing is."""
    want = np.asarray(right)
    if ours.shape != want.shape:
        return f"shape {list(ours.shape)}, expected {list(want.shape)}"
    if ours.dtype.name != kind:
        return f"type {ours.dtype.name}, expected {kind}"
    if drawn or not ours.size:
        return None
    if any(np.shape(m) != want.shape for m in moved):
        return None  # a matter of rounding
    if not dtypes.is_float(kind):
        decided = np.ones(want.shape, bool)
        for other in moved:
            decided &= _equal(np.asarray(other), want)
        return _first(ours, want, decided & _fits(want, ours.dtype) & ~_equal(ours, want))
    got = ours.astype(np.float64)
    # Where rounding leaves the domain of a function, as below 0 a root's, nothing can be said.
    decided = np.ones(want.shape, bool)
    spread = np.zeros(want.shape)
    with np.errstate(invalid="ignore"):
        for other in map(np.asarray, moved):
            decided &= np.isnan(other) == np.isnan(want)
            spread = np.maximum(spread, abs(other - want))
        limit = SAFETY * spread + 2 * EPSILON[kind] * abs(want) + _smallest(kind)
        bad = decided & ~(abs(got - want) <= limit) & ~_equal(got, want)
    return _first(ours, want, bad, limit)


def _fits(want: np.ndarray, dtype: np.dtype) -> np.ndarray | bool:
    """Whether integers are some of the type: sums, which the reference has in 64 bits, may be
    beyond it, and the standard does not say what they are then.
    """
    if dtype.kind not in "iu" or want.dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    return (want >= limits.min) & (want <= limits.max)


def _smallest(kind: str) -> float:
    """Below it numbers may be flushed to zero."""
    return {"float16": 2.0**-24, "float64": 2.0**-1021}.get(kind, 2.0**-125)


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "V" or a.dtype.name in dtypes.SMALL_FLOATS or a.dtype.kind in "fV":
        a, b = a.astype(np.float64), b.astype(np.float64)
        return (a == b) | (np.isnan(a) & np.isnan(b))
    return a == b


def _first(
    ours: np.ndarray, want: np.ndarray, bad: np.ndarray, limit: np.ndarray | None = None
) -> str | None:
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    allowed = "" if limit is None else f", allowed {limit[where]:.3g}"
    return (
        f"{int(bad.sum())} of {bad.size} elements, at {list(where)} {ours[where]} instead of "
        f"{want[where]}{allowed}"
    )


def _distance(a: np.ndarray, right: np.ndarray) -> float:
    if a.shape != right.shape:
        return float("inf")
    with np.errstate(invalid="ignore", over="ignore"):
        error = abs(a.astype(np.float64) - right.astype(np.float64))
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    unit = EPSILON.get(a.dtype.name, 0.0)
    return bool(np.allclose(a.astype(np.float64), b.astype(np.float64), 64 * unit, 64 * unit,
                            equal_nan=True))  # fmt: skip
