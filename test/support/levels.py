"""Instruction sets that tests force on this machine."""

from rcompiler.device.cpu import best_level, host_features
from rcompiler.device.host_flags import LEVELS

_NAMES = list(LEVELS)  # the highest first
HERE = tuple(_NAMES[_NAMES.index(best_level(host_features())) :])  # that this machine can run
# Targets with fewer features than the machine, which it can run all the same.
LOWER = tuple(f"cpu:{name}" for name in HERE[1:])
