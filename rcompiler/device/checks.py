"""Checks of what a device record says."""

import math

from rcompiler.errors import DeviceError


def require(condition: bool, what: str, remedy: str) -> None:
    """Raise DeviceError, which says `what` is wrong and the remedy, unless `condition`."""
    if not condition:
        raise DeviceError(f"{what}; {remedy}")


def positive(owner: str, **values: float | None) -> None:
    """Raise DeviceError unless all figures of `owner` are finite numbers above 0, or None."""
    for name, value in values.items():
        ok = value is None or (_is_finite(value) and value > 0)
        require(ok, f"{owner}: {name} is {value!r}", "it must be a number above 0")


def not_negative(owner: str, **values: float) -> None:
    """Raise DeviceError unless all figures of `owner` are finite numbers, 0 or more."""
    for name, value in values.items():
        ok = _is_finite(value) and value >= 0
        require(ok, f"{owner}: {name} is {value!r}", "it must be 0 or a number above it")


def _is_finite(value: float) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)
