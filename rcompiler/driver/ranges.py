"""Programs for ranges of sizes, of a model that is called with sizes that nobody has told before.

Of a model with open dimensions each set of sizes has a program of its own, compiled by the first
call that has it. Once an axis has had three sizes, the next program is one for a range of them;
calls near its end have the next one built in the background (`size_guess` says which).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rcompiler.driver import isolate
from rcompiler.driver.growth import Build
from rcompiler.driver.model_source import ModelSource
from rcompiler.driver.size_guess import (
    Bucket,
    Interval,
    Sizes,
    Sum,
    agrees,
    bucket_for,
    follows,
    holds,
    narrower,
    next_bucket,
    relations,
    tighter,
    within,
)
from rcompiler.errors import CompilerError
from rcompiler.model import Model
from rcompiler.runtime.family import smallest
from rcompiler.support.declaration import DeclaredTensor
from rcompiler.support.dimension_names import multiple_of

if TYPE_CHECKING:  # what compiles is imported when a range is compiled, and not for a kept model
    from rcompiler.growing_model import GrowingModel

Feeds = Mapping[str, np.ndarray]
_Axis = tuple[int, int, int, int]  # the axis, and its size: the number of one, a factor, and more

_MOST_SEEN = 64  # sets of sizes that are remembered
_MOST_PROGRAMS, _MOST_FAILED = 32, 4
_MOST_TRIALS = 3  # to compile a first program, and guesses of how sizes depend on others
_MANY = 8  # different sizes for which a part of a range is worth a program
_WAIT_S = 600.0  # for a program that is built just now; then the call compiles one of its own
# Options that say themselves what programs there are, or are for one program.
_OTHERS = ("bounds", "buckets", "build", "fallback", "packed", "state")


@dataclass(frozen=True)
class _Serving:
    """What calls see.

    Attributes:
        model: all programs.
        made: how some sizes depend on others.
        free: all others, those of the symbols of the programs.
        constants: by name the bytes of inputs that are constants of the programs.
        refused: buckets that the model could not be compiled for before the first program.
    """

    model: GrowingModel
    made: Mapping[int, Sum]
    free: Sequence[int]
    constants: Mapping[str, bytes]
    refused: tuple[Bucket, ...] = ()

    @property
    def failed(self) -> tuple[Bucket, ...]:
        """All buckets that the model could not be compiled for."""
        return *self.refused, *self.model.growth.failed

    def takes(self, sizes: Sizes, feeds: Feeds) -> bool:
        """Whether a call is one of those that the programs are for, of some sizes."""
        for name, value in self.constants.items():
            if feeds[name].tobytes() != value:
                return False
        return agrees(sizes, self.made)

    def reduced(self, sizes: Sizes) -> Sizes:
        """Sizes of the symbols of the programs."""
        return tuple([sizes[k] for k in self.free])


class Ranges:
    """The programs for ranges of one model.

    `noted` is called with each set of sizes that has not come before, by several threads; `wanted`
    by one at a time.

    """

    def __init__(
        self,
        model: ModelSource,
        options: Mapping[str, Any],
        inputs: Sequence[DeclaredTensor],
        changed: Callable[[], object],
    ) -> None:
        """options: of compile_onnx. inputs: what a call has to give. changed: a method that
        is called when programs have come; it is not kept alive."""
        self._source, self._options, self._inputs = model, dict(options), inputs
        self._changed = weakref.WeakMethod(changed)
        self._now: _Serving | None = None
        self._trials, self._closed = 0, False
        self._parts: dict[Bucket, int] = {}  # of ranges, and how many sizes would do with them
        # by sizes for ranges of which the model is refused: what is said of it
        self._refused: dict[frozenset[int], str] = {}
        self._unfit = ""  # what is said of a call that is not as the model declares
        self.fix(())

    @staticmethod
    def fit(options: Mapping[str, Any], inputs: Sequence[DeclaredTensor]) -> bool:
        """Whether a model with such options and inputs may have ranges."""
        shapes, target = options.get("shapes") or {}, options.get("target", "cpu")
        return (
            not any(options.get(name) for name in _OTHERS)
            and isinstance(target, str)
            and target.partition(":")[0] == "cpu"
            and "," not in target
            and options.get("tune", "off") == "off"
            and all(isinstance(size, int) for size in shapes.values())
            and not any(tensor.name in shapes or tensor.shape is None for tensor in inputs)
        )

    def fix(self, names: Sequence[str]) -> None:
        """Inputs that are constants of programs for one size, since shapes depend on their values:
        of one integer it is guessed how it depends on sizes.
        """
        numbers = {
            t.name: t.shape in ((), (1,)) and t.dtype in ("int32", "int64")
            for t in self._inputs
            if t.name in names
        }
        self._names: list[str] = []  # of sizes
        self._first: list[bool] = []
        self._factors: list[int] = []  # the greatest of the axes that are multiples of a size
        self._axes: list[tuple[str, int, list[_Axis]]] = []
        self._dims: dict[str, list[int | _Axis]] = {}
        for tensor in self._inputs:
            if tensor.name not in names:
                self._read(tensor)
        self._others = [name for name, is_number in numbers.items() if not is_number]
        of_one = [name for name, is_number in numbers.items() if is_number]
        self._numbers = [(name, self._symbol(name, False)) for name in of_one]
        self._seen: deque[Sizes] = deque(maxlen=_MOST_SEEN)
        self._before: Sizes = ()

    def limit(self, bounds: Mapping[str, int]) -> None:
        """Compile for so many of what the model counts, by names, from now on."""
        self._options["bounds"] = dict(bounds)
        if self._now is not None:  # calls that it answers go on
            self._now, self._trials = None, self._trials - 1

    def _read(self, tensor: DeclaredTensor) -> None:
        """The dimensions of an input."""
        shape = tensor.shape or ()
        axes: list[_Axis] = []
        dims: list[int | _Axis] = []
        for axis, size in enumerate(shape):
            if isinstance(size, int):
                dims.append(size)
                continue
            name, factor, more = multiple_of(size or "") or (size or f"{tensor.name}[{axis}]", 1, 0)
            k = self._symbol(name, axis == 0)
            self._factors[k] = max(self._factors[k], factor)
            axes.append((axis, k, factor, more))
            dims.append(axes[-1])
        self._axes.append((tensor.name, len(shape), axes))
        self._dims[tensor.name] = dims

    def _symbol(self, name: str, first: bool) -> int:
        if name not in self._names:
            self._names.append(name)
            self._first.append(first)
            self._factors.append(1)
        number = self._names.index(name)
        self._first[number] |= first
        return number

    # -- calls ------------------------------------------------------------------------------------
    def sizes(self, feeds: Feeds) -> Sizes | None:
        """What a call has of each size; None where inputs disagree, or are others than these."""
        found = [-1] * len(self._names)
        for name, rank, axes in self._axes:
            shape = feeds[name].shape
            if len(shape) != rank:
                return None
            for axis, k, factor, more in axes:
                size = shape[axis]
                if factor != 1 or more:
                    size, rest = divmod(size - more, factor)
                    if rest or size < 0:
                        self._unfit = self._unfit or (
                            f"each call such as one with {shape[axis]} elements along axis {axis} "
                            f"of '{name}' has a program of its own, as the model declares a "
                            f"multiple there, {factor}*{self._names[k]} + {more}"
                        )
                        return None
                if found[k] < 0:
                    found[k] = size
                elif found[k] != size:
                    return None
        for name, k in self._numbers:
            if feeds[name].size != 1:
                return None
            found[k] = int(feeds[name].reshape(-1)[0])
        return tuple(found) if len(feeds) == len(self._inputs) else None

    def serving(self, sizes: Sizes, feeds: Feeds) -> Model | None:
        """The program that takes a call; None where there is none."""
        now = self._now
        if now is None or not now.takes(sizes, feeds):
            return None
        found = now.model.holding(now.reduced(sizes))
        return None if found is None else found[0]

    def noted(self, sizes: Sizes, feeds: Feeds) -> Model | None:
        """As `serving`, of a call with sizes that were not seen before, or not lately."""
        before, self._before = self._before, sizes
        self._seen.append(sizes)
        now = self._now
        if now is None or not now.takes(sizes, feeds):
            return None
        own = now.reduced(sizes)
        found = now.model.holding(own)
        if found is None:
            return None
        model, bucket = found
        if before:
            last = now.reduced(before)
            if (behind := next_bucket(tuple(bucket), last, own)) is not None:
                self._ask(now, behind, own)
            elif not follows(last, own):
                self._count(now, tighter(bucket, own), bucket)
        return model

    def _count(self, now: _Serving, part: Bucket, bucket: Sequence[Interval]) -> None:
        """A size would do with a part of a range: where many do, that has a program, too."""
        if part == tuple(bucket):
            return
        self._parts[part] = self._parts.get(part, 0) + 1
        if self._parts[part] == _MANY and len(now.model.growth.buckets) < _MOST_PROGRAMS:
            now.model.growth.add(part)

    def _ask(self, now: _Serving, bucket: Bucket, own: Sizes) -> None:
        """Have a program built in the background, unless another one takes all that it does."""
        growth = now.model.growth
        bucket = self._possible(now, bucket, own)
        tops = [high for _, high in bucket]
        if len(growth.buckets) < _MOST_PROGRAMS and smallest(growth.buckets, tops) is None:
            growth.add(bucket)

    def often(self, sizes: Sizes) -> None:
        """Sizes come again and again: they are to have a program of their own."""
        now = self._now
        if now is None or not agrees(sizes, now.made):
            return
        own, growth = now.reduced(sizes), now.model.growth
        if len(growth.buckets) < _MOST_PROGRAMS:
            growth.add([(size, size) for size in own])

    def coming(self, sizes: Sizes, feeds: Feeds) -> Model | None:
        """The program that takes a call, where it is built just now: this waits for it."""
        now = self._now
        if now is None or not now.takes(sizes, feeds):
            return None
        number = now.model.growth.coming(now.reduced(sizes))
        if number is None:
            return None
        now.model.growth.wait_for(number, _WAIT_S)
        return self.serving(sizes, feeds)

    def wanted(self, sizes: Sizes, feeds: Feeds) -> Model | None:
        """A program that takes this call and others like it, compiled now; None where one of its
        own is the better answer, also where the other is built in the background meanwhile."""
        # each once, this one at the end, also where another thread's call came between
        seen = [*dict.fromkeys([sizes, *reversed([*self._seen])])][::-1]
        now = self._now
        if now is not None and now.takes(sizes, feeds):
            self._add(now, seen)
            return None
        others = now is not None and agrees(sizes, now.made)  # constants
        if self._trials >= _MOST_TRIALS or others or self._closed:
            return None
        return self._begun(seen, sizes, feeds)

    def _add(self, now: _Serving, seen: Sequence[Sizes]) -> None:
        """Have a program built in the background for calls as the last one."""
        growth = now.model.growth
        if len(growth.failed) >= _MOST_FAILED or len(growth.buckets) >= _MOST_PROGRAMS:
            return
        alike = [now.reduced(each) for each in seen if agrees(each, now.made)]
        bucket = bucket_for([*dict.fromkeys(alike)], *self._kinds(now.free))
        if bucket is None:
            return
        bucket, failed = self._possible(now, bucket, alike[-1]), now.failed
        tried = (bucket, *narrower(bucket, alike))
        left = [each for each in tried if not any(holds(each, other) for other in failed)]
        if left and all(
            low <= n <= high for n, (low, high) in zip(alike[-1], left[0], strict=True)
        ):
            growth.add(left[0])

    def _kinds(self, free: Sequence[int]) -> tuple[list[bool], list[int]]:
        """Of sizes, as `bucket_for` asks, whether they are of a first axis, and their factors."""
        return [self._first[k] for k in free], [self._factors[k] for k in free]

    def _possible(self, now: _Serving, bucket: Bucket, own: Sizes) -> Bucket:
        failed = now.failed
        return within(bucket, now.model.growth.family.sizes, failed, own) if failed else bucket

    # -- the first program ------------------------------------------------------------------------
    def _begun(self, seen: Sequence[Sizes], sizes: Sizes, feeds: Feeds) -> Model | None:
        made = relations(seen, self._first)
        seen = [each for each in seen if agrees(each, made)]
        free = [k for k in range(len(self._names)) if k not in made]
        loose = [(name, k) for name, k in self._numbers if k in free]
        if any(len({each[k] for each in seen}) > 1 for _, k in loose):
            return None  # nothing says how it follows from sizes
        free = [k for k in free if k not in [number for _, number in loose]]
        reduced = [*dict.fromkeys(tuple([each[k] for k in free]) for each in seen)]
        bucket = bucket_for(reduced, *self._kinds(free)) if free else None
        if bucket is None:
            return None
        ends = zip(free, bucket, strict=True)
        varied = frozenset(k for k, (low, high) in ends if low < high)
        if varied in self._refused:
            return None
        self._trials += 1
        values = {name: feeds[name] for name in [*self._others, *[n for n, _ in loose]]}
        error: CompilerError | None = None
        failed: list[Bucket] = []
        with self._source.opened() as whole:
            model = self._renamed(whole, made, free)
            for each in dict.fromkeys((bucket, *narrower(bucket, reduced))):
                try:
                    found = self._compiled(model, free, each, values)
                except CompilerError as refused:
                    error = refused
                    failed.append(each)
                else:
                    found.told = self._told
                    constants = {name: array.tobytes() for name, array in values.items()}
                    for sizes_of in self._refused:  # it is so no longer
                        if sizes_of <= varied.union(made):
                            self._refused[sizes_of] = ""
                    self._now = _Serving(found, made, free, constants, tuple(failed))
                    if self._closed:  # while it was compiled
                        found.close()
                    return self.serving(sizes, feeds)
        names = ", ".join(self._names[k] for k in sorted(varied))
        self._refused[varied] = (
            f"each size of {names} has a program of its own, as the model cannot be compiled for "
            f"a range of them: {error}"
        )
        return None

    def _told(self) -> None:
        changed = self._changed()
        if changed is not None:
            changed()

    def _renamed(self, model: Any, made: Mapping[int, Sum], free: Sequence[int]) -> Any:
        from rcompiler.frontend.renamed_sizes import renamed

        names = self._plain_names()

        def text(axis: _Axis) -> str:
            _, k, factor, more = axis
            terms = [names[n] for n in made[k].symbols] if k in made else [names[k]]
            number = more + factor * (made[k].more if k in made else 0)
            times = f"{factor}*" if factor > 1 else ""
            tail = f" {'-' if number < 0 else '+'} {abs(number)}" if number else ""
            return " + ".join(f"{times}{term}" for term in terms) + tail

        dims = {
            name: [size if isinstance(size, int) else text(size) for size in shape]
            for name, shape in self._dims.items()
        }
        axes = {
            k: (name, axis, factor, more)
            for name, _, own in self._axes
            for axis, k, factor, more in sorted(own, key=lambda each: -each[2])
        }
        sums = {
            name: ([axes[n] for n in made[k].symbols], made[k].more)
            for name, k in self._numbers
            if k in made
        }
        return renamed(model, dims, sums)

    def _plain_names(self) -> list[str]:
        """A name of a size that is one word, and no name of an input."""
        inputs = {tensor.name for tensor in self._inputs}
        found: list[str] = []
        for number, name in enumerate(self._names):
            plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
            taken = not plain.isidentifier() or plain in inputs or plain in found
            found.append(f"size{number}_{plain}" if taken else plain)
        return found

    def _compiled(
        self, model: Any, free: Sequence[int], bucket: Bucket, values: Feeds
    ) -> GrowingModel:
        from rcompiler.frontend.size_sets import open_sets
        from rcompiler.growing_model import GrowingModel

        names = self._plain_names()
        fixed = {**(self._options.get("values") or {}), **values}
        shapes = open_sets(model, [names[k] for k in free], bucket, fixed)
        given = {**self._options, "shapes": shapes, "values": fixed, "build": "largest"}
        found = isolate.compiler()(model, **given)
        assert isinstance(found, GrowingModel)
        return found

    # -- what there is ----------------------------------------------------------------------------
    @property
    def notes(self) -> list[str]:
        """Why there are no ranges, or not some of them, a line each."""
        builds = () if self.model is None else self.model.builds
        said = [text for text in self._refused.values() if text]
        said += [self._unfit] if self._unfit else []
        return [*said, *(_refused(build) for build in builds if build.error is not None)]

    @property
    def followed(self) -> frozenset[str]:
        """Inputs of one number that programs for ranges compute of sizes."""
        now = self._now
        return (
            frozenset() if now is None else frozenset(n for n, k in self._numbers if k in now.made)
        )

    @property
    def model(self) -> GrowingModel | None:
        """All programs; None where there are none yet."""
        return None if self._now is None else self._now.model

    def close(self) -> None:
        """End what is built, and the programs. Idempotent."""
        self._closed = True
        if self._now is not None:
            self._now.model.close()


def _refused(build: Build) -> str:
    sizes = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in build.sizes.items())
    return f"there is no program for {sizes}: {build.error}"
