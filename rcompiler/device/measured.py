"""What measuring leaves in a record beside the figures themselves: where those come from, and what
was fitted to the times of whole networks.
"""

from dataclasses import dataclass

from rcompiler.device.checks import positive


@dataclass(frozen=True)
class MeasurementOrigin:
    """Where the measured figures of a device come from.

    `machine`: what identifies the machine, see `store.fingerprint`. `date`: UTC, ISO 8601.
    `version`: of the micro-benchmarks. `figures`: what was measured ("peak f32", "bandwidth L2").
    `others`: measured figures that no field of the device holds, by name.
    """

    machine: str
    date: str
    version: int
    figures: tuple[str, ...]
    others: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        positive("measurement", **dict(self.others))


@dataclass(frozen=True)
class Recall:
    """What the runs of a schedule find in the last cache, and what they pay for the rest: fitted to
    the times of whole networks.

    `kept_bytes`: of the last cache, what a schedule has for itself; other programs use it, too.
    `rate`, `shared_rate`: GB/s that an EU and that all EUs together draw from memory in pieces as
    short as operands of rTasks. `error`: root mean square of the logarithm of measured over
    predicted times that is left. `date`: UTC, ISO 8601; `version`: of the model that was fitted.
    `speed`, `cache_speed`: how many times as fast as estimated arithmetic is, and what comes from
    caches: clocks differ from the hour in which the device was measured, and estimates err.
    """

    kept_bytes: int
    rate: float
    shared_rate: float
    error: float
    date: str
    version: int
    speed: float = 1.0
    cache_speed: float = 1.0

    def __post_init__(self) -> None:
        known = ("kept_bytes", "rate", "shared_rate", "speed", "cache_speed")
        positive("recall", **{name: getattr(self, name) for name in known})
