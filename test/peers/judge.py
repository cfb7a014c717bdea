"""What became of a case: a session's results beside those that its project expects."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from measurements._case_pool import Verdict

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import dtypes

from .archive import Case

# (relative, absolute): those of the projects' own tests; what is no float is equal.
_TOLERANCES = {"float16": (1e-2, 1e-2), "bfloat16": (2e-2, 2e-2)}
_TOLERANCE = (1e-3, 1e-4)


def judged(case: Case) -> Verdict:
    """Compiled and run: "pass", "wrong" or "refused" with the reason. What is no CompilerError is
    raised.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rcompiler.InferenceSession(case.model, cache=False) as session:
                found = session.run(None, case.feeds())
    except CompilerError as error:
        return Verdict("refused", error.gap.reason if error.gap else str(error))
    why = difference(found, case.expected())
    return Verdict("wrong", why) if why else Verdict("pass")


def difference(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """What differs first, "" where nothing does: values, or lists of them. None and "" are expected
    of what a project does not look at.
    """
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
        if isinstance(theirs, list | tuple):
            if len(ours) != len(theirs):
                return f"result {number} has {len(ours)} parts, {len(theirs)} are expected"
            why = difference(ours, theirs)
        else:
            why = "" if theirs is None else _of_arrays(np.asarray(ours), np.asarray(theirs))
        if why:
            return f"result {number}: {why}"
    return ""


def _of_arrays(ours: np.ndarray, theirs: np.ndarray) -> str:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        kinds = (f"{a.dtype.name}{list(a.shape)}" for a in (ours, theirs))
        return "{}, expected {}".format(*kinds)
    if ours.dtype.kind in "biuOUS":
        apart = ours != theirs
    else:
        name = dtypes.name_of(ours)
        relative, absolute = _TOLERANCES.get(name, _TOLERANCE)
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        apart = ~np.isclose(a, b, relative, absolute, equal_nan=True)
    if not apart.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(apart)[0])
    count = f"{int(apart.sum())} of {apart.size} elements"
    return f"{count}, at {list(at)} {ours[at]} instead of {theirs[at]}"
