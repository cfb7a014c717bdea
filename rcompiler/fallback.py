"""Functions of numpy that stand for operators which are not compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.errors import FallbackError
from rcompiler.runtime.program import Tensor

Shape = Sequence[int]


@dataclass(frozen=True)
class Fallback:
    """A function for an operator, and what its results are.

    Attributes:
        fn: called with an array for each operand (None for one that is left out), which it may not
            write to, and with the attributes of the node as keywords; returns an array, or several
            in a tuple or list.
        shapes: one for each result, or a function of the operands' shapes and the attributes that
            returns these; None for what ONNX infers or the model declares, and else for those of a
            call on zeros while the model is compiled.
        dtypes: one for each result, as numpy or ml_dtypes names it; None for that of the first
            operand. They go with shapes.
    """

    fn: Callable[..., Any]
    shapes: Sequence[Shape] | Callable[..., Sequence[Shape]] | None = None
    dtypes: Sequence[Any] | None = None

    def results(
        self,
        what: str,
        names: Sequence[str],
        operands: Sequence[np.ndarray | None],
        attributes: Mapping[str, Any],
    ) -> list[Tensor]:
        """What it promises of a node: by shapes and dtypes, or else by a call on the operands.

        Args:
            what: the node, for messages.
            names: of the results.
            operands: what is known of them, else zeros; None for one that is left out.
            attributes: of the node.

        Raises:
            FallbackError: the call fails, or it is not as many results.
        """
        if self.shapes is None:
            made = self._tried(what, operands, attributes, len(names))
            pairs = [(array.shape, array.dtype.name) for array in made]
        else:
            shapes = self.shapes
            if callable(shapes):
                given = [None if x is None else x.shape for x in operands]
                shapes = list(shapes(*given, **attributes))
            first = next((x.dtype for x in operands if x is not None), np.dtype(np.float32))
            dtypes = [np.dtype(d).name for d in self.dtypes or [first] * len(shapes)]
            if not len(shapes) == len(dtypes) == len(names):
                raise FallbackError(
                    f"{what} has {len(names)} results; its Fallback has {len(shapes)} shapes and "
                    f"{len(dtypes)} dtypes: give one for each result"
                )
            pairs = [(tuple(map(int, s)), d) for s, d in zip(shapes, dtypes, strict=True)]
        return [Tensor(name, *pair) for name, pair in zip(names, pairs, strict=True)]

    def _tried(self, what: str, operands: Any, attributes: Any, count: int) -> list[np.ndarray]:
        try:
            return called(self.fn, what, operands, attributes, count)
        except FallbackError as error:
            raise FallbackError(
                f"{error} (called on zeros, to see what its results are: promise them instead, by "
                "Fallback(fn, shapes=..., dtypes=...))"
            ) from error


Fallbacks = Mapping[str, Fallback | Callable[..., Any]]


def checked_fallbacks(given: Any) -> dict[str, Fallback]:
    """The functions that a caller gives, by operator.

    Args:
        given: functions or Fallbacks by "Op" or "domain::Op".

    Raises:
        FallbackError: it is something else.
    """
    if not isinstance(given, Mapping):
        raise FallbackError(
            f"fallback={given!r}: give a dict of functions by operator, as 'Op' or 'domain::Op'"
        )
    found = {}
    for name, value in given.items():
        fallback = value if isinstance(value, Fallback) else Fallback(value)
        if not isinstance(name, str) or not callable(fallback.fn):
            raise FallbackError(
                f"fallback[{name!r}] is {value!r}; give a function by 'Op' or 'domain::Op'"
            )
        found[name] = fallback
    return found


def chosen(fallbacks: Mapping[str, Fallback], op: str) -> Fallback | None:
    """The function for an operator: that of its full name, else of its name alone."""
    return fallbacks.get(op, fallbacks.get(op.rpartition("::")[2]))


def called(
    fn: Callable[..., Any],
    what: str,
    operands: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    count: int,
) -> list[np.ndarray]:
    """The results of a call, as arrays.

    Args:
        fn: the function.
        what: the node, for messages.
        operands, attributes: what it is called with.
        count: of results.

    Raises:
        FallbackError: it raises an error, or returns another number of results.
    """
    read = [None if x is None else _read_only(x) for x in operands]
    try:
        made = fn(*read, **attributes)
    except Exception as error:  # whatever a function of the caller's raises
        raise FallbackError(
            f"{what}: the fallback raised {type(error).__name__}: {error}"
        ) from error
    many = list(made) if isinstance(made, tuple | list) else [made]
    if len(many) != count:
        raise FallbackError(
            f"{what}: the fallback returned {len(many)} results, the node has {count}; return an "
            "array for each, in a tuple"
        )
    return [np.asarray(each) for each in many]


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
