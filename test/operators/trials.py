"""Runs of one version of one operator, until each cell that can be reached has been judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import onnx
from fuzz import catalog, graphs
from fuzz.catalog import Key
from fuzz.graphs import Case
from fuzz.maker import Maker, Reject

from rcompiler.frontend import contrib

from .forms import Cell, form_of, has_form
from .judge import Judgement, Report, judged
from .versions import NoForm, versions_of, with_opset

_SEEDS = 40  # of graphs with types as models have them
_SEEDS_OF_TYPE = 8
_TRIES = 3  # of graphs for a cell that is not right


# Whose results the judges get wrong, and how.
_MISJUDGED = {"Gemm||6": "onnx.reference leaves beta out, and onnxruntime does not run it"}


def jobs() -> list[str]:
    """Each version of each operator: ``operator|domain|version``."""
    found = []
    for op, domain in catalog.generators():
        versions = versions_of(op, domain)
        if domain == contrib.DOMAIN:  # without those that onnxruntime has elsewhere
            versions = (1,) if has_form(op) else ()
        found += [f"{op}|{domain}|{version}" for version in versions]
    return found


def tried(job: str, report: Report, engine: bool = True) -> dict[str, Any]:
    """What is known of each cell, as JSON: who judged it, why it is refused, or "no case". In
    `wrong` are the models with wrong results. engine: whether onnxruntime is a judge. report: told
    when that runs.
    """
    op, domain, text = job.split("|")
    key, version = (op, domain), int(text)
    form = form_of(op, domain, version)
    open_cells: dict[Cell, str] = dict.fromkeys(form.cells(), "no case")
    tries: Counter[Cell] = Counter()
    done: dict[Cell, str] = {}
    wrong: list[str] = []
    runs = 0
    for case in _cases(key, version, form.types):
        found = form.of_model(case.model, key)
        new = {c for c in found if c in open_cells and c not in done and tries[c] < _TRIES}
        if not new and runs:
            continue
        runs += 1
        judgement = judged(case, report, engine)
        if judgement.status == "wrong" and job in _MISJUDGED:
            judgement = Judgement("unjudged", _MISJUDGED[job])
        if judgement.status == "right":
            done |= {cell: judgement.by for cell in found & open_cells.keys() if cell not in done}
            continue
        tries.update(new)
        told = f"{judgement.status}: {judgement.by}".removesuffix(": ")
        open_cells |= {c: told for c in new if c not in done}
        if judgement.status == "wrong":
            wrong.append(f"{judgement.by}\n{onnx.printer.to_text(case.model)}")
        if len(done) == len(open_cells):
            break
    cells = {"/".join(cell): done.get(cell, why) for cell, why in open_cells.items()}
    return {"cells": cells, "runs": runs, "wrong": wrong}


def _cases(key: Key, version: int, types: tuple[str, ...]) -> Iterator[Case]:
    for liked, count in (("", _SEEDS), *((each, _SEEDS_OF_TYPE) for each in types)):
        for seed in range(count):
            case = _case(key, version, liked, seed)
            if case is not None:
                yield case


def _case(key: Key, version: int, liked: str, seed: int) -> Case | None:
    known = catalog.generators()[key].opsets
    newest = version in known and key[1] == ""
    opset = version if newest else 22 if 22 in known else max(known)
    maker = Maker(seed, opset, liked=liked)
    try:
        if not graphs.add(maker, key):
            return None
        model = maker.model()
        if not newest and key[1] != contrib.DOMAIN:
            model = with_opset(model, key[1], version)
    except (Reject, NoForm):
        return None
    names = {v.name for v in model.graph.input}
    feeds = {name: array for name, array in maker.inputs.items() if name in names}
    return Case(model, feeds, {"eus": 1}, key[0])
