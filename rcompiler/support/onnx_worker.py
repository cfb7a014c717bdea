"""C++ of the onnx package, in a process of its own.

Its checker, its inference of types and its builders of function bodies are given what a stranger
wrote, and end the process at some of it: a LabelEncoder of ai.onnx.ml 2 whose input has no type yet
is a null pointer (onnx 1.22). So they run in a worker, which the user's process survives. What is
asked is a message of ONNX with the kind of question; the worker is kept for the next one.

Parsing the bytes of a model stays in the user's process: protobuf reads them with upb, whose
parser is fuzzed by those who make it and bounds what it nests, and whatever a worker gave back
would be read by the same parser. So does what is looked up by a name alone (`onnx.defs`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from rcompiler.support.workers import WorkerDied, WorkerLate, Workers, can_help, serve_answers

if TYPE_CHECKING:
    from onnx import ModelProto

MOST_S = 30.0
# The first byte of a question. Behind it: a model to check; one whose outputs are asked for; one
# with a single node whose outputs, or whose function body, is asked for, the types of what it reads
# as inputs, those of them that are constants as initializers.
CHECK, GRAPH_TYPES, NODE_TYPES, BODY = b"c", b"g", b"n", b"b"


class OnnxDied(Exception):
    """The worker was ended by a signal, or was late. how: in words."""

    def __init__(self, died: WorkerDied) -> None:
        late = isinstance(died, WorkerLate)
        self.how = died.words.strip(" ()") if late else f"signal {_name(died.status)}"
        super().__init__(self.how + died.words)


def _name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:  # of a real-time signal
        return str(-status)


def prepare() -> None:
    """Start the worker now, beside what this process imports."""
    if can_help():
        with suppress(OSError):
            _WORKERS.prepare()


def asked(kind: bytes, model: bytes, most_s: float = MOST_S) -> tuple[int, bytes]:
    """Status and answer; status 1: the words of what the package raised.

    Raises OnnxDied, and OSError where no process can be started, or one that imports the package:
    a limit leaves it too little memory, or the interpreter is another program.
    """
    try:
        with _WORKERS.borrow() as worker:
            return worker.ask(kind + model, most_s)
    except WorkerDied as died:
        if died.status >= 0:  # Python ended it
            raise OSError(f"the worker of the onnx package ended{died.words}") from None
        raise OnnxDied(died) from None
    except RuntimeError as error:  # no thread can be started, which ends a worker that is late
        raise OSError(str(error)) from None


def serve() -> None:
    """The worker."""
    serve_answers(answered)


def answered(question: bytes) -> tuple[int, bytes]:
    """What the worker answers."""
    from onnx import ModelProto

    model = ModelProto.FromString(question[1:])
    try:
        return 0, _ANSWERS[question[:1]](model)
    except Exception as error:  # C++ of the package raises several kinds
        return 1, str(error).encode()


def _check(model: ModelProto) -> bytes:
    from onnx import checker

    checker.check_model(model)
    return b""


def _graph_types(model: ModelProto) -> bytes:
    from onnx import GraphProto, shape_inference

    outputs = shape_inference.infer_shapes(model).graph.output
    return GraphProto(output=outputs).SerializeToString()


def _node_types(model: ModelProto) -> bytes:
    from onnx import GraphProto, ValueInfoProto, defs, shape_inference

    [node], [opset], graph = model.graph.node, model.opset_import, model.graph
    schema = defs.get_schema(node.op_type, opset.version, node.domain)
    types = {value.name: value.type for value in graph.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    found = shape_inference.infer_node_outputs(
        schema, node, types, constants, None, list(model.opset_import)
    )
    outputs = [ValueInfoProto(name=name, type=type_) for name, type_ in found.items()]
    return GraphProto(output=outputs).SerializeToString()


def _body(model: ModelProto) -> bytes:
    from onnx import defs

    [node], [opset] = model.graph.node, model.opset_import
    schema = defs.get_schema(node.op_type, opset.version, node.domain)
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset.version]
    return schema.get_context_dependent_function_with_opset_version(
        max(versions),
        node.SerializeToString(),
        [value.type.SerializeToString() for value in model.graph.input],
    )


_ANSWERS: dict[bytes, Callable[[ModelProto], bytes]] = {
    CHECK: _check,
    GRAPH_TYPES: _graph_types,
    NODE_TYPES: _node_types,
    BODY: _body,
}
_WORKERS = Workers("rcompiler.support.onnx_worker")
