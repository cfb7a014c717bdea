"""A model whose shapes are known when it is called: programs for those that were seen, and, where
there are `ranges`, for others that come next."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import count
from threading import RLock
from typing import Any

import numpy as np

from rcompiler.driver import isolate
from rcompiler.driver.equal_weights import with_weights_of
from rcompiler.driver.guessed_bounds import GuessedBounds
from rcompiler.driver.kept_bytes import kept_bytes
from rcompiler.driver.model_source import ModelSource
from rcompiler.driver.ranges import Ranges
from rcompiler.driver.size_guess import Sizes
from rcompiler.errors import CompilerError, DeviceError, Gap, RangeError, RecompiledWarning
from rcompiler.model import Portable
from rcompiler.runtime.call_lock import CallLock
from rcompiler.support.callers import callers_level
from rcompiler.support.declaration import DeclaredTensor
from rcompiler.support.random_keys import without_key
from rcompiler.support.this_process import this_process

Feeds = Mapping[str, np.ndarray]
Key = tuple[Any, ...]

_MANY_VALUES = 4  # of inputs, each of which has a program
_OFTEN = 64  # calls of one set of sizes, after which it is looked at how they are answered
_SHARE = 16  # one call of so many has to be of these
_MOST_READY = 1 << 12  # sets of sizes whose programs of ranges are remembered
_MOST_DROPPED = 1 << 12  # that are remembered


class Ready:
    """What answers calls of some shapes.

    Attributes:
        model: the program.
        bounds: the guesses that it was compiled for.
        names: of its inputs, in order.
        sizes: of the calls, where the program is for a range; None of one for these shapes alone.
        calls: so many came.
        used: number of the last of them.
    """

    __slots__ = ("bounds", "calls", "model", "names", "sizes", "used")

    def __init__(self, model: Any, sizes: Sizes | None, bounds: Mapping[str, int]) -> None:
        self.model, self.sizes, self.bounds = model, sizes, bounds
        self.names = [tensor.name for tensor in without_key(model.inputs)]
        self.calls = self.used = 0


class ByShape:
    """Compiles a model for the shapes that it is called with, and keeps what was used last.

    Where an operator needs the value of an input while it is compiled (the target of a Reshape),
    there is a program for each value, too: the input is a constant of it. Where it needs to know
    how many of something there are at most, that is guessed, see `GuessedBounds`: before there are
    programs for the values of floats, or for many values of integers, and where inputs cannot be
    constants. Calls from several threads are safe.

    Attributes:
        options: of compile_onnx.
        fixed: inputs whose values are constants of the programs.
        bounds: what is guessed.
        ranges: programs that take several sizes; None where there are none.
    """

    def __init__(
        self,
        model: Any,
        options: Mapping[str, Any],
        most: int | None,
        may_fix: Callable[[np.ndarray], bool],
        inputs: Sequence[str],
        optional: Collection[str] = (),
        *,
        most_bytes: int | None = None,
        open_inputs: Sequence[DeclaredTensor] = (),
    ) -> None:
        """model, options: of compile_onnx. most: programs for one set of shapes that are kept, and
        most_bytes: their bytes; None for any. may_fix: whether an array may be a constant of a
        program: a shape or an axis, no data. inputs: names of all. optional: those that have a
        value in the model; one that is given is a constant of the program. open_inputs: all others,
        where there are to be programs for ranges of their sizes."""
        self._model = model if isinstance(model, ModelSource) else ModelSource(model)
        self.options = dict(options)
        self._most, self._most_bytes = most, most_bytes
        self._may_fix = may_fix
        self.fixed: list[str] = []
        self.bounds = GuessedBounds(self.options.get("bounds") or {})
        self._optional = {*optional}
        self._fixing = {*optional}  # constants of the programs; those of the model, where given
        self._inputs = [name for name in inputs if name not in self._fixing]
        self._names = [*self._inputs]
        # by inputs that are constants why, where a guess might do as well, and the values they had
        self._guessable: dict[tuple[str, ...], Gap] = {}
        self._values: dict[tuple[str, ...], set[tuple[bytes, ...]]] = {}
        self._varying: set[str] = set()  # inputs that have had many values
        self._ready: dict[Key, Ready] = {}
        self._dropped: dict[Key, None] = {}
        self._calls = count(1)
        self._closed, self._told, self._told_wider = False, False, False
        self.ranges: Ranges | None = None
        if open_inputs and Ranges.fit(self.options, open_inputs):
            self.ranges = Ranges(self._model, self.options, open_inputs, self._more)
        self._begin()

    def _begin(self) -> None:
        """Locks of this process: a forked child has those of its parent's threads."""
        self._owner = this_process()
        self._lock, self._compiling = RLock(), CallLock()

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said of values, of guesses and of ranges."""
        values = [
            f"each value of '{name}' has a program of its own, as shapes depend on it"
            for name in self.fixed
            if self.ranges is None or name not in self.ranges.followed
        ]
        return (*values, *self.bounds.notes, *(() if self.ranges is None else self.ranges.notes))

    @property
    def programs(self) -> tuple[Any, ...]:
        """The compiled models that are kept, the one that was used last at the end; behind them
        those for ranges of sizes."""
        own = sorted(self._exact().values(), key=lambda ready: ready.used)
        growing = None if self.ranges is None else self.ranges.model
        others = [] if growing is None else [model for _, model in growing.programs]
        return (*(ready.model for ready in own), *others)

    def _exact(self) -> dict[Key, Ready]:
        return {key: ready for key, ready in [*self._ready.items()] if ready.sizes is None}

    def program(
        self, feeds: Feeds, check: Callable[[], None] = lambda: None
    ) -> tuple[Any, list[np.ndarray]]:
        """The compiled model for such inputs, and the arguments of its call.

        Args:
            feeds: arrays by the names of inputs.
            check: called before anything is compiled for them; what is there says itself what it
                does not take.

        Raises:
            CompilerError: in the kinds of compile_onnx.
            DeviceError: the model is closed.
        """
        ready = self.seen(feeds) or self.ranged(feeds)
        if ready is None:
            check()
            ready = self._found(feeds)
        return ready.model, [feeds[name] for name in ready.names]

    def seen(self, feeds: Feeds) -> Ready | None:
        """What answers such inputs, if they have come before; else None.

        Args:
            feeds: arrays by the names of inputs, of which none is missing.
        """
        names = self._names  # what `_key` says where nothing is fixed, without a call
        key = self._key(feeds) if self._fixing else tuple([feeds[name].shape for name in names])
        ready = self._ready.get(key)
        if ready is not None:
            ready.used = next(self._calls)
            ready.calls += 1
            if ready.sizes is not None and ready.calls % _OFTEN == 0:
                self._often(ready)
        return ready

    def _key(self, feeds: Feeds) -> Key:
        if not self._fixing:
            return tuple([feeds[name].shape for name in self._names])
        open_ones = [feeds[name].shape for name in self._names]
        fixed = [(n, x.shape, x.tobytes()) for n, x in feeds.items() if n in self._fixing]
        return (*open_ones, *sorted(fixed))

    def _often(self, ready: Ready) -> None:
        """A program for a range has answered many calls of one set of sizes."""
        calls = sum(each.calls for each in [*self._ready.values()])
        if self.ranges is not None and ready.sizes is not None and calls <= _SHARE * ready.calls:
            self.ranges.often(ready.sizes)

    def _more(self) -> None:
        """There are programs for other ranges: which one takes a call is to be asked again."""
        with self._lock:
            self._ready = self._exact()

    def ranged(self, feeds: Feeds) -> Ready | None:
        """What answers inputs that have not come before, where a program for a range is there.

        Args:
            feeds: as of `seen`.
        """
        if self._owner != this_process():
            self._begin()
        if self.ranges is None or (sizes := self._sizes(feeds)) is None:
            return None
        model = self.ranges.noted(sizes, feeds)
        return None if model is None else self._kept(feeds, model, sizes)

    def _found(self, feeds: Feeds) -> Ready:
        """The same, where nothing is there: it waits for what is built just now, or compiles."""
        sizes = None if self.ranges is None else self._sizes(feeds)
        with self._compiling.alone():  # calls of programs that are there go on
            if (ready := self.seen(feeds)) is not None:
                return ready
            self._check_open()
            told = len(self.fixed), self.bounds.now
            if self.ranges is not None and sizes is not None:
                model = self.ranges.serving(sizes, feeds) or self.ranges.coming(sizes, feeds)
                model = model or self.ranges.wanted(sizes, feeds)
                self._share_weights()
                if model is not None:
                    return self._kept(feeds, model, sizes)
                self._check_open()  # again: it may have waited
            ready = self._made(feeds)
            self._share_weights()
            if told != (len(self.fixed), self.bounds.now) and self.ranges is not None:
                if (sizes := self._sizes(feeds)) is not None:
                    self.ranges.noted(sizes, feeds)
            return ready

    def _share_weights(self) -> None:
        """Let the programs for one set of shapes read the weights of those for ranges, where these
        are the same bytes. Who runs one of them goes on with those that it has.
        """
        growing = None if self.ranges is None else self.ranges.model
        if growing is None:
            return
        _, first = growing.programs[0]
        for ready in self._exact().values():
            if not isinstance(ready.model, Portable):
                continue
            artifact = with_weights_of(ready.model.artifact, first.artifact.constants)
            if artifact is not ready.model.artifact:
                with suppress(DeviceError):  # no room for another: it stays as it is
                    ready.model = ready.model.over(artifact)

    def _sizes(self, feeds: Feeds) -> Sizes | None:
        """Of a call that programs for ranges may take."""
        assert self.ranges is not None
        if self._optional and not self._optional.isdisjoint(feeds):
            return None
        return self.ranges.sizes(feeds)

    def _kept(
        self, feeds: Feeds, model: Any, sizes: Sizes | None, bounds: Mapping[str, int] | None = None
    ) -> Ready:
        """bounds: what the model was compiled for; None for what is guessed now."""
        ready = Ready(model, sizes, self.bounds.now if bounds is None else bounds)
        ready.used = next(self._calls)
        with self._lock:
            if self._closed and sizes is None:  # while it was compiled
                model.close()
            if sizes is not None and len(self._ready) >= _MOST_READY:
                self._ready = self._exact()
            self._ready[self._key(feeds)] = ready
        return ready

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError("the session is closed; make it again")

    def close(self) -> None:
        """End what is built, and all programs. Idempotent."""
        with self._lock:
            self._closed = True
            made = [*self._ready.values()]
        if self.ranges is not None:
            self.ranges.close()
        for ready in made:
            ready.model.close()

    def known(self) -> Any:
        """The compiled model where it needs to know no shape or value of an input; else None, also
        where a dimension is open, of which `shapes` says nothing: calls have any size.

        Raises:
            CompilerError: in the kinds of compile_onnx.
        """
        shapes, fixed = self.options.get("shapes"), self.options.get("values") or ()
        plain = shapes is None or isinstance(shapes, Mapping)
        if plain and self._model.declared(None).open_sizes(shapes or {}, fixed):
            return None
        try:
            return self._compile({})
        except CompilerError as error:
            if error.gap is None or not (error.gap.needs or error.gap.bounds):
                raise
            return None

    def widen(self, error: RangeError) -> bool:
        """Whether a call that a program has refused so is answered by one for more, which the next
        call with these inputs has compiled: it was a guess how many there may be.

        Args:
            error: of the call.
        """
        with self._lock:
            before = self.bounds.now
            if not self.bounds.widen(error):
                return False
            now = self.bounds.now
            self._ready = {k: each for k, each in self._ready.items() if each.bounds is now}
            if now is not before:
                self._limit_ranges()
        self._say_wider(error)
        return True

    def _limit_ranges(self) -> None:
        if self.ranges is not None:
            self.ranges.limit(self.bounds.now)

    def _made(self, feeds: Feeds) -> Ready:
        self._fix([total for total in self._grown(feeds) if total not in self._fixing])
        self._say_again(feeds)
        instead = self._reconsidered()  # of guesses, inputs whose values would do
        while True:
            bounds = self.bounds.now
            try:
                made = self._compile(feeds)
            except CompilerError as error:
                self._settle(error, feeds, instead)
                continue
            with self._lock:
                self.bounds.compiled(bounds)
            ready = self._kept(feeds, made, None, bounds)
            for names in self._guessable:
                values = tuple(feeds[name].tobytes() for name in names)
                self._values.setdefault(names, set()).add(values)
            self._drop(ready)
            return ready

    def _reconsidered(self) -> dict[str, list[str]]:
        """Guess what many values of some inputs have been constants for."""
        names = next((n for n, each in self._values.items() if len(each) >= _MANY_VALUES), None)
        if names is None:
            return {}
        with self._lock:
            guessed = self.bounds.guess(self._guessable.pop(names))
            del self._values[names]
            self._ready = {}
        self._varying.update(names)
        self._fixing.difference_update(names)
        self.fixed = [name for name in self.fixed if name not in names]
        self._names = [name for name in self._inputs if name not in self._fixing]
        if self.ranges is not None:
            self.ranges.fix(self.fixed)
        self._limit_ranges()
        return dict.fromkeys(guessed, [*names])

    def _settle(self, error: CompilerError, feeds: Feeds, instead: dict[str, list[str]]) -> None:
        """Decide what the model lacks to be compiled; raises the error where that cannot be."""
        needed = self._needed(error, feeds)
        few = needed and self._varying.isdisjoint(needed)
        if few and all(feeds[name].dtype.kind in "iub" for name in needed):
            self._fix(needed)
            if error.gap is not None and error.gap.bounds and not instead:
                self._guessable[tuple(needed)] = error.gap
            return
        with self._lock:
            guessed = self.bounds.guess(error.gap)
        if guessed:
            instead.update(dict.fromkeys(guessed, needed))
        elif needed:
            self._fix(needed)
        else:  # by way of a guess it cannot be
            others = [name for names in instead.values() for name in names]
            if not others:
                with self._lock:
                    self.bounds.give_up()
                raise error
            with self._lock:
                self.bounds.forget([name for name, values in instead.items() if values])
            instead.clear()
            self._fix([*dict.fromkeys(others)])
        self._limit_ranges()

    def _grown(self, feeds: Feeds) -> list[str]:
        """Inputs that say that a cache gets longer than it is."""
        numbers = any(array.size == 1 and array.dtype.kind == "i" for array in feeds.values())
        if not (numbers and any(array.ndim == 4 for array in feeds.values())):
            return []  # without a look at the model, which need not have been read
        return [
            total
            for total, past in self._totals
            if total in feeds
            and past in feeds
            and feeds[past].ndim == 4
            and feeds[total].size == 1
            and int(feeds[total].reshape(-1)[0]) > feeds[past].shape[2]
        ]

    @cached_property
    def _totals(self) -> list[tuple[str, str]]:
        """Total lengths of caches, see `growing_totals`."""
        from rcompiler.frontend.renamed_sizes import growing_totals  # imports onnx

        with self._model.opened() as model:
            return growing_totals(model)

    def _fix(self, names: Sequence[str]) -> None:
        """Inputs that are constants of the programs from now on."""
        if not names:
            return
        self.fixed += names
        self._fixing.update(names)
        self._names = [name for name in self._names if name not in names]
        if self.ranges is not None:
            self.ranges.fix(self.fixed)

    def _say_wider(self, error: RangeError) -> None:
        """Warn of the first guess that was wrong."""
        if self._told_wider:
            return
        self._told_wider = True
        warnings.warn(
            RecompiledWarning(
                f"a call has {error.found} of '{error.bound}', of which nothing in the model says "
                f"how many there may be: it is compiled again, with room for "
                f"{self.bounds.now[error.bound]}; bounds={{'{error.bound}': ...}} says it before"
            ),
            stacklevel=callers_level(),
        )

    def _say_again(self, feeds: Feeds) -> None:
        """Warn where these shapes had a program, which was not kept."""
        if self._told or self._key(feeds) not in self._dropped:
            return
        self._told = True
        why = f" ({'; '.join(self.notes)})" if self.notes else ""
        warnings.warn(
            RecompiledWarning(
                "a program is compiled again for shapes that had one, which was dropped for "
                f"others{why}: name ranges of the sizes in shapes, as "
                "shapes={'batch': range(1, 33)}, or give more room by keep_bytes= or programs="
            ),
            stacklevel=6,
        )

    def _drop(self, newest: Ready) -> None:
        """Keep no more than there is room for."""
        growing = None if self.ranges is None else self.ranges.model
        others = [] if growing is None else [model for _, model in growing.programs]
        with self._lock:
            kept = sorted(self._exact().items(), key=lambda each: each[1].used)
            for number, (key, ready) in enumerate(kept):
                rest = [each.model for _, each in kept[number:]]
                fits = self._most is None or len(rest) <= self._most
                if self._most_bytes is not None:
                    fits &= kept_bytes([*rest, *others]) <= self._most_bytes
                if fits or ready is newest:
                    return
                del self._ready[key]  # it closes when nobody runs it any more
                if len(self._dropped) >= _MOST_DROPPED:
                    self._dropped.clear()
                self._dropped[key] = None

    def _compile(self, feeds: Mapping[str, np.ndarray]) -> Any:
        shapes = {n: x.shape for n, x in feeds.items() if n not in self._fixing}
        values = {n: x for n, x in feeds.items() if n in self._fixing}
        given: dict[str, dict[str, Any]] = {"shapes": shapes, "values": values}
        if self.bounds.now:
            given["bounds"] = self.bounds.now
        merged = {n: found | dict(self.options.get(n) or {}) for n, found in given.items()}
        return isolate.compiler()(self._model, **{**self.options, **merged})

    def _needed(self, error: CompilerError, feeds: Mapping[str, np.ndarray]) -> list[str]:
        """Inputs that the front end asked the values of; none where not all may be constants."""
        needs = error.gap.needs if error.gap is not None else ()
        names = [n for n in needs if n in feeds and n not in self.fixed]
        return names if all(self._may_fix(feeds[name]) for name in names) else []
