"""Whether the processor of this machine can run code."""

from collections.abc import Sequence

from rcompiler.device.host_flags import host_flags
from rcompiler.errors import ArtifactError


def require_flags(what: str, needed: Sequence[str]) -> None:
    """Refuse code for another processor.

    Raises:
        ArtifactError: naming `what` (the target) and the features that are missing here.
    """
    missing = sorted(set(needed) - host_flags())
    if missing:
        raise ArtifactError(
            f"code for target '{what}': this CPU lacks {', '.join(missing)}; "
            "compile the model on this machine, or for target x86-64"
        )
