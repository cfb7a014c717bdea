"""Pipelines of scikit-learn, boosted trees of LightGBM and XGBoost: what others make of them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from ml_models import expected, features, model  # noqa: E402
from random_trees import MODES, keyed_attributes, leaves_of, random_tree  # noqa: E402

import rcompiler  # noqa: E402
from rcompiler.errors import UnsupportedOp  # noqa: E402

TOLERANCE = dict(rtol=2e-5, atol=2e-6)  # f32: other orders of sums, other exponentials


def agree(got, want):
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, **TOLERANCE)
        else:
            np.testing.assert_array_equal(a, b)


# -- hand-made trees -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def boosted():
    """A model of 12 trees with a free number of rows, and 37 rows."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-2, 2, 9)
    trees = [random_tree(rng, 5, 6, MODES, grid) for _ in range(12)]
    weights = [(t, n, t % 3, float(rng.normal())) for t, n in leaves_of(trees)]
    x = features(rng, 37, 5, grid)
    attributes = keyed_attributes(trees, "class", weights)
    attributes |= {"classlabels_int64s": [2, 5, 7], "post_transform": "SOFTMAX"}
    return model("TreeEnsembleClassifier", [x], 2, rows="rows", **attributes), x


@pytest.mark.parametrize("rows", [1, 5, 37])
@pytest.mark.parametrize("target, eus", [("cpu", 1), ("cpu:v3", 2), ("cpu:x86-64", 2)])
def test_trees_in_tasks(boosted, rows, target, eus):
    made, x = boosted
    compiled = rcompiler.compile_onnx(made, target=target, shapes={"rows": rows}, eus=eus)
    agree(compiled(x[:rows]), expected(made, [x[:rows]]))


def test_trees_on_an_emulated_gpu(boosted):
    made, x = boosted
    compiled = rcompiler.compile_onnx(made, target="cuda:emulated", shapes={"rows": 9})
    agree(compiled(x[:9]), expected(made, [x[:9]]))


def test_code_does_not_grow_with_trees():
    """Ten times the nodes are in tables ten times as long."""
    sizes = []
    for count in (20, 200):
        rng = np.random.default_rng(1)
        trees = [random_tree(rng, 4, 5, ["LEQ"], np.linspace(-2, 2, 9)) for _ in range(count)]
        weights = [(t, n, 0, float(rng.normal())) for t, n in leaves_of(trees)]
        x = np.zeros((16, 4), np.float32)
        attributes = keyed_attributes(trees, "target", weights)
        made = model("TreeEnsembleRegressor", [x], n_targets=1, **attributes)
        compiled = rcompiler.compile_onnx(made, target="cpu:v3", device="epyc-9555", eus=1)
        sizes.append(len(compiled.stage("asm")))
    assert sizes[1] < 1.5 * sizes[0]


# -- scikit-learn ----------------------------------------------------------------------------------


def data(rows=120):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 5))
    return x, np.digitize(x[:, 0] + x[:, 1] / 2, [-0.5, 0.5]), x[:, 0] * 2 + x[:, 1] ** 2


def pipelines():
    """(estimator, which target: "two" or "three" classes, or "number") by name."""
    from sklearn.cluster import KMeans
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import PCA
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        IsolationForest,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
    from sklearn.svm import SVC, SVR

    few = dict(n_estimators=6, random_state=0)
    columns = [("one_hot", OneHotEncoder(handle_unknown="ignore"), [4]),
               ("scale", StandardScaler(), [0, 1, 2, 3])]  # fmt: skip
    return {
        "logistic": (make_pipeline(StandardScaler(), LogisticRegression()), "three"),
        "forest": (RandomForestClassifier(**few), "two"),
        "forest of three": (RandomForestClassifier(**few), "three"),
        "forest of numbers": (RandomForestRegressor(**few), "number"),
        "boosted": (GradientBoostingClassifier(**few), "three"),
        "histograms": (HistGradientBoostingClassifier(max_iter=5), "missing"),
        "isolation": (IsolationForest(**few), "none"),
        "machine": (SVC(probability=True, random_state=0), "three"),
        "machine of two": (SVC(), "two"),
        "machine of numbers": (SVR(), "number"),
        "network": (MLPClassifier((6,), max_iter=20, random_state=0), "three"),
        "bayes": (GaussianNB(), "three"),
        "means": (KMeans(3, n_init=1, random_state=0), "none"),
        "components": (make_pipeline(PCA(3), LogisticRegression()), "two"),
        "columns": (make_pipeline(ColumnTransformer(columns), LogisticRegression()), "category"),
        "powers": (make_pipeline(PolynomialFeatures(2), LinearRegression()), "number"),
        "imputed": (make_pipeline(SimpleImputer(), LogisticRegression()), "missing"),
    }


NAMES = ("logistic", "forest", "forest of three", "forest of numbers", "boosted", "histograms",
         "isolation", "machine", "machine of two", "machine of numbers", "network", "bayes",
         "means", "components", "columns", "powers", "imputed")  # fmt: skip


def fitted(name, kind=np.float32):
    """The ONNX model, and rows for it."""
    skl2onnx = pytest.importorskip("skl2onnx")
    estimator, target = pipelines()[name]
    x, three, number = data()
    if target == "category":
        x[:, 4] = np.random.default_rng(1).integers(0, 3, len(x))
    if target == "missing":
        x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    x = x.astype(kind)
    y = {"two": three > 1, "category": three > 1, "number": number, "none": None}.get(target, three)
    estimator.fit(x, y if target in ("number", "none") else y.astype(int))
    opsets = {"": 18, "ai.onnx.ml": 3}
    return skl2onnx.to_onnx(estimator, x[:1], target_opset=opsets), x[:30]


def without_maps(made):
    """The names of what ZipMap made, which are outputs of the scores themselves now."""
    maps = {n.output[0]: n.input[0] for n in made.graph.node if n.op_type == "ZipMap"}
    kept = [node for node in made.graph.node if node.op_type != "ZipMap"]
    del made.graph.node[:]
    made.graph.node.extend(kept)
    for output in made.graph.output:
        if output.name in maps:
            output.name = maps[output.name]
            output.type.Clear()
            output.type.tensor_type.elem_type = TensorProto.FLOAT
    return list(maps)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_pipelines_of_scikit_learn(name):
    """With ZipMap, as converters write it: the result is the tensor of probabilities."""
    made, x = fitted(name)
    compiled = rcompiler.compile_onnx(made, shapes={"X": x.shape})
    maps = without_maps(made)
    assert all(f"'{each}' is the tensor of scores" in compiled.report().note for each in maps)
    agree(compiled(x), expected(made, [x]))


@pytest.mark.parametrize("name", ["logistic", "forest"])
@pytest.mark.filterwarnings("ignore")
def test_a_session_gives_maps_from_labels_to_probabilities(name):
    made, x = fitted(name)
    labels, maps = rcompiler.InferenceSession(made).run(None, {"X": x})
    want = expected(made, [x])
    agree([labels], want[:1])
    for found, row in zip(maps, want[1], strict=True):
        assert found == pytest.approx(row, rel=2e-5, abs=2e-6)


@pytest.mark.parametrize("name", ["logistic", "means", "components", "bayes"])
@pytest.mark.filterwarnings("ignore")
def test_pipelines_in_doubles(name):
    made, x = fitted(name, np.float64)
    got = rcompiler.compile_onnx(made, shapes={"X": x.shape})(x)
    without_maps(made)
    for output in made.graph.output[1:]:
        output.type.tensor_type.elem_type = TensorProto.DOUBLE
    labels, scores = expected(made, [x])
    np.testing.assert_array_equal(got[0], labels)
    np.testing.assert_allclose(got[1], scores, rtol=1e-12, atol=1e-13)


def test_labels_of_text():
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    x, three, _ = data()
    x = x.astype(np.float32)
    estimator = LogisticRegression().fit(x, np.array(["low", "middle", "high"])[three])
    made = skl2onnx.to_onnx(estimator, x[:1], options={"zipmap": False})
    with pytest.raises(UnsupportedOp, match="integer labels"):
        rcompiler.compile_onnx(made, shapes={"X": x.shape})
    del made.graph.output[0]
    (scores,) = rcompiler.compile_onnx(made, shapes={"X": x.shape})(x)
    np.testing.assert_allclose(scores, estimator.predict_proba(x), **TOLERANCE)


# -- LightGBM and XGBoost --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["number", "two", "three"])
@pytest.mark.filterwarnings("ignore")
def test_boosted_trees_of_lightgbm(kind):
    lightgbm = pytest.importorskip("lightgbm")
    onnxmltools = pytest.importorskip("onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, three, number = data(400)
    x = x.astype(np.float32)
    few = dict(n_estimators=12, num_leaves=15, verbose=-1)
    estimator = (
        lightgbm.LGBMRegressor(**few) if kind == "number" else lightgbm.LGBMClassifier(**few)
    )
    estimator.fit(x, {"number": number, "two": (three > 1).astype(int), "three": three}[kind])
    types = [("X", FloatTensorType([None, 5]))]
    made = onnxmltools.convert_lightgbm(
        estimator, initial_types=types, zipmap=False, target_opset=15
    )
    got = rcompiler.compile_onnx(made, shapes={"X": x.shape})(x)
    if kind == "number":
        np.testing.assert_allclose(got[0][:, 0], estimator.predict(x), rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(got[0], estimator.predict(x))
        np.testing.assert_allclose(got[1], estimator.predict_proba(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_boosted_trees_of_xgboost(classes):
    xgboost = pytest.importorskip("xgboost")
    onnxmltools = pytest.importorskip("onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, three, _ = data(400)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    x, y = x.astype(np.float32), three if classes == 3 else (three > 1).astype(int)
    estimator = xgboost.XGBClassifier(n_estimators=8).fit(x, y)
    types = [("X", FloatTensorType([None, 5]))]
    made = onnxmltools.convert_xgboost(estimator, initial_types=types, target_opset=15)
    labels, scores = rcompiler.compile_onnx(made, shapes={"X": x.shape})(x)
    np.testing.assert_array_equal(labels, estimator.predict(x))
    np.testing.assert_allclose(scores, estimator.predict_proba(x), rtol=1e-4, atol=1e-5)
