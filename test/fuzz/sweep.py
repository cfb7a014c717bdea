"""Every operator with every type that its inputs may have: a graph of the operator alone.

What chance reaches late, as types are drawn like those of models, is here reached in each run: for
each level of features that this CPU has, and once for the emulated GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from rcompiler.device.cpu import best_level, host_features
from rcompiler.device.host_flags import LEVELS
from rcompiler.frontend import contrib

from . import catalog, judge
from .catalog import Key
from .graphs import Case, add
from .judge import Outcome, Report
from .maker import Maker, Reject

_NAMES = list(LEVELS)  # the highest first
TARGETS = (
    *(f"cpu:{level}" for level in _NAMES[_NAMES.index(best_level(host_features())) :]),
    "cuda:emulated",
)
_TRIES = 60  # of seeds, until an input at run time has the type


@cache
def pairs() -> tuple[tuple[Key, str], ...]:
    """Operators with each type that the standard allows for one of their inputs. Not those of
    onnxruntime's domain, which stand for others of these."""
    return tuple(
        (key, dtype)
        for key, made in catalog.generators().items()
        if key[1] != contrib.DOMAIN
        for dtype in catalog.input_types(*key, _opset(made.opsets))
    )


def case_of(key: Key, dtype: str, target: str) -> Case:
    """The operator with a run-time input of the type. Raises Reject where its generator, which
    says what it is defined for, never makes one."""
    for seed in range(_TRIES):
        maker = Maker(seed, _opset(catalog.generators()[key].opsets), liked=dtype)
        if not add(maker, key):
            continue
        model = maker.model()
        if any(maker.values[v.name].dtype == dtype for v in model.graph.input):
            return Case(model, maker.inputs, {"target": target}, key[0])
    raise Reject


def size() -> int:
    """How many cases there are."""
    return len(pairs()) * len(TARGETS)


def turn(seed: int) -> list[int]:
    """The numbers of the cases of one turn: each operator with each type, for one target. Seeds
    that follow one another take the targets in turn, so that as many of them as there are targets
    have had every case."""
    each = len(TARGETS)
    return [pair * each + (pair + seed) % each for pair in range(len(pairs()))]


def sweep(number: int, targets: Sequence[str], report: Report) -> Outcome:
    """The case of that number: pairs in their order, each for all targets that begin with one of
    `targets`. Numbers beyond the last begin anew, as seeds of other kinds know no end."""
    report("generate")
    number %= size()
    (key, dtype), target = pairs()[number // len(TARGETS)], TARGETS[number % len(TARGETS)]
    if not target.startswith(tuple(targets)):
        return Outcome("no graph")
    try:
        case = case_of(key, dtype, target)
    except Reject:
        return Outcome("no graph")
    return judge.judge(case, report)


def _opset(known: range) -> int:
    """The version of most models, where the operator's form is one of it."""
    return 22 if 22 in known else max(known)
