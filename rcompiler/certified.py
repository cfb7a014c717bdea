"""A compiled file before it runs: is its certificate one of what will run?

The checker knows nothing of files: here it is given the streams, the notes beside them and the
certificate. Needs numpy only.
"""

from __future__ import annotations

from typing import Any

from rcompiler.checker import Facts, Launch, Refused, check
from rcompiler.errors import ArtifactError, ScheduleError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.untrusted import integer

_NOTES = ("notes", "stream", "clocks")  # rules that say that a file is none, not that it races


def prove(artifact: Artifact) -> None:
    """Check that the programs of an artifact may run.

    Raises:
        ArtifactError: there is no certificate, or it is not of these programs.
        ScheduleError: the schedule has a race or a deadlock, or leaves a result unwritten.
    """
    if not artifact.proof:
        raise ArtifactError(
            "the compiled model carries no proof of its schedule; compile the model again"
        )
    try:
        check(facts(artifact))
    except Refused as refused:
        if refused.rule in _NOTES:
            raise _unfit(str(refused)) from None
        raise ScheduleError(f"{refused}; compile the model again", refused.rule) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        raise _unfit("they cannot be read") from None


def facts(artifact: Artifact) -> Facts:
    """What the checker is given of an artifact."""
    notes: Any = artifact.proof
    pairs = zip(artifact.programs, notes["programs"], strict=True)
    return Facts(
        boxes=notes["kernels"],
        names=[kernel.name for kernel in artifact.kernels],
        sizes=[(k.tasks, k.operand_bytes, k.outputs, k.pinned) for k in artifact.kernels],
        buffers=notes["buffers"],
        launches=[
            Launch(
                *(program.name, program.streams, program.operators, program.taken_by),
                data["operands"],
                [integer(line) for line in data.get("lines", ())],
            )
            for program, data in pairs
        ],
        arena=artifact.arena_bytes,
        constants=int(artifact.constants.size),
        inputs=[tensor.nbytes for tensor in artifact.inputs],
        outputs=[tensor.nbytes for tensor in artifact.written],
        pinned=artifact.image.pinned,
        clocks=artifact.clocks,
    )


def _unfit(what: str) -> ArtifactError:
    return ArtifactError(
        f"the notes for the proof do not fit the schedule: {what}; compile the model again"
    )


__all__ = ["facts", "prove"]
