"""What a tool is pointed at: an ONNX file, a compiled .rcx file, a schedule (.mlir or .schedule,
weights in .npz beside it) or the name of a built-in model."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

import rcompiler
from rcompiler.device.cgroups import usable_cpus
from rcompiler.device.target import is_host
from rcompiler.errors import ArtifactError, CompilerError, InvalidModel, ShapeError
from rcompiler.options import DEFAULT, Policy, default_device
from rcompiler.runtime.program import MAX_EUS
from rcompiler.support.installed import require_compiler
from rcompiler.tools import _data
from rcompiler.tools._console import CACHE_HELP, positive, warn

if TYPE_CHECKING:
    from onnx import ModelProto

    from rcompiler.driver.model_source import ModelSource

# Options of compile_onnx that a command line says as they are.
CHOSEN = (
    *("target", "device", "policy", "kernels", "roller_policy", "eus", "tune", "roots"),
    *("precision", "denormals"),
)
SCHEDULES = _data.TEXTS
"""Endings of files with a schedule; which form its text has says its first line."""

# said in their own ways
_OTHERS = (
    "shapes",
    "values",
    "bounds",
    "state",
    "packed",
    "no_fusion",
    "build",
)


@dataclass(frozen=True)
class Source:
    """given: the ONNX model, or the path of its file; None when ``path`` is a compiled file or a
    schedule.
    """

    name: str
    path: Path | None
    given: ModelProto | Path | None

    @property
    def is_model(self) -> bool:
        """Whether it is an ONNX model, which is read when somebody asks for it."""
        return self.given is not None

    @property
    def proto(self) -> ModelProto | None:
        """The ONNX model. Raises InvalidModel."""
        found: ModelProto | None = self._model.proto() if self.is_model else None
        return found

    @cached_property
    def _model(self) -> ModelSource:
        from rcompiler.driver.model_source import ModelSource  # which compiled files spare

        return ModelSource(self.given)

    def executable(
        self,
        options: argparse.Namespace,
        progress: Callable[[str, float], None] | None = None,
        **more: Any,
    ) -> Any:
        """Compile, or load what is compiled already. progress, more: as for compile_onnx."""
        if self.is_model:
            chosen = compile_options(options, self)
            return rcompiler.compile_onnx(self._model, **chosen, progress=progress, **more)
        assert self.path is not None
        schedule = self.path.suffix in SCHEDULES
        for option in given_options(options):
            if option != ("target" if schedule else "eus"):
                raise ArtifactError(
                    f"{self.path}: --{option.replace('_', '-')} no longer applies, it was decided "
                    "when the ONNX model was compiled. Compile that with it"
                )
        if not schedule:
            return rcompiler.load(self.path, **({"eus": options.eus} if options.eus else {}))
        target = {"target": options.target} if options.target else {}
        text, constants = read_schedule(self.path)
        try:
            return rcompiler.compile_schedule(text, constants, **target, progress=progress, **more)
        except InvalidModel as error:
            raise InvalidModel(f"{self.path}: {error}") from None


def given_options(options: argparse.Namespace) -> list[str]:
    """Which options of a compilation the command line has; tools need not offer all of them."""
    return [name for name in (*CHOSEN, *_OTHERS) if getattr(options, name, None)]


def read_schedule(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    """Text of stage "vdevice" or "schedule" and the constants it names, from ``x.mlir`` or
    ``x.schedule`` and ``x.npz``.

    A schedule that names no constants needs no second file. Raises CompilerError.
    """
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise InvalidModel(f"{path}: not UTF-8 text (byte {error.start})") from None
    weights = path.with_suffix(".npz")
    return text, _data.read_arrays(weights) if weights.exists() else {}


def resolve(text: str) -> Source:
    """The source that ``text`` names: a file if there is one, else a built-in model.

    Raises InvalidModel when it is neither; ToolError where the compiler would read it and is not
    installed. A compiled file needs numpy only.
    """
    path = Path(text)
    if path.suffix == ".rcx":
        return Source(path.stem, path, None)
    require_compiler(text if path.exists() else f"{text} is no file here; a built-in model")
    if path.suffix in SCHEDULES:
        return Source(path.stem, path, None)
    if path.exists():
        return Source(path.stem, path, path)
    from rcompiler.tools import models

    if text in models.names():
        return Source(text, None, models.build(text))
    raise InvalidModel(f"{text}: no such file, nor a built-in model ({', '.join(models.names())})")


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """--target, --device, --policy, --kernels, --roller-policy, --eus, --tune, --roots,
    --precision, --shapes, --values, --bounds, --state, --no-fusion: what a command line has of the
    options of compile_onnx.
    """
    group = parser.add_argument_group("compilation")
    group.add_argument(
        "--target",
        metavar="NAME",
        help="cpu (default), cpu:v3, cpu:x86-64, cpu:v4+vnni (a level, features beside it) and the "
        "like, or several of these with commas, of which the best is taken where the model is "
        "loaded; cuda:h200 and the like, cuda:emulated, rocm:gfx942 (compiled, not run), or a "
        "device file",
    )
    group.add_argument(
        "--device",
        metavar="FILE",
        help="a device record (rc-tune --device -o FILE), the name of a built-in one or default: "
        "the figures that tiles are chosen by; default: this machine, measured once",
    )
    group.add_argument(
        "--policy",
        metavar="NAME",
        help=f"scheduling: rammer (default; on a GPU that does not run all of its blocks at the "
        f"same time, wave), or another of {', '.join(get_args(Policy))}",
    )
    group.add_argument(
        "--kernels",
        metavar="NAME",
        help="which rKernels run: auto (default, what suits the policy), fast, efficient or select",
    )
    group.add_argument(
        "--roller-policy",
        metavar="NAME",
        help="tiles: roller (default, by the cost model) or osdi22 (the published search)",
    )
    group.add_argument(
        "--eus",
        type=positive,
        metavar="N",
        help="execution units (CPU: threads); "
        "default: all, of a CPU as many as this process may use",
    )
    group.add_argument(
        "--tune",
        metavar="WHAT",
        help="what to choose by measuring: off (default), kernels, or warmup: plans of the model",
    )
    group.add_argument(
        "--roots",
        metavar="NAME",
        help="3x3 convolutions: auto (default, the fastest), direct, winograd2 or winograd4",
    )
    group.add_argument(
        "--precision",
        metavar="NAME",
        help="products of f32: as they are (f32, default), or rounded first: f16, bf16, on GPUs "
        "tf32, on CPUs w8 and w4: the weights alone",
    )
    group.add_argument(
        "--denormals",
        metavar="WHAT",
        help="denormal numbers on CPUs: keep (default), or zero: zeros in their place, which "
        "networks whose weights decayed run up to a hundred times as fast with",
    )
    group.add_argument(
        "--shapes",
        action="append",
        default=[],
        metavar="NAME=DIMS",
        help="shape of an input (x=1x3x224x224) or size of a symbolic dimension (batch=4); "
        "1..512 in the place of a number is any size from 1 to 512, which each call tells; "
        "several are separated by commas, or the option is repeated",
    )
    group.add_argument(
        "--values",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="make an input a constant of that value: a .npy or .pb file; or a .npz file alone, "
        "for all inputs that it names; the option may be repeated",
    )
    group.add_argument(
        "--bounds",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="most elements of a result that is counted at run time, such as that of NonZero, or "
        "most iterations of a Loop that only a run ends, by the name of its node; "
        "several are separated by commas, or the option is repeated",
    )
    group.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="IN:OUT",
        help="keep input IN between calls: it is then what output OUT was in the call before; a * "
        "stands for any text, the same in both (past.*:present.*); IN=OUT where names have colons; "
        "the option may be repeated",
    )
    group.add_argument(
        "--no-fusion", action="store_true", help="do not group operators of the model into one"
    )
    parser.epilog = CACHE_HELP


def compile_options(options: argparse.Namespace, source: Source) -> dict[str, Any]:
    """The keywords for compile_onnx that were chosen on the command line.

    Raises CompilerError for plans that are explored in traffic, of which a tool has none.
    """
    if options.tune == "online":
        raise CompilerError(
            "--tune=online explores while a program serves: call compile_onnx(tune='online') in "
            "it, or explore before with --tune=warmup"
        )
    chosen = {key: getattr(options, key) for key in CHOSEN}
    chosen |= {"shapes": shapes_of(options, source), "values": values_of(options)}
    chosen |= {"bounds": bounds_of(options)}
    chosen["state"] = state_of(options)
    unfused = {"fusion": False} if getattr(options, "no_fusion", False) else {}
    return {key: value for key, value in chosen.items() if value} | unfused


def state_of(options: argparse.Namespace) -> dict[str, str]:
    """--state as a dict of outputs by inputs. Raises CompilerError for text of another form."""
    found: dict[str, str] = {}
    for text in getattr(options, "state", []):
        name, _, output = text.partition("=" if "=" in text else ":")
        if not (name and output):
            raise CompilerError(f"--state={text}: expected IN:OUT, as in past.*:present.*")
        if found.setdefault(name, output) != output:
            raise CompilerError(f"--state={text}: '{name}' is given twice")
    return found


def values_of(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """--values as a dict of arrays by input name.

    Raises CompilerError for a file that cannot be read, ShapeError for text of another form.
    """
    found: dict[str, np.ndarray] = {}
    for text in getattr(options, "values", []):
        name, given, file = text.rpartition("=")
        if not given or Path(text).exists():
            name, file = "", text
        for key, array in _data.read_arrays(Path(file)).items():
            key = name or key
            if not key:
                raise ShapeError(f"--values={text}: expected NAME=FILE.npy, or a .npz file")
            if key in found:
                raise ShapeError(f"--values={text}: '{key}' is given twice")
            found[key] = array
    return found


def bounds_of(options: argparse.Namespace) -> dict[str, int]:
    """--bounds as a dict. Raises ShapeError for text of another form."""
    found: dict[str, int] = {}
    for text in ",".join(getattr(options, "bounds", [])).split(","):
        name, given, number = text.rpartition("=")
        if text and not (given and name and number.isdecimal()):
            raise ShapeError(f"--bounds={text}: expected NAME=NUMBER")
        if text:
            found[name] = int(number)
    return found


def shapes_of(options: argparse.Namespace, source: Source) -> dict[str, Any]:
    """--shapes as a dict: input name to tuple, symbolic dimension to a size or sizes.

    Raises ShapeError for text of another form.
    """
    shapes: dict[str, Any] = {}
    if not options.shapes:
        return shapes
    assert source.proto is not None
    inputs = {value.name for value in source.proto.graph.input}
    for item in (part for text in options.shapes for part in text.split(",")):
        name, found, dims = item.rpartition("=")
        if not found or not re.fullmatch(rf"({_SIZE}(x{_SIZE})*)?", dims):
            raise ShapeError(
                f"--shapes={item}: expected NAME=2x3x4 (NAME= for a scalar); in the place of a "
                "size also sizes, as 1+4+8, or a range, as 1..512"
            )
        shape = tuple(_size(d) for d in dims.split("x") if d)
        shapes[name] = shape if name in inputs or len(shape) != 1 else shape[0]
    return shapes


_SIZE = r"(\d+(\+\d+)*|\d+\.\.\d+)"


def _size(text: str) -> int | tuple[int, ...] | range:
    low, is_range, high = text.partition("..")
    if is_range:
        return range(int(low), int(high) + 1)
    each = tuple(map(int, text.split("+")))
    return each if len(each) > 1 else each[0]


def check_eus(prog: str, eus: int | None, options: argparse.Namespace, what: str = "--eus") -> None:
    """Warn where `eus` are more than the CPUs of this process, and it is they that will run them.

    options: with --target and --device: a program for a GPU, or by the record of another machine,
    may well be run elsewhere. what: the option that says how many.
    """
    usable = usable_cpus()
    if eus is None or not usable < eus <= MAX_EUS or not is_host(options.target or "cpu"):
        return
    if (options.device or default_device() or DEFAULT) != DEFAULT:
        return
    warn(
        prog,
        f"{what}={eus}: this process may use {usable} CPU{'s' if usable > 1 else ''}, which take "
        f"turns at the work of {eus}: results come later than with {what}={usable}, and expected "
        "times do not hold",
    )
