"""Whether threads meet between what some of them put into shared memory and others read there.

Walked through in order, with what has been read and written since the last barrier: all bytes have
been read by the task before, perhaps one of another rKernel. A forall that reads what was written,
or writes what was read or written, needs a barrier in front of it. A loop is walked twice, as its
second turn comes behind the first; of a branch either side may have been taken. Bytes are those of
whole stages, and the points of one forall need none of each other: what it reads it may not write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch_mlir import ir

from rcompiler.dialects.task_body import BARRIER, MEMORY, SHARED, THREADS
from rcompiler.linalg.kept_stages import kept_bytes, sources_of, stages_inside
from rcompiler.linalg.values import defining, operations, ops_of
from rcompiler.passes.tiles.body import ops_in
from rcompiler.passes.tiles.needed_boxes import TaskErrors

_NO_END = 1 << 62


@dataclass(frozen=True)
class _Access:
    """Bytes of the workspace, and who reads or writes them."""

    start: int
    end: int
    who: str

    def overlaps(self, other: _Access) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class _Since:
    """What was read and written since the last barrier."""

    reads: frozenset[_Access] = frozenset()
    writes: frozenset[_Access] = frozenset()

    def either(self, other: _Since) -> _Since:
        """Where one of two ways was taken."""
        return _Since(self.reads | other.reads, self.writes | other.writes)


def check_barriers(
    block: ir.Block, errors: TaskErrors, result_of: Callable[[ir.Value], int | None]
) -> None:
    """Of the body of one task that threads share in; result_of: which result a tensor is.

    Raises InvalidModel for what comes too early, naming it and the stage that it does not wait for.
    """
    if any(op.name == THREADS for op in ops_in(block)):
        before = _Access(0, _NO_END, "the task before")
        _Walk(block, errors, result_of).walk(block, _Since(reads=frozenset({before})))


class _Walk:
    """Through one body."""

    def __init__(
        self, block: ir.Block, errors: TaskErrors, result_of: Callable[[ir.Value], int | None]
    ) -> None:
        self._errors, self._result_of = errors, result_of
        # by what a forall gives: the stage that it fills
        self._fills: dict[ir.Value, ir.Operation] = {}
        for stage in stages_inside(block):
            self._note_filled(stage)

    def _note_filled(self, stage: ir.Operation) -> None:
        if not {"kept", "offset"} <= set(stage.attributes):
            raise self._errors.wrong(
                "a stage does not say which bytes of the workspace it has; give it 'kept' and "
                "'offset'"
            )
        value = stage.operands[0]
        while (op := defining(value)) is not None and op.name == THREADS:
            self._fills[value] = stage
            value = list(op.operands)[value.result_number - len(op.results)]
        if op is None or op.name != MEMORY or str(op.attributes.get("memory_space")) != SHARED:
            raise self._errors.wrong(
                f"{_name(stage)} is not filled by foralls that begin with a {MEMORY} in "
                f"memory_space = {SHARED}"
            )

    def walk(self, block: ir.Block, since: _Since) -> _Since:
        """Raises InvalidModel; since: what was done in front of the block."""
        for op in ops_of(block):
            if op.name == BARRIER:
                since = _Since()
            elif op.name == THREADS:
                since = self._share_out(op, since)
            elif op.name == "scf.for":
                [body] = op.regions[0].blocks
                since = since.either(self.walk(body, since.either(self.walk(body, since))))
            elif op.name == "scf.if":
                then, otherwise = (self.walk(region.blocks[0], since) for region in op.regions)
                since = then.either(otherwise)
        return since

    def _share_out(self, op: ir.Operation, since: _Since) -> _Since:
        stages = {self._fills[r].result: self._fills[r] for r in op.results if r in self._fills}
        who = _name(next(iter(stages.values()))) if stages else self._of_result(op)
        sources = {s.result: s for inner in operations(op) for s in sources_of(inner)}
        reads = {_Access(*kept_bytes(stage), _name(stage)) for stage in sources.values()}
        writes = {_Access(*kept_bytes(stage), _name(stage)) for stage in stages.values()}
        self._check(who, "reads", reads, since.writes, "writes")
        self._check(who, "writes", writes, since.reads, "reads")
        before = since.writes
        if self._goes_on(op):  # its other parts were written side by side
            before = frozenset(each for each in before if each.who != who)
        self._check(who, "writes", writes, before, "writes")
        for access in writes:
            for other in filter(access.overlaps, reads):
                raise self._errors.wrong(
                    f"{who} is kept where {other.who} is, which threads still read while they "
                    "write it; give it other bytes"
                )
        accesses = {replace(access, who=who) for access in reads}
        return _Since(since.reads | accesses, since.writes | writes)

    def _goes_on(self, op: ir.Operation) -> bool:
        """Whether a forall fills a stage that one in front of it began."""
        return any(value in self._fills for value in list(op.operands)[-len(op.results) :])

    def _of_result(self, op: ir.Operation) -> str:
        result = self._result_of(op.results[0])
        return "what a task keeps" if result is None else f"result {result}"

    def _check(
        self,
        who: str,
        does: str,
        accesses: set[_Access],
        before: frozenset[_Access],
        did: str,
    ) -> None:
        for access in accesses:
            for other in filter(access.overlaps, before):
                raise self._errors.wrong(
                    f"{who} {does} bytes {access.start} ... {access.end - 1} of the workspace, "
                    f"where {other.who} {did} with no {BARRIER} between; put one in front"
                )


def _name(stage: ir.Operation) -> str:
    return f"the stage at byte {kept_bytes(stage)[0]}"
