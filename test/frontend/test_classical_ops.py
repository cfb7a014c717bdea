"""Linear models, support vectors and features of ai.onnx.ml beside onnxruntime."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from ml_models import expected, model  # noqa: E402
from naive_linalg import Runner  # noqa: E402

from rcompiler.errors import ShapeError, UnsupportedOp  # noqa: E402
from rcompiler.frontend import import_onnx  # noqa: E402

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


@pytest.fixture(scope="module")
def check():
    """check(model, *arrays): the results are those of onnxruntime, but for the last digits."""
    runner = Runner()

    def call(made, *arrays, tolerance=3e-6):
        got = import_onnx(made)
        results = runner.run(got.module_text, got.constants, list(arrays))
        for a, b in zip(results, expected(made, arrays), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            if b.dtype == np.int64:
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        return results

    yield call
    runner.close()


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).round(3)


# -- linear models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("targets, transform", [(1, "NONE"), (1, "PROBIT"), (3, "SOFTMAX")])
def test_linear_regressor(check, targets, transform):
    made = model(
        "LinearRegressor",
        [X],
        targets=targets,
        post_transform=transform,
        coefficients=normal(1, targets * 4).tolist(),
        intercepts=normal(2, targets).tolist(),
    )
    check(made, X)


def test_linear_regressor_without_intercepts(check):
    check(model("LinearRegressor", [X], coefficients=normal(1, 4).tolist()), X)


@pytest.mark.parametrize("sums, classes", [(1, 2), (2, 2), (3, 3)])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_classifier(check, sums, classes, transform):
    made = model(
        "LinearClassifier",
        [X],
        2,
        classlabels_ints=[7, 3, 5][:classes],
        post_transform=transform,
        coefficients=normal(1, sums * 4).tolist(),
        intercepts=normal(2, sums).tolist(),
    )
    check(made, X)


def test_linear_classifier_without_labels(check):
    made = model("LinearClassifier", [X], 2, coefficients=normal(1, 4).tolist(), intercepts=[0.1])
    check(made, X)


def test_rows_of_more_dimensions_side_by_side(check):
    parts = [normal(1, 2, 3), normal(2, 2, 2, 2)]
    check(model("FeatureVectorizer", parts, inputdimensions=[3, 4]), *parts)


def test_a_machine_with_more_coefficients_than_it_has_vectors(check):
    more = [*normal(3, 6).tolist(), *[9.0] * 12]
    how = {"classlabels_ints": [0, 1], "rho": [0.5], "kernel_type": "RBF"}
    how |= {"kernel_params": [0.1, 0.0, 3.0], "vectors_per_class": [3, 3]}
    vectors = normal(4, 24).tolist()
    check(model("SVMClassifier", [X], 2, coefficients=more, support_vectors=vectors, **how), X)


def test_linear_classifier_of_integers(check):
    x = np.arange(8).reshape(2, 4) - 3
    coefficients, intercepts = normal(1, 8).tolist(), normal(2, 2).tolist()
    made = model(
        "LinearClassifier",
        [x],
        2,
        classlabels_ints=[0, 1],
        coefficients=coefficients,
        intercepts=intercepts,
    )
    check(made, x)


# -- support vectors -------------------------------------------------------------------------------

KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 1.0, 3.0], "RBF": [0.4, 0.0, 0.0],
           "SIGMOID": [0.3, 0.2, 0.0]}  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(check, kernel, one_class):
    made = model(
        "SVMRegressor",
        [X],
        kernel_type=kernel,
        kernel_params=KERNELS[kernel],
        n_supports=5,
        support_vectors=normal(3, 20).tolist(),
        coefficients=normal(4, 5).tolist(),
        rho=[0.125],
        one_class=one_class,
    )
    check(made, X)


def test_svm_regressor_without_vectors(check):
    coefficients = normal(4, 4).tolist()
    made = model("SVMRegressor", [X], kernel_params=[0.0] * 3, coefficients=coefficients, rho=[0.5])
    check(made, X)


def machine(classes, kernel="RBF", probabilities=False, **others):
    each = [2, 3, 1, 2][:classes]
    total, pairs = sum(each), classes * (classes - 1) // 2
    found = dict(
        kernel_type=kernel,
        kernel_params=KERNELS[kernel],
        classlabels_ints=[4, 2, 9, 1][:classes],
        vectors_per_class=each,
        support_vectors=normal(5, total * 4).tolist(),
        coefficients=normal(6, total * (classes - 1)).tolist(),
        rho=normal(7, pairs).tolist(),
    )
    if probabilities:
        found |= {"prob_a": (-1 - abs(normal(8, pairs))).tolist(), "prob_b": [0.1] * pairs}
    return model("SVMClassifier", [X], 2, **{**found, **others})


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 4])
def test_votes(check, kernel, classes):
    check(machine(classes, kernel), X)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_decisions(check, classes, transform):
    check(machine(classes, post_transform=transform), X)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_probabilities(check, classes):
    check(machine(classes, probabilities=True), X, tolerance=2e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sign", [1, -1])
def test_svm_classifier_without_vectors(check, classes, sign):
    coefficients = sign * abs(normal(9, classes * 4))
    made = model(
        "SVMClassifier",
        [X],
        2,
        classlabels_ints=[4, 2, 9][:classes],
        kernel_params=[0.0] * 3,
        coefficients=coefficients.tolist(),
        rho=[0.25],
    )
    check(made, X)


# -- features --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("each", [False, True])
def test_scaler(check, dtype, each):
    count = 4 if each else 1
    x = (X * 10).astype(dtype)
    offset, scale = normal(1, count).tolist(), normal(2, count).tolist()
    check(model("Scaler", [x], offset=offset, scale=scale), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(check, dtype, norm):
    x = (X * 10).astype(dtype)
    x[2] = 0
    check(model("Normalizer", [x], norm=norm), x)


@pytest.mark.parametrize("missing", [np.nan, 2.0])
@pytest.mark.parametrize("count", [1, 4])
def test_imputer(check, missing, count):
    x = X.copy()
    x[1, 1:3], x[4, 0] = np.nan, 2.0
    given = normal(3, count).tolist()
    check(model("Imputer", [x], imputed_value_floats=given, replaced_value_float=missing), x)


def test_imputer_of_integers(check):
    x = np.arange(12).reshape(3, 4) % 5
    check(model("Imputer", [x], imputed_value_int64s=[70, 71, 72, 73], replaced_value_int64=2), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_one_hot_encoder(check, dtype, shape):
    x = np.array([1, 5, 9, -3, 5, 0], dtype).reshape(shape)
    x = x + np.array(0.5, dtype)  # the fraction does not count
    check(model("OneHotEncoder", [x], cats_int64s=[5, -3, 1, 2], zeros=1), x)


def test_a_category_that_is_none_is_an_error_if_zeros_are_not_asked_for():
    import rcompiler  # noqa: PLC0415
    from rcompiler.errors import RangeError  # noqa: PLC0415

    x = np.array([1, 5, -3])
    compiled = rcompiler.compile_onnx(model("OneHotEncoder", [x], cats_int64s=[5, -3, 1], zeros=0))
    np.testing.assert_array_equal(compiled(x)[0], [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    with pytest.raises(RangeError, match="OneHotEncoder 'it'"):
        compiled(np.array([1, 5, 7]))


def test_feature_vectorizer(check):
    arrays = [X, (X[:, :2] * 10).astype(np.float32)]
    check(model("FeatureVectorizer", arrays, inputdimensions=[4, 2]), *arrays)
    check(model("FeatureVectorizer", arrays, inputdimensions=[3, 4]), *arrays)


def test_zip_map_is_left_out_with_a_note():
    made = model("ZipMap", [X], classlabels_int64s=[4, 2, 9, 1])
    got = import_onnx(made)
    assert got.outputs[0].shape == X.shape
    assert got.notes == (
        "ZipMap 'it' is left out: 'o0' is the tensor of scores [rows, 4], in the order of its "
        "classlabels",
    )


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made, error, message",
    [
        (model("LinearRegressor", [X], coefficients=[1.0] * 3), ShapeError, "3 coefficients"),
        (
            model("LinearRegressor", [X], coefficients=[1.0] * 4, post_transform="SOFTMAX"),
            UnsupportedOp,
            "SOFTMAX of one target",
        ),
        (
            model("LinearClassifier", [X], 2, classlabels_ints=[1, 2, 3], coefficients=[1.0] * 4),
            ShapeError,
            "1 sums of 4 features, 3 classes",
        ),
        (
            model(
                "LinearClassifier",
                [X],
                2,
                classlabels_ints=[1, 2],
                coefficients=[1.0] * 4,
                post_transform="PROBIT",
            ),
            UnsupportedOp,
            "PROBIT leaves the first",
        ),
        (
            model("LinearClassifier", [X], 2, coefficients=[1.0] * 4, post_transform="LOGISTIC"),
            UnsupportedOp,
            "LOGISTIC of one sum without labels",
        ),
        (machine(3, rho=[1.0]), ShapeError, "1 rho"),
        (machine(3, vectors_per_class=[1, 2]), ShapeError, "of 3 classes"),
        (machine(3, kernel_params=[1.0]), ShapeError, "gamma, coef0 and degree"),
        (machine(3, probabilities=True, prob_b=[1.0]), ShapeError, "3 prob_a and prob_b"),
        (machine(3, kernel_type="COSINE"), ShapeError, "COSINE"),
        (model("Scaler", [X], offset=[1.0] * 3, scale=[1.0]), ShapeError, "3 numbers"),
        (model("Normalizer", [X], norm="L3"), ShapeError, "L3"),
        (model("OneHotEncoder", [X], cats_int64s=[1, 1]), ShapeError, "there twice"),
        (model("OneHotEncoder", [X], cats_strings=["a"]), UnsupportedOp, "string"),
        (model("FeatureVectorizer", [X], inputdimensions=[1, 2]), ShapeError, "2 inputdimensions"),
        (model("ZipMap", [X], classlabels_int64s=[1, 2]), ShapeError, "scores of 2 classes"),
        (model("ZipMap", [X]), ShapeError, "names the classes"),
        (
            model(
                "ZipMap", [X], classlabels_int64s=[1, 2, 3, 4], classlabels_strings=[*"abcd"]
            ),
            ShapeError,
            "names the classes",
        ),
        (model("CategoryMapper", [np.arange(3)], cats_int64s=[1], cats_strings=["a"]),
         UnsupportedOp, "text"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(made, error, message):
    with pytest.raises(error, match=message):
        import_onnx(made)
