"""Tree ensembles, linear models, support vectors and their features (ai.onnx.ml)."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from fuzz.catalog import generator
from fuzz.maker import Maker, Value

ML = "ai.onnx.ml"


def _rows(g: Maker, op: str, parameter: str = "T", *, integers: bool = False) -> Value:
    """Rows of features; of integers only where onnx.reference does not compute in integers."""
    types = g.types(op, parameter, ML)
    if not integers:
        types = tuple(g.among(types, [t for t in types if t.startswith("float")]))
    return g.value(types, rank=2, empty=False, where=lambda v: v.shape[1] < 20)


def _numbers(g: Maker, *shape: int) -> list[float]:
    """Of f32, as attributes are."""
    return [float(v) for v in g.numbers.normal(size=shape).astype(np.float32).reshape(-1)]


def _thresholds(g: Maker, x: Value, count: int) -> np.ndarray:
    """Numbers that features are compared with: some of them, where nothing rounded these before."""
    exact = x.name in g.inputs or x.name in g.constants
    return g.numbers.choice(x.array.reshape(-1) if exact else g.numbers.normal(size=64), count)


@generator("TreeEnsemble", domain=ML)
def numbered_trees(g: Maker, op: str) -> None:
    """One node each, in any mode."""
    x = _rows(g, op)
    count, targets = g.int(1, 3), g.int(1, 3)
    mode = [g.int(0, 6) for _ in range(count)]
    sets = [[*_thresholds(g, x, 2), np.nan] for m in mode if m == 6]
    tensors = {
        "nodes_modes": np.array(mode, np.uint8),
        "nodes_splits": _thresholds(g, x, count).astype(x.dtype),
        "leaf_weights": g.numbers.normal(size=2 * count).astype(x.dtype),
    }
    if g.chance(0.2):
        tensors["nodes_hitrates"] = np.ones(count, x.dtype)
    if sets:
        tensors["membership_values"] = np.concatenate(sets).astype(x.dtype)
    g.node(op, [x], domain=ML, n_targets=targets, tree_roots=list(range(count)),
           nodes_featureids=[g.int(0, x.shape[1] - 1) for _ in range(count)],
           nodes_truenodeids=list(range(0, 2 * count, 2)), nodes_trueleafs=[1] * count,
           nodes_falsenodeids=list(range(1, 2 * count, 2)), nodes_falseleafs=[1] * count,
           leaf_targetids=[g.int(0, targets - 1) for _ in range(2 * count)],
           aggregate_function=g.pick([None, None, 0, 2, 3]),
           post_transform=g.pick([None, None, 1, 2]) if targets > 1 else None,
           nodes_missing_value_tracks_true=g.pick([None, [g.int(0, 1) for _ in range(count)]]),
           **{name: numpy_helper.from_array(a) for name, a in tensors.items()})  # fmt: skip


@generator("LinearRegressor", domain=ML)
def linear(g: Maker, op: str) -> None:
    x = _rows(g, op)
    targets = g.int(1, 4)
    g.node(op, [x], domain=ML, targets=targets, coefficients=_numbers(g, targets * x.shape[1]),
           intercepts=g.pick([None, _numbers(g, targets)]),
           post_transform=g.pick([None, *_TRANSFORMS[:2]]) if targets > 1 else None)  # fmt: skip


@generator("LinearClassifier", domain=ML)
def linear_classes(g: Maker, op: str) -> None:
    x = _rows(g, op, "T1", integers=True)
    g.node(op, [x], 2, domain=ML, classlabels_ints=[4, 2, 7],
           post_transform=g.pick(["NONE", *_TRANSFORMS]), multi_class=g.pick([None, 1]),
           coefficients=_numbers(g, 3 * x.shape[1]), intercepts=_numbers(g, 3))  # fmt: skip


_TRANSFORMS = ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
_KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.25, 1.0, 2.0], "RBF": [0.25, 0.0, 0.0],
            "SIGMOID": [0.25, 0.5, 0.0]}  # fmt: skip


@generator("SVMRegressor", domain=ML)
def vectors(g: Maker, op: str) -> None:
    x, kernel, count = _rows(g, op), g.pick(list(_KERNELS)), g.int(1, 5)
    g.node(op, [x], domain=ML, kernel_type=kernel, kernel_params=_KERNELS[kernel],
           n_supports=count, support_vectors=_numbers(g, count * x.shape[1]),
           coefficients=_numbers(g, count), rho=_numbers(g, 1),
           one_class=g.pick([None, None, 1]))  # fmt: skip


@generator("SVMClassifier", domain=ML)
def vectors_of_classes(g: Maker, op: str) -> None:
    x, kernel = _rows(g, op, "T1"), g.pick(list(_KERNELS))
    each = [g.int(1, 3) for _ in range(3)]
    told = g.chance(0.3)  # probabilities, of pairs of classes
    chances = {name: _numbers(g, 3) for name in ("prob_a", "prob_b") if told}
    g.node(op, [x], 2, domain=ML, kernel_type=kernel, kernel_params=_KERNELS[kernel],
           classlabels_ints=[4, 2, 7], vectors_per_class=each, rho=_numbers(g, 3),
           support_vectors=_numbers(g, sum(each) * x.shape[1]),
           coefficients=_numbers(g, 2 * sum(each)),
           post_transform=g.pick([None, None, *_TRANSFORMS]), **chances)  # fmt: skip


@generator("Scaler", domain=ML)
def scaler(g: Maker, op: str) -> None:
    x = _rows(g, op)
    count = g.pick([1, x.shape[1]])
    g.node(op, [x], domain=ML, offset=_numbers(g, count), scale=_numbers(g, count))


@generator("Normalizer", domain=ML)
def normalizer(g: Maker, op: str) -> None:
    x, norm = _rows(g, op, integers=True), g.pick(["MAX", "L1", "L2"])
    if norm == "MAX":  # by the standard's words; its reference takes absolute values
        (x,) = g.node("Abs", [x])
    g.node(op, [x], domain=ML, norm=norm)


@generator("Imputer", domain=ML)
def imputer(g: Maker, op: str) -> None:
    x = _rows(g, op, integers=True)
    count = g.pick([1, x.shape[1]])
    if x.dtype.startswith("float"):
        g.node(op, [x], domain=ML, imputed_value_floats=_numbers(g, count),
               replaced_value_float=float(g.pick([0.0, float("nan")])))  # fmt: skip
    else:
        g.node(op, [x], domain=ML, imputed_value_int64s=[g.int(-9, 9) for _ in range(count)],
               replaced_value_int64=g.int(-3, 3))  # fmt: skip


@generator("OneHotEncoder", domain=ML)
def one_hot(g: Maker, op: str) -> None:
    types = g.among(g.types(op, "T", ML), ("int64", "int32"))
    x = g.value(types, (1, 2), low=-5, high=5)
    cats = [int(k) for k in g.numbers.permutation(11)[:6] - 5]
    known = bool(np.isin(x.array, cats).all())  # without zeros there must be no others
    g.node(op, [x], domain=ML, cats_int64s=cats, zeros=g.pick([1, 0]) if known else 1)


@generator("FeatureVectorizer", domain=ML)
def vectorizer(g: Maker, op: str) -> None:
    x = _rows(g, op, "T1", integers=True)
    other = g.value([x.dtype], shape=(x.shape[0], g.int(1, 5)))
    g.node(op, [x, other], domain=ML, inputdimensions=[x.shape[1], other.shape[1]])
