"""Arithmetic on static shapes, for the frontend and the passes alike."""

from __future__ import annotations

from collections.abc import Sequence


def reassociation(
    source: Sequence[int], target: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """Smallest groups of source and target dims with equal products: what a reshape joins.

    (2, 3, 4) -> (6, 4) gives ([0, 1], [0]) and ([2], [1]). Unit dims join a neighbouring group.
    Neither shape may hold a 0; their products are equal.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        a, b, size_a, size_b = [], [], 1, 1
        if i < len(source):
            a, size_a, i = [i], source[i], i + 1
        if j < len(target):
            b, size_b, j = [j], target[j], j + 1
        while size_a != size_b:
            if size_a < size_b:
                a.append(i)
                size_a, i = size_a * source[i], i + 1
            else:
                b.append(j)
                size_b, j = size_b * target[j], j + 1
        if groups and (not a or not b):
            groups[-1][0].extend(a)
            groups[-1][1].extend(b)
        else:
            groups.append((a, b))
    return groups
