"""A model whose shapes are known when it is called: one program for each that was seen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from rcompiler.driver import isolate
from rcompiler.errors import CompilerError
from rcompiler.frontend.size_sets import with_defaults


class ByShape:
    """Compiles a model for the shapes that it is called with, and keeps what was used last.

    Where an operator needs the value of an input while it is compiled (the target of a Reshape),
    there is a program for each value, too: the input is a constant of it. Calls from several
    threads are safe.

    Attributes:
        options: of compile_onnx.
        fixed: inputs whose values are constants of the programs.
    """

    def __init__(
        self,
        model: Any,
        options: Mapping[str, Any],
        most: int,
        may_fix: Callable[[np.ndarray], bool],
        inputs: Sequence[str],
        optional: Collection[str] = (),
    ) -> None:
        """model, options: of compile_onnx. most: programs that are kept. may_fix: whether an array
        may be a constant of a program: a shape or an axis, no data. inputs: names of all. optional:
        those that have a value in the model; one that is given is a constant of the program."""
        self._model, self.options, self._most = model, dict(options), most
        self._may_fix = may_fix
        self.fixed: list[str] = []
        self._fixing = {*optional}  # constants of the programs; those of the model, where given
        self._names = [name for name in inputs if name not in self._fixing]
        self._programs: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock, self._compiling = Lock(), Lock()

    @property
    def programs(self) -> tuple[Any, ...]:
        """The compiled models that are kept, the one that was used last at the end."""
        return tuple(self._programs.values())

    def program(self, feeds: Mapping[str, np.ndarray]) -> tuple[Any, list[np.ndarray]]:
        """The compiled model for such inputs, and the arguments of its call.

        Args:
            feeds: arrays by the names of inputs.

        Raises:
            CompilerError: in the kinds of compile_onnx.
        """
        model = self.seen(feeds)
        if model is None:
            with self._compiling:  # calls of programs that are there go on
                model = self.seen(feeds) or self._made(feeds)
        return model, [feeds[tensor.name] for tensor in model.inputs]

    def seen(self, feeds: Mapping[str, np.ndarray]) -> Any:
        """The compiled model for such inputs, if there is one; else None.

        Args:
            feeds: arrays by the names of inputs, of which none is missing.
        """
        key = self._key(feeds)
        with self._lock:
            if key not in self._programs:
                return None
            self._programs.move_to_end(key)
            return self._programs[key]

    def _key(self, feeds: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
        open_ones = [feeds[name].shape for name in self._names if name in feeds]
        if not self._fixing:
            return tuple(open_ones)
        fixed = [(n, x.shape, x.tobytes()) for n, x in feeds.items() if n in self._fixing]
        return (*open_ones, *sorted(fixed))

    def known(self) -> Any:
        """The compiled model where it needs to know no shape or value of an input; else None, also
        where a dimension is open, of which `shapes` says nothing: calls have any size.

        Raises:
            CompilerError: in the kinds of compile_onnx.
        """
        shapes, fixed = self.options.get("shapes"), self.options.get("values") or ()
        if with_defaults(self._model, shapes, None, fixed)[0] is not shapes:
            return None
        try:
            return self._compile({})
        except CompilerError as error:
            if error.gap is None or not error.gap.needs:
                raise
            return None

    def _made(self, feeds: Mapping[str, np.ndarray]) -> Any:
        while True:
            try:
                made = self._compile(feeds)
            except CompilerError as error:
                needed = self._needed(error, feeds)
                self.fixed += needed
                self._fixing.update(needed)
                self._names = [name for name in self._names if name not in needed]
                continue
            with self._lock:
                self._programs[self._key(feeds)] = made
                if len(self._programs) > self._most:
                    self._programs.popitem(last=False)  # it closes when nobody runs it any more
            return made

    def _compile(self, feeds: Mapping[str, np.ndarray]) -> Any:
        shapes = {n: x.shape for n, x in feeds.items() if n not in self._fixing}
        values = {n: x for n, x in feeds.items() if n in self._fixing}
        given: dict[str, dict[str, Any]] = {"shapes": shapes, "values": values}
        merged = {n: found | dict(self.options.get(n) or {}) for n, found in given.items()}
        return isolate.compiler()(self._model, **{**self.options, **merged})

    def _needed(self, error: CompilerError, feeds: Mapping[str, np.ndarray]) -> list[str]:
        """Inputs that the front end asked the values of; raises the error when it asked none."""
        needs = error.gap.needs if error.gap is not None else ()
        names = [n for n in needs if n in feeds and n not in self.fixed]
        if not names or not all(self._may_fix(feeds[name]) for name in names):
            raise error
        return names
