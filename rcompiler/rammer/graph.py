"""What is scheduled: values and rOperators, each with the rKernels that it may run.

Plain data, checked when it is built. Sizes are in bytes. Rammer (OSDI'20) section 3.1: an rOperator
is a set of independent, equal rTasks.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from rcompiler.errors import ScheduleError
from rcompiler.rammer.kernel import Kernel

VALUE_KINDS = ("input", "output", "constant", "temp", "pinned")


@dataclass(frozen=True)
class Operator:
    """One rOperator.

    Attributes:
        name: of the operator.
        kernels: names of its candidate rKernels.
        inputs: names of the values it reads.
        outputs: names of the values it writes.
    """

    name: str
    kernels: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """A tensor between operators.

    alias_of, alias_offset: this value is a view of the bytes `[alias_offset, + bytes)` of that
    other value: a reshape, or the part of a concatenation that its producer writes directly.
    index: position of an input or output in the signature. key: content of a constant; constants
    with the same key share their bytes.
    """

    name: str
    bytes: int
    kind: str = "temp"
    alias_of: str | None = None
    index: int = -1
    alias_offset: int = 0
    key: str = ""

    def __post_init__(self) -> None:
        if self.kind not in VALUE_KINDS:
            raise ScheduleError(
                f"value {self.name}: kind {self.kind!r} is none of {', '.join(VALUE_KINDS)}"
            )
        if self.bytes < 0 or self.alias_offset < 0:
            raise ScheduleError(f"value {self.name}: negative size or offset")


def _named(items: tuple, what: str) -> dict:
    named = {item.name: item for item in items}
    if len(named) != len(items):
        names = [item.name for item in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise ScheduleError(f"two {what}s are called {twice!r}: names must be unique")
    return named


@dataclass(frozen=True)
class Graph:
    """Operators with their values and rKernels; each value is written by at most one operator.

    Attributes:
        operators: each after those whose results it reads.
        values: tensors between them.
        kernels: rKernels, which several operators may have in common.

    Raises:
        ScheduleError: a name is missing or there twice, two operators write the same bytes, or one
            reads what none writes.
    """

    operators: tuple[Operator, ...]
    values: tuple[Value, ...]
    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        for items, what in (
            (self.values, "value"),
            (self.kernels, "rKernel"),
            (self.operators, "operator"),
        ):
            _named(items, what)
        for value in self.values:
            self._check_alias(value)
        for op in self.operators:
            self._check_operator(op)
        spans = self._spans  # no two may overlap
        for op in self.operators:
            for name in op.inputs:
                root, low = self.root(name)
                if self.value[root].kind in ("input", "constant"):
                    continue
                high = low + self.value[name].bytes
                written = spans.get(root, ())
                if low < high and not any(a <= low and high <= b for a, b in written):
                    raise ScheduleError(
                        f"operator {op.name} reads {name}, which no operator writes completely"
                    )

    def written_spans(self, root: str) -> tuple[tuple[int, int], ...]:
        """The joined byte spans of a root value that operators write.

        Args:
            root: name of a value that is no view.
        """
        return self._spans.get(root, ())

    @cached_property
    def _spans(self) -> dict[str, tuple[tuple[int, int], ...]]:
        return {root: tuple(self._written(root)) for root in self.writers}

    def _written(self, root: str) -> list[tuple[int, int]]:
        spans = []
        for op, number in self.writers[root]:
            name = self.operator[op].outputs[number]
            low = self.root(name)[1]
            spans.append((low, low + self.value[name].bytes, name))
        joined: list[tuple[int, int]] = []
        for low, high, name in sorted(spans):
            if joined and low < joined[-1][1]:
                raise ScheduleError(f"value {name} and another view of {root} are both written")
            if joined and low == joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
            elif low < high:
                joined.append((low, high))
        return joined

    def _check_alias(self, value: Value) -> None:
        if value.alias_of is None:
            return
        seen = {value.name}
        step = value
        while step.alias_of is not None:
            parent = self.value.get(step.alias_of)
            if parent is None or parent.name in seen:
                raise ScheduleError(
                    f"value {value.name} is a view of {step.alias_of}, which is unknown or a view "
                    "of it"
                )
            if step.alias_offset + step.bytes > parent.bytes:
                raise ScheduleError(
                    f"value {step.name} ends at byte {step.alias_offset + step.bytes} of "
                    f"{parent.name}, which has {parent.bytes}"
                )
            seen.add(parent.name)
            step = parent

    def _check_operator(self, op: Operator) -> None:
        if not op.kernels:
            raise ScheduleError(f"operator {op.name} has no rKernel")
        for name in (*op.inputs, *op.outputs):
            if name not in self.value:
                raise ScheduleError(f"operator {op.name} uses the unknown value {name!r}")
        for name in op.outputs:
            if self.value[self.root(name)[0]].kind in ("input", "constant"):
                raise ScheduleError(f"operator {op.name} writes {name}, which is read-only")
        for kernel_name in op.kernels:
            kernel = self.kernel.get(kernel_name)
            if kernel is None:
                raise ScheduleError(f"operator {op.name} uses the unknown rKernel {kernel_name!r}")
            check_operands(op, kernel, self.value)

    @cached_property
    def value(self) -> Mapping[str, Value]:
        """Values by name.

        Raises:
            ScheduleError: two have one name, which no graph has that could be made.
        """
        return _named(self.values, "value")

    @cached_property
    def kernel(self) -> Mapping[str, Kernel]:
        """rKernels by name.

        Raises:
            ScheduleError: two have one name, which no graph has that could be made.
        """
        return _named(self.kernels, "rKernel")

    @cached_property
    def operator(self) -> Mapping[str, Operator]:
        """Operators by name.

        Raises:
            ScheduleError: two have one name, which no graph has that could be made.
        """
        return _named(self.operators, "operator")

    @cached_property
    def producer(self) -> Mapping[str, str]:
        """Value name -> name of the operator that writes it.

        Raises:
            ScheduleError: two operators write it.
        """
        producer: dict[str, str] = {}
        for op in self.operators:
            for name in op.outputs:
                if name in producer:
                    raise ScheduleError(
                        f"value {name} is written by {producer[name]} and by {op.name}: a value "
                        "has one producer"
                    )
                producer[name] = op.name
        return producer

    @cached_property
    def _roots(self) -> dict[str, tuple[str, int]]:
        roots: dict[str, tuple[str, int]] = {}
        for value in self.values:
            offset, step = 0, value
            while step.alias_of is not None:
                offset += step.alias_offset
                step = self.value[step.alias_of]
            roots[value.name] = (step.name, offset)
        return roots

    def root(self, name: str) -> tuple[str, int]:
        """The value that owns the bytes of another, and the byte offset of that one in it.

        Args:
            name: of a value; one that is no view is its own root.
        """
        return self._roots[name]

    @cached_property
    def views(self) -> Mapping[str, tuple[str, ...]]:
        """Root value -> it and all its views, in the order of `values`."""
        views: dict[str, list[str]] = {}
        for value in self.values:
            views.setdefault(self.root(value.name)[0], []).append(value.name)
        return {root: tuple(names) for root, names in views.items()}

    @cached_property
    def homes(self) -> Mapping[str, tuple[str, int]]:
        """Root value -> the memory in which it and its views lie, kind and index: that of the
        output among them, if any.
        """
        found = {}
        for root, views in self.views.items():
            value = next((v for v in map(self.value.get, views) if v and v.kind == "output"), None)
            value = value or self.value[root]
            found[root] = value.kind, value.index if value.kind in ("input", "output") else -1
        return found

    @cached_property
    def writers(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """Root value -> (operator, result number) of everything that writes bytes of it."""
        writers: dict[str, list[tuple[str, int]]] = {}
        for op in self.operators:
            for number, name in enumerate(op.outputs):
                writers.setdefault(self.root(name)[0], []).append((op.name, number))
        return {root: tuple(found) for root, found in writers.items()}

    def writing(self, writer: tuple[str, int]) -> tuple[str, int]:
        """(operator, operand number) of a result, as `Placement.shares` counts operands: those that
        an operator reads first.

        Args:
            writer: operator and result number.

        Returns:
            Operator and operand number.
        """
        return writer[0], len(self.operator[writer[0]].inputs) + writer[1]

    @cached_property
    def readers(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """Root value -> (operator, operand number) of everything that reads bytes of it."""
        readers: dict[str, list[tuple[str, int]]] = {}
        for op in self.operators:
            for number, name in enumerate(op.inputs):
                readers.setdefault(self.root(name)[0], []).append((op.name, number))
        return {root: tuple(found) for root, found in readers.items()}

    @cached_property
    def _places(self) -> Mapping[str, tuple[list[int], list[int], tuple[tuple[str, int], ...]]]:
        """Of each root value, in the order of the bytes that are written: their first ones, those
        behind their last, and the writers.
        """
        found = {}
        for root, writers in self.writers.items():
            spans = []
            for op, number in writers:
                name = self.operator[op].outputs[number]
                low = self.root(name)[1]
                spans.append((low, low + self.value[name].bytes, (op, number)))
            spans.sort()
            lows, highs, names = zip(*spans, strict=True)
            found[root] = [*lows], [*highs], names
        return found

    def writers_of(self, name: str) -> Sequence[tuple[str, int]]:
        """What writes bytes of a value, which may be a part of what steps by the hundred write.

        Args:
            name: of the value.

        Returns:
            (operator, result number) of each.
        """
        root, low = self.root(name)
        if root not in self._places:
            return ()
        lows, highs, writers = self._places[root]  # no two overlap, so both are sorted
        first = bisect_right(highs, low)
        return writers[first : bisect_left(lows, low + self.value[name].bytes, first)]

    @cached_property
    def predecessors(self) -> Mapping[str, tuple[str, ...]]:
        """Operator -> the operators that write bytes it reads, in graph order, each once."""
        order = {op.name: i for i, op in enumerate(self.operators)}
        found: dict[str, tuple[str, ...]] = {}
        for op in self.operators:
            before = {writer for name in op.inputs for writer, _ in self.writers_of(name)}
            found[op.name] = tuple(sorted(before, key=order.__getitem__))
        return found

    @cached_property
    def followers(self) -> Mapping[str, tuple[str, ...]]:
        """Operator -> the operators that read bytes it writes, in graph order, each once."""
        found: dict[str, list[str]] = {op.name: [] for op in self.operators}
        for op in self.operators:
            for before in self.predecessors[op.name]:
                found[before].append(op.name)
        return {name: tuple(after) for name, after in found.items()}


def check_operands(op: Operator, kernel: Kernel, values: Mapping[str, Value]) -> None:
    """Refuse a kernel whose accesses do not fit the operator's values in number or size."""
    for what, names, accesses in (
        ("operand", op.inputs, kernel.reads),
        ("result", op.outputs, kernel.writes),
    ):
        if len(names) != len(accesses):
            raise ScheduleError(
                f"operator {op.name} has {len(names)} {what}s, its rKernel {kernel.name} "
                f"{len(accesses)}"
            )
        for name, access in zip(names, accesses, strict=True):
            if access.bytes != values[name].bytes:
                raise ScheduleError(
                    f"operator {op.name}: rKernel {kernel.name} takes {what} {name} as "
                    f"{access.bytes} bytes of shape {access.shape}, the value has "
                    f"{values[name].bytes}"
                )


def waves(graph: Graph) -> list[list[Operator]]:
    """The operators by breadth-first level (Rammer, OSDI'20, Algorithm 1, line 2).

    Args:
        graph: whose operators they are.

    Returns:
        Waves: each needs only values of earlier ones, and has its operators in the order of the
            graph.

    Raises:
        ScheduleError: operators wait for each other in a circle.
    """
    place = {op.name: i for i, op in enumerate(graph.operators)}
    order = TopologicalSorter(graph.predecessors)
    try:
        order.prepare()
    except CycleError as error:
        stuck = min(error.args[1], key=place.__getitem__)
        raise ScheduleError(f"operator {stuck} needs, through others, its own result") from None
    levels: list[list[Operator]] = []
    while order.is_active():
        ready = sorted(order.get_ready(), key=place.__getitem__)
        levels.append([graph.operator[name] for name in ready])
        order.done(*ready)
    return levels
