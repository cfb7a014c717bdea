"""Whether a result is right, and who says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from fuzz import judge as noise
from fuzz import references
from fuzz.graphs import Case

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import dtypes

Report = Callable[[str], None]
# Of the largest result: what several roundings in the type make.
_SHARE = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


@dataclass(frozen=True)
class Judgement:
    """status: right, refused, wrong, unjudged. by: who says that it is right, or the reason."""

    status: str
    by: str


@dataclass(frozen=True)
class Trial:
    """newest: the graph that the case is an older form of. known: the results that a test in
    test/frontend wants. apart: how far integers may be from those of others.
    """

    case: Case
    newest: Case | None = None
    known: Sequence[np.ndarray] | None = None
    apart: int = 0


def judged(trial: Trial, report: Report = lambda stage: None, engine: bool = True) -> Judgement:
    """What a test knows first; then onnxruntime, where `engine` says so; onnx.reference where it
    cannot run the model, or says otherwise; then an evaluation in f64 that knows what rounding
    moves; then onnxruntime and the evaluation for the same in the newest form. Errors that are not
    ours are raised. report: told when onnxruntime runs, which may end the process.
    """
    case = trial.case
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = rcompiler.compile_onnx(case.model, eus=1)
            results = model(**case.feeds) if case.feeds else model()
    except CompilerError as error:
        return Judgement("refused", error.gap.reason if error.gap else str(error)[:120])
    names = [v.name for v in case.model.graph.output]
    ours = dict(zip(names, map(np.asarray, results), strict=True))

    def agrees(theirs: Mapping[str, np.ndarray] | None) -> bool:
        return theirs is not None and _close(ours, theirs, trial.apart)

    if trial.known is not None and agrees(dict(zip(names, trial.known, strict=False))):
        return Judgement("right", "test")
    report("onnxruntime")
    theirs = references.by_onnxruntime(case.model, case.feeds) if engine else None
    report("judge")
    if agrees(theirs):
        return Judgement("right", "onnxruntime")
    typed = references.by_onnx(case.model, case.feeds)
    if agrees(typed):
        return Judgement("right", "onnx.reference")
    found = _by_evaluation(case, ours)
    if found.status == "unjudged" and (theirs is not None or typed is not None):
        found = Judgement("wrong", "onnx.reference" if theirs is None else "onnxruntime")
    if found.status != "right" and trial.newest is not None and engine:
        report("onnxruntime")
        same = references.by_onnxruntime(trial.newest.model, trial.newest.feeds)
        report("judge")
        if agrees(same) or _by_evaluation(trial.newest, ours).status == "right":
            return Judgement("right", "newest form")
    return found


def _by_evaluation(case: Case, ours: Mapping[str, np.ndarray]) -> Judgement:
    """Of the evaluation in f64: unjudged of a form that it does not know."""
    try:
        exact = noise.compared(case, dict(ours), lambda stage: None)
    except Exception:  # it raises whatever an operator's definition trips over
        return Judgement("unjudged", "")
    if exact.status in ("ok", "disputed"):
        return Judgement("right", "float64")
    if exact.status == "wrong":
        return Judgement("wrong", exact.reason)
    return Judgement("unjudged", "")


def _close(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray], apart: int) -> bool:
    return all(_near(ours[name], theirs[name], apart) for name in theirs)


def _near(ours: np.ndarray, theirs: np.ndarray, apart: int) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    share = _SHARE.get(dtypes.name_of(ours))
    if share is None:
        if ours.dtype.kind == "V":  # narrow types of ml_dtypes: each has its number in f32
            ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
            return bool(np.array_equal(ours, theirs, equal_nan=True))
        if apart:
            ours, theirs = ours.astype(np.int64), theirs.astype(np.int64)
            return bool((abs(ours - theirs) <= apart).all())
        return bool((ours == theirs).all())
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(b)
    limit = share * np.abs(b[finite]).max(initial=0.0)
    return bool(np.isclose(a, b, share, limit, equal_nan=True).all())
