"""tried.md: what is tried of each operator and who judges it, from the record of test/operators."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from reference.docstrings import markdown

_RECORD = Path(__file__).parents[2] / "test/operators/record.json"
_JUDGES = ("onnxruntime", "onnx.reference", "float64", "newest form", "test")
_ABOUT = """\
Each operator, in each version of its definition, with each type of its inputs, each attribute that
is not what it is where it is left out, and each optional input. `python test/operators` draws
graphs of one operator for them, and compares results with onnxruntime; where that cannot run them,
or says otherwise, with onnx.reference; else with an evaluation in f64 that knows what rounding
moves. Older versions are written from the newest one. Of `com.microsoft` there are the cases of
`test/frontend/` as well, and the same in other types. What is not said of a version is right by
onnxruntime. Operators that have no line here are compared case by case in `test/frontend/`.

- `onnx.reference`, `float64`: right, by that judge.
- newest form: right, as one of them computes it from the newest version, which says the same.
- test: right, as a test in `test/frontend/` computes it from the definition.
- refused: with the reason, which the error says, too.
- not valid: the onnx package takes no such model, and says why.
- unjudged: it runs, and nobody else does.
- no case: no graph that is drawn has it."""


def text() -> str:
    """The whole document."""
    record = json.loads(_RECORD.read_text())
    lines = ["# What is tried of each operator", "", _ABOUT, ""]
    lines += ["| operator | version | cells | right | of those not by onnxruntime, and the rest |"]
    lines += ["|---|---|---|---|---|"]
    jobs = sorted((job.split("|"), cells) for job, cells in record.items())
    jobs.sort(key=lambda each: (each[0][1], each[0][0], int(each[0][2])))
    lines += [_row(*job, cells) for job, cells in jobs]
    return "\n".join(lines)


def _row(op: str, domain: str, version: str, cells: Mapping[str, str]) -> str:
    right = sum(told in _JUDGES for told in cells.values())
    name = f"{domain}.{op}" if domain else op
    rest = "; ".join(_rest(cells))
    return f"| {name} | {version} | {len(cells)} | {right} | {markdown(rest)} |"


def _rest(cells: Mapping[str, str]) -> Iterator[str]:
    """Cells by what is known of them, but for those that onnxruntime has judged."""
    pairs = sorted((told, cell) for cell, told in cells.items() if told != "onnxruntime")
    for told, group in groupby(pairs, key=lambda pair: pair[0]):
        names = (cell.partition("/")[2] for _, cell in group)
        yield f"{told}: {', '.join(names)}"
