"""Compile the largest program of a model now, and the others in a worker process when they are
asked for.

The worker is given the model in a file that has no name, of which nothing is left whatever ends
this process; weights that lie in the files of the model it reads there. It knows the weights of the
programs before it by their sha256: what is equal lies where it is, and what is new is put behind,
into address space that was reserved at the start.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import IO

from rcompiler import errors
from rcompiler.device.cpu import lacking
from rcompiler.driver.family import compile_family
from rcompiler.driver.growth import Growth, needed_first
from rcompiler.driver.host import measured_device
from rcompiler.driver.program_worker import BUILT, Made, Refusal, Wanted
from rcompiler.driver.sized_program import SizedPrograms
from rcompiler.driver.steps import Progress
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.frontend.load import whole
from rcompiler.frontend.size_sets import Interval, SizeSets, binding_of
from rcompiler.frontend.weights_outside import File, files_of
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.growing_block import GrowingBlock
from rcompiler.support.interpreter import NoInterpreter, interpreter
from rcompiler.support.scratch import memory_file
from rcompiler.support.this_process import this_process
from rcompiler.support.workers import Worker, WorkerDied

_WORKER = "rcompiler.driver.program_worker"
_LATER = 8  # programs with weights of their own for which there is room, where any may be added


def compile_largest(sizes: SizeSets, programs: SizedPrograms, progress: Progress | None) -> Growth:
    """The programs of a model without which a size has none; all others can be asked for.

    Args:
        sizes: what there shall be programs for.
        programs: how they are compiled.
        progress: as of compile_onnx, of the first ones.

    Raises:
        CompilerError: as compile_onnx; or nothing is left to be built later.
        DeviceError: there is no memory for weights, or no room for the model on the disk; or this
            machine cannot run the programs.
    """
    base = programs.base
    if interpreter() is None:
        raise DeviceError(
            f"build='largest' builds programs in another process, and {NoInterpreter()}; or leave "
            "build out"
        )
    if base.is_cpu and (missing := lacking(base)):
        raise DeviceError(
            f"build='largest' builds programs as calls ask for them, and this CPU has no "
            f"{', '.join(missing)}, which they need to run; leave build out"
        )
    first = needed_first(sizes.buckets)
    if len(first) == len(sizes.buckets) and not sizes.open_ended:
        raise CompilerError(
            "build='largest' builds the smaller buckets of ranges later, and shapes= has no size "
            "that a larger program takes; give a range, such as range(1, 9), or leave build out"
        )
    device = programs.device or measured_device(base, programs.options.cache)
    programs = replace(programs, device=device)  # one for all of them
    now = replace(
        sizes,
        buckets=tuple(sizes.buckets[n] for n in first),
        bindings=tuple(sizes.bindings[n] for n in first),
    )
    later = _LATER if sizes.open_ended else len(sizes.buckets) - len(first)
    pool, block = WeightPool(), GrowingBlock(later)
    one = partial(programs.program, progress=progress)
    family = compile_family(now, one, pool, block.begin)
    builder = WorkerBuilder(sizes, programs, pool.known, block, family.programs[0])
    return Growth(family, sizes.buckets, builder, sizes.open_ended)


class WorkerBuilder:
    """A `growth.Builder` that asks a worker process, which is started by the first build."""

    def __init__(
        self,
        sizes: SizeSets,
        programs: SizedPrograms,
        known: Mapping[bytes, int],
        block: GrowingBlock,
        first: Artifact,
    ) -> None:
        """Write the model for the worker.

        known: the weights of the first programs. block: where they lie. first: one of them.

        Raises CompilerError, DeviceError.
        """
        self._symbols, self._bindings = sizes.symbols, [*sizes.bindings]
        self._known, self._block = known, block
        self._constants, self._storage = first.constants, first.storage
        self._owner, self._lock = this_process(), threading.Lock()
        self._worker: Worker | None = None
        self._stopped, self._busy = False, False
        self._files = _kept_open(programs)
        self._file = _written(programs, self._files)

    def add(self, bucket: Sequence[Interval]) -> None:
        """As of `growth.Builder`.

        Args:
            bucket: as there.
        """
        self._bindings.append(binding_of(self._symbols, bucket))

    def build(self, number: int) -> Artifact:
        """As of `growth.Builder`.

        Args:
            number: as there.

        Raises:
            CompilerError: as there.
        """
        self._check_open()
        wanted = Wanted(
            f"/proc/{os.getpid()}/fd/{self._file.fileno()}",
            self._bindings[number],
            self._known,
            self._constants.size,
            {name: (file.path, file.status) for name, file in self._files.items()},
        )
        # what the question is made of may be of modules that are found by these paths
        question = pickle.dumps(([*map(os.path.abspath, sys.path)], pickle.dumps(wanted)))
        try:
            with self._asked() as worker:
                status, answer = worker.ask(question)
        except WorkerDied as died:
            raise CompilerError(
                f"the process that compiled the program ended ({died}); this is a defect of the "
                "compiler, report it with the model"
            ) from None
        found: Made | Refusal = pickle.loads(answer)
        if status != BUILT:
            assert isinstance(found, Refusal)
            refused: CompilerError = getattr(errors, found.kind, CompilerError)(found.text)
            raise refused
        assert isinstance(found, Made)
        for module, kind, text in found.warned:
            category = getattr(sys.modules.get(module), kind, UserWarning)
            warnings.warn(text, category, stacklevel=2)
        constants = self._block.extended(found.start, found.added)
        self._storage = self._storage.grown(self._constants.size, constants.size)
        self._constants, self._known = constants, found.known
        return replace(found.program, constants=constants, storage=self._storage)

    def _check_open(self) -> None:
        if self._stopped:
            raise CompilerError("the model is closed")

    @contextmanager
    def _asked(self) -> Iterator[Worker]:
        """The worker, which `stop` ends meanwhile, and this then closes."""
        with self._lock:
            self._check_open()
            if self._worker is None:
                self._worker = Worker(_WORKER)
            worker, self._busy = self._worker, True
        try:
            yield worker
        except BaseException:
            with self._lock:
                self._worker, self._busy = None, False
            worker.kill()
            worker.close()
            raise
        with self._lock:
            self._busy = False
            if not self._stopped:
                return
        worker.close()

    def stop(self) -> None:
        """As of `growth.Builder`."""
        if self._owner != this_process():
            return
        with self._lock:
            self._stopped, worker, self._worker = True, self._worker, None
            idle = not self._busy
        if worker is not None:
            worker.kill()
            if idle:
                worker.close()
        self._file.close()
        for file in self._files.values():
            file.close()

    def forget(self) -> None:
        """As of `growth.Builder`; the file is open in the child, too."""
        self._owner, self._lock = this_process(), threading.Lock()
        worker, self._worker, self._busy = self._worker, None, False
        if worker is not None:
            worker.abandon()


def _kept_open(programs: SizedPrograms) -> dict[str, File]:
    """The files of a model that is without its weights, for as long as programs are built. Raises
    DeviceError.
    """
    try:
        return {name: file.another() for name, file in (files_of(programs.model) or {}).items()}
    except OSError as error:
        raise DeviceError(
            f"build='largest' keeps the file of the model open, and the system refuses that "
            f"({error.strerror or error}); leave build out"
        ) from None


def _written(programs: SizedPrograms, files: Mapping[str, File]) -> IO[bytes]:
    """A file with the programs, whose model is bytes there, without the weights that are in others.
    Raises CompilerError, DeviceError.
    """
    try:
        model = (programs.model if files else whole(programs.model)).SerializeToString()
    except Exception as error:  # protobuf's, which has no typed module
        raise CompilerError(
            "build='largest' hands the model to another process in one piece of at most 2 GB, "
            f"and it is larger ({error}); leave build out"
        ) from None
    try:
        try:
            file: IO[bytes] = tempfile.TemporaryFile(prefix="rc-programs-")
        except OSError:
            file = memory_file("rc-programs")
        pickle.dump(replace(programs, model=model), file)
        file.flush()
    except OSError as error:
        raise DeviceError(
            f"{tempfile.gettempdir()}: the model cannot be written for the process that builds "
            f"programs ({error.strerror or error}); make room, set TMPDIR, or leave build out"
        ) from None
    return file
