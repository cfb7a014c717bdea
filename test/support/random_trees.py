"""Random decision trees, and the attributes that hold them."""

import numpy as np
from onnx import numpy_helper

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")


def random_tree(rng, features, depth, modes, grid):
    """A tree of nodes (feature, split, mode, missing, yes, no) and leaves (None, ...) in preorder;
    splits are of a grid, so that features meet them exactly.
    """
    nodes = []

    def grow(depth):
        place = len(nodes)
        nodes.append(None)
        if not depth or rng.random() < 0.2:
            nodes[place] = (0, 0.0, "LEAF", 0, 0, 0)
            return place
        test = int(rng.integers(features)), float(rng.choice(grid)), str(rng.choice(modes))
        yes = grow(depth - 1)
        nodes[place] = (*test, int(rng.integers(2)), yes, grow(depth - 1))
        return place

    grow(depth)
    return nodes


def keyed_attributes(trees, kind, weights, missing=True, double=False):
    """The attributes of TreeEnsembleRegressor (kind target) or Classifier (kind class).

    weights: (tree, node, target, weight) each.
    """
    found = {f"nodes_{name}": [] for name in ("treeids", "nodeids", "featureids", "values", "modes",
             "missing_value_tracks_true", "truenodeids", "falsenodeids")}  # fmt: skip
    for number, tree in enumerate(trees):
        for place, (feature, split, mode, tracks, yes, no) in enumerate(tree):
            row = (number, place, feature, split, mode if mode == "LEAF" else f"BRANCH_{mode}",
                   tracks, yes, no)  # fmt: skip
            for values, value in zip(found.values(), row, strict=True):
                values.append(value)
    if not missing:
        del found["nodes_missing_value_tracks_true"]
    columns = list(zip(*weights, strict=True))
    for name, values in zip(("treeids", "nodeids", "ids", "weights"), columns, strict=True):
        found[f"{kind}_{name}"] = list(values)
    if double:
        for name in ("nodes_values", f"{kind}_weights"):
            found[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(found.pop(name)))
    return found


def leaves_of(trees):
    """(tree, node) of all leaves."""
    return [
        (number, place)
        for number, tree in enumerate(trees)
        for place, node in enumerate(tree)
        if node[2] == "LEAF"
    ]
