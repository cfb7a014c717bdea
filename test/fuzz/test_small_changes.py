"""An operator with other types, shapes or attributes is translated to valid IR, or refused."""

import sys
import warnings
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from torch_mlir import ir  # noqa: E402
from turns import turn_of  # noqa: E402

from fuzz import catalog, one_operator  # noqa: E402
from rcompiler import dialects  # noqa: E402
from rcompiler.errors import CompilerError  # noqa: E402
from rcompiler.frontend import contrib, import_onnx  # noqa: E402

# Of each operator, as many graphs as are changed in a way.
WAYS = {
    "types": (one_operator.with_other_types, 2),
    "shapes": (one_operator.with_other_shapes, 2),
    "attributes": (one_operator.with_other_attributes, 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", turn_of(catalog.generators(), 4), ids=lambda key: key[0])
def test_is_translated_or_refused(key, way):
    change, count = WAYS[way]
    # what an operator of onnxruntime stands for has graphs of its own
    for model in one_operator.models_of(key, 1 if key[1] == contrib.DOMAIN else count):
        for other in change(model):
            with warnings.catch_warnings():  # of numpy: constants of attributes that are not finite
                warnings.simplefilter("ignore", RuntimeWarning)
                try:
                    imported = import_onnx(other)
                except CompilerError as error:
                    assert "defect of the compiler" not in str(error)
                    continue
            with dialects.load(ir.Context()) as context, ir.Location.unknown():
                assert imported.parse(context).operation.verify()
