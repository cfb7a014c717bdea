"""What the processor of this machine can do, as the kernel lists it."""

from collections.abc import Sequence
from pathlib import Path

from rcompiler.errors import ArtifactError


def flags() -> frozenset[str]:
    """The `flags` of /proc/cpuinfo; empty when it cannot be read."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def require_flags(what: str, needed: Sequence[str]) -> None:
    """Refuse code for another processor.

    Raises:
        ArtifactError: naming `what` (the target) and the features that are missing here.
    """
    missing = sorted(set(needed) - flags())
    if missing:
        raise ArtifactError(
            f"code for target '{what}': this CPU lacks {', '.join(missing)}; "
            "compile the model on this machine, or for target x86-64"
        )
