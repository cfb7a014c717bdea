"""Operators on features and of optimizers on inputs that the standard's cases do not have."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from naive_linalg import Runner

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.frontend import import_onnx

ML, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"
NGRAMS = dict(
    mode="TF",
    min_gram_length=1,
    max_gram_length=3,
    max_skip_count=0,
    ngram_counts=[0, 2, 6],
    ngram_indexes=[3, 0, 5, 1, 2, 6],
    pool_int64s=[2, 5, 2, 2, 5, 2, 1, 2, 3, 2, 5, 2],
)


def model(op, domain, arrays, outputs=1, **attributes):
    names = [f"i{i}" for i in range(len(arrays))]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    outs = [helper.make_tensor_value_info(f"o{i}", TensorProto.FLOAT, None) for i in range(outputs)]
    node = helper.make_node(op, names, [o.name for o in outs], domain=domain, **attributes)
    versions = {"": 21, ML: 4, TRAINING: 1}
    imports = [helper.make_opsetid(d, versions[d]) for d in {"", domain}]
    return helper.make_model(helper.make_graph([node], "g", infos, outs), opset_imports=imports)


@pytest.fixture(scope="module")
def run():
    """run(op, domain, *arrays, outputs=1, **attributes): results, and those of the reference."""
    runner = Runner()

    def call(op, domain, *arrays, outputs=1, **attributes):
        made = model(op, domain, arrays, outputs, **attributes)
        got = import_onnx(made)
        results = runner.run(got.module_text, got.constants, list(arrays))
        feeds = {f"i{i}": a for i, a in enumerate(arrays)}
        expected = ReferenceEvaluator(made).run(None, feeds)
        for result, spec, want in zip(results, got.outputs, expected, strict=True):
            assert spec.dtype == want.dtype.name and result.shape == want.shape
        return results, expected

    yield call
    runner.close()


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shape", [(9,), (3, 9), (1, 1)])
@pytest.mark.parametrize("skips", [0, 1, 7, 100])
def test_ngrams(run, mode, shape, skips):
    x = np.random.default_rng(skips).integers(1, 4, shape).astype(np.int32)
    x.flat[::4] = 5
    weights = {"weights": [1.5, 2.0, 0.25, 3.0, 1.0, 0.5, 4.0]} if mode != "TF" else {}
    attributes = {**NGRAMS, "mode": mode, "max_skip_count": skips, **weights}
    (got,), (want,) = run("TfIdfVectorizer", "", x, **attributes)
    np.testing.assert_array_equal(got, want)


def test_only_the_chosen_lengths_of_ngrams_count(run):
    x = np.array([2, 5, 2, 2, 1], np.int64)
    for low, high in [(1, 1), (2, 2), (3, 3), (2, 3)]:
        attributes = {**NGRAMS, "min_gram_length": low, "max_gram_length": high}
        (got,), (want,) = run("TfIdfVectorizer", "", x, **attributes)
        np.testing.assert_array_equal(got, want)
        assert got.any()


@pytest.mark.parametrize(
    "change, error",
    [
        (dict(ngram_indexes=[0, 1, 2, 3, 4, 4]), ShapeError),
        (dict(ngram_indexes=[0, 1, 2]), ShapeError),
        (dict(ngram_indexes=[0, 1, 2, 3, 4, 1 << 40]), ShapeError),
        (dict(ngram_counts=[0, 3, 6]), ShapeError),
        (dict(ngram_counts=[0, 8, 6]), ShapeError),
        (dict(min_gram_length=4), ShapeError),
        (dict(max_skip_count=-1), ShapeError),
        (dict(mode="idf"), ShapeError),
        (dict(mode="IDF", weights=[1.0]), ShapeError),
    ],
)
def test_ngrams_that_do_not_fit_are_refused(change, error):
    x = np.zeros((2, 3), np.int64)
    with pytest.raises(error, match="TfIdfVectorizer"):
        import_onnx(model("TfIdfVectorizer", "", [x], **{**NGRAMS, **change}))


def test_ngrams_of_text_are_refused():
    attributes = {name: value for name, value in NGRAMS.items() if name != "pool_int64s"}
    x = np.zeros(3, np.int64)
    made = model("TfIdfVectorizer", "", [x], pool_strings=["a"] * 12, **attributes)
    with pytest.raises(UnsupportedOp, match="element type string"):
        import_onnx(made)


def test_very_many_skips_are_refused():
    x = np.zeros((1, 5000), np.int64)
    with pytest.raises(UnsupportedOp, match="max_skip_count"):
        import_onnx(model("TfIdfVectorizer", "", [x], **{**NGRAMS, "max_skip_count": 5000}))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("threshold", [0.0, 0.5, -1.0, -1e30, 1e30])
def test_binarizer(run, dtype, threshold):
    x = np.array([[-2, -1, 0], [1, 0, 3]], dtype)
    (got,), (want,) = run("Binarizer", ML, x, threshold=threshold)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4)])
@pytest.mark.parametrize("at", [[[3, 0]], [1]])
def test_array_feature_extractor(run, shape, at):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (got,), (want,) = run("ArrayFeatureExtractor", ML, x, np.array(at))
    np.testing.assert_array_equal(got, want)


def test_label_encoder(run):
    x = np.array([[3, 1], [7, -4]])
    (got,), (want,) = run(
        "LabelEncoder", ML, x, keys_int64s=[1, 3, 3, -4], values_floats=[0.5, 9.0, 2.5, 1.0],
        default_float=-7.0,
    )  # fmt: skip
    np.testing.assert_array_equal(got, want)
    x = x.astype(np.float32)
    (got,), (want,) = run("LabelEncoder", ML, x, keys_floats=[1.0, 7.0], values_int64s=[5, 6])
    np.testing.assert_array_equal(got, want)
    tensors = {
        "keys_tensor": np.array([1.0, np.nan]),
        "values_tensor": np.array([10, 20], np.int16),
        "default_tensor": np.array([-3], np.int16),
    }
    tensors = {name: numpy_helper.from_array(array) for name, array in tensors.items()}
    made = model("LabelEncoder", ML, [np.zeros(3)], **tensors)
    got = import_onnx(made)
    with_nan = Runner()
    (result,) = with_nan.run(got.module_text, got.constants, [np.array([np.nan, 1.0, 2.0])])
    with_nan.close()
    assert result.tolist() == [20, 10, -3] and got.outputs[0].dtype == "int16"


KINDS = ("int64s", "floats", np.int16, np.int32, np.int64, np.float32, np.float64)


def label_attribute(name, kind, numbers):
    """keys or values in an attribute of their own, or in a tensor; and their type."""
    if isinstance(kind, str):
        as_type = {"int64s": np.int64, "floats": np.float32}[kind]
        return {f"{name}_{kind}": np.array(numbers, as_type).tolist()}, as_type
    return {f"{name}_tensor": numpy_helper.from_array(np.array(numbers, kind))}, kind


@pytest.mark.parametrize("keys, values", [*zip(KINDS, KINDS[1:] + KINDS[:1], strict=True)])
def test_label_encoder_of_all_kinds(keys, values):
    """Numbers of any of its types to numbers of any other."""
    given, key = label_attribute("keys", keys, [1, 3, -4])
    found, value = label_attribute("values", values, [5, 6, 7])
    x = np.array([3, 1, 2, -4], key)
    made = model("LabelEncoder", ML, [x], **given, **found)
    got = import_onnx(made)
    runner = Runner()
    (result,) = runner.run(got.module_text, got.constants, [x])
    runner.close()
    default = -1 if np.issubdtype(value, np.integer) else -0.0
    np.testing.assert_array_equal(result, np.array([6, 5, default, 7], value))
    assert got.outputs[0].dtype == np.dtype(value).name


def test_label_encoder_of_text_is_refused():
    x = np.zeros(3, np.int64)
    with pytest.raises(UnsupportedOp, match="values: element type string"):
        import_onnx(model("LabelEncoder", ML, [x], keys_int64s=[1], values_strings=["a"]))
    with pytest.raises(ShapeError, match="2 keys"):
        import_onnx(model("LabelEncoder", ML, [x], keys_int64s=[1, 2], values_int64s=[1]))


@pytest.mark.parametrize(
    "op, states, attributes",
    [
        ("Adagrad", 1, dict(decay_factor=0.1, epsilon=1e-3, norm_coefficient=0.01)),
        ("Adam", 2, dict(alpha=0.8, beta=0.7, norm_coefficient=0.01, norm_coefficient_post=0.1)),
        ("Momentum", 1, dict(alpha=0.9, beta=0.5, norm_coefficient=0.01, mode="standard")),
        ("Momentum", 1, dict(alpha=0.9, beta=0.5, norm_coefficient=0.0, mode="nesterov")),
    ],
)
@pytest.mark.parametrize("time", [0, 3])
def test_optimizers(run, op, states, attributes, time):
    rng = np.random.default_rng(time)
    shapes = [(2, 3), (4,)]
    tensors = [rng.uniform(0.1, 1, s).astype("f") for _ in range(2 + states) for s in shapes]
    rate = np.array(0.1, np.float32)
    got, want = run(
        op, TRAINING, rate, np.array(time), *tensors, outputs=2 * (1 + states), **attributes
    )
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7)


def test_optimizers_refuse_what_does_not_fit():
    rate, time, x = np.float32(0.1), np.int64(1), np.zeros(3, np.float32)
    scalars = [np.asarray(rate), np.asarray(time)]
    for tensors in [[x, x], [x, x, np.zeros(4, np.float32)]]:
        with pytest.raises((ShapeError, UnsupportedOp), match="Adagrad"):
            import_onnx(model("Adagrad", TRAINING, [*scalars, *tensors], outputs=2))
