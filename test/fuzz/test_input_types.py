"""An operator with any type for any of its inputs is translated to valid IR, or refused."""

import sys
from itertools import islice
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

sys.path.insert(0, str(Path(__file__).parents[1]))

from torch_mlir import ir  # noqa: E402

from fuzz import catalog, graphs  # noqa: E402
from fuzz.maker import Maker  # noqa: E402
from rcompiler import dialects  # noqa: E402
from rcompiler.errors import CompilerError  # noqa: E402
from rcompiler.frontend import import_onnx  # noqa: E402

_GRAPHS = 2  # of each operator, with other attributes and optional inputs
_TRIES = 60  # of seeds
_TYPES = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16),
    *(TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT64, TensorProto.BOOL),
)


def models_of(key):
    """Of graphs that have inputs at run time."""
    opsets = catalog.generators()[key].opsets
    for seed in range(_TRIES):
        maker = Maker(seed, 22 if 22 in opsets else max(opsets))
        if graphs.add(maker, key) and (model := maker.model()).graph.input:
            yield model


def with_other_types(model):
    """The model with each type for each of its inputs; nothing is said of results."""
    for number, kind in ((n, k) for n in range(len(model.graph.input)) for k in _TYPES):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        other.graph.input[number].type.tensor_type.elem_type = kind
        for result in other.graph.output:
            result.type.tensor_type.elem_type = TensorProto.UNDEFINED
        del other.graph.value_info[:]
        yield other


@pytest.mark.parametrize("key", catalog.generators(), ids=lambda key: key[0])
def test_is_translated_or_refused(key):
    for model in islice(models_of(key), _GRAPHS):
        for other in with_other_types(model):
            try:
                imported = import_onnx(other)
            except CompilerError as error:
                assert "defect of the compiler" not in str(error)
                continue
            with dialects.load(ir.Context()) as context, ir.Location.unknown():
                assert imported.parse(context).operation.verify()
