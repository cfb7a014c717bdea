"""Instruction sets that tests force on this machine."""

from rcompiler.device.cpu import best_level, cpu_device, host_features, lacking
from rcompiler.device.host_flags import LEVELS

_NAMES = list(LEVELS)  # the highest first
HERE = tuple(_NAMES[_NAMES.index(best_level(host_features())) :])  # that this machine can run
# Targets with fewer features than the machine, which it can run all the same.
LOWER = tuple(f"cpu:{name}" for name in HERE[1:])
# Those that multiply bytes in ways of their own.
_OF_BYTES = ("v4", "v4+vnni", "v4+amx", "v4+vnni+amx", "v3", "v3+vnni", "x86-64")


def here() -> list[str]:
    """Targets of bytes that this machine can run, as it counts now: "cpu", with all that it has,
    and each instruction set of which it lacks nothing.
    """
    return ["cpu", *(f"cpu:{name}" for name in _OF_BYTES if not lacking(cpu_device(name)))]
