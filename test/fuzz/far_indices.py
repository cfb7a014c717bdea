"""The same model with other integers in its inputs: a call is refused exactly where an index leads
out of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rcompiler.errors import RangeError

from . import evaluate
from .evaluate import Noise, Unjudged
from .graphs import Case

_FAR = 40  # what is added to an integer, at most
# Elements outside are dropped, and sequences end where their operand does.
_GOES_ON = frozenset({"MaxUnpool", "LSTM", "GRU", "RNN"})
_RUNS = 3  # with rounding errors


def wrongly_judged(case: Case, model: Any) -> str | None:
    """Why what the model does with such inputs is wrong; None if it is right, or none can say."""
    artifact = getattr(model, "artifact", None)
    if artifact is None or not (artifact.checks or artifact.ranges):
        return None
    feeds = _moved(case.feeds)
    expected = {_leads_out(case, feeds, noise) for noise in (None, *map(Noise, range(_RUNS)))}
    if len(expected) > 1 or None in expected:
        return None
    [expected_error] = expected
    try:
        model(**feeds)
    except RangeError as error:
        return None if expected_error else f"no index leads out, but: {error}"
    return "an index that leads out is accepted" if expected_error else None


def _moved(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A few of the elements of integers are others: as many graphs fail as do not."""
    numbers = np.random.default_rng(sum(array.size for array in feeds.values()))
    found = {}
    for name, array in feeds.items():
        if array.dtype in (np.int32, np.int64):
            there = numbers.random(array.shape) < 0.2
            far = numbers.integers(-_FAR, _FAR, array.shape, endpoint=True)
            array = np.where(there, array + far, array).astype(array.dtype)
        found[name] = array
    return found


def _leads_out(case: Case, feeds: Mapping[str, np.ndarray], noise: Noise | None) -> bool | None:
    """None where the reference fails for another reason, or at an operator that goes on."""
    try:
        evaluate.evaluate(case.model, feeds, noise)
    except Unjudged as error:
        outside = isinstance(error.__cause__, IndexError) and error.op not in _GOES_ON
        return True if outside else None
    return False
