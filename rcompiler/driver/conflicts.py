"""Options of compile_onnx that do not go together.

Each function raises CompilerError, which says what to leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rcompiler.driver.host import target_device
from rcompiler.errors import CompilerError
from rcompiler.frontend.size_sets import SizeSets
from rcompiler.options import Build, Denormals, Tune, checked_build

State = Mapping[str, str] | None
_PLANS = ("warmup", "online")  # they tune whole plans


def of_parts(state: State, build: Build) -> None:
    """What a model that fallbacks cut into parts is not compiled with."""
    if state:
        raise CompilerError(
            "fallback cuts the model into parts, and state is of a model in one part; leave one of "
            "the two out"
        )
    if build != "all":
        raise CompilerError(
            f"build={build!r}: fallback cuts the model into parts, which are built at once; leave "
            "one of the two out"
        )


def of_tuning(tune: Tune, state: State) -> None:
    """What plans are not explored with."""
    if state and tune in _PLANS:
        raise CompilerError(
            f"tune={tune!r} explores plans by calls whose results it compares, and with state no "
            "two calls are alike; leave it out, or state"
        )


def of_targets(targets: Sequence[str], tune: Tune) -> None:
    """What is for one target."""
    if len(targets) > 1 and tune != "off":
        raise CompilerError(
            f"tune={tune!r} measures for one target, and {','.join(targets)!r} are {len(targets)}; "
            "leave it out, or compile for each alone"
        )


def of_denormals(targets: Sequence[str], denormals: Denormals) -> None:
    """What has no such switch."""
    if denormals == "zero" and any(not target_device(target).is_cpu for target in targets):
        raise CompilerError(
            f"denormals={denormals!r} is for CPUs: GPUs take no longer with denormal numbers than "
            "with others; leave it out"
        )


def of_state(sizes: SizeSets | None, state: State) -> None:
    """Sizes that states do not have."""
    if sizes is not None and state:
        raise CompilerError(
            f"state={dict(state)!r}: a state has one size, and the model is for "
            f"{len(sizes.bindings)} of {', '.join(sizes.symbols)}; give a number for each in shapes"
        )


def of_sizes(sizes: SizeSets | None, targets: Sequence[str], tune: Tune, build: Build) -> None:
    """What several programs are not compiled with, and what one program is not.

    sizes: None for one program.
    """
    if sizes is not None and (len(targets) > 1 or tune in _PLANS):
        what = f"tune={tune!r}" if tune != "off" else f"target={','.join(targets)!r}"
        raise CompilerError(
            f"{what} is for a model of one size, and shapes= asks for {len(sizes.buckets)} "
            "programs; give one target and leave tune out, or one size"
        )
    if checked_build(build) != "all" and (sizes is None or tune != "off"):
        raise CompilerError(
            f"build={build!r} is for a model with ranges of sizes in several buckets, which is not "
            "tuned; give shapes= with a range, and leave tune out, or leave build out"
        )


def of_packed(targets: Sequence[str], tune: Tune, state: State, build: Build) -> None:
    """What packed models are not compiled with."""
    if len(targets) > 1 or not target_device(targets[0]).is_cpu:
        raise CompilerError(
            f"packed is for one CPU, and target is {','.join(targets)!r}; leave packed out: shapes "
            "takes ranges for all targets"
        )
    if tune in _PLANS:
        raise CompilerError(
            f"tune={tune!r} is for a model of one size, and packed makes several programs; leave "
            "one of the two out"
        )
    if state:
        raise CompilerError("packed models keep no state between calls; leave packed or state out")
    if checked_build(build) != "all":
        raise CompilerError(
            f"build={build!r} is for ranges of sizes that are padded; leave it out, or packed"
        )
