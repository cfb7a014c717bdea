"""A compiled model as data: code, schedule, weights, signature. Saved as one `.rcx` file.

    Artifact(...).save("model.rcx")
    artifact = Artifact.load("model.rcx")      # weights are mapped, not copied; some are made

The certificate is one hash over code, tables, weights and signature: equal certificates mean equal
results, whatever the stage texts and provenance say.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rcompiler.errors import ArtifactError, LargerFileWarning
from rcompiler.runtime import code_section, composite, container, storage
from rcompiler.runtime.artifact_checks import check_indices, check_kernels, check_states
from rcompiler.runtime.artifact_header import (
    encoded_program,
    encoded_tensor,
    programs,
    symbol,
    tensors,
)
from rcompiler.runtime.code_section import Code
from rcompiler.runtime.container import Bytes, MappedFile
from rcompiler.runtime.cpu_needs import Needs, first_that_runs
from rcompiler.runtime.file_watch import FileWatch
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.host_system import require_linux
from rcompiler.runtime.image import Image
from rcompiler.runtime.levels import LEVELS, Level, merged, ordered, parted
from rcompiler.runtime.memory import ALIGNMENT, address, aligned_empty, room_for
from rcompiler.runtime.packed_texts import PackedTexts, packed_text
from rcompiler.runtime.program import (
    MAX_BYTES,
    IndexCheck,
    IndexRange,
    KernelEntry,
    OperandLimits,
    Program,
    State,
    Tensor,
    check_program,
    check_tensor,
)
from rcompiler.runtime.sizes import check_sizes
from rcompiler.runtime.storage import Storage
from rcompiler.runtime.untrusted import integer, string
from rcompiler.runtime.writable import Writable
from rcompiler.support.callers import callers_level
from rcompiler.support.extent import Symbol

__all__ = ["Artifact", "KernelEntry", "Program", "Tensor"]

_T = TypeVar("_T")

_BYTES = Path("the bytes of a model")  # what messages call them, in the place of a path
_STAGE = "stage:"
WEIGHTS = "weights"
BUCKETS = "buckets"  # of a file with programs for several sizes, see `runtime.family`
_DECISIVE = ("clocks", "code", "tables", WEIGHTS)  # sections


@dataclass(frozen=True, eq=False)
class Artifact(Writable):
    """Everything that is needed to run a model.

    Attributes:
        image: linked code (of `codegen.link`) or code for a GPU, the schedule interpreter included.
        kernels: by kernel number of the streams.
        programs: launches, run in this order.
        inputs, outputs: signature of the code; external bases in this order. Callers neither give
            nor get the last ones, which are states.
        arena_bytes: temporary memory, shared by all programs.
        constants: uint8[bytes], packed weights, as the code reads them.
        target, cpu_flags: what the code was compiled for, and what it needs of /proc/cpuinfo.
        provenance: where it comes from: versions, policy, hash of the model. No times, no paths.
        proof: what the checker needs beside the streams, as JSON data; {} for none.
        clocks: its certificate of the order, see `rammer.certificate`.
        stages: texts by name: the compilation stages, and the report as JSON.
        ranges: of inputs whose elements are indices.
        counts: sizes that the model computes; external bases behind those of the outputs.
        checks: of indices that the model computes; external bases behind those.
        states: what calls leave for one another: of each the input that has its last value and the
            output of its next one, in the order of the inputs.
        flushes: its kernels take denormal numbers for zeros. On CPUs.
        storage: which of the constants a file does not have, because a load makes them.
        levels: of a model for several CPUs what each level of it needs, the best first, this one
            among them; else none.
        others: its other levels, as its file has them.
        mapped: the file that the constants are mapped from; None: they are in memory.

    Raises:
        ArtifactError: the constants are no block of bytes.
    """

    image: Image | GpuImage
    kernels: tuple[KernelEntry, ...]
    programs: tuple[Program, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    arena_bytes: int
    constants: np.ndarray
    target: str
    cpu_flags: tuple[str, ...]
    provenance: Mapping[str, str] = field(default_factory=dict)
    proof: Mapping[str, Any] = field(default_factory=dict)
    clocks: bytes = b""
    stages: Mapping[str, str] = field(default_factory=dict)
    ranges: tuple[IndexRange, ...] = ()
    checks: tuple[IndexCheck, ...] = ()
    counts: tuple[Symbol, ...] = ()
    states: tuple[State, ...] = ()
    flushes: bool = False
    storage: Storage = field(default_factory=Storage)
    levels: tuple[Needs, ...] = ()
    others: tuple[Level, ...] = ()
    mapped: FileWatch | None = None

    def __post_init__(self) -> None:
        constants = self.constants
        if constants.dtype != np.uint8 or constants.ndim != 1:
            raise ArtifactError("artifact: constants must be one block of bytes (uint8[n])")
        object.__setattr__(self, "constants", _aligned(constants))

    @property
    def written(self) -> tuple[Tensor, ...]:
        """What a launch writes for its caller, in the order of the bases: outputs, counts and
        checks."""
        scalars = *(each.name for each in self.counts), *(each.reader for each in self.checks)
        return *self.outputs, *(Tensor(name, (), "int64") for name in scalars)

    @property
    def given(self) -> tuple[Tensor, ...]:
        """The inputs that callers give: all but the sizes of those, and what the model keeps."""
        told = [tensor for tensor in self.inputs if tensor.size is None]
        return tuple(told[: len(told) - len(self.states)])

    @property
    def sizes(self) -> tuple[Symbol, ...]:
        """The counts that the shapes of inputs tell, in the order of the inputs behind `given`."""
        return tuple(tensor.size for tensor in self.inputs if tensor.size is not None)

    @property
    def returned(self) -> tuple[Tensor, ...]:
        """The outputs that callers get."""
        return self.outputs[: len(self.outputs) - len(self.states)]

    @property
    def kept(self) -> tuple[Tensor, ...]:
        """What a model keeps between calls, each as the input that has its last value."""
        return self.inputs[len(self.given) :] if self.states else ()

    def check(self) -> None:
        """Structural check: nothing in the tables leads outside of the buffers.

        Raises:
            ArtifactError: naming the first contradiction.
        """
        self.image.check()
        self.storage.check(self.constants.size)
        if not 0 <= self.arena_bytes <= MAX_BYTES:
            raise ArtifactError(f"artifact: impossible arena of {self.arena_bytes} bytes")
        for tensor in (*self.inputs, *self.outputs):
            check_tensor(tensor)
        inputs = self.given if self.states else self.inputs
        check_sizes(self.given, inputs, self.outputs, self.counts)
        check_indices(self.inputs, self.ranges, self.checks)
        told = len(self.sizes) + len(self.counts)
        check_states(self.states, self.inputs, self.outputs, told)
        check_kernels(self.image, self.kernels)
        outer, alignment = (self.inputs, self.written), self.image.INPUT_ALIGNMENT
        pinned = self.image.pinned
        limits = OperandLimits.of(self.arena_bytes, self.constants.size, *outer, alignment, pinned)
        for program in self.programs:
            check_program(program, self.kernels, limits)

    @cached_property
    def certificate(self) -> str:
        """Hex sha256 over everything that decides the results."""
        sections = {n: data for n, data in self._sections().items() if n != WEIGHTS}
        described = {name: container.describe(data) for name, data in sections.items()}
        return _certificate(self._header(), {**described, WEIGHTS: self.described_weights})

    @cached_property
    def described_weights(self) -> dict[str, Any]:
        """What the header of a file says of all weights: hashed once, for the certificate and for
        the file. Programs with the same block may be given the answer of another."""
        if self.storage.recipes:
            return self.storage.header(self.constants)
        return container.describe(self.constants)

    def stage(self, name: str) -> str:
        """The text of a compilation stage.

        Args:
            name: one of `stages`.

        Raises:
            ArtifactError: the artifact does not carry this stage.
        """
        if name not in self.stages:
            there = ", ".join(self.stages) or "none"
            raise ArtifactError(f"artifact: it carries no stage '{name}'; it has: {there}")
        return self.stages[name]

    @staticmethod
    def load(
        path: str | Path, *, full: bool = False, mapped: bool = True, sha256: str | None = None
    ) -> "Artifact":
        """Read a file, check that it is whole and consistent. Nothing of it is executed.

        Args:
            path: of the file.
            full: check the sha256 of large weights, too.
            mapped: map weights into memory instead of reading them.
            sha256: read the file only if this (64 hex digits) is its digest.

        Returns:
            What `save` has written; of a model for several CPUs the best level that this machine
            runs, and the best of all where it runs none.

        Raises:
            ArtifactError: naming the file, the reason and what to do.
            DeviceError: there is not enough memory or address space.
        """
        with (
            room_for(f"{container.shown(path)}: reading it"),
            container.reading(Path(path), full, mapped, sha256) as (header, sections, file),
        ):
            return checked(path, header, sections, full, file)

    @staticmethod
    def from_bytes(data: bytes) -> "Artifact":
        """The artifact of what `to_bytes` has made, or a file holds: all of it is checked.

        Args:
            data: all of the bytes.

        Raises:
            ArtifactError: they are no compiled model, or are damaged.
            DeviceError: there is not enough memory.
        """
        return of_bytes(data, checked)

    @staticmethod
    def of_part(
        name: str, data: np.ndarray, full: bool = False, file: MappedFile | None = None
    ) -> "Artifact":
        """The artifact of bytes that lie in a larger file, which stay where they are.

        Args:
            name: what to call it in messages.
            data: uint8[size], all of its bytes.
            full: check the sha256 of large weights, too.
            file: the larger one, if it is mapped.

        Raises:
            ArtifactError: they are no compiled model, or are damaged.
        """
        return checked(name, *container.parsed(Path(name), data, full), full, file)

    def content(self) -> tuple[dict[str, Any], dict[str, Bytes]]:
        """Header and sections of the file. Where weights are made of what lies in the file of the
        model, and that was written to, they are in this file as they are.

        Returns:
            JSON values, and uint8[size] by the names of sections.
        """
        if self.mapped is not None:
            self.mapped.check()
        readable = self.readable_storage()
        if readable is not self.storage:
            return replace(self, storage=readable).content()
        alone = self._alone()
        return merged([Level.of(*alone), *self.others]) if self.others else alone

    def readable_storage(self) -> Storage:
        """How a file that is written now keeps the weights: as they are, where what they are made
        of lay in the file of the model that was compiled, and that was written to since then. A
        LargerFileWarning says so.
        """
        if self.storage.is_there():
            return self.storage
        text = (
            "the file that the model was compiled from was written to: all weights are saved in "
            "the form in which code reads them, which takes more room; compile the model again to "
            "save it in less"
        )
        warnings.warn(LargerFileWarning(text), stacklevel=callers_level())
        return Storage()

    def _alone(self) -> tuple[dict[str, Any], dict[str, Bytes]]:
        """The same of a file of this level alone."""
        header, sections = self.without_weights()
        own, weights = self.weights()
        return {**header, **own}, dict(sorted({**sections, **weights}.items()))

    def without_weights(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and sections of the file, but for those that `weights` gives.

        Returns:
            JSON values, and uint8[size] by the names of sections.
        """
        header, sections = self._header(), self._sections()
        header |= {"certificate": self.certificate, "provenance": dict(self.provenance)}
        del sections[WEIGHTS]
        for name in self.stages:
            sections[_STAGE + name] = packed_text(self.stages, name)
        return header, dict(sorted(sections.items()))

    def weights(self) -> tuple[dict[str, Any], dict[str, Bytes]]:
        """What header and sections of the file have of the weights.

        Returns:
            JSON values, and uint8[size] by the names of sections.
        """
        if not self.storage.recipes:
            return {"sections": {WEIGHTS: self.described_weights}}, {WEIGHTS: self.constants}
        header = {WEIGHTS: self.described_weights}
        return header, {WEIGHTS: self.storage.section(self.constants)}

    def _header(self) -> dict[str, Any]:
        """The part of the header that decides the results, as the certificate covers it."""
        header = {
            "programs": [encoded_program(program) for program in self.programs],
            "inputs": [encoded_tensor(t) for t in self.inputs],
            "outputs": [encoded_tensor(t) for t in self.outputs],
            "arena_bytes": self.arena_bytes,
            "proof": {name: note for name, note in self.proof.items() if name != "kernels"},
        }
        if self.ranges:
            header["ranges"] = [[r.input, r.first, r.last, r.reader] for r in self.ranges]
        if self.checks:
            header["checks"] = [
                [c.first, c.last, c.reader, *filter(None, [c.says, c.bound])] for c in self.checks
            ]
        if self.counts:
            header["counts"] = [[s.name, s.low, s.high] for s in self.counts]
        if self.flushes:
            header["flushes"] = 1
        if self.states:
            header["states"] = [[s.input, s.output, int(s.in_place)] for s in self.states]
        return header

    def _sections(self) -> dict[str, np.ndarray]:
        """The sections that decide the results, with all weights."""
        boxes = self.proof.get("kernels")
        code = Code(self.image, self.kernels, self.target, self.cpu_flags, boxes)
        streams = [stream for program in self.programs for stream in program.streams]
        tables = np.concatenate([np.empty(0, "<i8"), *streams]).astype("<i8")
        return {
            "clocks": np.frombuffer(self.clocks, np.uint8),
            "code": code.packed(),
            "tables": tables.view(np.uint8),
            WEIGHTS: self.constants,
        }


def of_bytes(data: bytes, check: Callable[..., _T]) -> _T:
    """What the bytes of a file hold. check: as `checked`.

    Raises:
        ArtifactError: they are no compiled model, or are damaged.
        DeviceError: there is not enough memory.
    """
    if not isinstance(data, bytes):
        raise ArtifactError(
            f"{container.shown(data)} is not bytes; give those of a model, or load its file"
        )
    require_linux(f"{_BYTES}")
    with room_for(f"{_BYTES}: reading them"):
        read = container.parsed(_BYTES, np.frombuffer(data, np.uint8), full=True)
        return check(_BYTES, *read, full=True)


def checked(
    path: str | Path,
    header: Mapping[str, Any],
    sections: Mapping[str, np.ndarray],
    full: bool,
    file: MappedFile | None = None,
) -> Artifact:
    """The artifact of a file that is whole. Raises ArtifactError unless it is consistent.

    full, file: see `storage.loaded`.
    """
    if BUCKETS in header:
        raise ArtifactError(
            f"{path}: it holds programs for several sizes of its inputs, and one is wanted here; "
            "compile the model for one size, or load the file with rcompiler.load"
        )
    if composite.STEPS in header:
        raise ArtifactError(composite.demands(path, header))
    if LEVELS in header:

        def read() -> tuple[list[Level], list[Needs]]:
            with _named(path):
                levels = parted(header, sections)
            return levels, [level.needs for level in levels]

        levels, needs = container.decoded(str(path), read)
        return _taken(
            levels, needs, lambda level: checked(path, level.header, level.joined(), full, file)
        )
    described = container.decoded(str(path), lambda: header["sections"])
    weights = shared_weights(path, header, sections, full, file)
    return certified(path, header, sections, described, weights)


def _aligned(block: np.ndarray) -> np.ndarray:
    """The same bytes where vector loads of any width are aligned; a copy only where it must be."""
    if not address(block) % ALIGNMENT and block.flags.c_contiguous:
        return block
    aligned = aligned_empty(block.shape, block.dtype)
    aligned[:] = block
    return aligned


class SharedWeights(NamedTuple):
    """Weights that were read, how the file keeps them, and what is certified of them. mapped: the
    file whose bytes they are; None: they are in memory."""

    constants: np.ndarray
    storage: Storage
    described: Mapping[str, Any]
    mapped: FileWatch | None


def shared_weights(
    path: str | Path,
    header: Mapping[str, Any],
    sections: Mapping[str, np.ndarray],
    full: bool,
    file: MappedFile | None,
) -> SharedWeights:
    """The weights of a file that is whole. Raises ArtifactError unless they are consistent.

    full, file: see `storage.loaded`.
    """

    watch = None if file is None else file.watch

    def read() -> SharedWeights:
        made = header.get(WEIGHTS)
        if made is None:
            described = header["sections"][WEIGHTS]
            return SharedWeights(_aligned(sections[WEIGHTS]), Storage(), described, watch)
        with _named(path):
            weights, kept = storage.loaded(made, sections[WEIGHTS], full, file)
        return SharedWeights(weights, kept, made, watch)

    return container.decoded(str(path), read)


def certified(
    path: str | Path,
    header: Mapping[str, Any],
    sections: Mapping[str, np.ndarray],
    described: Mapping[str, Any],
    weights: SharedWeights,
) -> Artifact:
    """The artifact of what a file says of it. Raises ArtifactError unless it is consistent.

    sections, described: those of the weights are not looked at.
    """

    def decode() -> tuple[Artifact, str]:
        # copies: the bytes of the file may go, or change
        own = {name: data.copy() for name, data in sections.items() if name != WEIGHTS}
        return _decode(header, {**own, WEIGHTS: weights.constants}, weights.storage)

    artifact, claimed = container.decoded(str(path), decode)
    artifact = replace(artifact, mapped=weights.mapped)

    def facts() -> str:
        return _certificate(artifact._header(), {**described, WEIGHTS: weights.described})

    if claimed != container.decoded(str(path), facts):
        raise ArtifactError(f"{path}: the certificate is not of this content; compile again")
    artifact.__dict__["certificate"] = claimed
    with _named(path):
        artifact.check()
    return artifact


def _taken(
    levels: Sequence[Level], needs: Sequence[Needs], artifact: Callable[[Level], Artifact]
) -> Artifact:
    """The best level that this machine runs, with all others beside it; of all where it runs none.

    artifact: of a level.
    """
    taken = first_that_runs(needs) or 0
    found = artifact(levels[taken])
    others = *levels[:taken], *levels[taken + 1 :]
    certificate = found.certificate  # which does not cover what is beside it
    found = replace(found, levels=tuple(needs), others=others)
    found.__dict__["certificate"] = certificate
    return found


def together(artifacts: Sequence[Artifact]) -> Artifact:
    """One model for several CPUs: the best level that this machine runs, with all others beside it.

    Args:
        artifacts: of one model, each for another CPU.

    Raises:
        ArtifactError: their inputs or outputs differ, or they are too many.
    """
    if len(artifacts) == 1:
        return artifacts[0]
    by_needs = {Needs(each.target, each.cpu_flags): each for each in artifacts}
    levels = ordered([Level.of(*each._alone()) for each in artifacts])
    return _taken(levels, [each.needs for each in levels], lambda each: by_needs[each.needs])


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """What is said of an artifact names its file."""
    try:
        yield
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from None


def _certificate(header: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    facts = {name: described[name]["sha256"] for name in _DECISIVE}
    text = json.dumps([header, facts], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _decode(header: Any, sections: Mapping[str, np.ndarray], kept: Storage) -> tuple[Artifact, str]:
    """Dataclasses from untrusted JSON, and the certificate; wrong types raise what
    `container.decoded` catches."""
    counts = tuple(symbol(entry) for entry in header.get("counts", []))
    symbols = [*counts, *(symbol(e[4]) for e in header["inputs"] if len(e) == 5 and e[4])]
    code = code_section.unpacked(sections["code"])
    proof = dict(header["proof"])
    if proof and code.boxes is not None:
        proof["kernels"] = code.boxes
    artifact = Artifact(
        image=code.image,
        kernels=code.kernels,
        programs=programs(header["programs"], sections["tables"].view("<i8")),
        inputs=tensors(header["inputs"], symbols),
        outputs=tensors(header["outputs"], symbols),
        arena_bytes=integer(header["arena_bytes"]),
        ranges=tuple(
            IndexRange(string(name), integer(first), integer(last), string(reader))
            for name, first, last, reader in header.get("ranges", [])
        ),
        checks=tuple(
            IndexCheck(integer(first), integer(last), *map(string, texts))
            for first, last, *texts in header.get("checks", [])
        ),
        counts=counts,
        flushes=bool(integer(header.get("flushes", 0))),
        constants=sections[WEIGHTS],
        states=tuple(
            State(integer(read), integer(written), bool(integer(over)))
            for read, written, over in header.get("states", [])
        ),
        storage=kept,
        target=code.target,
        cpu_flags=code.cpu_flags,
        provenance={string(k): string(v) for k, v in header["provenance"].items()},
        proof=proof,
        clocks=sections["clocks"].tobytes(),
        stages=PackedTexts(
            {
                name.removeprefix(_STAGE): data
                for name, data in sections.items()
                if name.startswith(_STAGE)
            }
        ),
    )
    return artifact, string(header["certificate"])
