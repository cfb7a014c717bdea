"""Compile an exported network and compare what it computes: with PyTorch, at the sizes it was
exported with, or with onnxruntime, at others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

import rcompiler
from measurements._case_pool import Verdict
from measurements._exportable import Exportable
from rcompiler.errors import CompilerError
from rcompiler.frontend import check
from rcompiler.tools._reference import compare, session

# given: open axes have the sizes of the inputs; open: nothing is said of them; dynamic: each is a
# range, one program takes all of it, and runs at sizes other than those of the export.
SIZES = ("given", "open", "dynamic")
_TOLERANCE = 1e-3  # of the root mean square: others add in another order, and are in f32 themselves


def judged(
    model: bytes, exportable: Exportable, expected: Sequence[np.ndarray], sizes: str
) -> Verdict:
    """Compiles a model and compares runs of it.

    expected: PyTorch's results, of the inputs that it was exported with; what a detector finds is
    compared with what onnxruntime finds by the same graph, for two images. sizes: one of SIZES.
    Raises CompilerError where it is refused.
    """
    options = _options(model, exportable, sizes)
    if sizes != "dynamic" and not exportable.detections:
        compiled = rcompiler.compile_onnx(model, **options)
        return _compared([(compiled(_feeds(model, exportable.inputs)), expected)])
    if fixed := sorted(set(exportable.sizes) - _symbols(model)):
        return Verdict("unexported", f"the exporter has fixed {', '.join(fixed)}")
    theirs = session(onnx.load_from_string(model), threads=1)
    other = enumerate(exportable.other_sizes)
    runs = [_feeds(model, exportable.at(given, number)) for number, given in other]
    try:
        wanted = [theirs.run(None, feeds) for feeds in runs]
    except Exception as error:  # of onnxruntime, which have no common base class
        return Verdict("unexported", f"onnxruntime does not run it: {_brief(str(error))}")
    compiled = rcompiler.compile_onnx(model, **options)
    made: list[Sequence[np.ndarray]] = [compiled(feeds) for feeds in runs]
    if exportable.detections:
        made = [_as_ordered(*each) for each in zip(made, wanted, strict=True)]
    return _compared(list(zip(made, wanted, strict=True)))


def looked_at(model: bytes, exportable: Exportable, sizes: str) -> Verdict:
    """Looks at all nodes of a model and compiles nothing."""
    gaps = check(model, _options(model, exportable, sizes)["shapes"])
    if not gaps:
        return Verdict("ok")
    facts = [{"node": gap.node, "op": gap.op, "reason": gap.reason} for gap in gaps]
    return Verdict("refused", gaps[0].reason, {"gaps": facts[:20]})


def _options(model: bytes, exportable: Exportable, sizes: str) -> dict[str, Any]:
    """Of compile_onnx."""
    symbols = _symbols(model)
    if sizes == "dynamic":
        ranges = {name: found for name, found in exportable.ranges.items() if name in symbols}
        return {"shapes": ranges, "buckets": {name: (r[-1],) for name, r in ranges.items()}}
    given = exportable.sizes if sizes == "given" else {}
    return {"shapes": {name: size for name, size in given.items() if name in symbols}}


def _compared(runs: Sequence[tuple[Sequence[np.ndarray], Sequence[np.ndarray]]]) -> Verdict:
    """runs: what came, and what was expected."""
    worst = 0.0
    for made, expected in runs:
        for number, (actual, wanted) in enumerate(zip(made, expected, strict=True)):
            try:
                difference = compare(actual, wanted, _TOLERANCE)
            except CompilerError as error:  # another shape or type
                return Verdict("wrong", f"output {number}: {error}")
            worst = max(worst, difference.absolute)
            if not difference.right:
                reason = f"output {number}: largest error {difference.absolute:.3g}"
                return Verdict("wrong", reason, {"error": worst})
    shapes = [[list(each.shape) for each in made] for made, _ in runs]
    return Verdict("ok", facts={"error": worst, "shapes": shapes})


def _as_ordered(made: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Detections in the order of others: of two scores that differ by rounding either may come
    first. As they are where they are not the same ones.

    Both: boxes [n, 4], labels [n] and scores [n], in any order.
    """
    if not len(wanted[0]) or any(m.shape != w.shape for m, w in zip(made, wanted, strict=True)):
        return made
    apart = np.zeros([len(wanted[0])] * 2)
    for ours, theirs in zip(made, wanted, strict=True):
        a, b = (each.reshape(len(each), -1).astype(np.float64) for each in (ours, theirs))
        apart += np.abs(b[:, None] - a[None]).sum(-1) / max(float(np.abs(b).mean()), 1e-30)
    places = apart.argmin(1)
    return [each[places] for each in made] if len({*places}) == len(places) else made


def _brief(text: str) -> str:
    """The part of a message of onnxruntime that says why, without the places of its sources."""
    why = text.splitlines()[0].partition("Status Message: ")[2] or text.splitlines()[0]
    return re.sub(r"(?<!\S)/\S+:\d+ ", "", why)


def _feeds(model: bytes, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays of tensors; of those that an exporter has left in."""
    names = {v.name for v in onnx.load_from_string(model).graph.input}
    return {name: x.numpy() for name, x in inputs.items() if name in names}


def _symbols(model: bytes) -> set[str]:
    inputs = onnx.load_from_string(model).graph.input
    return {d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim if d.dim_param}
