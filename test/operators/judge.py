"""Whether a result is right, and who says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
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


def judged(case: Case, report: Report = lambda stage: None, engine: bool = True) -> Judgement:
    """onnxruntime first, where `engine` says so; onnx.reference where it cannot run the model, or
    says otherwise; then an evaluation in f64 that knows what rounding moves. Errors that are not
    ours are raised. report: told when onnxruntime runs, which may end the process.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = rcompiler.compile_onnx(case.model, eus=1)
            found = model(**case.feeds) if case.feeds else model()
    except CompilerError as error:
        return Judgement("refused", error.gap.reason if error.gap else str(error)[:120])
    names = [v.name for v in case.model.graph.output]
    ours = dict(zip(names, map(np.asarray, found), strict=True))
    report("onnxruntime")
    theirs = references.by_onnxruntime(case.model, case.feeds) if engine else None
    report("judge")
    if theirs is not None and _close(ours, theirs):
        return Judgement("right", "onnxruntime")
    typed = references.by_onnx(case.model, case.feeds)
    if typed is not None and _close(ours, typed):
        return Judgement("right", "onnx.reference")
    try:
        exact = noise.compared(case, ours, lambda stage: None)
    except Exception:  # of a form that the evaluation does not know
        if theirs is None and typed is None:
            return Judgement("unjudged", "")
        return Judgement("wrong", "onnxruntime" if theirs is not None else "onnx.reference")
    if exact.status in ("ok", "disputed"):
        return Judgement("right", "float64")
    if exact.status == "wrong":
        return Judgement("wrong", exact.reason)
    return Judgement("unjudged", "")


def _close(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> bool:
    return all(_near(ours[name], theirs[name]) for name in ours)


def _near(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    share = _SHARE.get(dtypes.name_of(ours))
    if share is None:
        return bool((ours == theirs).all()) if ours.dtype.kind != "V" else False
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(b)
    limit = share * np.abs(b[finite]).max(initial=0.0)
    return bool(np.isclose(a, b, share, limit, equal_nan=True).all())
