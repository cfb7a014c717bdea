"""Bodies of ``linalg.generic`` and of loops: scalar code that also converts and reads tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from . import casts, dtypes, small_floats
from .scalar import Arithmetic, Operand, Scalar
from .value import Value


class Tensors(Protocol):
    """Who names tensors: all that a body asks of the builder."""

    def ref(self, value: Value) -> str:
        """SSA name of a tensor, whose constant is emitted on first use."""

    def local(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """A tensor that is named inside a region."""


class Body(Arithmetic):
    """Text of one region under construction, with the tensors around it."""

    def __init__(self, builder: Tensors):
        super().__init__()
        self.builder = builder

    # -- conversion -------------------------------------------------------------------------
    def cast(self, a: Scalar, dtype: str, saturate: bool = True) -> Scalar:
        """ONNX ``Cast`` of one element (see casts.py); also from and to ``index``."""
        if a.dtype == dtype:
            return a
        if a.dtype in dtypes.SMALL_FLOATS or dtype in dtypes.SMALL_FLOATS:
            return small_floats.cast(self, a, dtype, saturate)
        return casts.cast(self, a, dtype)

    # -- tensors ----------------------------------------------------------------------------
    def index(self, dimension: int) -> Scalar:
        """Position along iterator ``dimension`` of the enclosing generic (type ``index``)."""
        return self.op(f"linalg.index {dimension} : index", "index")

    def extract(self, tensor: Value, indices: Sequence[Operand]) -> Scalar:
        """``tensor[indices]``; indices are ``index`` scalars or Python ints."""
        names = ", ".join(self._index_names(indices))
        source = self.builder.ref(tensor)
        return self.op(f"tensor.extract {source}[{names}] : {tensor.type}", tensor.dtype)

    def _index_names(self, indices: Sequence[Operand]) -> list[str]:
        return [(i if isinstance(i, Scalar) else self.const(i, "index")).name for i in indices]

    # -- sequential code (only in Builder.loop) -----------------------------------------------
    def insert(self, scalar: Scalar, tensor: Value, indices: Sequence[Operand]) -> Value:
        """The tensor with one element replaced."""
        names, name = ", ".join(self._index_names(indices)), self.fresh("t")
        source = self.builder.ref(tensor)
        self.lines.append(
            f"{name} = tensor.insert {scalar.name} into {source}[{names}] : {tensor.type}"
        )
        return self.builder.local(name, tensor.shape, tensor.dtype)

    def for_(
        self,
        lower: Operand,
        upper: Operand,
        carried: Sequence[Value | Scalar],
        body: Callable[..., Sequence[Value | Scalar]],
        expected: float | None = None,
    ) -> list[Any]:
        """Nested ``scf.for``: ``body(i, *carried)`` returns the next carried values, tensors where
        the first ones are tensors, and scalars of their types where they are scalars. expected: how
        many steps there are in the mean, for estimates.
        """
        low, high, one = self._index_names([lower, upper, 1])
        iv, result = self.fresh("i"), self.fresh("r")
        inner = [self._like(item, self.fresh("a")) for item in carried]
        types = [self._type(item) for item in carried]
        pairs = zip(inner, carried, strict=True)
        args = ", ".join(f"{self._ref(a)} = {self._ref(v)}" for a, v in pairs)
        self.lines.append(
            f"{result}{f':{len(carried)}' if len(carried) > 1 else ''} = scf.for {iv} = {low} to "
            f"{high} step {one} iter_args({args}) -> ({', '.join(types)}) {{"
        )
        after = body(Scalar(self, iv, "index"), *inner)
        names = ", ".join(self._ref(item) for item in after)
        note = "" if expected is None else f" {{rtask.expected_steps = {expected:.6e} : f64}}"
        self.lines += [f"scf.yield {names} : {', '.join(types)}", "}" + note]
        if len(carried) == 1:
            return [self._like(carried[0], result)]
        return [self._like(item, f"{result}#{i}") for i, item in enumerate(carried)]

    def when(
        self,
        condition: Scalar,
        carried: Sequence[Value | Scalar],
        change: Callable[..., Sequence[Value | Scalar]],
        likely: float,
    ) -> list[Any]:
        """What is carried, as ``change(*carried)`` returns it where the condition holds. likely:
        how often.
        """
        times = self.select(condition, self.const(1, "index"), 0)
        return self.for_(0, times, carried, lambda _, *inner: change(*inner), likely)

    def _like(self, item: Value | Scalar, name: str) -> Value | Scalar:
        if isinstance(item, Scalar):
            return Scalar(self, name, item.dtype)
        return self.builder.local(name, item.shape, item.dtype)

    def _ref(self, item: Value | Scalar) -> str:
        return item.name if isinstance(item, Scalar) else self.builder.ref(item)

    def _type(self, item: Value | Scalar) -> str:
        return dtypes.mlir_type(item.dtype) if isinstance(item, Scalar) else item.type
