"""Do random numbers reach a model's outputs?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import ModelProto, NodeProto

from rcompiler.errors import Gap

from .load import node_reads
from .nodes import qualified, subgraphs

DRAWS = {
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
}  # fmt: skip
_READ_SHAPES = {"Shape", "Size"}


def find_draw(model: ModelProto) -> Gap | None:
    """The refusal of a node whose random numbers reach an output of the model; None without one.

    Subgraphs and the functions of the model are searched too. ONNX names no generator, so that two
    implementations need not agree on a result that depends on such a node.
    """
    graph = model.graph
    return _Search(model).walk(graph.node, [value.name for value in graph.output], "")


class _Search:
    def __init__(self, model: ModelProto) -> None:
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._entered: set[tuple[str, str, str]] = set()

    def walk(self, nodes: Sequence[NodeProto], outputs: Iterable[str], prefix: str) -> Gap | None:
        """Back from ``outputs`` to what makes them; all that a needed node holds is needed."""
        makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
        waiting, seen = list(outputs), set()
        while waiting:
            index = makers.get(waiting.pop())
            if index is None or index in seen:
                continue
            seen.add(index)
            node = nodes[index]
            found = self._inside(node, prefix + (node.name or f"{node.op_type}_{index}"))
            if found is not None:
                return found
            if qualified(node) not in _READ_SHAPES:
                waiting += node_reads(node)
        return None

    def _inside(self, node: NodeProto, name: str) -> Gap | None:
        key = (node.domain, node.op_type, node.overload)
        function = self._functions.get(key)
        if function is not None:
            if key in self._entered:  # by an earlier call that found nothing, or one in progress
                return None
            self._entered.add(key)
            return self.walk(function.node, function.output, f"{name}/")
        if qualified(node) in DRAWS:
            return Gap(
                name,
                node.op_type,
                "ONNX does not say which random numbers are right, so nothing can be compared",
                "Make the random numbers an input of the model. (rcompiler.compile_onnx does "
                "compile it, with numbers of its own.)",
                f"outputs: {', '.join(node.output)}",
            )
        for graph in subgraphs(node):
            outputs = [value.name for value in graph.output]
            found = self.walk(graph.node, outputs, f"{name}/")
            if found is not None:
                return found
        return None
