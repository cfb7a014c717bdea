"""The attributes of tree ensembles, in their two forms: nodes named by two numbers, of the tree and
in it (up to version 3 of ai.onnx.ml), and inner nodes and leaves with numbers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rcompiler.frontend import load
from rcompiler.frontend.decision_trees import MODES, Nodes
from rcompiler.frontend.ops.class_scores import numbers, rows_of
from rcompiler.frontend.registry import Context

_MEMBER = MODES.index("MEMBER")
MOST_WEIGHTS = 1 << 26  # of all leaves for all targets, zeros included


@dataclass(frozen=True)
class Ensemble:
    """Trees, and what their leaves count: ``weight`` of ``leaf`` for ``target``, all of one length.

    count: of targets.
    """

    nodes: Nodes
    leaf: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    count: int


def floats(ctx: Context, name: str) -> np.ndarray:
    """An attribute of f32, or of another type as a tensor."""
    tensor = ctx.attr(f"{name}_as_tensor")
    return numbers(ctx, name) if tensor is None else _wide(load.array_of(tensor))


def _wide(array: np.ndarray) -> np.ndarray:
    """In a type that sums are computed in."""
    return array.reshape(-1).astype(np.float64 if array.dtype == np.float64 else np.float32)


def keyed_ensemble(ctx: Context, kind: str, count: int) -> Ensemble:
    """Of the attributes that name nodes by two numbers, of the tree and in it. kind: "class" or
    "target", which the weights are of.
    """
    tree, node = numbers(ctx, "nodes_treeids", "int64"), numbers(ctx, "nodes_nodeids", "int64")
    modes = ctx.attr("nodes_modes", [])
    feature, split = numbers(ctx, "nodes_featureids", "int64"), floats(ctx, "nodes_values")
    ways = [numbers(ctx, f"nodes_{way}nodeids", "int64") for way in ("true", "false")]
    known = {"LEAF": -1} | {f"BRANCH_{mode}": k for k, mode in enumerate(MODES[:_MEMBER])}
    if not tree.size or any(len(a) != tree.size for a in (node, modes, feature, split, *ways)):
        raise ctx.shape_error("the attributes of the nodes differ in length, or are empty")
    if set(modes) - set(known):
        raise ctx.shape_error(f"modes {sorted(set(modes) - set(known))} are not known")
    mode = np.array([known[each] for each in modes])
    trees, starts, number = np.unique(tree, return_index=True, return_inverse=True)
    ids = np.unique(node)
    keys = number * ids.size + np.searchsorted(ids, node)
    order = np.argsort(keys, kind="stable")
    if (np.diff(keys[order]) == 0).any():
        raise ctx.shape_error("a node is there twice")

    def find(of_trees: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """The places of nodes among all."""
        rows, columns = np.searchsorted(trees, of_trees), np.searchsorted(ids, wanted)
        key = rows * ids.size + columns
        place = order[np.minimum(np.searchsorted(keys[order], key), tree.size - 1)]
        if ((tree[place] != of_trees) | (node[place] != wanted)).any():
            raise ctx.shape_error("a node is named that is not there")
        return place

    inner = mode >= 0
    after = []
    for way in ways:
        place = np.zeros(tree.size, np.int64)
        place[inner] = find(tree[inner], way[inner])
        after.append(place)
    leaf = np.where(inner, -1, np.cumsum(~inner) - 1)
    nodes = Nodes(
        feature,
        split,
        mode,
        _missing(ctx, tree.size),
        after[0],
        after[1],
        leaf,
        np.sort(starts),
        {},
    )
    owner = numbers(ctx, f"{kind}_treeids", "int64")
    place = find(owner, numbers(ctx, f"{kind}_nodeids", "int64"))
    target, weight = numbers(ctx, f"{kind}_ids", "int64"), floats(ctx, f"{kind}_weights")
    if not target.size == weight.size == place.size:
        raise ctx.shape_error("the attributes of the weights differ in length")
    at_leaf = leaf[place] >= 0
    return _checked(
        ctx, Ensemble(nodes, leaf[place][at_leaf], target[at_leaf], weight[at_leaf], count)
    )


def _missing(ctx: Context, count: int) -> np.ndarray:
    """Of each node whether a missing feature passes its test."""
    given = numbers(ctx, "nodes_missing_value_tracks_true", "int64")
    if given.size not in (0, count):
        raise ctx.shape_error(f"nodes_missing_value_tracks_true is of {given.size} nodes")
    return np.zeros(count, bool) if not given.size else given != 0


def _tensor(ctx: Context, name: str) -> np.ndarray:
    """A required tensor among the attributes."""
    given = ctx.attr(name)
    if given is None:
        raise ctx.shape_error(f"{name} is missing")
    return load.array_of(given).reshape(-1)


def numbered_ensemble(ctx: Context) -> Ensemble:
    """Of the attributes of TreeEnsemble, which number inner nodes and leaves."""
    feature, mode = numbers(ctx, "nodes_featureids", "int64"), _tensor(ctx, "nodes_modes")
    weight, target = _tensor(ctx, "leaf_weights"), numbers(ctx, "leaf_targetids", "int64")
    count, leaves = feature.size, weight.size
    after = []
    for way in ("true", "false"):
        to, at_leaf = (
            numbers(ctx, f"nodes_{way}nodeids", "int64"),
            numbers(ctx, f"nodes_{way}leafs"),
        )
        if not to.size == at_leaf.size == count:
            raise ctx.shape_error("the attributes of the nodes differ in length")
        limit = np.where(at_leaf != 0, leaves, count)
        if ((to < 0) | (to >= limit)).any():
            raise ctx.shape_error("a node is followed by one that is not there")
        after.append(np.where(at_leaf != 0, to + count, to))
    split, roots = _wide(_tensor(ctx, "nodes_splits")), numbers(ctx, "tree_roots", "int64")
    if not mode.size == split.size == count or target.size != leaves or not leaves:
        raise ctx.shape_error("the attributes of the nodes or leaves differ in length")
    if (mode > _MEMBER).any() or ((roots < 0) | (roots >= count)).any():
        raise ctx.shape_error("a mode or a root is none")
    blank = np.zeros(leaves, np.int64)
    nodes = Nodes(
        np.concatenate([feature, blank]),
        np.concatenate([split, blank.astype(split.dtype)]),
        np.concatenate([mode.astype(np.int64), blank]),
        np.concatenate([_missing(ctx, count), blank != 0]),
        np.concatenate([after[0], blank]),
        np.concatenate([after[1], blank]),
        np.concatenate([np.full(count, -1), np.arange(leaves)]),
        roots,
        _members(ctx, np.flatnonzero(mode == _MEMBER)),
    )
    found = Ensemble(nodes, np.arange(leaves), target, _wide(weight), ctx.attr("n_targets", 1))
    return _checked(ctx, found)


def _members(ctx: Context, which: np.ndarray) -> dict[int, np.ndarray]:
    """The sets that nodes look a feature up in, by the numbers of the nodes."""
    if not which.size:
        return {}
    values = _tensor(ctx, "membership_values")
    parts = np.split(values, np.flatnonzero(np.isnan(values)))
    sets = [part[~np.isnan(part)] for part in parts]
    if len(sets) == which.size + 1 and not sets[-1].size:
        sets.pop()
    if len(sets) != which.size:
        raise ctx.shape_error(f"membership_values has {len(sets)} sets for {which.size} nodes")
    return dict(zip(which.tolist(), sets, strict=True))


def _checked(ctx: Context, ensemble: Ensemble) -> Ensemble:
    """The same, if it is of features that there are."""
    nodes, columns = ensemble.nodes, rows_of(ctx).shape[1]
    tested = nodes.feature[nodes.leaf < 0]
    if ((tested < 0) | (tested >= columns)).any():
        raise ctx.shape_error(f"a node tests a feature that is not one of {columns}")
    if ((ensemble.target < 0) | (ensemble.target >= ensemble.count)).any():
        raise ctx.shape_error(f"a weight is of a target that is not one of {ensemble.count}")
    leaves = int(nodes.leaf.max()) + 1
    if leaves * ensemble.count > MOST_WEIGHTS:
        raise ctx.refuse(
            f"{leaves} leaves have weights of {ensemble.count} targets, more than "
            f"{MOST_WEIGHTS} in all",
            "Use smaller trees, or fewer",
        )
    return ensemble
