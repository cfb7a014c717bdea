"""Tree ensembles of ai.onnx.ml beside onnxruntime: every test, weights, sums and transforms."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from ml_models import expected, features, model  # noqa: E402
from naive_linalg import Runner  # noqa: E402
from random_trees import MODES, keyed_attributes, leaves_of, random_tree  # noqa: E402

from rcompiler.errors import ShapeError, UnsupportedOp  # noqa: E402
from rcompiler.frontend import decision_trees, import_onnx  # noqa: E402

GRID = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


@pytest.fixture(scope="module")
def run():
    """run(model, *arrays): results of the translated model."""
    runner = Runner()

    def call(made, *arrays):
        got = import_onnx(made)
        return runner.run(got.module_text, got.constants, list(arrays))

    yield call
    runner.close()


def forest(seed, count=5, depth=4, modes=MODES, columns=3):
    rng = np.random.default_rng(seed)
    return rng, [random_tree(rng, columns, depth, modes, GRID) for _ in range(count)]


def weighted(rng, trees, targets, each="all"):
    """Weights of leaves. each: "all" of every leaf for all targets, "one" of a tree for one."""
    made = []
    for tree, node in leaves_of(trees):
        chosen = range(targets) if each == "all" else [tree % targets]
        made += [(tree, node, t, float(rng.normal())) for t in chosen]
    return made


def agree(got, want, tolerance=2e-6):
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype == np.int64:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", [*MODES, "all"])
@pytest.mark.parametrize("missing", [False, True])
def test_every_test_of_a_node(run, mode, missing):
    rng, trees = forest(len(mode) + missing, modes=MODES if mode == "all" else [mode])
    x = features(rng, 60, 3, GRID)
    attributes = keyed_attributes(trees, "target", weighted(rng, trees, 1), missing)
    made = model("TreeEnsembleRegressor", [x], n_targets=1, **attributes)
    agree(run(made, x), expected(made, [x]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("each", ["all", "one"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_sums_of_several_targets(run, dtype, each, aggregate):
    rng, trees = forest(7)
    x = features(rng, 20, 3, GRID, dtype)
    weights = weighted(rng, trees, 3, each)
    attributes = keyed_attributes(trees, "target", weights, double=dtype == np.float64)
    base = [0.5, -1.0, 2.0]
    if dtype == np.float64:
        attributes["base_values_as_tensor"] = numpy_helper.from_array(np.array(base))
    else:
        attributes["base_values"] = base
    made = model(
        "TreeEnsembleRegressor", [x], n_targets=3, aggregate_function=aggregate, **attributes
    )
    agree(run(made, x), expected(made, [x]))


@pytest.mark.parametrize(
    "transform, dtype, rows",
    [
        ("NONE", np.float32, 9),
        ("SOFTMAX", np.int64, 9),
        ("LOGISTIC", np.float32, 1),
        ("SOFTMAX_ZERO", np.float64, 9),
        ("PROBIT", np.int32, 9),
    ],
)
def test_transforms_of_classes(run, transform, dtype, rows):
    rng, trees = forest(3)
    x = features(rng, rows, 3, GRID, dtype)
    weights = [(*w[:3], abs(w[3]) / 20 + 0.01) for w in weighted(rng, trees, 4)]
    made = model(
        "TreeEnsembleClassifier",
        [x],
        2,
        classlabels_int64s=[3, 1, 9, 2],
        post_transform=transform,
        **keyed_attributes(trees, "class", weights, double=dtype == np.float64),
    )
    agree(run(made, x), expected(made, [x]))


@pytest.mark.parametrize("signs", ["positive", "mixed"])
@pytest.mark.parametrize("base", [None, [0.25]])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_two_classes_with_weights_of_one(run, signs, base, transform):
    rng, trees = forest(5)
    x = features(rng, 30, 3, GRID)
    scale = (lambda w: abs(w) / 5) if signs == "positive" else (lambda w: w)
    weights = [(*w[:3], scale(w[3])) for w in weighted(rng, trees, 1)]
    attributes = keyed_attributes(trees, "class", weights)
    if base:
        attributes["base_values"] = base
    made = model(
        "TreeEnsembleClassifier",
        [x],
        2,
        classlabels_int64s=[10, 20],
        post_transform=transform,
        **attributes,
    )
    agree(run(made, x), expected(made, [x]))


@pytest.mark.parametrize("signs", ["positive", "mixed"])
@pytest.mark.parametrize("base", [None, [-0.25]])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_class_is_there_or_not(run, signs, base, transform, dtype):
    """The label is 1 or 0, whatever the name of the class."""
    rng, trees = forest(5, count=2)
    x = features(rng, 30, 3, GRID, dtype)
    scale = (lambda w: abs(w) / 5) if signs == "positive" else (lambda w: w)
    weights = [(*w[:3], scale(w[3])) for w in weighted(rng, trees, 1)]
    attributes = keyed_attributes(trees, "class", weights, double=dtype == np.float64)
    if base and dtype == np.float64:
        attributes["base_values_as_tensor"] = numpy_helper.from_array(np.array(base))
    elif base:
        attributes["base_values"] = base
    attributes |= {"classlabels_int64s": [7], "post_transform": transform}
    made = model("TreeEnsembleClassifier", [x], 2, **attributes)
    want = expected(made, [x])
    assert signs == "positive" or set(want[0]) == {0, 1}
    agree(run(made, x), want, 2e-5 if transform == "PROBIT" else 2e-6)  # steep


def test_the_second_class_alone_may_have_weights(run):
    rng, trees = forest(6)
    x = features(rng, 30, 3, GRID)
    weights = [(tree, node, 1, w) for tree, node, _, w in weighted(rng, trees, 1)]
    attributes = keyed_attributes(trees, "class", weights)
    made = model("TreeEnsembleClassifier", [x], 2, classlabels_int64s=[10, 20], **attributes)
    agree(run(made, x), expected(made, [x]))


def test_the_label_of_two_weighted_classes_is_that_of_the_larger_score(run):
    rng, trees = forest(8)
    x = features(rng, 30, 3, GRID)
    attributes = keyed_attributes(trees, "class", weighted(rng, trees, 2))
    made = model("TreeEnsembleClassifier", [x], 2, classlabels_int64s=[10, 20], **attributes)
    labels, scores = run(made, x)
    agree([scores], expected(made, [x])[1:])
    np.testing.assert_array_equal(labels, np.array([10, 20])[scores.argmax(1)])


def test_uneven_trees_of_targets(run):
    """Targets 0 and 2 have 2 trees and target 1 has 1; one tree is a single leaf, one counts for
    nobody."""
    rng, trees = forest(9, count=5)
    trees.append([(0, 0.0, "LEAF", 0, 0, 0)])
    x = features(rng, 12, 3, GRID)
    weights = [(t, n, [0, 1, 2, 0, 2][t], float(rng.normal())) for t, n in leaves_of(trees[:5])]
    for aggregate in ("SUM", "MIN"):
        attributes = keyed_attributes(trees, "target", weights)
        made = model(
            "TreeEnsembleRegressor", [x], n_targets=4, aggregate_function=aggregate, **attributes
        )
        agree(run(made, x), expected(made, [x]))


@pytest.mark.parametrize("doubles", ["features", "splits"])
@pytest.mark.parametrize("rows", [3, 21])
def test_one_of_features_and_splits_may_be_doubles(run, doubles, rows):
    """What is compared is not rounded: a split between two numbers of f32 tells them apart."""
    rng, trees = forest(4)
    x = features(rng, rows, 3, GRID, np.float64 if doubles == "features" else np.float32)
    weights = weighted(rng, trees, 1)
    attributes = keyed_attributes(trees, "target", weights, double=doubles == "splits")
    (got,) = run(model("TreeEnsembleRegressor", [x], n_targets=1, **attributes), x)
    wide = x.astype(np.float64)
    attributes = keyed_attributes(trees, "target", weights, double=True)
    made = model("TreeEnsembleRegressor", [wide], n_targets=1, **attributes)
    agree([got], expected(made, [wide]))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 16])
@pytest.mark.parametrize("count", [1, 8, 11])
def test_walks_abreast_that_are_not_a_whole_number_of_groups(run, rows, count):
    rng, trees = forest(2, count)
    x = features(rng, rows, 3, GRID)
    for targets in (1, 2):
        attributes = keyed_attributes(trees, "target", weighted(rng, trees, targets))
        made = model("TreeEnsembleRegressor", [x], n_targets=targets, **attributes)
        agree(run(made, x), expected(made, [x]))


def test_a_test_that_only_a_missing_feature_passes(run):
    tree = [(0, float("-inf"), "LT", 1, 1, 2), *[(0, 0.0, "LEAF", 0, 0, 0)] * 2]
    x = np.array([[-np.inf], [0.0], [np.nan], [np.inf]], np.float32)
    attributes = keyed_attributes([tree], "target", [(0, 1, 0, 1.0), (0, 2, 0, 2.0)])
    (got,) = run(model("TreeEnsembleRegressor", [x], **attributes), x)
    assert got[:, 0].tolist() == [2, 2, 1, 2]


# -- TreeEnsemble ----------------------------------------------------------------------------------


def numbered(seed, targets=2, dtype=np.float32, members=None):
    """Attributes of TreeEnsemble: inner nodes and leaves have numbers of their own."""
    modes = MODES if members is None else [*MODES, "MEMBER"]
    rng, trees = forest(seed, modes=modes)
    inner, leaves = {}, {}
    for t, tree in enumerate(trees):
        for n, node in enumerate(tree):
            own = leaves if node[2] == "LEAF" else inner
            own[t, n] = len(own)
    roots = [inner[t, 0] for t in range(len(trees)) if (t, 0) in inner]
    rows = [(t, trees[t][n]) for t, n in inner]
    sets = [rng.choice(members, 2) for _, node in rows if node[2] == "MEMBER"]
    found = {
        "tree_roots": roots,
        "nodes_featureids": [node[0] for _, node in rows],
        "nodes_missing_value_tracks_true": [node[3] for _, node in rows],
        "leaf_targetids": [int(rng.integers(targets)) for _ in leaves],
        "n_targets": targets,
    }
    for way, k in (("true", 4), ("false", 5)):
        ends = [(t, node[k]) in leaves for t, node in rows]
        after = [{**inner, **leaves}[t, node[k]] for t, node in rows]
        found |= {f"nodes_{way}leafs": list(map(int, ends)), f"nodes_{way}nodeids": after}
    numbers = [[*MODES, "MEMBER"].index(node[2]) for _, node in rows]
    tensors = {
        "nodes_modes": np.array(numbers, np.uint8),
        "nodes_splits": np.array([node[1] for _, node in rows], dtype),
        "leaf_weights": rng.normal(size=len(leaves)).astype(dtype),
    }
    if sets:
        tensors["membership_values"] = np.concatenate([[*s, np.nan] for s in sets]).astype(dtype)
    return rng, found | {name: numpy_helper.from_array(a) for name, a in tensors.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", range(4))
def test_tree_ensemble(run, dtype, aggregate):
    rng, attributes = numbered(aggregate, dtype=dtype)
    x = features(rng, 25, 3, GRID, dtype)
    made = model("TreeEnsemble", [x], version=5, aggregate_function=aggregate, **attributes)
    agree(run(made, x), expected(made, [x]))


def test_tree_ensemble_of_halves(run):
    rng, attributes = numbered(2, dtype=np.float16)
    x = features(rng, 25, 3, GRID, np.float16)
    made = model("TreeEnsemble", [x], version=5, **attributes)
    (got,) = run(made, x)
    wide = {
        name: numpy_helper.from_array(numpy_helper.to_array(a).astype(np.float32))
        for name, a in attributes.items()
        if name in ("nodes_splits", "leaf_weights")
    }
    other = model("TreeEnsemble", [x.astype("f")], version=5, **{**attributes, **wide})
    (want,) = expected(other, [x.astype("f")])
    np.testing.assert_array_equal(got, want.astype(np.float16))


def test_sets(run):
    """Beside ONNX's reference: onnxruntime cuts the fractions of features off."""
    rng, attributes = numbered(11, members=np.array([-2.0, 0.0, 1.0, 2.0]))
    x = features(rng, 40, 3, GRID, missing=False)
    made = model("TreeEnsemble", [x], version=5, **attributes)
    agree(run(made, x), ReferenceEvaluator(made).run(None, {"i0": x}))


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("members", [[1.0], [1.0, 2.0, 5.0], [-0.0, np.inf, -np.inf], []])
def test_membership_of_one_node(run, missing, members):
    """[1, 0] to elements of the set and [0, 1] to others; NaN as the node says."""
    x = np.array([[0.0], [1.0], [1.0000001], [2.0], [5.0], [np.inf], [-np.inf], [np.nan]], "f")
    values = np.array([*members, np.nan] if members else [np.nan], np.float32)
    tensors = {
        "nodes_modes": np.array([6], np.uint8),
        "nodes_splits": np.array([0.0], np.float32),
        "leaf_weights": np.ones(2, np.float32),
        "membership_values": values,
    }
    made = model(
        "TreeEnsemble",
        [x],
        version=5,
        n_targets=2,
        tree_roots=[0],
        nodes_featureids=[0],
        nodes_truenodeids=[0],
        nodes_falsenodeids=[1],
        nodes_trueleafs=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 1],
        nodes_missing_value_tracks_true=[missing],
        **{name: numpy_helper.from_array(a) for name, a in tensors.items()},
    )
    (got,) = run(made, x)
    inside = np.isin(x[:, 0], members) | (np.isnan(x[:, 0]) & bool(missing))
    np.testing.assert_array_equal(got, np.stack([inside, ~inside], 1))


@pytest.mark.parametrize("bound", [0.0, -0.0, 1e-45, np.inf, -np.inf, np.nan, 3.4e38])
@pytest.mark.parametrize("mode", MODES)
def test_tests_at_the_ends_of_the_numbers(mode, bound):
    """The comparisons of the tables beside numpy's own."""
    nodes = decision_trees.Nodes(
        np.zeros(3, np.int64),
        np.array([bound, 0, 0], np.float32),
        np.array([MODES.index(mode), 0, 0]),
        np.zeros(3, bool),
        np.array([1, 0, 0]),
        np.array([2, 0, 0]),
        np.array([-1, 0, 1]),
        np.array([0]),
        {},
    )
    trees = decision_trees.tables(nodes, ValueError)
    numpy_of = {"LEQ": np.less_equal, "LT": np.less, "GTE": np.greater_equal, "GT": np.greater,
                "EQ": np.equal, "NEQ": np.not_equal}  # fmt: skip
    for x in np.float32([0, -0.0, 1e-45, -1e-45, 1, np.inf, -np.inf, np.nan, 3.4e38]):
        place = int(trees.roots[0])
        for _ in range(int(trees.depths[0])):
            passed = x <= trees.split[place] or (np.isnan(x) and trees.missing[place])
            place = int(trees.child[place]) + (not passed)
        assert trees.leaf[place] == (0 if numpy_of[mode](x, np.float32(bound)) else 1), x


# -- refusals --------------------------------------------------------------------------------------


def small(**changes):
    """A stump as a classifier, with some attributes changed; None leaves one out."""
    tree = [(0, 0.0, "LEQ", 0, 1, 2), *[(0, 0.0, "LEAF", 0, 0, 0)] * 2]
    weights = [(0, 1, 0, 0.25), (0, 2, 0, 0.75)]
    found = {**keyed_attributes([tree], "class", weights), "classlabels_int64s": [0, 1], **changes}
    x = np.zeros((2, 1), np.float32)
    return model(
        "TreeEnsembleClassifier", [x], 2, **{k: v for k, v in found.items() if v is not None}
    )


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(nodes_modes=["BRANCH_NO", "LEAF", "LEAF"]), "BRANCH_NO"),
        (dict(nodes_values=[0.0]), "differ in length"),
        (dict(nodes_featureids=[7, 0, 0]), "feature that is not one of 1"),
        (dict(nodes_featureids=[-1, 0, 0]), "feature that is not one of 1"),
        (dict(nodes_truenodeids=[5, 0, 0]), "named that is not there"),
        (dict(nodes_nodeids=[0, 1, 1]), "there twice"),
        (dict(nodes_truenodeids=[0, 0, 0]), "follows itself"),
        (dict(class_ids=[0, 9]), "target that is not one of 2"),
        (dict(class_weights=[1.0]), "weights differ in length"),
        (dict(class_treeids=[0, 3]), "named that is not there"),
        (dict(post_transform="SOFT"), "post_transform is SOFT"),
        (dict(nodes_missing_value_tracks_true=[1]), "of 1 nodes"),
        (dict(base_values=[1.0, 2.0], classlabels_int64s=[0, 1, 2]), "2 base_values for 3"),
        (dict(classlabels_int64s=None), "names the classes"),
    ],
)
def test_ensembles_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ShapeError, match=message):
        import_onnx(small(**changes))


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(post_transform="PROBIT"), "leaves the first of two classes"),
        (dict(class_ids=[1, 1], base_values=[1.0]), "base_values of two classes"),
        (dict(base_values=[1.0, 2.0]), "base_values of two classes"),
        (dict(class_ids=[0, 1], base_values=[1.0, 2.0]), "base_values of two classes"),
    ],
)
def test_what_runtimes_disagree_about_is_refused(changes, message):
    with pytest.raises(UnsupportedOp, match=message):
        import_onnx(small(**changes))


def test_transforms_of_one_target_are_refused():
    rng, trees = forest(1)
    attributes = keyed_attributes(trees, "target", weighted(rng, trees, 1))
    x = np.zeros((2, 3), np.float32)
    made = model("TreeEnsembleRegressor", [x], post_transform="LOGISTIC", **attributes)
    with pytest.raises(UnsupportedOp, match="LOGISTIC of one target"):
        import_onnx(made)


def test_labels_of_text_are_refused_where_they_are_read(run):
    made = small(classlabels_int64s=None, classlabels_strings=["no", "yes"])
    with pytest.raises(UnsupportedOp, match=r"'o0'.*zipmap=False.*integer labels"):
        import_onnx(made)
    del made.graph.output[0]
    x = np.array([[-1.0], [1.0]], np.float32)
    (got,) = run(made, x)
    np.testing.assert_array_equal(got, np.float32([[0.75, 0.25], [0.25, 0.75]]))
