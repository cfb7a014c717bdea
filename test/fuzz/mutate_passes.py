"""The same graph compiled without some of the optional passes, and with others in another order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from torch_mlir import ir

from rcompiler.driver import compilation
from rcompiler.driver.optional_passes import OptionalPasses
from rcompiler.passes import OptionalPass, Pass, _pipeline_text
from rcompiler.support.lru_cache import clear_all

from . import graphs, judge
from .judge import Outcome, Report
from .maker import Reject


def passes(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """Passes that only make programs faster may be left out, and change places with neighbours:
    what the program computes stays the same."""
    report("generate")
    try:
        case = graphs.case_of(seed, targets)
    except Reject:
        return Outcome("no graph")
    with shuffled(seed) as told:
        found = judge.judge(case, report)
    return found if found.good else Outcome(found.status, f"{told}: {found.reason}", found.key)


@contextmanager
def shuffled(seed: int) -> Iterator[list[str]]:
    """Compilations of this process inside leave out passes and exchange some; what they did."""
    chosen = random.Random(seed)
    out = {name: chosen.random() < 0.3 for name in _names()}
    told = [f"without {name}" for name, gone in out.items() if gone]
    expand = _pipeline_text.expand

    class Fewer(OptionalPasses):
        def left_out(self, element: Pass) -> bool:
            gone = out.get(element.name(), False) and element.without() is not None
            return gone or super().left_out(element)

        def skip(self, element: Pass, module: ir.Operation) -> None:
            if not out.get(element.name()):
                super().skip(element, module)

    def exchanged(text: str, depth: int = 0) -> list[Pass | str]:
        elements = expand(text, depth)
        for i in range(len(elements) - 1):
            pair = elements[i : i + 2]
            if all(isinstance(e, OptionalPass) for e in pair) and chosen.random() < 0.25:
                elements[i : i + 2] = pair[::-1]
                told.append(" before ".join(str(e).partition("{")[0] for e in pair[::-1]))
        return elements

    with (
        mock.patch.object(compilation, "OptionalPasses", Fewer),
        mock.patch.object(_pipeline_text, "expand", exchanged),
    ):
        clear_all()  # code of the passes as they are
        try:
            yield told
        finally:
            clear_all()


def _names() -> list[str]:
    return sorted(c.name() for c in _all(OptionalPass) if "name" in dir(c))


def _all(cls: type[OptionalPass]) -> Iterator[type[OptionalPass]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _all(sub)
