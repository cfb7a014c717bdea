"""Rewrite patterns of the bindings: one function for each kind of op, applied in one walk.

    walk(module, {rtask.StageOp: tile_stage, tensor.InsertSliceOp: tile_results})

An op is visited behind those inside of it; what a pattern makes is not visited. A pattern returns
True where it does not apply, and None where it has rewritten. It may erase its own op and ops in
front of it, through the rewriter. Errors do not pass through the driver, which would leak: the
first one is raised behind the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch_mlir import ir, rewrite

Pattern = Callable[[Any, rewrite.PatternRewriter], bool | None]


def walk(root: ir.Operation, patterns: Mapping[type[ir.OpView], Pattern]) -> None:
    """Apply patterns, by the kind of op, to all ops inside of `root`.

    The set is made for one walk: a frozen one is of one context, and would never be collected.
    Raises the first error that a pattern raises; what was rewritten before stays.
    """
    errors: list[BaseException] = []
    with root.context:
        found = rewrite.RewritePatternSet()
        for kind, pattern in patterns.items():
            found.add(kind, _guarded(pattern, errors))
        rewrite.walk_and_apply_patterns(root, found.freeze())
    if errors:
        raise errors.pop()  # no list of this frame holds it: that would be a cycle


def _guarded(pattern: Pattern, errors: list[BaseException]) -> Pattern:
    def apply(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> bool | None:
        if errors:
            return True
        try:
            return pattern(op, rewriter)
        except BaseException as error:
            errors.append(error)
            return True

    return apply
