"""What a schedule is: rPrograms, each prog[EU] = a list of instructions run in order.

Semantics of one launch: every EU runs its queue in order. `Run` executes the rTasks first,
first + stride, ... one after the other. `Signal` adds one to its event, `Wait` blocks until the
event was signalled at least `count` times in this launch. The n-th `Barrier` of every EU meets.
A launch starts when the one before it is over; the arena keeps its bytes in between.

Whose queue it is, a static program says: EU k runs queue k. Of a dynamic one, each EU that is free
takes the first queue that nobody has taken, until none is left. Who takes what must not matter, nor
how many EUs there are, from one on: so nothing but signals and waits orders two queues, none waits
for what only later ones signal, and they have no barriers.
"""

from dataclasses import dataclass, field

from rcompiler.errors import ScheduleError

BUFFER_KINDS = ("input", "output", "constant", "temp", "pinned")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that runs read and write.

    offset: in the temp arena, in the constant arena, inside the input or output tensor number
    `index`, or, of a pinned one, in the own memory of each EU that has a box of it. alias_of: name
    of a buffer of the same program whose bytes this one views on purpose (a reshape, a part of a
    concatenation); two temp buffers that overlap without that re-use the bytes one after the other.
    key: content of a constant. over: of an output, the input in whose bytes it lies: the next value
    of a state in the place of the last one; else -1.
    """

    name: str
    kind: str
    offset: int
    bytes: int
    index: int = -1
    alias_of: str | None = None
    key: str = ""
    over: int = -1

    @property
    def space(self) -> tuple[str, int]:
        """The memory it lies in: an arena, one external tensor, or all boxes of a pinned one."""
        if self.kind == "pinned":
            return (f"pinned {self.name}", -1)
        if self.over >= 0:
            return ("input", self.over)
        return (self.kind, self.index if self.kind in ("input", "output") else -1)


@dataclass(frozen=True, slots=True)
class Run:
    """rTasks `first + i * stride`, i < count, of an operator; buffers: operands, then results."""

    kernel: str
    operator: str
    first: int
    count: int
    stride: int
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Block until `event` was signalled `count` times."""

    event: str
    count: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Add one to `event`; all that this EU did before is visible to who waits for it."""

    event: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """Meet all EUs of the program."""


Instruction = Run | Wait | Signal | Barrier


@dataclass(frozen=True)
class Program:
    """One rProgram = one launch on `eus` EUs.

    Attributes:
        name: of the launch.
        eus: how many EUs it has.
        buffers: where the values lie.
        queues: one instruction list per EU; of a dynamic program any number of them, which the EUs
            take in this order.
        arena, constants: bytes of the two arenas.
        dynamic: whether its lists are queues.
        pinned: bytes of the own memory of each EU that hold pinned boxes.

    Raises:
        ScheduleError: a buffer does not lie where buffers may, or there is not one list per EU.
    """

    name: str
    eus: int
    buffers: tuple[Buffer, ...]
    queues: tuple[tuple[Instruction, ...], ...]
    arena: int
    constants: int
    dynamic: bool = False
    pinned: int = 0
    # Lookup tables, made once.
    buffer: dict[str, Buffer] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        if self.eus < 1 or (not self.queues if self.dynamic else len(self.queues) != self.eus):
            kind = "dynamic program" if self.dynamic else "program"
            raise ScheduleError(
                f"{kind} {self.name} is for {self.eus} EUs and has {len(self.queues)} queues"
            )
        if min(self.arena, self.constants, self.pinned) < 0:
            raise ScheduleError(f"program {self.name}: negative arena size")
        named = {buffer.name: buffer for buffer in self.buffers}
        if len(named) != len(self.buffers):
            raise ScheduleError(f"program {self.name}: two buffers have one name")
        for buffer in self.buffers:
            self._check_buffer(buffer, named)
        self._check_views(named)
        object.__setattr__(self, "buffer", named)

    def _check_views(self, named: dict[str, Buffer]) -> None:
        """Whoever follows views comes to a buffer that views none."""
        ends = set[str]()  # buffers of which that is known
        for buffer in self.buffers:
            passed: dict[str, None] = {}
            name: str | None = buffer.name
            while name is not None and name not in ends:
                if name in passed:
                    raise ScheduleError(
                        f"program {self.name}: buffer {name} is a view of itself, by way of "
                        f"{', '.join(passed)}",
                        "buffer",
                    )
                passed[name] = None
                name = named[name].alias_of
            ends.update(passed)

    def _check_buffer(self, buffer: Buffer, named: dict[str, Buffer]) -> None:
        where = f"program {self.name}, buffer {buffer.name}"
        if buffer.kind not in BUFFER_KINDS:
            raise ScheduleError(
                f"{where}: kind {buffer.kind!r} is none of {', '.join(BUFFER_KINDS)}"
            )
        if buffer.offset < 0 or buffer.bytes < 0:
            raise ScheduleError(f"{where}: negative offset or size")
        if buffer.kind in ("input", "output") and buffer.index < 0:
            raise ScheduleError(f"{where}: an {buffer.kind} needs the index of its tensor")
        if buffer.over >= 0 and buffer.kind != "output":
            raise ScheduleError(f"{where}: only an output lies over an input", "buffer")
        size = {"temp": self.arena, "constant": self.constants}.get(buffer.kind)
        if size is not None and buffer.offset + buffer.bytes > size:
            raise ScheduleError(
                f"{where} ends at byte {buffer.offset + buffer.bytes} of an arena of {size}"
            )
        parent = None if buffer.alias_of is None else named.get(buffer.alias_of)
        if buffer.alias_of is not None and (
            parent is None
            or parent.space != buffer.space
            or buffer.offset < parent.offset
            or buffer.offset + buffer.bytes > parent.offset + parent.bytes
        ):
            raise ScheduleError(f"{where} does not lie inside {buffer.alias_of}, which it views")
