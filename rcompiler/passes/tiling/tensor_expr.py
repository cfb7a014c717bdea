"""The body of an rOperator as one tensor expression: from result coordinates back to every operand.

The dims of the first result are axes; every reduction below adds axes. A result dim that some
reduction of the body does not depend on (the columns of softmax or of a normalisation) is a
reduction axis too: a task covers it whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.dot_group import dot_group
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Combination, Generic
from rcompiler.linalg.independent_loops import (
    UPDATES,
    Apart,
    in_vectors,
    independent_loops,
    touched,
)
from rcompiler.linalg.pieces import core_of, pieces_of
from rcompiler.linalg.roots import sums_in_parts
from rcompiler.linalg.values import (
    STAGE,
    defining,
    element_of,
    integer,
    integers,
    operations,
    ops_of,
    shape_of,
)
from rcompiler.linalg.views import VIEWS, view_coordinates
from rcompiler.passes.tiling.arithmetic import Arithmetic, Part, arithmetic
from rcompiler.passes.tiling.body_cost import body_cost, loop_cost
from rcompiler.roller import expr as roller
from rcompiler.roller.index_expr import Atom
from rcompiler.roller.linear_map import plan

Coordinates = tuple[Linear | None, ...]  # None: computed, or counted by a loop inside


def coordinate_of(index: ir.Value, dims: Sequence[Linear]) -> Linear | None:
    """Of an index in a linalg body, by the coordinates of its loops; None: it is computed."""
    op = defining(index)
    return dims[integer(op, "dim")] if op is not None and op.name == "linalg.index" else None


def read_by_loop(
    loop: ir.Operation, value: ir.Value, apart: Sequence[Apart], axes: Sequence[Linear]
) -> Coordinates:
    """Coordinates of what an scf.for reads of a value that is defined outside of it.

    axes: of the results. apart: the loops whose iterations share the results out. What the loop
    carries is copied first, element by element; all else is read at a step of one of these loops,
    or at computed positions.
    """
    rank = len(shape_of(value))
    carried = list(loop.operands)[3:]
    if value in carried and shape_of(value) == shape_of(loop.results[carried.index(value)]):
        return tuple(axes)
    steps = {a.iteration: axes[a.dim] for a in apart}
    found = {tuple(steps.get(i) for i in where) for where in _places(loop, value)}
    return found.pop() if len(found) == 1 else (None,) * rank


def _places(op: ir.Operation, value: ir.Value) -> Iterator[list[ir.Value]]:
    """The indices of every tensor.extract of a value in an op."""
    for inner in operations(op):
        if inner.name == "tensor.extract" and inner.operands[0] == value:
            yield list(inner.operands)[1:]


_Place = tuple[ir.Value, list[Linear]]  # an element of a value, by its coordinates


@dataclass
class Read:
    """How a block argument is read: coordinates per dim, or None if data-dependent or read in
    several ways.

    exact: one affine access only. known: coordinates of what is read at computed positions, None
    for those that are computed; for estimates only, where all such reads are alike. updated: a
    loop writes over it, so that each iteration reads nothing of it but its own slab; then `known`
    is what is read.
    """

    at: tuple[Linear, ...] | None
    exact: bool = True
    known: Coordinates | None = None
    updated: bool = False


@dataclass
class Traced:
    """What `trace` found. Axis symbols are "a0", "a1", ...; `atoms` explains quotient and remainder
    symbols. `stages`: the coordinates at which each one is read. `dot`: element type of the dot
    groups, if there are any; `words`: their steps by the arguments that are read in groups, at the
    first step. `work`: the arithmetic of all bodies. `products`: sums of products, and the
    coordinates of their results. `touched`: of result dims that a loop updates in place, how many
    elements it writes along them, for estimates only. `uncut`: result dims that a loop goes over in
    order; `abreast`: the one along which its vectors run, or -1.
    """

    sizes: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    reads: dict[int, Read] = field(default_factory=dict)
    atoms: dict[str, tuple[str, Linear, int]] = field(default_factory=dict)
    stages: dict[ir.Operation, list[tuple[Linear, ...]]] = field(default_factory=dict)
    columns: set[int] = field(default_factory=set)
    uncut: set[int] = field(default_factory=set)
    abreast: int = -1
    periods: dict[int, int] = field(default_factory=dict)
    work: list[Part] = field(default_factory=list)
    has_reduction: bool = False
    is_product: bool = False
    dot: str = ""
    words: dict[int, int] = field(default_factory=dict)
    products: dict[ir.Operation, list[Linear]] = field(default_factory=dict)
    touched: dict[int, int] = field(default_factory=dict)


def axis(position: int) -> Linear:
    """The symbol of an axis."""
    return Linear.of(f"a{position}")


class Tracer:
    """Walks backwards from results to the values that stand in memory."""

    def __init__(self, leaves: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
        """leaves: numbered as `Traced.reads`; a stage that is no leaf is looked through."""
        self._arguments = {leaf: k for k, leaf in enumerate(leaves)}
        self._results = list(results)
        self._found = Traced()
        self._seen: set[tuple[ir.Value, tuple[Linear, ...]]] = set()
        self._generics: dict[ir.Operation, Generic] = {}
        self._reduction_axes: dict[tuple[ir.Operation, int], int] = {}

    def trace(self) -> Traced:
        found, shape = self._found, shape_of(core_of(self._results[0])[0])
        for size in shape:
            self._new_axis(size, "parallel")
        results = [(core, self._places(core)) for core, _ in map(core_of, self._results)]
        for result, at in results:
            self._find_columns(result, at, set())
        for d in found.columns:
            found.kinds[d] = "reduction"
        for result, at in results:
            self._read(result, at)
        for k in range(len(self._arguments)):
            found.reads.setdefault(k, Read(None))
        return found

    def _places(self, result: ir.Value) -> list[Linear]:
        """The coordinates of a result: a dim that the first result does not have is an axis that a
        task covers whole.
        """
        first = shape_of(core_of(self._results[0])[0])
        return [
            axis(d) if first[d : d + 1] == (size,) else axis(self._new_axis(size, "reduction"))
            for d, size in enumerate(shape_of(result))
        ]

    def _new_axis(self, size: int, kind: str) -> int:
        self._found.sizes.append(size)
        self._found.kinds.append(kind)
        return len(self._found.sizes) - 1

    def _generic(self, op: ir.Operation) -> Generic:
        if op not in self._generics:
            self._generics[op] = Generic(op)
        return self._generics[op]

    def _split(self, value: Linear, divisor: int) -> tuple[Linear, Linear]:
        ranges = {f"a{k}": size for k, size in enumerate(self._found.sizes)}
        done = value.split(divisor, ranges)
        if done is not None:
            return done
        names = []
        for kind in ("floordiv", "mod"):
            name = f"{kind}({value},{divisor})"
            self._found.atoms[name] = (kind, value, divisor)
            names.append(Linear.of(name))
        return names[0], names[1]

    # -- columns -----------------------------------------------------------------------------------
    def _find_columns(self, value: ir.Value, at: list[Linear], seen: set) -> None:
        """Result dims that the coordinates of a reduction below `value` do not contain; what a
        stage keeps was computed before.
        """
        op, key = defining(value), (value, tuple(at))
        if op is None or key in seen:
            return
        seen.add(key)
        if op.name == "linalg.generic":
            generic = self._generic(op)
            dims = generic.loop_dims(at)
            if generic.accumulates:
                used = self._axes_of(at)
                rank = len(shape_of(core_of(self._results[0])[0]))
                self._found.columns |= {
                    d for d in range(rank) if d not in used and self._found.sizes[d] > 1
                }
                return
            for operand, where in self._operands(generic, dims):
                self._find_columns(operand, where, seen)
        elif op.name != STAGE:
            for operand, where in self._parts(op, at):
                self._find_columns(operand, where, seen)

    def _axes_of(self, at: list[Linear]) -> set[int]:
        used: set[int] = set()
        pending = [s for c in at for s, _ in c.terms]
        while pending:
            symbol = pending.pop()
            if symbol in self._found.atoms:
                pending += [s for s, _ in self._found.atoms[symbol][1].terms]
            elif symbol.startswith("a"):
                used.add(int(symbol[1:]))
        return used

    # -- reads -------------------------------------------------------------------------------------
    def _read(self, value: ir.Value, at: list[Linear]) -> None:
        key = (value, tuple(at))
        if key in self._seen:
            return
        self._seen.add(key)
        if value in self._arguments:
            self._record(self._arguments[value], tuple(at))
            return
        op = value.owner.operation
        if op.name == "linalg.generic":
            self._read_generic(self._generic(op), at)
        elif op.name.startswith("scf."):
            self._read_loop(op)
        else:
            if op.name == STAGE:
                self._found.stages.setdefault(op, []).append(tuple(at))
            for operand, where in self._parts(op, at):
                self._read(operand, where)

    def _read_loop(self, loop: ir.Operation) -> None:
        """A loop over tensors, which reads its operands anywhere."""
        found, shape = self._found, shape_of(self._results[0])
        apart = independent_loops(self._results)
        found.uncut = set(range(len(shape))) - {a.dim for a in apart}
        if apart and in_vectors(apart[-1].loop):
            found.abreast = apart[-1].dim
        if UPDATES in loop.attributes:
            found.touched = touched(loop, shape, found.uncut)
        own = (found.touched.get(d, n) for d, n in enumerate(shape))
        cost = loop_cost(loop) / max(math.prod(own), 1)
        if not found.work:  # once, not for each result
            found.work.append(Part(cost, frozenset(range(len(shape)))))
        axes = [axis(d) for d in range(len(shape))]
        over = list(loop.operands)[3:] if UPDATES in loop.attributes else []
        for value, k in self._arguments.items():
            known = read_by_loop(loop, value, apart, axes)
            found.reads[k] = Read(None, known=known, updated=value in over)

    def _operands(self, generic: Generic, dims: list[Linear]) -> Iterator[_Place]:
        """The operands that a generic reads, each where it does at some loop coordinates."""
        for k, operand in enumerate(generic.op.operands):
            if k < len(generic.inputs) or generic.init_used[k - len(generic.inputs)]:
                yield operand, [e(dims, self._split) for e in generic.expressions[k]]

    def _parts(self, op: ir.Operation, at: list[Linear]) -> list[_Place]:
        """What an op that moves elements reads; of any other op nothing."""
        if op.name in VIEWS:
            return [(op.operands[0], view_coordinates(op, at, self._split))]
        if op.name == "tensor.pad":
            low = integers(op, "static_low")
            return [(op.operands[0], [c + -n for c, n in zip(at, low, strict=True)])]
        if op.name == STAGE:
            return [(op.operands[0], at)]
        if op.name != "tensor.concat":
            return []
        dim, offset, parts = integer(op, "dim"), 0, []
        for operand in op.operands:
            parts.append((operand, [c + -offset if d == dim else c for d, c in enumerate(at)]))
            offset += shape_of(operand)[dim]
        return parts

    def _read_generic(self, generic: Generic, at: list[Linear]) -> None:
        found = self._found
        dims = generic.loop_dims(at)
        group, form = dot_group(generic), generic.combination
        if form is not None:
            self._note_period(generic, form, dims)
            dims[form.dim] = axis(self._new_axis(generic.sizes[form.dim], "whole"))
            cost = plan(form.matrix).operations * 2 / len(form.matrix)
        else:
            for dim in generic.reduction_dims:
                if group is None or dim != group.dim:
                    dims[dim] = axis(self._reduction_axis(generic, dim))
            cost = body_cost(generic)
        if group is not None:
            found.dot, cost = group.element, 2.0 * group.steps
            known = [self._arguments.get(v) for v in generic.inputs]
            found.words |= {k: group.steps for k in known if k is not None}
        if generic.accumulates:
            found.has_reduction = True
            found.is_product = found.is_product or generic.product is not None
            if generic.product is not None:
                found.products.setdefault(generic.op, at)
        found.work.append(Part(cost, frozenset(self._axes_of(dims))))
        for operand, place in self._operands(generic, dims):
            self._read(operand, place)
        for op in ops_of(generic.block):
            if op.name == "tensor.extract":
                value, *where = op.operands
                self._read_anywhere(value, tuple(coordinate_of(i, dims) for i in where))

    def _note_period(self, generic: Generic, form: Combination, dims: list[Linear]) -> None:
        """Note which axis chooses the row of a combination, and after how many steps again."""
        row = generic.expressions[form.coefficients][form.row](dims, self._split)
        if row.constant or len(row.terms) != 1 or row.terms[0][1] != 1:
            return
        symbol, period = row.terms[0][0], len(form.matrix)
        if symbol in self._found.atoms:
            kind, inner, period = self._found.atoms[symbol]
            if kind != "mod" or inner.constant or len(inner.terms) != 1 or inner.terms[0][1] != 1:
                return
            symbol = inner.terms[0][0]
        if symbol not in self._found.atoms:
            self._found.periods[int(symbol[1:])] = period

    def _reduction_axis(self, generic: Generic, dim: int) -> int:
        """A column of the same size serves as the axis; else a new one."""
        key = (generic.op, dim)
        if key not in self._reduction_axes:
            size = generic.sizes[dim]
            taken = {v for (op, _), v in self._reduction_axes.items() if op == generic.op}
            fits = [
                c
                for c in sorted(self._found.columns)
                if self._found.sizes[c] == size and c not in taken
            ]
            shared = sorted(
                {v for v in self._reduction_axes.values() if self._found.sizes[v] == size} - taken
            )
            candidates = fits or (shared if self._found.columns else [])
            self._reduction_axes[key] = (
                candidates[0] if candidates else self._new_axis(size, "reduction")
            )
        return self._reduction_axes[key]

    def _read_anywhere(self, value: ir.Value, known: Coordinates | None = None) -> None:
        if value in self._arguments:
            before = self._found.reads.get(self._arguments[value], Read(None, known=known))
            alike = before.at is None and before.known == known
            self._found.reads[self._arguments[value]] = Read(None, known=known if alike else None)
        elif not isinstance(value.owner, ir.Block):
            for operand in value.owner.operation.operands:
                self._read_anywhere(operand)

    def _record(self, argument: int, at: tuple[Linear, ...]) -> None:
        known = self._found.reads.get(argument)
        if known is None:
            self._found.reads[argument] = Read(at)
        elif known.at is not None and known.at != at:
            known.exact = False


def tensor_expr(
    leaves: Sequence[ir.Value], results: Sequence[ir.Value], kind: str | None, traced: Traced
) -> roller.TensorExpr:
    """The Roller expression of results that were traced to `leaves`."""
    sizes = [traced.touched.get(d, n) for d, n in enumerate(traced.sizes)]
    counted = arithmetic(sizes, traced.kinds, traced.work)
    axes = _axes(results, traced, counted)
    inputs = [
        _access(value, traced.reads[k], traced, counted, traced.words.get(k, 1))
        for k, value in enumerate(leaves)
    ]
    # a size that positions are compared with is no vector
    wide = [a for a, leaf in zip(inputs, leaves, strict=True) if not _is_size(leaf)]
    cores = [core_of(r)[0] for r in results]
    outputs = [
        roller.TensorAccess(
            _touched(shape_of(r), traced),
            item_bytes(element_of(r)),
            tuple(_index(axis(d), traced, counted) for d in range(len(shape_of(r)))),
        )
        if shape_of(r) == shape_of(cores[0])
        else roller.TensorAccess(shape_of(r), item_bytes(element_of(r)), None)
        for r in cores
    ]
    return roller.tensor_expr(
        axes=axes,
        inputs=inputs,
        outputs=outputs,
        kind=kind,
        ops=counted.ops if traced.has_reduction else max(counted.epilogue_ops, 1.0),
        epilogue_ops=counted.epilogue_ops if traced.has_reduction else 0.0,
        # products of narrow elements are summed in f32 or i32
        compute_bytes=max(4 if traced.is_product else 1, *(a.itemsize for a in (*wide, *outputs))),
        in_parts=len(results) == 1 and sums_in_parts(results[0]) is not None,
        dot=traced.dot,
        periods=tuple(sorted(traced.periods.items())),
        sweeps=_sweeps(results),
        abreast=traced.abreast,
    )


def _is_size(value: ir.Value) -> bool:
    return not shape_of(value) and str(element_of(value)) == "i64"


def _axes(results: Sequence[ir.Value], traced: Traced, counted: Arithmetic) -> list[roller.Axis]:
    """Tasks cut the padded tensors, so that one of them writes each element of the padding too. A
    dim that other results do not have is not cut.
    """
    shapes = [shape_of(r) for r in results]
    first, core = shapes[0], shape_of(core_of(results[0])[0])
    axes = []
    for d, (size, kind) in enumerate(zip(counted.sizes, traced.kinds, strict=True)):
        cut = kind == "parallel" and d < len(first)
        padding = first[d] - core[d] if cut else 0
        uncut = d in traced.uncut or cut and any(d >= len(s) or s[d] != first[d] for s in shapes)
        axes.append(roller.Axis(f"a{d}", size, kind, padding, uncut))
    return axes


def _sweeps(results: Sequence[ir.Value]) -> int:
    """Results of one shape, each in one piece, are written together; others one after the other."""
    same = len({tuple(shape_of(r)) for r in results}) == 1
    return 1 if same and all(len(pieces_of(r)) == 1 for r in results) else len(results)


def _access(
    value: ir.Value,
    read: Read,
    traced: Traced,
    counted: Arithmetic,
    steps: int,
) -> roller.TensorAccess:
    """An argument of elements, or of words of `steps` of them."""
    at = read.known if read.at is None else read.at
    shape, size = shape_of(value), item_bytes(element_of(value)) * steps
    if steps > 1:
        shape, at = shape[:-1], None if at is None else at[:-1]
    if at is None:
        return roller.TensorAccess(shape, size, None)
    if traced.touched and at == tuple(axis(d) for d in range(len(shape))):
        shape = _touched(shape, traced)
    return roller.TensorAccess(
        shape, size, tuple(None if c is None else _index(c, traced, counted) for c in at)
    )


def _touched(shape: Sequence[int], traced: Traced) -> tuple[int, ...]:
    """What a task goes over of a result of this shape."""
    return tuple(traced.touched.get(d, n) for d, n in enumerate(shape))


def _index(value: Linear, traced: Traced, counted: Arithmetic) -> roller.Index:
    terms: list[tuple[int, Atom]] = []
    for symbol, coefficient in value.terms:
        if symbol in traced.atoms:
            kind, inner, divisor = traced.atoms[symbol]
            make = roller.floordiv if kind == "floordiv" else roller.mod
            terms.append((coefficient, make(_index(inner, traced, counted), divisor)))
        else:
            own = int(symbol[1:])
            terms.append((coefficient, counted.shared.get(own, own)))
    return roller.index(*terms, constant=value.constant)
