"""Graphs of one operator, and small changes of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, numpy_helper

from . import catalog, graphs
from .maker import Maker

_TRIES = 60  # of seeds
_SIZES = (0, 1, 2)  # and one more than what there is
_TYPES = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16),
    *(TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT64, TensorProto.BOOL),
)
_INTEGERS = (-3, -1, 0, 1, 2, 3, 9, 100)
_FLOATS = (0.0, -1.0, float("inf"), float("nan"))


def models_of(key: catalog.Key, count: int) -> list[ModelProto]:
    """Graphs of an operator with inputs at run time, with other attributes and optional inputs."""
    return list(islice(_models_of(key), count))


def _models_of(key: catalog.Key) -> Iterator[ModelProto]:
    opsets = catalog.generators()[key].opsets
    for seed in range(_TRIES):
        maker = Maker(seed, 22 if 22 in opsets else max(opsets))
        if graphs.add(maker, key) and (model := maker.model()).graph.input:
            yield model


def with_other_types(model: ModelProto) -> Iterator[ModelProto]:
    """Each type for each of the inputs."""
    for number, kind in ((n, k) for n in range(len(model.graph.input)) for k in _TYPES):
        other = _copied(model)
        other.graph.input[number].type.tensor_type.elem_type = kind
        yield other


def with_other_shapes(model: ModelProto) -> Iterator[ModelProto]:
    """Each extent of each input and constant is another one, or an extent is gone or added."""
    for number, given in enumerate(model.graph.input):
        extents = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
        for shape in _other_shapes(extents):
            other = _copied(model)
            kind = other.graph.input[number].type.tensor_type
            del kind.shape.dim[:]
            for extent in shape:
                kind.shape.dim.add().dim_value = extent
            yield other
    for number, constant in enumerate(model.graph.initializer):
        array = numpy_helper.to_array(constant)
        for shape in _other_shapes(list(array.shape)):
            filled = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
            other = _copied(model)
            changed = numpy_helper.from_array(filled, constant.name)
            other.graph.initializer[number].CopyFrom(changed)
            yield other


def _other_shapes(shape: list[int]) -> Iterator[list[int]]:
    for at, extent in enumerate(shape):
        for size in {*_SIZES, extent + 1} - {extent}:
            yield [*shape[:at], size, *shape[at + 1 :]]
    if shape:
        yield shape[1:]
    yield from ([*shape, size] for size in (0, 1, 3))


def with_other_attributes(model: ModelProto) -> Iterator[ModelProto]:
    """Each attribute has another value or is gone, and so is each operand."""
    for at, node in enumerate(model.graph.node):
        for number in range(len(node.attribute)):
            for value in _other_values(node.attribute[number]):
                other = _copied(model)
                other.graph.node[at].attribute[number].CopyFrom(value)
                yield other
            other = _copied(model)
            del other.graph.node[at].attribute[number]
            yield other
        for number in range(len(node.input)):
            other = _copied(model)
            _leave_out(other.graph.node[at], number)
            yield other


def _other_values(attribute: AttributeProto) -> Iterator[AttributeProto]:
    lists: list[tuple[str, list[object]]] = []
    match attribute.type:
        case AttributeProto.INT:
            lists = [("i", list(_INTEGERS))]
        case AttributeProto.FLOAT:
            lists = [("f", list(_FLOATS))]
        case AttributeProto.STRING:
            lists = [("s", [b"", b"nope", b"\xff"])]
        case AttributeProto.INTS:
            yield from _other_lists(attribute)
    for field, values in lists:
        for value in values:
            other = AttributeProto()
            other.CopyFrom(attribute)
            setattr(other, field, value)
            yield other


def _other_lists(attribute: AttributeProto) -> Iterator[AttributeProto]:
    numbers = list(attribute.ints)
    changed = [
        [*numbers[:at], value, *numbers[at + 1 :]]
        for at in range(len(numbers))
        for value in _INTEGERS
    ]
    for found in (*changed, [*numbers, 1], numbers[:-1]):
        other = AttributeProto()
        other.CopyFrom(attribute)
        del other.ints[:]
        other.ints.extend(found)
        yield other


def _leave_out(node: NodeProto, number: int) -> None:
    if number == len(node.input) - 1:
        del node.input[number]
    else:
        node.input[number] = ""


def _copied(model: ModelProto) -> ModelProto:
    """Nothing is said of results."""
    other = ModelProto()
    other.CopyFrom(model)
    for result in other.graph.output:
        result.type.tensor_type.elem_type = TensorProto.UNDEFINED
        result.type.tensor_type.ClearField("shape")
    del other.graph.value_info[:]
    return other
