"""Which systems run compiled models."""

from __future__ import annotations

import platform
import sys

from rcompiler.errors import DeviceError


def require_linux(what: str) -> None:
    """Refuse a system that has not what loading a model asks for.

    Args:
        what: is loaded.

    Raises:
        DeviceError: this is no Linux.
    """
    if sys.platform != "linux":
        raise DeviceError(
            f"{what}: this machine runs {platform.system() or sys.platform}, and compiled models "
            "are loaded on Linux; use it there, as in a container or a virtual machine"
        )


def require_x86(target: str) -> None:
    """Refuse a processor of another kind than code is for.

    Args:
        target: of the code.

    Raises:
        DeviceError: this is no x86-64.
    """
    if (machine := platform.machine()) != "x86_64":
        raise DeviceError(
            f"code for target '{target}': this machine is {machine}, and code for CPUs is for "
            "x86-64; use the model on such a machine"
        )
