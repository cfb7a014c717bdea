"""Decision trees as tables that a walk without branches reads: numbers, no code per node.

    place = child[place] + (x[feature[place]] <= split[place] ? 0 : 1)

Both successors of a node stand side by side, so that one number leads to them. Every test is a
comparison with one number: that a feature equals t, or is in a set, is a few of them in a row
(`_Tests`). A leaf leads to itself, so that each walk of a tree takes as many steps as its longest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")  # by their numbers in TreeEnsemble


@dataclass(frozen=True)
class Nodes:
    """Nodes of trees; leaves are nodes that have a number in ``leaf``, and no test.

    Attributes:
        feature: int64 [n], what a node tests.
        split: [n], with what; float32 or float64.
        mode: [n], how: a number of `MODES`.
        missing: bool [n], whether a missing feature (NaN) passes the test, whatever the mode.
        yes, no: int64 [n], the nodes that follow.
        leaf: int64 [n], the number of a leaf; -1 of all others.
        roots: int64 [trees].
        members: of the nodes of mode MEMBER, by their numbers.
    """

    feature: np.ndarray
    split: np.ndarray
    mode: np.ndarray
    missing: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    leaf: np.ndarray
    roots: np.ndarray
    members: Mapping[int, np.ndarray]


@dataclass(frozen=True)
class Trees:
    """Tables of all trees.

    Attributes:
        feature: int32 [places], what is tested at a place.
        missing: int32 [places], 1 where NaN passes the test.
        split: [places].
        child: int32 [places], where a walk goes on if the test is passed; one further if it is not.
        leaf: int32 [places], the number of the leaf that stands there; -1: none does.
        roots, depths: int32 [trees], where walks begin, and after how many steps all are at a leaf.
    """

    feature: np.ndarray
    missing: np.ndarray
    split: np.ndarray
    child: np.ndarray
    leaf: np.ndarray
    roots: np.ndarray
    depths: np.ndarray


class _Tests:
    """Comparisons with ``<=`` that stand for the nodes; the first have the numbers of the nodes.

    A test holds in some of the intervals between a few bounds: ``x < t`` up to the number in front
    of t, ``x == t`` from there to t. In a row of comparisons that finds the interval, NaN takes the
    way to one in which it is to end.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes, self.count = nodes, nodes.feature.size
        own = [nodes.feature, nodes.split, nodes.missing, nodes.yes, nodes.no]
        self._tables = [[table.copy()] for table in own]

    def tables(self) -> list[np.ndarray]:
        """Feature, split, missing, yes and no of all comparisons."""
        return [np.concatenate(parts) for parts in self._tables]

    def _put(
        self,
        which: np.ndarray,
        below: np.ndarray,
        above: np.ndarray,
        bound: np.ndarray,
        nan_below: np.ndarray,
        first: bool = True,
    ) -> np.ndarray:
        """Compare the features of the nodes ``which`` with ``bound``, and go on at ``below``, up to
        it, or ``above``. first: whether that is how the nodes begin. Returns the places.
        """
        new = [self._nodes.feature[which], bound, nan_below, below, above]
        if first:
            for table, values in zip(self._tables, new, strict=True):
                table[0][which] = values
            return which
        for table, values in zip(self._tables, new, strict=True):
            table.append(values)
        self.count += which.size
        return np.arange(self.count - which.size, self.count)

    def write(self) -> None:
        """All tests of the nodes."""
        nodes = self._nodes
        inner = nodes.leaf < 0
        for mode, name in enumerate(MODES[:-1]):
            which = np.flatnonzero(inner & (nodes.mode == mode))
            if which.size:
                self._plain(name, which)
        for node in np.flatnonzero(inner & (nodes.mode == len(MODES) - 1)):
            self._members(int(node))

    def _plain(self, mode: str, which: np.ndarray) -> None:
        n, bound = self._nodes, self._nodes.split[which]
        yes, no, missing = n.yes[which], n.no[which], n.missing[which]
        before, never = _before(bound), missing & False
        if mode in ("LEQ", "LT"):
            self._put(which, yes, no, bound if mode == "LEQ" else before, missing)
        elif mode in ("GT", "GTE"):  # the other way round; nothing is above what is no number
            bound = np.where(np.isnan(bound), np.inf, bound if mode == "GT" else before)
            self._put(which, no, yes, bound, ~missing)
        elif mode == "EQ":
            inside = self._put(which, yes, no, bound, missing, first=False)
            self._put(which, no, inside, before, never)
        else:  # NaN equals nothing, so it passes the test in any case
            inside = self._put(which, no, yes, bound, never, first=False)
            self._put(which, yes, inside, before, never)

    def _members(self, node: int) -> None:
        """A feature that is one of a set: a search for the interval between its elements."""
        n = self._nodes
        kind = n.split.dtype.type
        members = np.unique(n.members[node].astype(kind))
        bounds = np.stack([_before(members), members], 1).reshape(-1)
        yes, no = int(n.yes[node]), int(n.no[node])
        ends = [no, *[yes, no] * members.size]  # between, below and above the bounds

        def search(first: int, last: int, nan: int) -> int:
            """The place that leads on to the end among those from first to last; nan: the number of
            the one that a missing feature comes to.
            """
            if first == last:
                return ends[first]
            middle = (first + last) // 2
            below, above = search(first, middle, nan), search(middle + 1, last, nan)
            bound, nan_below = bounds[middle : middle + 1], np.array([nan <= middle])
            ways = np.array([below]), np.array([above])
            whole = last - first == members.size * 2
            return int(self._put(np.array([node]), *ways, bound, nan_below, first=whole)[0])

        if members.size:
            search(0, members.size * 2, int(bool(n.missing[node])))
        else:  # nothing is in an empty set
            never = np.array([np.nan], kind)
            self._put(np.array([node]), np.array([yes]), np.array([no]), never, n.missing[[node]])


def _before(bound: np.ndarray) -> np.ndarray:
    """The number in front of each: what is below it is up to that one. NaN, which nothing is up to,
    for the least of all.
    """
    kind = bound.dtype.type
    found = np.nextafter(bound, kind(-np.inf))
    return np.where(np.isneginf(bound), kind(np.nan), found)


def tables(nodes: Nodes, fail: Callable[[str], Exception]) -> Trees:
    """The tables of trees. Raises ``fail(reason)``: they have a cycle."""
    tests = _Tests(nodes)
    tests.write()
    feature, split, missing, yes, no = tests.tables()
    after = np.stack([yes, no], 1)
    leaf = np.concatenate([nodes.leaf, np.full(tests.count - nodes.leaf.size, -1)])
    tree, level, depths = _levels(after, leaf < 0, nodes.roots, fail)
    inner = np.flatnonzero(level >= 0)
    inner = inner[np.lexsort((inner, level[inner], tree[inner]))]
    # Pairs of places: of each tree its root, twice, and then the successors of each of its nodes.
    owner = np.concatenate([np.arange(nodes.roots.size), tree[inner]])
    order = np.argsort(owner, kind="stable")
    shown = np.concatenate([np.stack([nodes.roots] * 2, 1), after[inner]])[order].reshape(-1)
    pair = np.empty(order.size, np.int64)
    pair[order] = np.arange(order.size)
    first = np.full(leaf.size, -1)
    first[inner] = 2 * pair[nodes.roots.size :]
    own = np.arange(shown.size)
    ends = leaf[shown] >= 0
    return Trees(
        np.where(ends, 0, feature[shown]).astype(np.int32),
        np.where(ends, False, missing[shown]).astype(np.int32),
        np.where(ends, split.dtype.type(np.nan), split[shown]),
        np.where(ends, own - 1, first[shown]).astype(np.int32),
        leaf[shown].astype(np.int32),
        (2 * pair[: nodes.roots.size]).astype(np.int32),
        depths.astype(np.int32),
    )


def _levels(
    after: np.ndarray, inner: np.ndarray, roots: np.ndarray, fail: Callable[[str], Exception]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each node its tree and its distance from the root, the longest (-1: it is a leaf, or none
    leads to it), and the steps that the longest walk of each tree takes.
    """
    tree, level = np.full(inner.size, -1), np.full(inner.size, -1)
    depths = np.zeros(roots.size, np.int64)
    nodes, owners = roots, np.arange(roots.size)
    steps, most = 0, int(inner.sum())
    while True:
        keep = inner[nodes]
        nodes, owners = nodes[keep], owners[keep]
        if not nodes.size:
            return tree, level, depths
        if steps > most:
            raise fail("a node of a tree follows itself")
        _, first = np.unique(nodes * roots.size + owners, return_index=True)
        nodes, owners = nodes[first], owners[first]
        steps += 1
        tree[nodes], level[nodes] = owners, steps
        depths[owners] = steps
        nodes, owners = after[nodes].reshape(-1), np.repeat(owners, 2)
