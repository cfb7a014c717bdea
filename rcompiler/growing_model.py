"""A model whose programs are built while it serves: what compile_onnx(build="largest") returns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rcompiler.bucketed import BucketedModel
from rcompiler.driver.growth import Build, Growth
from rcompiler.report import Report
from rcompiler.runtime.family import Family, smallest
from rcompiler.runtime.memory import room_for


class GrowingModel(BucketedModel):
    """A BucketedModel that begins with its largest program, which takes all sizes.

    A call of sizes that have a smaller program, which is not there yet, runs the next larger one,
    and has its own built in the background. Its answer is the same, up to the bits of sums that
    tiles cut in another way. Where a program cannot be built, a FailedBuildWarning says why, and
    calls go on as before.

    What is saved or pickled has the programs that are there, and builds no more; a copy shares
    what is built with the model that it is of.

    Attributes:
        told: called when a program was added; None for nobody.
    """

    def __init__(self, growth: Growth, eus: int | None = None, **options: Any) -> None:
        """Load what is built.

        Args:
            growth: what there is, and who builds the rest.
            eus, **options: as of `BucketedModel`.

        Raises:
            ArtifactError, ScheduleError, DeviceError: as of `BucketedModel`.
        """
        self._growth = growth
        self._adopting = threading.Lock()
        self.told: Callable[[], object] | None = None
        super().__init__(growth.family, eus, **options)
        self._asked = growth.ask
        growth.attach(self)

    @property
    def growth(self) -> Growth:
        """What there is, and what is built."""
        return self._growth

    @property
    def builds(self) -> tuple[Build, ...]:
        """Of each program its sizes, and whether it is built, waits or failed, and why."""
        return self._growth.builds()

    def build(self, **sizes: int) -> None:
        """Have the program for some sizes built in the background, also where that failed before.

        Args:
            **sizes: by symbol; of those that are left out any. Without sizes: all programs.

        Raises:
            ShapeError: there is no such symbol, or no program takes these sizes.
            DeviceError: the model is closed.
        """
        self.check_open()
        asked = self._sizes(sizes)
        self._now.family.program_for(asked)  # the largest ones take all sizes that there are
        every = range(len(self._growth.buckets))
        number = smallest(self._growth.buckets, asked)
        self._growth.ask_again([*every] if not sizes or number is None else [number])

    def wait(self, limit_s: float | None = None) -> tuple[Build, ...]:
        """Wait until all that was asked for is built, or has failed.

        Args:
            limit_s: wait at most so many seconds.

        Returns:
            As `builds`: also where the limit is over.
        """
        self._growth.wait(limit_s)
        return self.builds

    def report(self) -> Report:
        """As of a BucketedModel, with a line for each program that is not built, and why.

        Returns:
            As `CompiledModel.report`.

        Raises:
            CompilerError, ArtifactError: as of `BucketedModel.report`.
        """
        return super().report().noted(*map(_line, self.builds))

    def adopt(self, family: Family) -> None:
        """Serve programs that were built.

        Args:
            family: begins with the programs of this model.

        Raises:
            ArtifactError, ScheduleError, DeviceError: as of the constructor.
        """
        with self._adopting:
            if not self.closed:
                self._extend(family)
        if self.told is not None:
            self.told()

    def close(self) -> None:
        """Stop the threads, and what is built where no copy needs it. Idempotent."""
        with self._adopting:
            super().close()
        self._growth.detach(self)

    def another(self, **options: Any) -> GrowingModel:
        """A model of its own that runs the same, and gets the programs that this one gets.

        Args:
            **options: as of the constructor, where they differ.

        Raises:
            DeviceError: the model is closed, or there is no room for another.
        """
        self.check_open()
        with room_for("copying the model"):
            return GrowingModel(self._growth, **{**self._options, **options})

    def __reduce__(self) -> tuple[Any, ...]:
        """As a model that has the programs of this one, and gets no others."""
        return self.as_pickled(BucketedModel)


def _line(build: Build) -> str:
    """What a report says of a program; nothing of one that is built of weights that are there."""
    sizes = "; ".join(f"{name}: {low} to {high}" for name, (low, high) in build.sizes.items())
    if build.state == "built":
        more = f"program for {sizes}: adds {build.added_bytes} bytes of weights in other layouts"
        return more if build.added_bytes else ""
    why = f": {build.error}" if build.error else ""
    return f"program for {sizes}: {build.state}{why}"


__all__ = ["GrowingModel"]
