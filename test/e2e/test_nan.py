"""NaN in operators that compare: it wins, as in numpy, on each device and while compiling."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import rcompiler

TARGETS = ("cpu", "cpu:x86-64", "cpu:v3", "cpu:v4", "cuda:emulated", "cuda:emulated-sm_90a")
N, INF = np.nan, np.inf
X = np.array(
    [[1, N, 3, -2, 0, 7, N, 2], [5, 4, -3, 2, 1, 0, -1, 9], [N] * 8, [-1, 0, N, INF, -INF, 1, 2, N]]
)
Y = np.array(
    [[2, 1, N, -3, N, 7, 5, N], [N, 4, 1, 1, 1, N, -1, 9], [1] * 8, [N, 0, 1, N, N, -1, 2, INF]]
)
PLACES = np.array([[0, 0, 1, 1, 2, 3, 3, 3]] * 4)
ROWS = np.array([[0], [1], [1], [3]])
REDUCTIONS = {"min": np.minimum, "max": np.maximum, "add": np.add, "mul": np.multiply}


def scattered_elements(x, y, combine):
    out = x.copy()
    for row, column in np.ndindex(y.shape):
        place = row, PLACES[row, column]
        out[place] = combine(out[place], y[row, column])
    return out


def scattered_rows(x, y, combine):
    out = x.copy()
    for [place], row in zip(ROWS, y, strict=True):
        out[place] = combine(out[place], row)
    return out


def first_is_one(x):
    return (np.arange(x.shape[1]) == np.argmax(x, 1)[:, None]).astype(x.dtype)


def windows(x):
    """[row, column, element] of windows of two by two, and the flat place of each element."""
    rows, columns = x.shape[0] // 2, x.shape[1] // 2

    def cut(a):
        return a.reshape(rows, 2, columns, 2).transpose(0, 2, 1, 3).reshape(rows, columns, 4)

    return cut(x), cut(np.arange(x.size).reshape(x.shape))


def pooled(x):
    taps, places = windows(x)
    at = np.argmax(taps, 2)[..., None]
    return [np.take_along_axis(each, at, 2)[None, None, ..., 0] for each in (taps, places)]


def top(x, largest):
    """NaN is the largest number."""
    order = np.lexsort((-x if largest else x, np.isnan(x) != largest), axis=1)
    return [np.take_along_axis(x, order, 1)[:, :3], order[:, :3]]


# Each operator that compares: inputs, outputs, attributes, and what numpy makes of x and y.
CASES = {
    "Min": (["x", "y"], {}, lambda x, y: [np.minimum(x, y)]),
    "Max": (["x", "y"], {}, lambda x, y: [np.maximum(x, y)]),
    "Clip": (["x", "low", "high"], {}, lambda x, y: [np.clip(x, -1, 2)]),
    "Relu": (["x"], {}, lambda x, y: [np.maximum(x, 0)]),
    "Sign": (["x"], {}, lambda x, y: [np.sign(x)]),
    "ReduceMin": (["x"], {"keepdims": 0}, lambda x, y: [x.min()]),
    "ReduceMax": (["x", "one"], {"keepdims": 0}, lambda x, y: [x.max(1)]),
    "ArgMax": (["x"], {"axis": 1, "keepdims": 0}, lambda x, y: [np.argmax(x, 1)]),
    "ArgMin": (["x"], {"axis": 0, "keepdims": 0}, lambda x, y: [np.argmin(x, 0)]),
    "Hardmax": (["x"], {"axis": 1}, lambda x, y: [first_is_one(x)]),
    "TopK": (["x", "three"], {"axis": 1}, lambda x, y: top(x, True)),
    "TopK smallest": (["x", "three"], {"axis": 1, "largest": 0}, lambda x, y: top(x, False)),
    "MaxPool": (["image"], {"kernel_shape": [2, 2], "strides": [2, 2]}, lambda x, y: pooled(x)),
    "GlobalMaxPool": (["image"], {}, lambda x, y: [x.max().reshape(1, 1, 1, 1)]),
}
for _name, _fn in REDUCTIONS.items():
    for _known in ("known", "run"):
        CASES[f"ScatterElements {_name} {_known}"] = (
            ["x", f"places {_known}", "y"],
            {"axis": 1, "reduction": _name},
            lambda x, y, f=_fn: [scattered_elements(x, y, f)],
        )
        CASES[f"ScatterND {_name} {_known}"] = (
            ["x", f"rows {_known}", "y"],
            {"reduction": _name},
            lambda x, y, f=_fn: [scattered_rows(x, y, f)],
        )


def wanted(dtype):
    """Of each output."""
    x, y = X.astype(dtype), Y.astype(dtype)
    made = {}
    with np.errstate(invalid="ignore"):
        for name, (_, _, expected) in CASES.items():
            made |= {f"{name} {i}": each for i, each in enumerate(expected(x, y))}
    return made


def network(dtype, constant):
    x, y = X.astype(dtype), Y.astype(dtype)
    given = {"places run": PLACES, "rows run": ROWS, "x": x, "y": y}
    weights = {"places known": PLACES, "rows known": ROWS, "one": np.array([1])}
    weights |= {"three": np.array([3]), "low": np.array(-1, dtype), "high": np.array(2, dtype)}
    weights["whole"] = np.array([1, 1, *X.shape])
    if constant:
        weights, given = weights | given, {"z": np.ones(1, np.float32)}
    outputs = wanted(dtype)
    nodes = [helper.make_node("Reshape", ["x", "whole"], ["image"])]
    for name, (inputs, attributes, _) in CASES.items():
        own = [each for each in (f"{name} 0", f"{name} 1") if each in outputs]
        nodes.append(helper.make_node(name.split()[0], inputs, own, **attributes))
    if constant:
        nodes.append(helper.make_node("Neg", ["z"], ["w"]))

    def info(name, array):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    told = [info(name, np.asarray(each)) for name, each in outputs.items()]
    if constant:
        told.append(info("w", given["z"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [info(name, each) for name, each in given.items()],
        told,
        [numpy_helper.from_array(each, name) for name, each in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made, given


def check(model, given, dtype):
    found = model(**given)
    for name, right in wanted(dtype).items():
        assert np.array_equal(found[name], right, equal_nan=right.dtype.kind == "f"), name


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_nan_wins_on_each_device(target, dtype):
    made, given = network(dtype, constant=False)
    model = rcompiler.compile_onnx(made, target=target, eus=2, cache=False)
    if not callable(model):
        pytest.skip("this CPU lacks what the target has")
    check(model, given, dtype)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_nan_wins_while_compiling():
    made, given = network("float32", constant=True)
    check(rcompiler.compile_onnx(made, eus=1, cache=False), given, "float32")
