"""Axis fusion (Roller §3.2): neighbouring dims that travel together everywhere become one.

[17, 11, 3] read and written elementwise is [561]: one long axis has room for every aligned tile,
three short ones have not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Groups = tuple[tuple[int, ...], ...]  # neighbouring dims that become one, in order; all dims


@dataclass(frozen=True)
class LoopNest:
    """One loop nest. `kinds`: per loop. `accesses`: (value, per dim the loop that walks it alone,
    or None). `split`: loops that must stay as they are: other expressions have them inside.
    """

    kinds: tuple[str, ...]
    accesses: tuple[tuple[int, tuple[int | None, ...]], ...]
    split: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Reshape:
    """A value (`narrow`) that is another one (`wide`) with neighbouring dims as one: `groups`, the
    dims of `wide` by those of `narrow`.
    """

    wide: int
    narrow: int
    groups: Groups


def fuse_axes(
    ranks: Sequence[int],
    nests: Sequence[LoopNest],
    whole: Iterable[int] = (),
    reshapes: Sequence[Reshape] = (),
) -> list[Groups]:
    """Per value the groups of dims that may become one dim each.

    ranks: of the values. whole: values that keep all their dims. Dims d and d+1 of a value may
    become one if in every nest that reads or writes it two loops of one kind, a and b, walk them,
    and every access of that nest names neither loop or both, as neighbouring dims that may become
    one too. Of a reshape that dims of both sides become the same, or both keep all.
    """
    kept = [set[int]() for _ in ranks]  # second dims of pairs that stay apart: they start a group
    for value in whole:
        kept[value].update(range(1, ranks[value]))
    changed = True
    while changed:
        changed = any([_keep_apart(nest, kept) for nest in nests])
        changed |= any([_keep_alike(reshape, kept) for reshape in reshapes])
    return [_groups(rank, starts) for rank, starts in zip(ranks, kept, strict=True)]


def fused_loops(nest: LoopNest, groups: Sequence[Groups]) -> Groups:
    """The loops of a nest, grouped as the dims of its values are."""
    follows: dict[int, int] = {}
    for value, loops in nest.accesses:
        for group in groups[value]:
            for d, e in zip(group, group[1:], strict=False):
                a, b = loops[d], loops[e]
                assert a is not None and b is not None
                follows[a] = b
    found = []
    for first in sorted(set(range(len(nest.kinds))) - set(follows.values())):
        chain = [first]
        while chain[-1] in follows:
            chain.append(follows[chain[-1]])
        found.append(tuple(chain))
    return tuple(found)


def _keep_apart(nest: LoopNest, kept: list[set[int]]) -> bool:
    """Keep pairs of dims apart that this nest does not walk as one; whether there was one."""
    changed = False
    for value, loops in nest.accesses:
        for d in range(1, len(loops)):
            if d not in kept[value] and not _as_one(nest, loops[d - 1], loops[d], kept):
                kept[value].add(d)
                changed = True
    return changed


def _keep_alike(reshape: Reshape, kept: list[set[int]]) -> bool:
    """Keep those pairs of dims apart on both sides that are on one; whether there was one."""
    wide, narrow = kept[reshape.wide], kept[reshape.narrow]
    before = len(wide) + len(narrow)
    if any(d in wide for group in reshape.groups for d in group[1:]):
        narrow.update(range(1, len(reshape.groups)))
        wide.update(d for group in reshape.groups for d in group if d)
    for k, group in list(enumerate(reshape.groups))[1:]:
        if k in narrow or group[0] in wide:
            narrow.add(k)
            wide.add(group[0])
    return len(wide) + len(narrow) > before


def _as_one(nest: LoopNest, a: int | None, b: int | None, kept: list[set[int]]) -> bool:
    if a is None or b is None or a == b or {a, b} & nest.split or nest.kinds[a] != nest.kinds[b]:
        return False
    for value, loops in nest.accesses:
        named = [d for d, loop in enumerate(loops) if loop in (a, b)]
        pairs = [d for d in named if loops[d] == b]
        if any(d == 0 or loops[d - 1] != a or d in kept[value] for d in pairs):
            return False
        if len(named) != 2 * len(pairs):
            return False
    return True


def _groups(rank: int, starts: set[int]) -> Groups:
    groups: list[tuple[int, ...]] = []
    for d in range(rank):
        if d and d not in starts:
            groups[-1] += (d,)
        else:
            groups.append((d,))
    return tuple(groups)
