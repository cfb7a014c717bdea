"""What every builder method stands on: recorded text, constants, ``linalg.generic``."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from . import dtypes
from .body import Body
from .scalar import Number, Scalar, literal
from .value import SizeAtRunTime, Value

INLINE_ELEMENTS = 64  # larger constants live beside the module
NAME = re.compile(r"%[A-Za-z][\w.]*")


class Range(NamedTuple):
    """Elements are from the first to the last number.

    reader: the node that reads them. says: what is wrong with an element that is outside, with `{}`
    in its place, and the like (`runtime.program.IndexCheck`); "" for indices. bound: the name in
    `bounds` that a greater number of would allow it.
    """

    first: int
    last: int
    reader: str
    says: str = ""
    bound: str = ""

    def holds(self, other: Range) -> bool:
        """Whether all that is inside of the other is inside of this one, of the same kind."""
        return self.first <= other.first and other.last <= self.last and self.says == other.says


@dataclass
class Expected:
    """A tensor of computed indices that only its numbers can tell to be right.

    range: what they must be. location: of the reader. names: of the tensor, and of those that it is
    another view of. readers: results of the ops of the reader that read it. when: scalars of bool;
    where one is false nothing is expected. size: an int64 scalar, the number that `{size}` stands
    for in what the range says.
    """

    value: Value
    range: Range
    location: str
    names: frozenset[str]
    readers: set[str] = field(default_factory=set)
    when: tuple[Value, ...] = ()
    size: Value | None = None


Record = tuple[str, str, int]  # the result of an op, its text, the number of its location
Out = tuple[Value, str]
Fn = Callable[..., "Scalar | Number | Sequence[Scalar]"]


def dims(count: int, start: int = 0) -> list[str]:
    """``["d0", "d1", ...]``."""
    return [f"d{start + i}" for i in range(count)]


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...] | None:
    """numpy's broadcast of shapes, of any rank, or None when they do not fit.

    numpy's own function takes at most 32 dims, where its arrays have up to 64.
    """
    rank = max(map(len, shapes), default=0)
    found = [1] * rank
    for shape in shapes:
        for dim, size in enumerate(shape, rank - len(shape)):
            if size == 1 or size == found[dim]:
                continue
            if found[dim] != 1:
                return None
            found[dim] = int(size)
    return tuple(found)


@dataclass
class Scope:
    """The ops of one function so far, and by their texts the results of those.

    names: of what is computed there, and of its parameters. brought: by their names the tensors of
    @main that a step reads, with the parameters that bring them.
    """

    records: list[Record] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    brought: dict[str, tuple[Value, Value]] = field(default_factory=dict)


class Core:
    """Records ops as text, each once, and keeps the constants."""

    def __init__(self) -> None:
        self.constants: dict[str, np.ndarray] = {}
        self.hint = "value"  # stem of the next results' names
        self.location = "unknown"
        self._main = self._scope = Scope()  # of @main, and of the function that is being written
        self._stems: dict[str, int] = {}
        self._locations: dict[str, int] = {}
        self.arguments: list[tuple[Value, str]] = []
        self.random_key: Value | None = None  # of a model that draws random numbers, uint32[2]
        self.state: Mapping[str, str] = {}  # results by the arguments whose next values they are
        self.ranges: dict[str, Range] = {}  # of graph inputs
        self.expected: list[Expected] = []
        self.notes: list[str] = []  # what is told of how the model was translated, a line each
        self._watched: list[Expected] = []  # those of the node that is being translated
        self._when: tuple[Value, ...] = ()  # conditions under which results are read
        self._depends: dict[str, frozenset[str]] = {}

    # -- recording --------------------------------------------------------------------------
    def at(self, location: str, hint: str) -> None:
        """Set the location and the name stem of what follows (one call per ONNX node)."""
        self._watched = []
        self.location, self.hint = location, re.sub(r"\W", "_", hint).lower() or "value"

    def _fresh(self, stem: str) -> str:
        stem = stem if stem[:1].isalpha() else "v" + stem
        count = self._stems[stem] = self._stems.get(stem, 0) + 1
        return f"%{stem}_{count}"

    def emit(self, text: str, results: int = 1, hint: str | None = None) -> str:
        """Record ``text`` (an op without its results) and return the result name."""
        scope = self._scope
        found = scope.known.get(text)
        if found is None:
            found = scope.known[text] = self._fresh(hint or self.hint)
            number = self._locations.setdefault(self.location, len(self._locations))
            prefix = f"{found}:{results}" if results > 1 else found
            scope.records.append((found, f"{prefix} = {text}", number))
            scope.names.add(found)
            empty: frozenset[str] = frozenset()
            names = [self._depends.get(n, empty) for n in set(NAME.findall(text))]
            self._depends[found] = frozenset().union(*names) if any(names) else empty
        for each in self._watched:
            if not each.names.isdisjoint(NAME.findall(text)):
                each.readers.add(found)
        return found

    @contextmanager
    def _written_to(self, scope: Scope) -> Iterator[None]:
        """Record ops in another function."""
        before, self._scope = self._scope, scope
        try:
            yield
        finally:
            self._scope = before

    def value(self, text: str, shape: Sequence[int], dtype: str, hint: str | None = None) -> Value:
        """Record an op with one tensor result."""
        name = self.emit(text, 1, hint)
        return Value(name, shape, dtype, inputs=self._depends[name])

    def local(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """A tensor named inside a region (loop-carried values)."""
        return Value(name, shape, dtype)

    def argument(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """A graph input."""
        value = Value(self._fresh("arg"), shape, dtype, inputs=frozenset([name]))
        self._depends[value.name] = value.inputs
        self.arguments.append((value, name))
        return value

    def expect(
        self,
        value: Value,
        first: int,
        last: int,
        reader: str,
        read: Value | None = None,
        says: str = "",
        size: Value | None = None,
        bound: str = "",
    ) -> None:
        """Note that elements of ``value`` lie in a range, by what ``reader`` does with them.

        Those of a graph input are looked at before a call. What the model computes is looked at
        after it (`index_checks`), unless its bounds say already that all is well. read: the tensor
        that the reader's ops name, where ``value`` is a part of it. says, bound: of what is no
        index, see `Range`. size: see `Expected`.
        """
        low, high = value.bounds or (first, last)
        if first <= low and high <= last:
            return
        name = self.argument_of(value)
        if name is not None and not says and not self._when:
            low, high, whose, *_ = self.ranges.get(name, Range(first, last, reader))
            whose = reader if first > low or last < high else whose
            self.ranges[name] = Range(max(first, low), min(last, high), whose)
            return
        views, read = _views(value), read or value
        views.append(read.whole or read)
        names = frozenset(view.name.partition("#")[0] for view in views if view.name)
        range_ = Range(first, last, reader, says, bound)
        found = Expected(value, range_, self.location, names, when=self._when, size=size)
        self.expected.append(found)
        self._watched.append(found)

    def argument_of(self, value: Value) -> str | None:
        """The graph input whose elements these are, in any shape or order; None for a tensor that
        the model computes, and for a constant.
        """
        source = _views(value)[-1]
        return next((name for argument, name in self.arguments if argument is source), None)

    def expect_iterations(
        self, value: Value, last: int, reader: str, name: str, results: set[str]
    ) -> None:
        """Note that a loop, which makes these results, does not go on to iteration ``value``, which
        is 0 where it ends after ``last`` at the latest. name: of the loop, in `bounds`.
        """
        says = (
            f"{reader} may go on to iteration {{}}, and was compiled for at most {last}; compile "
            "the model with a greater bound"
        )
        self.expect_with(results, value, Range(0, last, reader, says, name))

    def expect_with(self, results: set[str], value: Value, range_: Range) -> None:
        """Note that a number is in a range where one of these results is needed; "" always is."""
        expected = Expected(value, range_, self.location, frozenset(), results, self._when)
        self.expected.append(expected)

    @contextmanager
    def under(self, condition: Value) -> Iterator[None]:
        """What is expected counts only where a scalar of bool is true."""
        before, self._when = self._when, (*self._when, condition)
        try:
            yield
        finally:
            self._when = before

    # -- constants --------------------------------------------------------------------------
    def constant(self, array: np.ndarray | Number, dtype: str | None = None) -> Value:
        """A constant tensor; nothing is emitted before an op uses it."""
        if dtype is not None and dtype not in dtypes.SMALL_INTS + dtypes.SMALL_FLOATS:
            array = np.asarray(array, dtypes.numpy_dtype(dtype))
        array = np.asarray(array)
        return Value("", array.shape, dtype or dtypes.name_of(array), const=array)

    def ref(self, value: Value) -> str:
        """SSA name of a value; emits its constant, in @main, on first use. In a step a value of
        @main has that of the parameter that brings it.

        Raises SizeAtRunTime for one of which not all elements are there.
        """
        if value.whole is not None:
            raise SizeAtRunTime(f"all elements of {value!r} would be read")
        if not value.name and value.elements is not None:
            with self._written_to(self._main):
                value.name = self.computed(value)
        if not value.name:
            assert value.const is not None
            with self._written_to(self._main):
                value.name = self.emit(self._constant_text(value), hint="cst")
        if not self.in_step or value.const is not None:
            return value.name
        scope, name = self._scope, value.name
        if name.partition("#")[0] in scope.names or name.startswith("%_"):  # of a region inside
            return name
        if name not in scope.brought:
            brought = self.local(f"%_step_w{len(scope.brought)}", value.shape, value.dtype)
            scope.brought[name] = value, brought
        return scope.brought[name][1].name

    def computed(self, value: Value) -> str:
        """SSA name of the numbers that are made of sizes at run time."""
        raise NotImplementedError  # by `SizedOps`

    @property
    def in_step(self) -> bool:
        """Whether ops go to the function of a step."""
        return self._scope is not self._main

    def _constant_text(self, value: Value) -> str:
        array = dtypes.to_storage(value.array, value.dtype)
        uniform = splat(array)
        if uniform is not None:
            return f"arith.constant dense<{literal(uniform, value.dtype)}> : {value.type}"
        if array.size <= INLINE_ELEMENTS:
            flat = [literal(x, value.dtype) for x in array.reshape(-1)]
            return f"arith.constant dense<{_nested(flat, array.shape)}> : {value.type}"
        key = self._keep(array, value.dtype)
        return f"arith.constant dense_resource<{key}> : {value.type}"

    def _keep(self, array: np.ndarray, dtype: str) -> str:
        """The key of an array, the same for equal arrays. What is transposed stays a view, so that
        it is known to have the elements of another one.

        CRC-32 finds candidates 5 times as fast as sha256 would; the bytes decide.
        """
        whole = np.ascontiguousarray(array)
        order = np.argsort([-stride for stride in array.strides], kind="stable")
        if not array.transpose(order).flags.c_contiguous:
            array = whole
        data = whole.reshape(-1).view(np.uint8)
        kind = zlib.crc32(f"{dtype}{array.shape}".encode())
        content = zlib.crc32(data.data)
        while True:
            key = f"w_{kind:08x}{content:08x}"
            known = self.constants.setdefault(key, array)
            if known is array:
                return key
            same = known.shape == array.shape and known.dtype == array.dtype
            if same and np.array_equal(known.reshape(-1).view(np.uint8), data):
                return key
            content = (content + 1) % (1 << 32)

    def empty(self, shape: Sequence[int], dtype: str) -> Value:
        """An uninitialised tensor (destination of a generic)."""
        return self.value(
            f"tensor.empty() : {dtypes.tensor_type(tuple(shape), dtype)}", shape, dtype, "empty"
        )

    def fill(self, shape: Sequence[int], dtype: str, number: Number) -> Value:
        """A tensor filled with one number by ``linalg.fill`` (start of a reduction)."""
        scalar, kind = self.scalar(number, dtype), dtypes.mlir_type(dtype)
        out = self.empty(shape, dtype)
        return self.value(
            f"linalg.fill ins({scalar} : {kind}) outs({out.name} : {out.type}) -> {out.type}",
            shape,
            dtype,
            "fill",
        )

    def scalar(self, number: Number, dtype: str) -> str:
        """The name of a constant that is no tensor."""
        kind, text = dtypes.mlir_type(dtype), literal(stored(number, dtype), dtype)
        return self.emit(
            f"arith.constant {text if kind == 'i1' else f'{text} : {kind}'}", hint="cst"
        )

    def splat(self, shape: Sequence[int], dtype: str, number: Number) -> Value:
        """A constant tensor of one number, without storing its elements."""
        array = np.asarray(number).astype(dtypes.numpy_dtype(dtype))
        return Value("", shape, dtype, const=np.broadcast_to(array, tuple(shape)))

    # -- generic ----------------------------------------------------------------------------
    def generic(
        self, inputs: Sequence[tuple[Value, str]], outs: Sequence[Out], iterators: str, fn: Fn
    ) -> list[Value]:
        """One ``linalg.generic``.

        ``inputs``/``outs``: (tensor, map results), e.g. ``(x, "d0, d1 * 2 + d3")``; ``outs``
        tensors come from ``empty`` or ``fill``. ``iterators``: ``p``/``r`` per dimension.
        ``fn(s, *input scalars, *out scalars)`` returns the scalar(s) to yield.
        """
        body = Body(self)
        operands = [v for v, _ in inputs] + [v for v, _ in outs]
        scalars = [Scalar(body, body.fresh("a"), v.dtype) for v in operands]
        made = fn(body, *scalars)
        results = [made] if isinstance(made, Scalar | int | float) else list(made)
        yields = [
            r if isinstance(r, Scalar) else body.const(r, out.dtype)
            for r, (out, _) in zip(results, outs, strict=True)
        ]
        kinds = ["parallel" if c == "p" else "reduction" for c in iterators]
        left = _domain(len(iterators))
        maps = ", ".join(f"affine_map<{left}{m})>" for _, m in [*inputs, *outs])
        types = ", ".join(v.type for v, _ in outs)
        ins = f" ins({self._operands([v for v, _ in inputs])})" if inputs else ""
        kind_text = ", ".join(f'"{k}"' for k in kinds)
        block = ", ".join(f"{a.name}: {dtypes.mlir_type(a.dtype)}" for a in scalars)
        yielded = ", ".join(y.name for y in yields)
        yield_types = ", ".join(dtypes.mlir_type(y.dtype) for y in yields)
        lines = [
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kind_text}]}}{ins} "
            f"outs({self._operands([v for v, _ in outs])}) {{",
            f"^bb0({block}):",
            *body.head,
            *body.lines,
            f"linalg.yield {yielded} : {yield_types}",
            f"}} -> {f'({types})' if len(outs) > 1 else types}",
        ]
        name = self.emit("\n".join(lines), len(outs))
        depends = self._depends[name]
        if len(outs) == 1:
            return [Value(name, outs[0][0].shape, yields[0].dtype, inputs=depends)]
        pairs = zip(outs, yields, strict=True)
        return [
            Value(f"{name}#{i}", o.shape, y.dtype, inputs=depends)
            for i, ((o, _), y) in enumerate(pairs)
        ]

    def tabulate(
        self, shape: Sequence[int], dtype: str, fn: Fn, *reads: tuple[Value, str]
    ) -> Value:
        """A tensor whose element at d0, d1, ... is ``fn(s, *scalars)``.

        The scalars are read from tensors by maps of the element's own position; ``fn`` asks for the
        position with ``s.index``.
        """
        out = (self.empty(shape, dtype), ", ".join(dims(len(shape))))
        return self.generic(reads, [out], "p" * len(shape), lambda s, *a: fn(s, *a[:-1]))[0]

    def fold(
        self,
        reads: Sequence[tuple[Value, str]],
        shape: Sequence[int],
        dtype: str,
        init: Number,
        iterators: str,
        fn: Fn,
        write: str | None = None,
    ) -> Value:
        """A tensor of ``shape`` that ``fn(s, *scalars, accumulator)`` folds from ``init``, over the
        ``r`` of the iterators.

        write: the map of the result; by default its dims are the first iterators.
        """
        own = ", ".join(dims(len(shape))) if write is None else write
        return self.generic(reads, [(self.fill(shape, dtype, init), own)], iterators, fn)[0]

    def _operands(self, values: Sequence[Value]) -> str:
        names = ", ".join(self.ref(v) for v in values)
        return names + " : " + ", ".join(v.type for v in values)

    def elementwise(self, fn: Fn, *values: Value, dtype: str | None = None) -> Value:
        """``fn(s, *scalars)`` on every element with numpy broadcasting.

        ``dtype``: element type of the result; default the type of the first operand. Constants of
        one value become scalars of the body.
        """
        shape = broadcast_shapes(*(v.shape for v in values))
        assert shape is not None, "the lowering checks broadcasting"
        dtype = dtype or values[0].dtype
        uniform = [splat(v.const) if v.const is not None else None for v in values]
        tensors = [v for v, u in zip(values, uniform, strict=True) if u is None]

        def body(s: Body, *args: Scalar) -> Scalar | Number | Sequence[Scalar]:
            rest = iter(args)
            scalars = [
                next(rest) if u is None else s.const(stored(u, v.dtype), v.dtype)
                for v, u in zip(values, uniform, strict=True)
            ]
            return fn(s, *scalars)

        return self.tabulate(
            shape, dtype, body, *(self.broadcast_operand(v, shape) for v in tensors)
        )

    def broadcast_operand(self, value: Value, shape: Sequence[int]) -> tuple[Value, str]:
        """(value, map) that reads ``value`` broadcast to ``shape`` over dims d0.."""
        lead = len(shape) - value.rank
        spread = [value.shape[i] == 1 and shape[lead + i] != 1 for i in range(value.rank)]
        if value.const is not None and any(spread):
            keep = [i for i in range(value.rank) if not spread[i]]
            small = self.constant(value.const.reshape([value.shape[i] for i in keep]), value.dtype)
            return small, ", ".join(f"d{lead + i}" for i in keep)
        return value, ", ".join("0" if s else f"d{lead + i}" for i, s in enumerate(spread))


@lru_cache(64)
def _domain(count: int) -> str:
    """Left side of an indexing map."""
    return "(" + ", ".join(dims(count)) + ") -> ("


def _views(value: Value) -> list[Value]:
    """The tensor, and those that it is another view of, one after the other."""
    views = [value.whole or value]
    while (source := _viewed(views[-1])) is not None:
        views.append(source)
    return views


def _viewed(value: Value) -> Value | None:
    """The tensor that has the same elements in another shape or order."""
    if value.base is not None:
        return value.base
    return None if value.permuted is None else value.permuted[0]


def accumulator(dtype: str) -> str:
    """Element type in which sums of this type are kept."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def splat(array: np.ndarray) -> Any:
    """The one number an array consists of (bit for bit), else None."""
    if array.size == 0:
        return None
    first = array.reshape(-1)[0] if array.ndim else array[()]
    if array.size == 1 or not any(array.strides):
        return first
    raw = array.view(np.uint8) if array.dtype == np.bool_ else array
    if raw.dtype.kind == "V" or raw.dtype.itemsize not in (1, 2, 4, 8):
        return None
    bits = raw.view(f"u{raw.dtype.itemsize}")
    one = bits[(0,) * bits.ndim]
    # the last element of weights tells at once what to compare all of them would
    return first if one == bits[(-1,) * bits.ndim] and bool((bits == one).all()) else None


def stored(number: Any, dtype: str) -> Any:
    """The number that stands for an element of ``dtype`` in its storage type."""
    if dtype in dtypes.SMALL_FLOATS + dtypes.SMALL_INTS:
        array = np.asarray(number).astype(dtypes.numpy_dtype(dtype))
        return int(dtypes.to_storage(array, dtype))
    return number


def _nested(flat: list[str], shape: Sequence[int]) -> str:
    """Elements as the nested list MLIR wants: ``[[a, b], [c, d]]``; a bare element for rank 0."""
    items = flat
    if not flat:
        return ""
    for size in reversed(shape[1:]):
        items = ["[" + ", ".join(items[i : i + size]) + "]" for i in range(0, len(items), size)]
    return "[" + ", ".join(items) + "]" if shape else items[0]
