"""Which ops of S1 become one rOperator: the DNNFusion mapping types as legality and prior.

An op's mapping type decides with its producer's type whether the two may share an rOperator
(`NEVER`). Because rTask bodies are pulled (rcompiler.kernelgen), every grouping is correct; the
types keep out those that recompute heavy work or lose contiguous vectors.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch_mlir import ir

from rcompiler.dialects.uses import tensors_used
from rcompiler.linalg.bodies import copied_argument
from rcompiler.linalg.conditions import Conditional
from rcompiler.linalg.generic import Forms, Generic
from rcompiler.linalg.recurrences import is_recurrence
from rcompiler.linalg.values import defining, integers, operations, ops_of, shape_of
from rcompiler.linalg.views import MOVES, VIEWS
from rcompiler.passes.forming.pads import parts_rows
from rcompiler.passes.forming.views import is_free_view
from rcompiler.passes.forming.widening import reads_by_element, widens
from rcompiler.passes.ir.operators import top_level


class Mapping(enum.Enum):
    """How the elements of an op's result map to those of its inputs (DNNFusion, table 2)."""

    ONE_TO_ONE = "one-to-one"  # elementwise
    ONE_TO_MANY = "one-to-many"  # broadcast, gather
    MANY_TO_MANY = "many-to-many"  # contraction, convolution, reduction, pooling
    REORGANIZE = "reorganize"  # reshape, pad, concat, slice
    SHUFFLE = "shuffle"  # transpose


# Pairs (producer, consumer) that never fuse. Of the others, which the paper fuses always or after a
# test, the structure tests of `Fusion` decide.
NEVER = {
    (Mapping.ONE_TO_MANY, Mapping.MANY_TO_MANY),
    (Mapping.REORGANIZE, Mapping.MANY_TO_MANY),
    *itertools.product((Mapping.REORGANIZE, Mapping.SHUFFLE), repeat=2),
}

FREE = ("tensor.empty", "linalg.fill")
# A broadcast back over the columns of a reduction is stitched only if enough independent rows
# remain, or the work is tiny. Choices for every device: what a group computes does not depend on
# the record that it is compiled for.
ENOUGH_ROWS = 4
TINY_ELEMENTS = 1 << 14
# Each op of a chain nests the evaluation of one element deeper, and each part of a concatenation
# that is read in place is one more test: beyond these the code grows more than the traffic falls.
MOST_OPS = 32
MOST_PARTS = 8


@dataclass
class Group:
    """Ops that become one rOperator, in SSA order."""

    ops: list[ir.Operation]
    mapping: Mapping
    open: bool = True  # no value has been used outside yet, so joining cannot make a cycle
    sealed: bool = False  # ends in a pad or a loop: nothing may follow it
    borrowed: list[ir.Operation] = field(default_factory=list)  # copies: no reader outside
    rows: tuple[int, ...] | None = None  # result shape of the reductions of a row operator


class Fusion:
    """Groups the ops of one block."""

    def __init__(
        self, block: ir.Block, *, fuse: bool = True, flat_rows: bool = False, apart: bool = False
    ) -> None:
        """`fuse=False`: one group for each op (views still go with their consumers). flat_rows:
        whether pads that part the rows of a product stay apart (`pads.parts_rows`). apart: whether
        ops whose results matter under other conditions do (`linalg.conditions`).
        """
        self._conditions = Conditional(block).kept() if apart else {}
        self._guards = {c.value for found in self._conditions.values() for c in found}
        self._fuse, self._flat_rows = fuse, flat_rows
        self._block = block
        self._ops = ops_of(block)
        self.group_of: dict[ir.Operation, Group] = {}
        self.groups: list[Group] = []
        # by results: an op whose operands change is not found in a dict any more
        self._computed: dict[ir.Value, Group] = {}
        self._generics: dict[ir.Value, Generic] = {}
        self._forms = Forms()
        results = ((op.results, k) for k, op in enumerate(self._ops))
        self._position = {found[0]: k for found, k in results if len(found)}

    def generic(self, op: ir.Operation) -> Generic:
        result = op.results[0]
        found = self._generics.get(result)
        if found is None:
            found = self._generics[result] = self._forms.of(op)
        return found

    def run(self) -> list[Group]:
        """The groups in an order in which every group follows its producers (that of their last
        ops).
        """
        for op in self._ops:
            if op.name in FREE or op.name == "arith.constant" or not self._is_work(op):
                continue
            if is_free_view(op) or op.name == "tensor.extract_slice":
                continue  # placed with their consumers, or alone (see _lone_slices)
            if is_recurrence(op):  # its steps are rOperators of a function of their own
                self._close([self._group(value) for value in _tensor_operands(op)])
                continue
            mapping = self.mapping(op)
            joins = self._fuse and not self._goes_with_reader(op)
            group = self._join(op, mapping) if joins else None
            if group is None:
                group = Group([], mapping)
                self.groups.append(group)
            self._add(group, op)
        self.groups = [group for group in self.groups if group.ops]  # not absorbed by another
        self._lone_slices()
        self._sink_views()
        position = {op: k for k, op in enumerate(ops_of(self._block))}
        return sorted(self.groups, key=lambda g: position[g.ops[-1]])

    @staticmethod
    def _is_work(op: ir.Operation) -> bool:
        return op.name.startswith(("linalg.", "tensor.", "scf."))

    # -- mapping types -----------------------------------------------------------------------------
    def mapping(self, op: ir.Operation) -> Mapping:
        """The mapping type of an op."""
        if op.name in (*MOVES, "tensor.insert_slice"):
            return Mapping.REORGANIZE
        if op.name != "linalg.generic":
            return Mapping.MANY_TO_MANY
        generic = self.generic(op)
        if generic.reduction_dims:
            return Mapping.MANY_TO_MANY
        if generic.gathers:
            return Mapping.ONE_TO_MANY
        if self.is_copy(op) and generic.maps[0].is_permutation:
            return Mapping.SHUFFLE
        if any(self._is_identity(generic, k) for k in range(len(generic.inputs))):
            return Mapping.ONE_TO_ONE
        return Mapping.ONE_TO_MANY

    def is_copy(self, op: ir.Operation) -> bool:
        """A generic that only moves its one input."""
        generic = self.generic(op)
        return len(generic.inputs) == 1 and copied_argument(generic.block) == 0

    def _is_identity(self, generic: Generic, operand: int) -> bool:
        return generic.maps[operand] == generic.maps[len(generic.inputs)] and shape_of(
            generic.op.operands[operand]
        ) == shape_of(generic.op.results[0])

    # -- joining -----------------------------------------------------------------------------------
    def _add(self, group: Group, op: ir.Operation) -> None:
        values = _tensor_operands(op)
        for value in values:
            self._include_views(group, value, op)
        self._close([g for g in map(self._group, values) if g is not group])
        group.ops.append(op)
        group.sealed = group.sealed or op.name in ("tensor.pad", "scf.for")
        # what others are guarded by has to be there before them, with nothing that comes later
        group.sealed = group.sealed or not self._guards.isdisjoint(op.results)
        self._belongs(op, group)
        if op.name == "linalg.generic" and self.generic(op).reduction_dims and group.rows is None:
            group.rows = shape_of(op.results[0])

    @staticmethod
    def _close(producers: Iterable[Group | None]) -> None:
        """Values of these groups are used outside."""
        for producer in producers:
            if producer is not None:
                producer.open = False

    def _belongs(self, op: ir.Operation, group: Group) -> None:
        self.group_of[op] = group
        self._computed.update(dict.fromkeys(op.results, group))

    def _include_views(self, group: Group, value: ir.Value, user: ir.Operation) -> None:
        """Pull a slice (or a reshape of an own value) in front of `user` into its group, and all
        of them in a row.
        """
        view = defining(value)
        if view is None or user.name not in ("linalg.generic", *MOVES) or view in group.ops:
            return
        source = view.operands[0] if len(view.operands) else None
        if is_free_view(view):
            wanted = self._group(source) is group
        else:
            wanted = view.name == "tensor.extract_slice"
        if wanted:
            self._include_views(group, source, view)
            group.ops.append(view)
            producer = self._group(source)
            if producer is not group:
                group.borrowed.append(view)
            if producer is not None and producer is not group:
                producer.open = False

    def _group(self, value: ir.Value | None) -> Group | None:
        """The group that computes `value`, looking through views."""
        while value is not None:
            if value in self._computed:
                return self._computed[value]
            op = defining(value)
            if op is None or op.name not in VIEWS:
                return None
            value = op.operands[0]
        return None

    def _join(self, op: ir.Operation, mapping: Mapping) -> Group | None:
        candidates: list[tuple[int, Group]] = []
        groups = [self._group(value) for value in op.operands]
        for k, group in enumerate(groups):
            if group is None or not group.open or group.sealed or len(group.ops) >= MOST_OPS:
                continue
            if self._conditions.get(group.ops[0]) != self._conditions.get(op):
                continue
            if (group.mapping, mapping) in NEVER or not self._structure_allows(group, op, k):
                continue
            if any(o.name == "tensor.concat" and len(o.operands) > MOST_PARTS for o in group.ops):
                continue
            if any(
                other is group and self._depends_otherwise(op.operands[number])
                for number, other in enumerate(groups)
            ):
                continue
            weight = 2 if group.mapping is Mapping.MANY_TO_MANY else 1
            candidates.append((weight, group))
        if not candidates:
            return None
        chosen = max(candidates, key=lambda c: c[0])[1]
        for _, other in candidates:
            if other is not chosen and self._is_prologue(other):
                if chosen.mapping is Mapping.ONE_TO_ONE or all(map(widens, other.ops)):
                    self._absorb(chosen, other)
        return chosen

    def _goes_with_reader(self, op: ir.Operation) -> bool:
        """Whether one reader alone has this copy of what widens a tensor that others read, too."""
        if not widens(op) or not _used_once(op.results[0]):
            return False
        [reader] = (use.owner.operation for use in op.results[0].uses)
        sources = [v for v in op.operands if v in self._computed and not _used_once(v)]
        return bool(sources) and reads_by_element(reader, op.results[0])

    def _is_prologue(self, group: Group) -> bool:
        """Whether it computes element by element what only the op that reads it needs."""
        return group.mapping is Mapping.ONE_TO_ONE and all(
            _used_once(op.results[0]) for op in group.ops if op not in group.borrowed
        )

    def _absorb(self, group: Group, other: Group) -> None:
        """Add all of another open group: what only one op needs makes no cycle with it."""
        if len(group.ops) + len(other.ops) >= MOST_OPS:
            return
        for op in other.ops:
            if op not in other.borrowed:
                self._belongs(op, group)
        ops = {self._position[op.results[0]]: op for op in (*group.ops, *other.ops)}
        group.ops = [ops[position] for position in sorted(ops)]
        group.borrowed += [op for op in other.borrowed if op not in group.borrowed]
        other.ops, other.borrowed = [], []

    def _depends_otherwise(self, value: ir.Value) -> bool:
        """A value of the group is one only through a slice or reshape that a join would not take
        along.
        """
        return value not in self._computed and not _used_once(value)

    def _structure_allows(self, group: Group, op: ir.Operation, operand: int) -> bool:
        value = op.operands[operand]
        direct = value in self._computed
        if op.name == "tensor.pad":
            return (
                direct
                and _used_once(value)
                and group.mapping is not Mapping.SHUFFLE
                and _only_grows(op)
                and not (self._flat_rows and parts_rows(op))
            )
        if op.name != "linalg.generic" or (generic := self.generic(op)).gathers:
            return False
        if operand >= len(generic.inputs):
            return False
        if generic.reduction_dims:
            return direct and self._reduction_fits(group, generic, operand)
        if self._is_identity(generic, operand):
            return direct or self._reshape_follows(value)
        if self.is_copy(op):
            # lists: the bindings' own compare by identity; a scalar that is spread has no lanes
            read, written = list(generic.maps[operand].results), list(generic.maps[-1].results)
            keeps_lanes = read[-1:] == written[-1:]
            single = _used_once(value) and (direct or self._reshape_follows(value))
            return keeps_lanes and single and (group.rows is None or self._is_contraction(group))
        return direct and self._stitches(group, generic, operand)

    def _is_contraction(self, group: Group) -> bool:
        return any(
            o.name == "linalg.generic"
            and self.generic(o).product is not None
            and self.generic(o).reduction_dims
            for o in group.ops
        )

    def _reshape_follows(self, value: ir.Value) -> bool:
        """`value` is a reshape, used once, of a value that is used once."""
        op = value.owner.operation
        return (
            is_free_view(op)
            and _used_once(value)
            and _used_once(op.operands[0])
            and (op.operands[0] in self._computed)
        )

    def _reduction_fits(self, group: Group, generic: Generic, operand: int) -> bool:
        """A reduction joins an elementwise prologue, or the reductions over the same rows (softmax,
        normalisations); a combination joins the one that it alone reads (2-d transforms).
        """
        value = generic.op.operands[operand]
        if generic.combination is not None:
            producer = value.owner.operation
            chained = producer.name == "linalg.generic" and self.generic(producer).combination
            return bool(chained) and _used_once(value)
        if generic.product is not None and len(generic.inputs) > 1 and self._is_gemm_like(generic):
            return False
        map_ = generic.maps[operand]
        if not map_.is_projected_permutation or len(map_.results) != map_.n_dims:
            return False
        if self._is_contraction(group):
            return False
        result = shape_of(generic.op.results[0])
        if group.rows is not None:
            return group.rows == result
        users = [use.owner.operation for use in value.uses]
        stitched = all(
            u.name == "linalg.generic"
            and (self.generic(u).reduction_dims or not self.generic(u).gathers)
            for u in users
        )
        return stitched and (len(users) == 1 or math.prod(result) >= ENOUGH_ROWS)

    def _is_gemm_like(self, generic: Generic) -> bool:
        """More than one input carries the reduction: elements of an input are used many times."""
        return sum(1 for m in generic.maps[: len(generic.inputs)] if len(m.results) < m.n_dims) > 0

    def _stitches(self, group: Group, generic: Generic, operand: int) -> bool:
        """A broadcast of row results over the columns, back in the same rOperator."""
        if group.rows is None or self._is_contraction(group):
            return False
        value = generic.op.operands[operand]
        if math.prod(shape_of(value)) == math.prod(generic.sizes):
            return False
        rows = math.prod(shape_of(value))
        total = math.prod(shape_of(generic.op.results[0]))
        return shape_of(value) == group.rows and (rows >= ENOUGH_ROWS or total <= TINY_ELEMENTS)

    # -- slices nobody took
    def _lone_slices(self) -> None:
        """A slice that something else than a group reads (a reshape, the return) is a movement
        operator of its own.
        """
        for op in reversed(self._ops):
            if op.name == "tensor.extract_slice" and not is_free_view(op) and self._is_alone(op):
                group = Group([], Mapping.REORGANIZE)
                self._include_views(group, op.operands[0], op)
                group.ops.append(op)
                self.groups.append(group)
                self._belongs(op, group)

    def _sink_views(self) -> None:
        """Put views behind the last op of the group that computes their source, where its rOperator
        will stand: nothing reads them earlier, or the group would have been closed.
        """
        ends: dict[int, ir.Operation] = {}
        for op in self._ops:
            if op.name not in VIEWS:
                continue
            group = self._group(op.operands[0])
            if group is None or op in group.ops:
                continue
            end = ends.get(id(group), group.ops[-1])
            if op.is_before_in_block(end):
                op.move_after(end)
                ends[id(group)] = op

    def _is_alone(self, view: ir.Operation) -> bool:
        """Some reader of a slice has no copy of it, and no group yields it with its source."""
        source = self._group(view.operands[0])
        if source is not None and view in source.ops:
            return False
        for use in view.results[0].uses:
            user = top_level(use.owner.operation)
            reader = self.group_of.get(user)
            if reader is not None and view not in reader.ops:
                return True
            if reader is None and (user.name != "tensor.extract_slice" or is_free_view(user)):
                return True
        return False


def _tensor_operands(op: ir.Operation) -> list[ir.Value]:
    """Tensor values that `op` or its regions use from outside."""
    found = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
    for value in itertools.islice(tensors_used(op), len(found), None):
        if value not in found:
            found.append(value)
    return found


def _used_once(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1


def _only_grows(pad: ir.Operation) -> bool:
    return min((*integers(pad, "static_low"), *integers(pad, "static_high")), default=0) >= 0


def parts(group: Group, outputs: Sequence[ir.Value]) -> Iterator[tuple[Group, list[ir.Value]]]:
    """The rOperators of a group, in order: their ops, and which of its outputs they compute.

    The rTasks of an rOperator are tiles of its first result. A result of another shape has no such
    tiles: the total of a tensor beside the tensor itself would be computed by every rTask, or by
    none. So each shape gets an rOperator of its own, which reads what those before it have computed
    and repeats the rest. A loop stays whole, whatever it carries: it is one rTask.
    """
    shapes = dict.fromkeys(shape_of(value) for value in outputs)
    if len(shapes) == 1 or group.ops[-1].name == "scf.for":
        yield group, [*outputs]
        return
    made: list[ir.Value] = []
    for shape in shapes:
        results = [value for value in outputs if shape_of(value) == shape]
        needed = _needed(group, results, made)
        ops = [op for op in group.ops if op in needed]
        yield (
            replace(group, ops=ops, borrowed=[op for op in group.borrowed if op in needed]),
            results,
        )
        made += results


def _needed(
    group: Group, results: Sequence[ir.Value], made: Sequence[ir.Value]
) -> set[ir.Operation]:
    """The ops of a group that its results need, when some values are there already."""
    inside, found = set(group.ops), set[ir.Operation]()
    left = [*results]
    while left:
        value = left.pop()
        op = None if value in made else defining(value)
        if op is not None and op in inside and op not in found:
            found.add(op)
            left += [read for reader in (op, *operations(op)) for read in reader.operands]
    return found
