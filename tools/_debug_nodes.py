"""rc-run --debug=nodes: every value of a graph beside the reference's, in the order of the nodes.

The model is compiled as it is, and again with all its values as results. A value that is a result
is no longer fused away, which may hide what is wrong. So where all values are right and the model's
results still are not, values are added to the results one at a time, by bisection.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, shape_inference

from rcompiler.errors import CompilerError
from rcompiler.tools._console import table
from rcompiler.tools._judge import Judge
from rcompiler.tools._reference import Difference, reference

Arrays = dict[str, np.ndarray]
# Inputs (None: new ones) and results of a variant of the model.
Run = Callable[[ModelProto, Arrays | None], tuple[Arrays, Arrays]]


@dataclass(frozen=True)
class Finding:
    """A value, the node that it is the result of, and how far it is from the reference."""

    name: str
    node: NodeProto
    difference: Difference

    def __str__(self) -> str:
        label = f"'{self.node.name}' ({self.node.op_type})" if self.node.name else self.node.op_type
        found = self.difference
        return (
            f"node {label} is the first that leaves its tolerance: value '{self.name}' differs by "
            f"{found.absolute:.3g} at {list(found.where)}, {found.relative_to_limit:.3g} of what "
            "is allowed"
        )


def debug_nodes(
    model: ModelProto, run: Run, options: argparse.Namespace, rounded: Collection[str] = ()
) -> list[str]:
    """Print a line for each value; what is wrong, at most one message.

    options: reference and tolerance, as of rc-run; rounded: as of `Judge`.

    Raises:
        CompilerError: the model cannot be compiled, or no reference can run it.
    """
    feeds, results = run(model, None)
    names = value_names(model)
    probed = with_outputs(model, names)
    engine, expected = reference(probed, feeds, options.reference)
    judge = Judge(probed, feeds, options.tolerance, rounded)
    wanted = dict(zip((v.name for v in probed.graph.output), expected, strict=True))
    makers = {name: node for node in model.graph.node for name in node.output}

    def judged(found: Arrays, order: Sequence[str]) -> Iterator[Finding]:
        for name in order:
            if name in found:
                difference = judge(name, found[name], wanted[name])
                yield Finding(name, makers[name], difference)

    _, values = run(probed, feeds)
    findings = list(judged(values, names))
    _print(findings, engine)
    wrong = [f for f in findings if not f.difference.right]
    if wrong:
        return [str(wrong[0])]
    wrong = [f for f in judged(results, names) if not f.difference.right]
    if not wrong:
        return []
    before = names[: names.index(wrong[0].name)]
    hidden = _bisect(model, before, lambda one: run(one, feeds)[1], judged) or wrong[0]
    return [f"{hidden}; it is right where all values are results: look at what it is fused with"]


def _bisect(
    model: ModelProto,
    names: Sequence[str],
    run: Callable[[ModelProto], Arrays],
    judged: Callable[[Arrays, Sequence[str]], Iterator[Finding]],
) -> Finding | None:
    """The first of these values that is wrong where it alone is added to the results."""
    first, last, found = 0, len(names), None
    while first < last:
        middle = (first + last) // 2
        here = names[middle : middle + 1]
        (one,) = judged(run(with_outputs(model, here)), here)
        if one.difference.right:
            first = middle + 1
        else:
            last, found = middle, one
    return found


def value_names(model: ModelProto) -> list[str]:
    """The tensors that nodes of the graph make, in order."""
    types = _types(model)
    return [name for node in model.graph.node for name in node.output if name in types]


def with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The model with these values as further results."""
    probed = ModelProto()
    probed.CopyFrom(model)
    types, there = _types(model), {v.name for v in model.graph.output}
    for name in names:
        if name not in there:
            value = helper.make_tensor_value_info(name, types[name], None)
            probed.graph.output.append(value)
    return probed


def _types(model: ModelProto) -> dict[str, int]:
    """Element types of the values that are tensors of numbers.

    Raises:
        CompilerError: onnx cannot tell.
    """
    try:
        graph = shape_inference.infer_shapes(model).graph
    except Exception as error:  # no common base class
        raise CompilerError(f"the types of the values cannot be inferred: {error}") from None
    kinds = {v.name: _kind(v.type) for v in (*graph.value_info, *graph.output)}
    skipped = (TensorProto.UNDEFINED, TensorProto.STRING)
    return {name: kind for name, kind in kinds.items() if kind not in skipped}


def _kind(kind: Any) -> int:
    return kind.tensor_type.elem_type if kind.HasField("tensor_type") else TensorProto.UNDEFINED


def _print(findings: Sequence[Finding], engine: str) -> None:
    rows = []
    for found in findings:
        difference = found.difference
        share = f"{difference.relative_to_limit:.3f}"
        verdict = "right" if difference.right else "WRONG"
        rows.append((found.node.op_type, found.name, f"{difference.absolute:.3g}", share, verdict))
    table(("node", "value", "largest error", "of what is allowed", ""), rows)
    print(f"compared with {engine}")
