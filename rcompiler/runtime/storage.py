"""How a file keeps the weights of a model: most as they lie in memory, some as recipes.

Filters that a compiler has transformed and weights that it has in two layouts are larger than what
they come from. A file has their source once, and says how the rest is made (`recipes`); a load
makes it, so that memory holds what the compiler put there, byte for byte.

The section "weights" of a file with recipes: the runs of weights between what is made, in their
order, then what only recipes read. A long run begins at the place in a page where it lies in
memory, too: it is mapped there, and shared by all processes that load the file. Short ones are
copied.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime import container, recipes
from rcompiler.runtime.container import PAGE, Bytes, MappedFile
from rcompiler.runtime.deferred import write
from rcompiler.runtime.memory import ALIGNMENT, arena, require, sealed
from rcompiler.runtime.pieces import Pieces
from rcompiler.runtime.recipes import MOST_GROWTH, MOST_STEPS, Recipe
from rcompiler.runtime.untrusted import integer, string

SHARED = 256 << 10  # bytes of a run from which on it is mapped
_MOST_BYTES = 1 << 46


class Run(NamedTuple):
    """Weights from begin to end; place: where they begin in the section."""

    begin: int
    end: int
    place: int


class Layout(NamedTuple):
    """The section: its runs, and where what only recipes read begins."""

    runs: list[Run]
    aside: int

    def place(self, offset: int) -> int:
        """Where weights that are in a run lie in the section."""
        [run] = [run for run in self.runs if run.begin <= offset < run.end]
        return run.place + offset - run.begin

    def offset(self, place: int) -> int:
        """Which weights lie at a place of the section that is a run's."""
        [run] = [run for run in self.runs if run.place <= place < run.place + run.end - run.begin]
        return run.begin + place - run.place


def layout(size: int, made: Sequence[tuple[int, int]]) -> Layout:
    """The section of so many bytes of weights. made: begin and end of what is made, in order."""
    runs, end = [], 0
    begins = [0, *(end for _, end in made)]
    ends = [*(begin for begin, _ in made), size]
    for begin, stop in zip(begins, ends, strict=True):
        if begin < stop:
            place = -(-end // ALIGNMENT) * ALIGNMENT
            place += (begin - place) % PAGE if stop - begin >= SHARED else 0
            runs.append(Run(begin, stop, place))
            end = place + stop - begin
    return Layout(runs, -(-end // ALIGNMENT) * ALIGNMENT)


@runtime_checkable
class Sources(Bytes, Protocol):
    """Bytes that only recipes read, some of which may lie in files of others."""

    def is_there(self) -> bool:
        """Whether all of them can be read still."""


class Section:
    """The bytes that a file keeps of weights of which a load makes some, without a copy of all."""

    def __init__(self, laid: Layout, weights: np.ndarray, aside: Bytes) -> None:
        """weights: all of them. aside: what only recipes read."""
        self._laid, self._weights, self._aside = laid, weights, aside
        self.size = laid.aside + aside.size

    def __getitem__(self, wanted: slice) -> np.ndarray:
        begin, end, _ = wanted.indices(self.size)
        made = np.zeros(max(end - begin, 0), np.uint8)
        for run in self._laid.runs:
            first, last = max(begin, run.place), min(end, run.place + run.end - run.begin)
            if first < last:
                moved = run.begin - run.place
                made[first - begin : last - begin] = self._weights[first + moved : last + moved]
        if end > self._laid.aside:
            first = max(begin, self._laid.aside)
            part = slice(first - self._laid.aside, end - self._laid.aside)
            made[first - begin :] = self._aside[part]
        return made


@dataclass(frozen=True, eq=False)
class Storage:
    """What of the weights a file does not have as it is.

    Attributes:
        recipes: in the order of what they make.
        aside: uint8[bytes], what only recipes read.
    """

    recipes: tuple[Recipe, ...] = ()
    aside: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))

    def check(self, size: int) -> Layout:
        """Where everything lies in the section of so many bytes of weights.

        Nothing is reserved for what is made.

        Raises:
            ArtifactError: a recipe is impossible, or leads out of what is there.
        """
        laid = _laid(self.recipes, size)
        kept = laid.aside + self.aside.size
        for number, recipe in enumerate(self.recipes):
            if not 0 <= recipe.source <= kept - recipe.form.nbytes:
                raise _fault(number, "its source leads out of what the file keeps")
        if self.recipes and size > min(_MOST_BYTES, MOST_GROWTH * kept):
            raise ArtifactError(
                f"artifact: {size} bytes of weights cannot be made of {kept}; "
                "compile the model again"
            )
        work = sum(form.nbytes for recipe in self.recipes for form in recipe.forms)
        if work > MOST_STEPS * (size + kept):
            raise ArtifactError(
                f"artifact: the recipes of the weights move {work} bytes to make {size}; "
                "compile the model again"
            )
        return laid

    def grown(self, before: int, size: int) -> "Storage":
        """How a file keeps a block that had `before` bytes, and has `size`: what is behind them is
        there as it is.
        """
        if not self.recipes:
            return self
        old, new = _laid(self.recipes, before), _laid(self.recipes, size)

        def moved(source: int) -> int:
            if source >= old.aside:
                return source - old.aside + new.aside
            return new.place(old.offset(source))

        made = tuple(replace(recipe, source=moved(recipe.source)) for recipe in self.recipes)
        return Storage(made, self.aside)

    def section(self, weights: np.ndarray) -> Bytes:
        """The bytes that a file keeps of the weights."""
        if not self.recipes:
            return weights
        return Section(self.check(weights.size), weights, self.aside)

    def is_there(self) -> bool:
        """Whether what only recipes read can be read still: it may lie in the file of the model
        that was compiled.
        """
        return not isinstance(self.aside, Sources) or self.aside.is_there()

    def header(self, weights: np.ndarray) -> dict[str, Any]:
        """What the header says of the weights, if there are recipes."""
        digest = hashlib.sha256(weights.data).hexdigest()
        made = [recipe.data() for recipe in self.recipes]
        return {"size": int(weights.size), "sha256": digest, "recipes": made}


def _laid(made: Sequence[Recipe], size: int) -> Layout:
    """The section of so many bytes of weights. Raises ArtifactError for an impossible recipe."""
    found: list[tuple[int, int]] = []
    for number, recipe in enumerate(made):
        try:
            result = recipe.result
        except ValueError as error:
            raise _fault(number, str(error)) from None
        if recipe.offset < (found[-1][1] if found else 0):
            raise _fault(number, "it overlaps with what the one before makes")
        found.append((recipe.offset, recipe.offset + result.nbytes))
        if found[-1][1] > size:
            raise _fault(number, "it makes more than there is room for")
    return layout(size, found)


def loaded(
    entry: Any, kept: np.ndarray | Pieces, full: bool, file: MappedFile | None
) -> tuple[np.ndarray, Storage]:
    """The weights of a file, read-only, of its header and section, and how it keeps them.

    Args:
        full: check their sha256, also of many.
        kept: the section; pieces stay what `Storage.aside` refers to.
        file: what the section is mapped from; None: it lies in memory, and nothing is shared. Of
            pieces nothing is.

    Raises:
        ArtifactError: a recipe is impossible, or makes something else than it did for the compiler.
        DeviceError: there is no memory for them.
    """
    made = tuple(map(recipes.decoded, entry["recipes"]))
    size, digest = integer(entry["size"]), string(entry["sha256"])
    if size < 0:
        raise ValueError
    laid = _laid(made, size)
    if laid.aside > kept.size:
        raise ArtifactError(
            "artifact: the file keeps too little of the weights; compile the model again"
        )
    if isinstance(kept, Pieces):
        file, storage = None, Storage(made, kept.since(laid.aside))
    else:
        aside = kept[laid.aside :]
        storage = Storage(made, aside if file is not None else aside.copy())
    storage.check(size)
    what = "weights of the model"
    largest = max((form.nbytes for recipe in made for form in recipe.forms), default=0)
    require(size + container.THREADS * largest, what)  # where a step needs all of the one before
    weights = arena(size, what)
    for begin, end, place in laid.runs:
        _fill(weights[begin:end], kept[place : place + end - begin], file)
    _make_all(made, kept, weights)
    if (full or size <= container.STRONG_UP_TO) and hashlib.sha256(
        weights.data
    ).hexdigest() != digest:
        raise ArtifactError("artifact: the weights that are made are not those of the compiler")
    return sealed(weights), storage


def _fill(place: np.ndarray, kept: np.ndarray, file: MappedFile | None) -> None:
    """Let a run of a file lie at a place: its whole pages are mapped, if it is long."""
    pages = slice(0)
    if file is not None and kept.size >= SHARED:
        pages = file.map(place, kept)
    place[: pages.start] = kept[: pages.start]
    place[pages.stop :] = kept[pages.stop :]


def _make_all(made: Sequence[Recipe], kept: np.ndarray | Pieces, weights: np.ndarray) -> None:
    """All that is made, on several threads where the system gives them."""

    def make(number: int) -> None:
        recipe = made[number]
        form = recipe.result
        out = weights[recipe.offset : recipe.offset + form.nbytes]
        write(recipe.made(kept), out.view(form.dtype).reshape(form.shape))
        if zlib.crc32(out.data) != recipe.crc32:
            raise _fault(number, "it makes other weights than it did for the compiler")

    container.in_threads(make, range(len(made)))


def _fault(number: int, reason: str) -> ArtifactError:
    return ArtifactError(
        f"artifact: recipe {number} of the weights: {reason}; compile the model again"
    )
