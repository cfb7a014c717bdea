"""Options of a compilation, and every environment variable that the compiler reads but
$RC_HOST_LEVEL, which says what this machine counts as (`device.host_flags`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from rcompiler.errors import CompilerError

Policy = Literal["base", "wave", "bsp", "merge", "rammer", "list", "dynamic"]
Kernels = Literal["auto", "select", "fast", "efficient"]
RollerPolicy = Literal["roller", "osdi22"]
Tune = Literal["off", "kernels", "warmup", "online"]
GpuPrecision = Literal["f32", "tf32", "f16", "bf16"]
CpuPrecision = Literal["f32", "f16", "bf16", "w8", "w4"]
Precision = Literal[GpuPrecision, CpuPrecision]
Memory = Literal["auto", "reuse", "apart"]
Build = Literal["all", "largest"]
Denormals = Literal["keep", "zero"]
Roots = Literal["auto", "direct", "winograd2", "winograd4"]

DEFAULT = "default"  # the name of the device record of this machine that is not measured

_CHOICES = {
    "kernels": Kernels,
    "roller_policy": RollerPolicy,
    "memory": Memory,
    "precision": Precision,
    "denormals": Denormals,
}


@dataclass(frozen=True)
class OwnPolicy:
    """A scheduling policy that does not come with the compiler, by where it is imported from.

    Its text is `module:function`; `rcompiler.rammer.policy.Policy` says what the function does.

    Attributes:
        module: what is imported.
        function: its name there; with dots for one in a class.
    """

    module: str
    function: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"

    def load(self) -> Callable[..., Any]:
        """The function.

        Raises:
            CompilerError: it cannot be imported, or is no function.
        """
        try:
            found = import_module(self.module)
            for part in self.function.split("."):
                found = getattr(found, part)
        except Exception as error:  # whatever a module does when it is imported
            raise CompilerError(
                f"policy '{self}' cannot be imported: {type(error).__name__}: {error}; give "
                "module:function, and name the folder of the module in PYTHONPATH"
            ) from error
        if not callable(found):
            raise CompilerError(f"policy '{self}' is no function: {found!r}")
        return found


PolicyChoice = Policy | OwnPolicy


def policy_of(given: str | Callable[..., Any] | OwnPolicy) -> PolicyChoice:
    """The policy that a caller means.

    Args:
        given: a name of the compiler's own; "module:function"; or the function, which has to be one
            that such a text can name, as texts of pipelines and other processes do.

    Raises:
        CompilerError: there is no such policy.
    """
    if isinstance(given, OwnPolicy):
        return given
    if given in get_args(Policy):
        return given  # type: ignore[return-value]
    if isinstance(given, str):
        module, colon, function = given.partition(":")
        if not colon:
            known = ", ".join(get_args(Policy))
            raise CompilerError(f"policy {given!r} is none of {known}, nor module:function")
        own = OwnPolicy(module, function)
        own.load()
        return own
    names = [getattr(given, name, None) for name in ("__module__", "__qualname__")]
    if not callable(given) or None in names:
        raise CompilerError(f"policy {given!r}: give a name, module:function, or a function")
    own = OwnPolicy(*map(str, names))
    if own.load() is not given:
        raise CompilerError(f"policy '{own}' is another function than the one that was given")
    return own


class Scheduler(NamedTuple):
    """Who schedules, and which rKernels run: two of the options of a compilation.

    Attributes:
        policy: the scheduling policy.
        kernels: which rKernels of an operator run.
    """

    policy: PolicyChoice = "rammer"
    kernels: Kernels = "auto"

    def __str__(self) -> str:
        """As in the paper: "base-fast"; "base" where the policy chooses."""
        return str(self.policy) if self.kernels == "auto" else f"{self.policy}-{self.kernels}"


def bits_of(precision: str) -> int | None:
    """Bits that weights of f32 are rounded to; None where they are not.

    Args:
        precision: as of `compile_onnx`.
    """
    return {"w8": 8, "w4": 4}.get(precision)


@dataclass(frozen=True)
class CompileOptions:
    """What a compilation may choose.

    Attributes:
        target: "cpu" (this host), "cpu:v3" and the like, or a device file.
        eus: execution units, 0 for all of the device.
        policy: the scheduler, also by its text.
        kernels: which of an operator's rKernels it takes, see `rammer.schedule`; "auto" is what
            suits the policy.
        roller_policy: who decides tiles, see `roller.policy`.
        fusion: group ops into rOperators beyond views.
        normalise: join products of one operand and batch those of the steps of a recurrence.
        cache: folder of compiled objects, or None.
        tune: what is chosen by measuring.
        roots: algorithm of 3x3 convolutions.
        precision: what the factors of products of f32 are rounded to before they are multiplied;
            "f32": they are not; "w8", "w4": the weights alone, to so many bits in blocks.
        denormals: whether kernels of a CPU take denormal numbers for zeros.
        machine_code: for a GPU, assemble it ahead of time, for NVIDIA where ptxas is found.
        memory: how temporary tensors get their bytes, see `rammer.schedule`.
        bounds: what is counted at run time, by the name of a result: the most that there is room
            for; pairs, or a mapping.
        or_wave: take the policy "wave" instead where a GPU does not run the blocks of its schedule,
            which wait for one another, at the same time.

    Raises:
        CompilerError: an option has no such value.
    """

    target: str = "cpu"
    eus: int = 0
    policy: PolicyChoice = "rammer"
    kernels: Kernels = "auto"
    roller_policy: RollerPolicy = "roller"
    fusion: bool = True
    normalise: bool = True
    cache: Path | None = None
    tune: Tune = "off"
    roots: Roots = "auto"
    precision: Precision = "f32"
    machine_code: bool = True
    or_wave: bool = False
    memory: Memory = "auto"
    bounds: tuple[tuple[str, int], ...] = ()
    denormals: Denormals = "keep"

    @property
    def weight_bits(self) -> int | None:
        """Bits of weights, where the precision says some."""
        return bits_of(self.precision)

    def __post_init__(self) -> None:
        for name in ("fusion", "normalise", "machine_code", "or_wave"):
            if not isinstance(getattr(self, name), bool):
                raise CompilerError(f"{name}={getattr(self, name)!r}: give True or False")
        object.__setattr__(self, "policy", policy_of(self.policy))
        object.__setattr__(self, "bounds", _checked_bounds(self.bounds))
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise CompilerError(f"{name} {getattr(self, name)!r} is none of {known}")
        if self.tune not in get_args(Tune):
            raise CompilerError(f"tune={self.tune!r}: give one of {', '.join(get_args(Tune))}")
        if self.roots not in get_args(Roots):
            raise CompilerError(f"roots={self.roots!r}: give one of {', '.join(get_args(Roots))}")
        if self.eus < 0:
            raise CompilerError(
                f"cannot compile for {self.eus} execution units: give 1 or more, or None for all"
            )


def _checked_bounds(given: Any) -> tuple[tuple[str, int], ...]:
    """Pairs of a mapping, or as they are. Raises CompilerError."""
    if given is None:
        return ()
    if not isinstance(given, Mapping | tuple):
        raise CompilerError(f"bounds={given!r}: give a dict by the names of results")
    pairs = tuple(given.items()) if isinstance(given, Mapping) else given
    for name, bound in pairs:
        if not isinstance(name, str) or not isinstance(bound, int) or isinstance(bound, bool):
            raise CompilerError(f"bounds={{{name!r}: {bound!r}}}: give numbers by names of results")
        if bound < 0:
            raise CompilerError(f"bounds={{{name!r}: {bound}}}: give 0 or more")
    return pairs


def default_device() -> str | None:
    """The device record to compile for where none is given: $RC_DEVICE, a file, a name or
    "default"."""
    return os.environ.get("RC_DEVICE") or None


def default_cache() -> Path | None:
    """The folder of compiled objects: $RC_CACHE_DIR ("" turns it off), else below the user's cache
    folder.

    Returns:
        A path, which need not exist; None where there is no cache.
    """
    chosen = os.environ.get("RC_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rcompiler"


def keeps_models() -> bool:
    """Whether finished models are kept in the cache folder, too: unless $RC_CACHE_MODELS is 0."""
    return os.environ.get("RC_CACHE_MODELS") != "0"


def cache_bytes() -> int:
    """The most bytes of compiled objects and finished models in the cache folder: $RC_CACHE_MB of
    10^6 bytes, 8000 where it is not set.

    Raises:
        CompilerError: it is no number.
    """
    text = os.environ.get("RC_CACHE_MB") or "8000"
    if not text.isdecimal():
        raise CompilerError(f"$RC_CACHE_MB is {text!r}: give a number of megabytes, or unset it")
    return int(text) * 10**6


def checked_eus(eus: int | None, most: int) -> int:
    """The number of EUs that was asked for, up to `most`; 0 for all. Raises CompilerError."""
    if eus is None:
        return 0
    if not isinstance(eus, int) or isinstance(eus, bool) or not 1 <= eus <= most:
        raise CompilerError(
            f"cannot compile for {eus!r} execution units: give 1 or more (at most {most}), or "
            "None for all"
        )
    return eus


def checked_build(build: str) -> Build:
    """Which programs of a model are built at once, as it was asked for. Raises CompilerError."""
    if build not in get_args(Build):
        raise CompilerError(f"build={build!r}: give one of {', '.join(get_args(Build))}")
    return build  # type: ignore[return-value]


def checked_cache(cache: str | os.PathLike[str] | bool | None) -> Path | None:
    """The cache folder that was asked for, None for none. Raises CompilerError."""
    if cache is None or cache is True:
        return default_cache()
    if cache is False:
        return None
    if not isinstance(cache, str | os.PathLike):
        raise CompilerError(
            f"cache={cache!r}: give a folder, None for the default one, False for none"
        )
    return Path(cache)
