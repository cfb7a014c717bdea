"""Runs of one version of one operator, until each cell that can be reached has been judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from fuzz import catalog, graphs
from fuzz.catalog import Key
from fuzz.graphs import Case
from fuzz.maker import Maker, Reject
from onnx import ModelProto

from rcompiler.frontend import contrib

from . import compared, unreachable
from .forms import Cell, Form, form_of, has_form
from .judge import Judgement, Report, Trial, judged
from .retyped import retyped
from .varied import varied
from .versions import NoForm, NotValid, versions_of, with_opset

_SEEDS = 40  # of graphs with types as models have them
_SEEDS_OF_TYPE = 8
_TRIES = 3  # of graphs for a cell that is not right


# Whose results the judges get wrong, and how.
_MISJUDGED = {"Gemm||6": "onnx.reference leaves beta out, and onnxruntime does not run it"}


def jobs() -> list[str]:
    """Each version of each operator: ``operator|domain|version``."""
    found = []
    for op, domain in catalog.generators():
        if domain != contrib.DOMAIN:
            found += [f"{op}|{domain}|{version}" for version in versions_of(op, domain)]
    # without those that onnxruntime has elsewhere
    return found + [f"{op}|{contrib.DOMAIN}|1" for op in contrib.OPERATORS if has_form(op)]


@dataclass
class _Cells:
    """What is known of the cells of one version of an operator."""

    job: str
    form: Form
    key: Key
    report: Report
    engine: bool

    def __post_init__(self) -> None:
        self.open: dict[Cell, str] = dict.fromkeys(self.form.cells(), "no case")
        self.tries: Counter[Cell] = Counter()
        self.done: dict[Cell, str] = {}
        self.wrong: list[str] = []
        self.runs = 0
        self.seen: list[Case] = []
        self.not_valid: dict[str, str] = {}

    def judge(self, trial: Trial) -> None:
        """Run what has a cell that nothing before had, or that was not right."""
        found = self.form.of_model(trial.case.model, self.key)
        new = {c for c in found if c in self.open and c not in self.done and self.tries[c] < _TRIES}
        if not new and self.runs:
            return
        self.runs += 1
        self.seen.append(trial.case)
        judgement = judged(trial, self.report, self.engine)
        if judgement.status == "wrong" and self.job in _MISJUDGED:
            judgement = Judgement("unjudged", _MISJUDGED[self.job])
        if judgement.status == "right":
            self.done |= {c: judgement.by for c in found & self.open.keys() if c not in self.done}
            return
        self.tries.update(new)
        told = f"{judgement.status}: {judgement.by}".removesuffix(": ")
        self.open |= {c: told for c in new if c not in self.done}
        if judgement.status == "wrong":
            text = onnx.printer.to_text(trial.case.model)
            self.wrong.append(f"{judgement.by}\n{text}")

    def missing(self, kind: str) -> list[str]:
        """Types, or attributes, that no case has had."""
        absent = [c for c, why in self.open.items() if why == "no case" and c not in self.done]
        return [name for of, name in absent if of == kind]

    def told(self) -> dict[str, str]:
        """By the names of cells, who judged them or why nobody did."""
        found = {}
        for cell, why in self.open.items():
            name = "/".join(cell)
            told = self.done.get(cell, why)
            if told == "no case" and cell[0] == "type" and cell[1] in self.not_valid:
                told = f"not valid: {self.not_valid[cell[1]]}"
            found[name] = unreachable.reason(self.job, name, told)
        return found


def tried(job: str, report: Report, engine: bool = True) -> dict[str, Any]:
    """What is known of each cell, as JSON: who judged it, why it is refused, why there is no valid
    model of it, or "no case". In `wrong` are the models with wrong results. engine: whether
    onnxruntime is a judge. report: told when that runs.
    """
    op, domain, text = job.split("|")
    key, version = (op, domain), int(text)
    form = form_of(op, domain, version)
    cells = _Cells(job, form, key, report, engine)
    for trial in _trials(key, version, form.types, cells.not_valid):
        cells.judge(trial)
        if len(cells.done) == len(cells.open):
            break
    seen = list(cells.seen)
    for dtype, case in ((d, c) for d in cells.missing("type") for c in seen):
        for other in retyped(case, version, dtype):
            cells.judge(Trial(other))
    for name, case in ((n, c) for n in cells.missing("attribute") for c in seen):
        for other in varied(case, name):
            cells.judge(Trial(other))
    return {"cells": cells.told(), "runs": cells.runs, "wrong": cells.wrong}


def _trials(
    key: Key, version: int, types: tuple[str, ...], not_valid: dict[str, str]
) -> Iterator[Trial]:
    """not_valid: takes what the onnx package says of types that it does not take."""
    if key[1] == contrib.DOMAIN:
        yield from compared.trials().get(key[0], [])
    if key not in catalog.generators():
        return
    for liked, count in (("", _SEEDS), *((each, _SEEDS_OF_TYPE) for each in types)):
        for seed in range(count):
            try:
                trial = _trial(key, version, liked, seed)
            except NotValid as error:
                not_valid.setdefault(liked, error.reason)
                continue
            if trial is not None:
                yield trial


def _trial(key: Key, version: int, liked: str, seed: int) -> Trial | None:
    known = catalog.generators()[key].opsets
    older = key[1] != contrib.DOMAIN and not (version in known and key[1] == "")
    opset = 22 if 22 in known else max(known)
    opset = opset if older or key[1] == contrib.DOMAIN else version
    names = onnx.defs.get_schema(key[0], version, key[1]).attributes if older else {}
    attributes = (key[0], frozenset(names)) if older else None
    maker = Maker(seed, opset, liked, every=True, known=attributes)
    try:
        if not graphs.add(maker, key):
            return None
        model = maker.model()
        written = with_opset(model, key[1], version) if older else model
    except NotValid:
        raise
    except (Reject, NoForm):
        return None
    case = _of_model(written, maker, key[0])
    return Trial(case, _of_model(model, maker, key[0]) if older else None)


def _of_model(model: ModelProto, maker: Maker, op: str) -> Case:
    """Fed what the maker has drawn, in the shapes that the model says."""
    feeds = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        feeds[value.name] = maker.inputs[value.name].reshape(shape)
    return Case(model, feeds, {"eus": 1}, op)
