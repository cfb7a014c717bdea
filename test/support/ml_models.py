"""Models of one node of ai.onnx.ml, and what onnxruntime makes of them."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

ML = "ai.onnx.ml"


def model(op, arrays, outputs=1, version=3, rows=None, **attributes):
    """A model of one node whose inputs i0, i1, ... are of the types of arrays; results o0, o1, ...

    rows: what the first dimension of the inputs is declared as; that of the arrays by default.
    """
    names = [f"i{k}" for k in range(len(arrays))]
    shapes = [a.shape if rows is None else (rows, *a.shape[1:]) for a in arrays]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), shape)
        for n, a, shape in zip(names, arrays, shapes, strict=True)
    ]
    results = [f"o{k}" for k in range(outputs)]
    kinds = [TensorProto.INT64, TensorProto.FLOAT] if outputs == 2 else [TensorProto.FLOAT]
    if op in ("TreeEnsemble", "Imputer"):
        kinds = [infos[0].type.tensor_type.elem_type]
    outs = [helper.make_tensor_value_info(n, k, None) for n, k in zip(results, kinds, strict=True)]
    node = helper.make_node(op, names, results, name="it", domain=ML, **attributes)
    graph = helper.make_graph([node], "g", infos, outs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def expected(made, arrays):
    """The results of onnxruntime, on one thread. arrays: by the order of the inputs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    names = [each.name for each in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def features(rng, rows, columns, grid, dtype=np.float32, missing=True):
    """Rows of numbers on and beside a grid, some of them missing."""
    x = rng.choice(grid, (rows, columns)) + rng.choice([0.0, 0.0, 0.25, -0.25], (rows, columns))
    if missing and np.issubdtype(dtype, np.floating):
        x[rng.random(x.shape) < 0.15] = np.nan
    return x.astype(dtype)
