"""Builder of S1: ``linalg`` on static tensors, written as text and parsed once at the end.

Every op is recorded as text without its result name, so that an op equal to an earlier one is
that one (the ops are pure), and only what the results need is printed. Constants stay numpy arrays
on their ``Value`` until an op refers to them. Large ones become ``dense_resource<KEY>`` with the
array kept beside the module in ``Builder.constants``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rcompiler.support.extent import Symbol

from .body import Body
from .core import Range, Record, accumulator, broadcast_shapes, dims, splat, stored
from .recurrence import needed
from .scalar import Number, Scalar
from .sized import SizedOps, bare
from .value import Quantised, Value

__all__ = ["Builder", "Quantised", "Value", "broadcast_shapes", "dims", "splat", "stored"]


Term = Callable[[Body, Scalar], Scalar]


class Builder(SizedOps):
    """Collects the ops of one ``func.func @main``, and of the steps of its recurrences."""

    def reduce(
        self,
        value: Value,
        axes: Sequence[int],
        init: Number,
        combine: Callable[[Body, Scalar, Scalar], Scalar],
        keepdims: bool = False,
        dtype: str | None = None,
    ) -> Value:
        """Fold ``axes`` (non-negative) with ``combine(s, element, accumulator)`` from ``init``."""
        axes = sorted(set(axes))
        keep = [i for i in range(value.rank) if i not in axes]
        of = value.reordered
        if of is not None and (order := of.innermost(axes)) is not None:
            last = range(len(keep), value.rank)
            out = self.reduce(self.transpose(value, order), last, init, combine, dtype=dtype)
        else:
            shape, write = [value.shape[i] for i in keep], ", ".join(f"d{i}" for i in keep)
            kinds = "".join("r" if i in axes else "p" for i in range(value.rank))
            reads = [(value, ", ".join(dims(value.rank)))]
            out = self.fold(reads, shape, dtype or value.dtype, init, kinds, combine, write)
        if keepdims:
            return self.reshape(out, [1 if i in axes else d for i, d in enumerate(value.shape)])
        return out

    def sum(
        self,
        value: Value,
        axes: Sequence[int],
        keepdims: bool = False,
        term: Term | None = None,
        of_sum: Term | None = None,
    ) -> Value:
        """Sum of ``term(s, element)`` over axes, and ``of_sum(s, sum)`` of it; 16-bit floats are
        accumulated in f32, which a sum may need where the result does not.
        """
        wide = accumulator(value.dtype)

        def combine(s: Body, a: Scalar, acc: Scalar) -> Scalar:
            a = s.cast(a, wide)
            return acc + (a if term is None else term(s, a))

        total = self.reduce(value, axes, 0, combine, keepdims, wide)
        if of_sum is None:
            return self.cast(total, value.dtype)
        return self.elementwise(
            lambda s, a: s.cast(of_sum(s, a), value.dtype), total, dtype=value.dtype
        )

    def cast(self, value: Value, dtype: str, saturate: bool = True) -> Value:
        """ONNX ``Cast`` of every element."""
        if value.dtype == dtype:
            return value
        return self.elementwise(lambda s, a: s.cast(a, dtype, saturate), value, dtype=dtype)

    def loop(
        self,
        count: int,
        inits: Sequence[Value],
        body: Callable[..., Sequence[Value]],
        lower: int = 0,
    ) -> list[Value]:
        """Sequential top-level ``scf.for`` over tensors.

        ``body(s, i, *tensors)`` uses ``s.extract``, ``s.insert``, ``s.for_`` and returns the next
        tensors. The inits are copied by value semantics: the caller's tensors are unchanged.
        """
        s = Body(self)
        iv = Scalar(s, s.fresh("i"), "index")
        inner = [self.local(s.fresh("a"), v.shape, v.dtype) for v in inits]
        after = body(s, iv, *inner)
        bounds = [self.emit(f"arith.constant {n} : index", hint="c") for n in (lower, count, 1)]
        types = ", ".join(v.type for v in inits)
        pairs = zip(inner, inits, strict=True)
        args = ", ".join(f"{a.name} = {self.ref(v)}" for a, v in pairs)
        lines = [
            f"scf.for {iv.name} = {bounds[0]} to {bounds[1]} step {bounds[2]} "
            f"iter_args({args}) -> ({types}) {{",
            *s.head,
            *s.lines,
            f"scf.yield {', '.join(self.ref(v) for v in after)} : {types}",
            "}",
        ]
        name = self.emit("\n".join(lines), len(inits))
        names = [name] if len(inits) == 1 else [f"{name}#{i}" for i in range(len(inits))]
        return [
            Value(n, v.shape, v.dtype, inputs=self._depends[name])
            for n, v in zip(names, inits, strict=True)
        ]

    def nest(
        self,
        shape: Sequence[int],
        into: Value,
        body: Callable[[Body, list[Scalar], Value], Value],
        first: int = 0,
    ) -> Value:
        """Run ``body(s, coordinates, tensor)`` for all coordinates of ``shape``: those of dim
        ``first`` one after the other, and for each of them the rest in row-major order.
        """
        shape = list(shape) or [1]
        order = [first, *(d for d in range(len(shape)) if d != first)]

        def level(s: Body, rest: Sequence[int], at: dict[int, Scalar], tensor: Value) -> Value:
            if not rest:
                return body(s, [at[d] for d in range(len(shape))], tensor)
            d, size = rest[0], shape[rest[0]]
            if size == 1:
                return level(s, rest[1:], {**at, d: s.const(0, "index")}, tensor)
            out: Value
            out = s.for_(0, size, [tensor], lambda i, t: [level(s, rest[1:], {**at, d: i}, t)])[0]
            return out

        return self.loop(
            shape[first], [into], lambda s, i, t: [level(s, order[1:], {first: i}, t)]
        )[0]

    # -- the module -------------------------------------------------------------------------
    def needed(self, results: Sequence[Value]) -> set[str]:
        """Names of all that these values are made of."""
        return needed(self._main.records, [self.ref(bare(value)) for value in results])

    def module(
        self,
        results: Sequence[tuple[str, Value]],
        checks: Sequence[tuple[Value, Range]] = (),
        state: Mapping[str, str] | None = None,
    ) -> str:
        """Text of the module whose ``@main`` returns the named values, behind them the sizes of
        these that it computes, and behind those what says of indices whether they are outside of a
        range; drops unused ops. state: the results that are the next values of arguments, by their
        names.
        """
        kept_in = dict(zip((state or {}).values(), state or {}, strict=True))  # by the result
        counted = [(symbol, self.counts[symbol]) for symbol in self.sizes_computed(results)]
        returned = [*(bare(v) for _, v in results), *(v for _, v in counted)]
        returned += [v for v, _ in checks]
        live = self.needed(returned)
        kept = [record for record in self._main.records if record[0] in live]
        args = ", ".join(
            f"{v.name}: {v.type} "
            + _attributes(
                n,
                self.parts.get(n, v),
                self.ranges.get(n),
                self.told.get(v.name),
                n if n in (state or {}) else None,
            )
            for v, n in self.arguments
        )
        outs = ", ".join(
            [f"{v.type} {_attributes(n, v, state=kept_in.get(n))}" for n, v in results]
            + [f"{v.type} {_attributes(s.name, v, symbol=s)}" for s, v in counted]
            + [f"{v.type} {_attributes(range_[2], v, range_)}" for v, range_ in checks]
        )
        lines = _function(f"@main({args}) -> ({outs})", kept, [*map(self.ref, returned)], returned)
        for symbol, step in self.steps.items():
            if any(f"func.call @{symbol}(" in text for _, text, _ in kept):
                own = self.step_records(step)
                args = ", ".join(f"{v.name}: {v.type}" for v in step.arguments)
                outs = ", ".join(v.type for v in step.results)
                head = f"private @{symbol}({args}) -> ({outs})"
                lines += _function(head, own, self.result_names(step), step.results)
                kept += own
        used = {location for _, _, location in kept}
        lines += [
            f"#l{number} = loc({_quote(text)})"
            for text, number in self._locations.items()
            if number in used
        ]
        live_keys = set(re.findall(r"dense_resource<(\w+)>", "\n".join(t for _, t, _ in kept)))
        self.constants = {k: v for k, v in self.constants.items() if k in live_keys}
        return "\n".join(lines) + "\n"


def _function(
    head: str, records: Sequence[Record], names: Sequence[str], returned: Sequence[Value]
) -> list[str]:
    """The lines of a function. head: its name and type; names: those of what it returns."""
    lines = [f"func.func {head} {{"]
    for _, text, location in records:
        suffix = f" loc(#l{location})"
        lines += [line if line.endswith(("{", ":")) else line + suffix for line in text.split("\n")]
    types = ", ".join(v.type for v in returned)
    return [*lines, f"return {', '.join(names)} : {types}" if names else "return", "}"]


def _quote(text: str) -> str:
    """A string of MLIR: UTF-8, with all but plain ASCII as two hexadecimal digits."""
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode())
    return '"' + "".join(plain) + '"'


def _nested(data: Any) -> str:
    """Lists of numbers and names as an attribute."""
    if isinstance(data, list):
        return f"[{', '.join(map(_nested, data))}]"
    return _quote(data) if isinstance(data, str) else f"{data} : i64"


def _attributes(
    name: str,
    value: Value,
    indices: Range | None = None,
    symbol: Symbol | None = None,
    state: str | None = None,
) -> str:
    """Of an argument or a result. indices: of an argument, what its elements are; of a result, what
    those are that it tells of. symbol: whose count it is. state: the state that it is the
    last or the next value of.
    """
    text = f'rtask.name = {_quote(name)}, rtask.dtype = "{value.dtype}"'
    if indices is not None:
        first, last, reader, says, bound = indices
        said = f"first = {first} : i64, last = {last} : i64, reader = {_quote(reader)}"
        said += f", says = {_quote(says)}" if says else ""
        said += f", bound = {_quote(bound)}" if bound else ""
        text += f", rtask.indices = {{{said}}}"
    if symbol is not None:
        bounds = f"low = {symbol.low} : i64, high = {symbol.high} : i64"
        text += f", rtask.size = {{{bounds}, symbol = {_quote(symbol.name)}}}"
    if any(value.extents):
        own = [[] if extent is None else extent.to_data() for extent in value.extents]
        text += f", rtask.extents = {_nested(own)}"
    if state is not None:
        text += f", rtask.state = {_quote(state)}"
    return f"{{{text}}}"
