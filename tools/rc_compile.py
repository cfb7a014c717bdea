"""rc-compile: compile an ONNX model to one file that rc-run and rcompiler.load run.

rc-compile model.onnx -o model.rcx
rc-compile model.onnx --emit=schedule -o s.schedule    the schedule as text, its weights in s.npz
rc-compile s.schedule -o model.rcx            that schedule, perhaps edited, compiled
rc-compile model.onnx --emit=linalg -o model.mlir    what rc-opt -p 'rc-cpu{device=cpu}' begins with
rc-compile model.onnx --emit=rkernel -o tiled.mlir    a stage on the way, its weights in tiled.npz
rc-compile model.onnx --state=past.*:present.* -o model.rcx    caches that stay on the device
rc-compile model.onnx --check                 everything that cannot be compiled, and why
rc-compile model.onnx --explain               why each operator is cut as it is
rc-compile model.onnx --target=cuda:h200 -o model.rcx    for a GPU; neither it nor CUDA is needed
rc-compile model.onnx --target=rocm:gfx942 --emit=amdgcn    assembly for a GPU of AMD
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.options import bits_of
from rcompiler.runtime.deferred import Constant, whole
from rcompiler.support import lookups, stage_arrays
from rcompiler.tools._command import Command
from rcompiler.tools._console import table, terminal_width
from rcompiler.tools._data import write_arrays
from rcompiler.tools._progress import Progress, progress
from rcompiler.tools._sources import (
    Source,
    add_compile_options,
    bounds_of,
    check_eus,
    resolve,
    shapes_of,
    values_of,
)
from rcompiler.tools._wording import on_the_command_line

_KNOWN = (  # torch is refused with a reason of its own
    *("linalg", "rtask", "rkernel", "schedule", "vdevice", "llvm", "asm"),
    *("gpu", "ptx", "amdgcn", "report", "torch"),
)
_STAGES = (
    "linalg, rtask, rkernel, schedule (vdevice: the same in MLIR's form), llvm, asm; of a GPU gpu, "
    "llvm, ptx or amdgcn"
)


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: also gaps that --check found."""
    source = resolve(options.model)
    target = Path(options.output or ("-" if options.emit else f"{source.name}.rcx"))
    if not options.check and source.path is not None and target.exists():
        if target.samefile(source.path):
            raise CompilerError(f"{target}: is the input; give another name with -o")
    if options.emit and options.emit not in _KNOWN:  # before anything is compiled
        raise CompilerError(f"there is no stage {options.emit!r}; there are: {_STAGES}")
    check_eus("rc-compile", options.eus, options)
    with progress("rc-compile") as told:
        if options.check:
            return _check(options, source, told)
        start = time.perf_counter()
        steps = _Steps(start, told)
        with lookups.told(steps.looked_up), _arrays_of(options, target) as arrays:
            model = source.executable(options, steps, **_more(options))
    if options.emit:
        text = model.stage(options.emit)
        if str(target) != "-":
            write_arrays(target, _named(options, source, model, text, arrays))
        _write_text(str(target), text)
    else:
        model.save(target)
        print(f"{target}: {target.stat().st_size / 1e6:.2f} MB", file=sys.stderr)
    if options.report:
        print(model.report().text(terminal_width()))
    if options.explain:
        print(model.report().explain())
    if options.json:
        _write_text(options.json, model.report().to_json())
    if options.timing:
        steps.print(time.perf_counter())
    return 0


def _check(options: argparse.Namespace, source: Source, told: Progress) -> int:
    from rcompiler.frontend import check

    if source.proto is None:
        raise CompilerError(f"{source.path}: is compiled already; --check reads an ONNX model")
    gaps = check(source.proto, limits=bounds_of(options), **_largest(options, source))
    if not gaps:
        return _check_compilation(options, source, told)
    rows = [
        (f"{g.kind} {g.node}", g.op, g.detail, *map(on_the_command_line, (g.reason, g.remedy)))
        for g in gaps
    ]
    table(("where", "op", "types", "reason", "remedy"), rows)
    refused = "1 part of it is refused" if len(gaps) == 1 else f"{len(gaps)} parts are refused"
    print(f"{source.name}: cannot be compiled, {refused}")
    return 1


def _check_compilation(options: argparse.Namespace, source: Source, told: Progress) -> int:
    """Compile a model that has no gaps, without measuring: only that shows that it can be."""
    assert source.proto is not None
    chosen = argparse.Namespace(**{**vars(options), "tune": None})
    try:
        model = source.executable(chosen, told, **_more(options))
    except CompilerError as error:
        reason = on_the_command_line(str(error))
        print(f"{source.name}: all nodes are translated, but it cannot be compiled: {reason}")
        return 1
    print(f"{source.name}: all {len(source.proto.graph.node)} nodes can be compiled")
    alone = [op for op in model.report().operators if op.one_eu]
    if alone:
        print(f"{source.name}: on one EU only: {len(alone)} of its operators")
        table(("operator", "kind", "reason"), [(op.name, op.kind, op.one_eu) for op in alone])
    return 0


def _more(options: argparse.Namespace) -> dict[str, Any]:
    """Options of compile_onnx that only this tool has."""
    found: dict[str, Any] = {"machine_code": False} if options.no_machine_code else {}
    found |= {"build": options.build} if options.build else {}
    return found | ({"packed": tuple(options.packed.split(","))} if options.packed else {})


class _Steps:
    """Receives the name of each compilation step as it starts; prints how long each took, how often
    it ran, and how much of what it looked up it knew already.
    """

    def __init__(self, start: float, told: Progress) -> None:
        self._step, self._since, self._told = "start", start, told
        self._start = start
        self._seconds: dict[str, float] = {}
        self._calls = Counter({self._step: 1})
        self._asked = Counter[str]()
        self._known = Counter[str]()

    def __call__(self, step: str, seconds: float) -> None:
        self._end(time.perf_counter())
        self._step = step
        self._calls[step] += 1
        self._told(step, seconds)

    def looked_up(self, known: bool) -> None:
        """Count something that the step looked up, and whether it was known."""
        self._asked[self._step] += 1
        self._known[self._step] += known

    def _end(self, now: float) -> None:
        self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._since
        self._since = now

    def print(self, end: float) -> None:
        self._end(end)
        total = end - self._start
        rows = [
            (name, f"{s * 1e3:.1f}", f"{100 * s / total:.1f}%", self._calls[name], self._hits(name))
            for name, s in self._seconds.items()
        ]
        rows.append(("total", f"{total * 1e3:.1f}", "100.0%", sum(self._calls.values()), ""))
        table(("step", "ms", "share", "calls", "known"), rows, sys.stderr)

    def _hits(self, step: str) -> str:
        return f"{self._known[step]} of {self._asked[step]}" if self._asked[step] else ""


def _write_text(target: str, text: str) -> None:
    text = text if text.endswith("\n") else text + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text)


@contextmanager
def _arrays_of(options: argparse.Namespace, target: Path) -> Iterator[dict[str, Constant]]:
    """What the texts of a stage on the way name, if that is emitted to a file; there once the model
    is compiled, which it is then also where the cache has it.
    """
    found: dict[str, Constant] = {}

    def hear(stage: str, arrays: Mapping[str, Constant]) -> None:
        if stage == options.emit:
            found.update(arrays)  # keys are made of the contents

    if options.emit in ("rtask", "rkernel") and str(target) != "-":
        with stage_arrays.told(hear):
            yield found
    else:
        yield found


def _named(
    options: argparse.Namespace,
    source: Source,
    model: Any,
    text: str,
    arrays: Mapping[str, Constant],
) -> Mapping[str, np.ndarray]:
    """What the text of the stage that is emitted names, so that rc-opt and rc-compile can go on
    from it; a compiled file has no longer what stages before the schedule name.

    arrays: of that stage, of all programs.
    """
    from rcompiler.frontend import import_onnx

    if options.emit in ("vdevice", "schedule"):
        found: Mapping[str, np.ndarray] = model.constants()
        return found
    if options.emit == "linalg" and source.proto is not None:
        bits, chosen = bits_of(options.precision or "f32"), _largest(options, source)
        limits = bounds_of(options)
        arrays = import_onnx(source.proto, bits=bits, limits=limits, **chosen).constants
    return {key: whole(array) for key, array in arrays.items() if f"<{key}>" in text}


def _largest(options: argparse.Namespace, source: Source) -> dict[str, Any]:
    """What `import_onnx` is given for the program for the largest sizes."""
    from rcompiler.frontend.packed.packing import packings_of
    from rcompiler.frontend.size_sets import largest

    assert source.proto is not None
    shapes, values = shapes_of(options, source), values_of(options)
    if not options.packed:
        return {"shapes": largest(source.proto, shapes, values), "values": values}
    packings = packings_of(source.proto, shapes, None, options.packed.split(","))
    return {"values": values, "packing": packings.bindings[-1]}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="an ONNX file, or the name of a built-in model (resnet50)")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: MODEL.rcx; text: -")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--emit", metavar="STAGE", help=f"print one stage instead: {_STAGES}")
    what.add_argument(
        "--check",
        action="store_true",
        help="list all inputs, nodes and outputs that cannot be compiled, and stop",
    )
    parser.add_argument("--report", action="store_true", help="print tiles, schedule and estimates")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print why each operator is cut as it is, and which tiling came second",
    )
    parser.add_argument("--json", metavar="FILE", help="write report and explanations (-: stdout)")
    parser.add_argument(
        "--timing",
        action="store_true",
        help="print the time of each step, its runs, and how much of what it looked up was known",
    )
    parser.add_argument(
        "--no-machine-code",
        action="store_true",
        help="for a GPU: PTX alone, which its driver compiles, also where ptxas is found; of AMD "
        "assembly alone",
    )
    parser.add_argument(
        "--build",
        metavar="WHICH",
        help="of a model with ranges of sizes all programs (default), or the largest, which takes "
        "every size of its range",
    )
    parser.add_argument(
        "--packed",
        metavar="BATCH,LENGTH",
        help="two symbolic dimensions, of the requests of a batch and of their lengths, that are "
        "not padded: a call takes a list of arrays for each input that has both; --shapes says how "
        "many requests there are at most (batch=8), and how long they are (seq=1..512)",
    )
    add_compile_options(parser)


main = Command("rc-compile", __doc__, _options, _run, writes=())


if __name__ == "__main__":
    sys.exit(main())
