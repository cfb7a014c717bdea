"""What code needs of a CPU, and whether this one and Linux give it."""

from collections.abc import Sequence
from typing import NamedTuple

from rcompiler.device.host_flags import host_flags
from rcompiler.device.tile_permission import request_tiles
from rcompiler.errors import ArtifactError, DeviceError


class Needs(NamedTuple):
    """What code was generated for.

    Attributes:
        target: its name.
        cpu_flags: what /proc/cpuinfo must list.
    """

    target: str
    cpu_flags: tuple[str, ...]


def lacking_flags(needed: Sequence[str]) -> list[str]:
    """Which of the flags that code needs this CPU lacks, sorted.

    Args:
        needed: as for `require_flags`.
    """
    return sorted(set(needed) - host_flags())


def require_flags(what: str, needed: Sequence[str]) -> None:
    """Refuse code for another processor, and get the permission that tile registers need.

    Args:
        what: the target of the code.
        needed: flags of the features that it uses, as `host_flags` has them.

    Raises:
        ArtifactError: this CPU lacks one of them.
        DeviceError: Linux does not let this process use tile registers.
    """
    if missing := lacking_flags(needed):
        raise ArtifactError(
            f"code for target '{what}': this CPU lacks {', '.join(missing)}; "
            "compile the model on this machine, or for target cpu:x86-64"
        )
    if "amx_tile" in needed and (reason := request_tiles()) is not None:
        raise DeviceError(
            f"code for target '{what}' uses tile registers (AMX), which Linux does not give this "
            f"process ({reason}); compile the model for target cpu:v4+vnni"
        )


def first_that_runs(levels: Sequence[Needs]) -> int | None:
    """The number of the first of several levels whose code this machine runs; None where it runs
    none of them. The permission that tile registers need is asked for.

    Args:
        levels: what each needs, the best first.
    """
    return next((n for n, level in enumerate(levels) if _in_the_way(level) is None), None)


def require_one(levels: Sequence[Needs]) -> None:
    """Refuse a model of which this machine runs no level.

    Args:
        levels: what each needs.

    Raises:
        ArtifactError: that says of each what is in its way.
    """
    reasons = [(level.target, _in_the_way(level)) for level in levels]
    if all(reason for _, reason in reasons):
        each = "; ".join(f"{target} needs {reason}" for target, reason in reasons)
        raise ArtifactError(
            f"this machine runs none of the {len(levels)} levels of the model: {each}; compile the "
            "model on this machine, or for target cpu:x86-64, too"
        )


def _in_the_way(level: Needs) -> str | None:
    """What this machine does not give the code of a level; None where it gives all."""
    if missing := lacking_flags(level.cpu_flags):
        return f"{', '.join(missing)}, which this CPU lacks"
    if "amx_tile" in level.cpu_flags and (reason := request_tiles()) is not None:
        return f"tile registers (AMX), which Linux does not give this process ({reason})"
    return None
