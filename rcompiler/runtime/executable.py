"""A loaded model: numpy arrays in, a list of numpy arrays out."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.arguments import Arrays, Parameter, call_arguments, parameters
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.binding import Binding
from rcompiler.runtime.cpu_needs import require_flags, require_one
from rcompiler.runtime.held import HeldModel
from rcompiler.runtime.host_system import require_x86
from rcompiler.runtime.image import Image, LoadedImage
from rcompiler.runtime.index_checks import IndexChecks
from rcompiler.runtime.loaded_schedule import LoadedSchedule
from rcompiler.runtime.memory import Results, address, arena
from rcompiler.runtime.outputs import Outputs, named
from rcompiler.runtime.pace import keep_pace
from rcompiler.runtime.plans import Plans, check_plans, serve_plans
from rcompiler.runtime.run_delay import RunDelay
from rcompiler.runtime.sessions import Stateful
from rcompiler.runtime.sized_arguments import SizedCall
from rcompiler.runtime.sized_buffers import SizedBuffers
from rcompiler.runtime.state import HeldState, State
from rcompiler.runtime.thread_schedule import ThreadSchedule, combine
from rcompiler.runtime.threads import Launcher, Team, Waiting
from rcompiler.runtime.turns import Turn, Turns
from rcompiler.runtime.watched import Watched
from rcompiler.support.this_process import this_process

_Array = np.ndarray  # a name that the path of every call looks up


class Executable(HeldModel, Stateful):
    """Runs an artifact.

    It holds threads and memory for temporary tensors until it is closed, as at the end of a `with`
    block, or collected.

    Calls from several threads are safe: they run one after the other. After a fork the child
    starts threads of its own at its first call.

    Attributes:
        inputs, outputs: name, shape, dtype of each, in the order of the call and of the result;
            without what the model keeps between calls (`state`).
        eus: EUs that the model runs on. EUs without any work get no thread.
        plans: other plans, and who chooses between them; None where there is one.
    """

    def __init__(
        self,
        artifact: Artifact,
        eus: int | None = None,
        *,
        pin: bool | Sequence[int] = False,
        wait_limit_s: float = 20.0,
        timed: bool = False,
        validate: Callable[[Artifact], None] | None = None,
        plans: Plans | None = None,
        turns: Turns | None = None,
    ) -> None:
        """Check, load the code, reserve the arena, start the threads.

        Args:
            artifact: what is run.
            eus: threads to use; None = one per EU of the artifact, at most one per CPU that this
                process may use, by its affinity and its control groups. Fewer threads than EUs give
                the same results; more CPUs than EUs are of no use. Asking for more than there are
                CPUs is possible and slow. Beside other programs a launch may run on the calling
                thread alone, where that is faster.
            pin: bind each worker to a CPU; of some CPUs to these, the first of which is left for
                the calling thread. That is never bound.
            wait_limit_s: after so long without progress a launch fails instead of hanging; up to a
                day.
            timed: note when each run of rTasks begins and ends, see `times`; some 50 ns a run.
            validate: the full proof (no race, no deadlock) over the artifact's programs; raises to
                refuse. Called after the structural check, before any code is loaded.
            plans: other plans of the same model, and who chooses between them and the artifact.
            turns: threads and an arena that it shares with other models; without other plans, and
                not timed.

        Raises:
            ArtifactError: the artifact contradicts itself or needs another CPU.
            DeviceError: memory, executable memory or threads are refused; `eus` or `wait_limit_s`
                is impossible.
        """
        waiting = Waiting(limit_s=wait_limit_s)
        artifact.check()
        if not isinstance(artifact.image, Image):
            raise ArtifactError(
                f"the model is compiled for '{artifact.target}', which is no CPU; load it with "
                "rcompiler.load, on a machine that has such a device"
            )
        require_x86(artifact.target)
        if artifact.levels:
            require_one(artifact.levels)
        require_flags(artifact.target, artifact.cpu_flags)
        others = plans.others if plans else ()
        check_plans(artifact, others)
        for each in (artifact, *others):
            if validate is not None:
                validate(each)
        self._artifact, self.plans = artifact, plans
        self.inputs, self.outputs = artifact.given, artifact.returned
        self.eus = _threads(artifact, eus)
        most = max(each.arena_bytes for each in (artifact, *others))
        if turns is None:
            self._arena = arena(most, "temporary tensors of the model")
        else:
            turns.room(most)
            self._arena = turns.arena
        kept = parameters(artifact.kept, artifact.ranges, "state")
        taken = artifact.given if artifact.states else artifact.inputs
        self._parameters = parameters(taken, artifact.ranges)
        in_place = [state.in_place for state in artifact.states]
        self._held = HeldState(kept, in_place, State(kept))
        self._keeps = len(kept) > 0
        self._takes = list(enumerate(parameter.take for parameter in self._parameters))
        self._sized = SizedCall.of(artifact, self._parameters)
        self._count = len(self._takes) if self._sized is None else -1  # of arguments
        self._stays = SizedBuffers.can_serve(artifact, self._parameters)
        self._buffers: SizedBuffers | None = None  # made by the first call
        self._outputs = [Parameter(tensor, "output") for tensor in self.outputs]
        self._names = tuple(tensor.name for tensor in self.outputs)
        self._makes = [Results(p.shape, p.dtype).new for p in self._outputs]
        self._checks = IndexChecks(artifact.checks)
        bases = tables.EXTERNAL + len(artifact.inputs + artifact.written)
        own = {tables.ARENA: self._arena, tables.CONSTANTS: artifact.constants}
        self._table = partial(
            struct.Struct(f"{bases}Q").pack, *(address(own[base]) for base in sorted(own))
        )
        paced = partial(_PlanOfModel, eus=self.eus, waiting=waiting, pin=pin, timed=timed)
        plan = paced(artifact)
        launcher: Launcher | Turn
        if turns is not None:
            launcher = turns.join(plan)
        elif plans is None:
            launcher = Launcher(plan.serving)
        else:
            launcher = _exploring(plans, [plan, *map(paced, others)], artifact, wait_limit_s)
        file = artifact.mapped
        self._launcher = launcher if file is None else Watched(launcher, file)

    def __call__(self, *args: object, **kwargs: object) -> Outputs[np.ndarray]:
        """Run one inference.

        Args: one array per input, by position, by keyword, or all in one dict by input name; of
            exactly the declared shape and dtype. Any strides and alignment; NaN and infinity are
            data like any other. For an input without axes also a number of Python's.

        Returns:
            A list of one new 64-byte aligned array per output, which can be read by name, too; they
            are the caller's to keep and change.

        Raises:
            ShapeError: an argument is missing, unknown, twice there, or of another shape or dtype.
            RangeError: an index in it, or one that the model computes, is outside of what it leads
                into.
            DeviceError: the model is closed, its state is lost, or the schedule stopped (see
                `Waiting.limit_s`).
        """
        if self._keeps:
            return self.step(self._held, args, kwargs)
        # Loops, as a comprehension is one more call; arrays are kept because some are copies.
        count = len(args)
        if kwargs or count != self._count or (count == 1 and type(args[0]) is not _Array):
            if self._buffers is not None and not kwargs:
                if (found := self._buffers.call(args)) is not None:
                    return found
            args = tuple(call_arguments(self.inputs, args, kwargs))
            if self._sized is not None:
                return self._call_sized(self._sized, args)
        arrays, bases = [], []
        results: Outputs[np.ndarray] = Outputs()
        results.names = self._names
        for index, take in self._takes:
            array, start = take(args[index])
            arrays.append(array)
            bases.append(start)
        for new in self._makes:
            array, start = new()
            results.append(array)
            bases.append(start)
        if not self._checks:
            self._launcher.run(self._table(*bases))
            return results
        answers = self._checks.new()
        self._launcher.run(self._table(*bases, *answers.addresses))
        self._checks.look(answers)
        return results

    def _call_sized(self, sized: SizedCall, args: Sequence[object]) -> Outputs[np.ndarray]:
        """The same with arguments of sizes that are known at run time."""
        if self._stays:
            if self._buffers is None:
                given = self._artifact, self._parameters, self._checks, sized.beyond
                self._buffers = SizedBuffers(*given, self._launcher.run, self._table)
            if (found := self._buffers.call(args)) is not None:
                return found
        kept, bases, layout = sized.take(args)
        made = [new() for new in self._makes]
        counted, places = sized.new_counts()
        answers = self._checks.new()
        outer = *(start for _, start in made), *places, *answers.addresses
        self._launcher.run(self._table(*bases, *outer))
        del kept  # until now: some are copies
        self._checks.look(answers)
        return named(self._names, sized.cut([array for array, _ in made], layout, counted))

    def arguments(self, *args: object, **kwargs: object) -> list[np.ndarray]:
        """The arguments of a call as arrays, checked as the call would check them.

        Args: as of a call.

        Returns:
            An array for each input, of the shape that was given.

        Raises:
            ShapeError: as of a call.
            RangeError: an index in an argument leads out of what it leads into.
        """
        values = call_arguments(self.inputs, args, kwargs)
        if self._sized is not None:
            return self._sized.checked(values)
        return [take(values[index])[0] for index, take in self._takes]

    def step(
        self, held: HeldState, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Outputs[np.ndarray]:
        """A call with the state of the model, or of a session of it.

        Args:
            held: the state.
            args, kwargs: as of a call.

        Returns:
            As of a call.

        Raises:
            ShapeError: as of a call.
            RangeError: as of a call.
            DeviceError: as of a call.
        """
        self.check_open()
        args = call_arguments(self.inputs, args, kwargs)
        given = [take(args[index]) for index, take in self._takes]
        made = [new() for new in self._makes]
        answers = self._checks.new()
        places = [[start for _, start in side] for side in (given, made)]

        def run(last: Sequence[int], new: Sequence[int]) -> None:
            self._launcher.run(self._table(*places[0], *last, *places[1], *new, *answers.addresses))
            self._checks.look(answers)

        held.step(run)
        return named(self._names, [array for array, _ in made])

    def held(self) -> HeldState:
        return self._held

    def hold(self, held: HeldState) -> None:
        self._held = held

    def reaches(self, held: HeldState) -> bool:
        return held.state.home == self._held.state.home

    def bind(self, inputs: Arrays | None = None, outputs: Arrays | None = None) -> Binding:
        """Fix the memory of inputs and outputs: no check and no allocation is left for the calls.

            binding = model.bind()
            binding.inputs[0][...] = x
            binding()
            y = binding.outputs[0]            # the next call writes here again

        Args:
            inputs: arrays in order, or by name; C-contiguous and of exactly the declared shape and
                dtype. None: new ones, zeroed.
            outputs: the same; they must be writable, start at a multiple of 64 bytes and share no
                memory with other arrays of the binding. None: new ones.

        Returns:
            What runs the model on these arrays when it is called.

        Raises:
            ShapeError: an array is missing, unknown, or cannot be used where it lies.
            DeviceError: there is no memory for new ones, or the model is closed.

        Of a model whose sizes are known at run time all arrays are of the shapes that are declared,
        the bounds; behind the inputs stand the sizes, int64 scalars, which are the bounds at first.
        What is beyond a size is no answer. Sizes that the model computes are not told.
        """
        return self.bind_with(self._held, inputs, outputs)

    def bind_with(
        self, held: HeldState, inputs: Arrays | None = None, outputs: Arrays | None = None
    ) -> Binding:
        """As `bind`, with the state of the model or of a session of it.

        Args:
            held: the state.
            inputs, outputs: as of `bind`.

        Returns:
            As `bind`.

        Raises:
            ShapeError: as of `bind`.
            DeviceError: as of `bind`.
        """
        self.check_open()
        if self._sized is not None:
            inputs = self._sized.with_bounds(inputs)
        sides = self._parameters, self._outputs
        own = self, self._launcher.run, self._table
        counts = len(self._artifact.counts)
        kept = held if self._keeps else None
        return Binding(*own, *sides, self._checks, inputs, outputs, counts, kept)

    def times(self) -> dict[str, list[Any]]:
        """When each run of rTasks of the last inference ran, if the model is timed.

        Returns:
            Columns, an entry for each run: operator, first (its first rTask), eu (the thread),
                start_ns and end_ns from the start of the inference.

        Raises:
            DeviceError: the model is closed, or not timed.
        """
        stamps = self._launcher.stamps()
        if stamps is None:
            raise DeviceError("the model is not timed; load it with timed=True")
        return stamps.columns()

    @property
    def artifact(self) -> Artifact:
        """What is run: of several plans the one that serves now."""
        number = self.plans.chooser.serving if self.plans else 0
        return self.plans.others[number - 1] if self.plans and number else self._artifact

    def run_delay(self) -> RunDelay:
        """How long the threads of the model, and the calling one, could have run and had no CPU.

        Returns:
            What tells it, from now on.

        Raises:
            DeviceError: the model is closed.
        """
        return self._launcher.run_delay()

    @property
    def closed(self) -> bool:
        return self._launcher.closed

    def close(self) -> None:
        """Stop the threads and give back the memory of temporary tensors.

        Idempotent; also happens when the model is collected. A call that runs comes to its end.
        """
        if self._launcher.close():
            self._arena = np.empty(0, np.uint8)


class _PlanOfModel:
    """One artifact as teams run it; its code is loaded once."""

    def __init__(
        self,
        artifact: Artifact,
        *,
        eus: int,
        waiting: Waiting,
        pin: bool | Sequence[int],
        timed: bool,
    ) -> None:
        assert isinstance(artifact.image, Image)
        self._artifact, self._waiting, self._pin, self._timed = artifact, waiting, pin, timed
        self._code = LoadedImage(artifact.image)
        self.threads = min(eus, _busy(artifact))
        self._schedule = combine(artifact.programs, self.threads)

    def loaded(self) -> LoadedSchedule:
        """For a team of as many threads."""
        return self._load(self._schedule)

    def team(self) -> Team:
        """Threads of its own."""
        return Team(self._code, self.loaded(), self._waiting, self._pin, self._timed)

    def alone(self) -> Team:
        """The same on one thread."""
        if self.threads == 1:
            return self.team()
        loaded = self._load(combine(self._artifact.programs, 1))
        return Team(self._code, loaded, self._waiting)

    def _load(self, schedule: ThreadSchedule) -> LoadedSchedule:
        flushes = self._artifact.flushes
        return LoadedSchedule(self._code, self._artifact.kernels, schedule, flushes=flushes)

    def serving(self) -> Team:
        """One that runs on one thread while that is faster."""
        # Times are asked of the schedule that was asked for.
        if self.threads > 1 and not self._timed:
            return keep_pace(self.team(), self.alone)
        return self.team()


def _exploring(
    plans: Plans, loaded: Sequence[_PlanOfModel], first: Artifact, limit_s: float
) -> Launcher:
    """What runs one of several plans, and tries the others in the process that it was made in."""
    owner = this_process()

    def make() -> Team:
        if this_process() != owner:  # a child explores nothing: its parent does
            return loaded[plans.chooser.serving].serving()
        return serve_plans(loaded, plans.chooser, first, limit_s)

    return Launcher(make)


def _threads(artifact: Artifact, asked: int | None) -> int:
    most = max((program.eus for program in artifact.programs), default=1)
    if asked is None:
        return min(most, usable_cpus())
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise DeviceError(f"eus={asked!r}: give a whole number from 1 to {most}")
    return min(asked, most)


def _busy(artifact: Artifact) -> int:
    """EUs up to the last that does more than meet the others: a thread that is woken for nothing
    costs microseconds."""
    most = 1
    for program in artifact.programs:
        if program.taken_by:
            most = max(most, min(program.taken_by, len(program.streams)))
            continue
        for eu, stream in enumerate(program.streams, 1):
            steps = tables.instructions(stream)
            if eu > most and any(op not in (tables.BARRIER, tables.END) for _, op, _ in steps):
                most = eu
    return most
