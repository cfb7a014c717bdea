"""rc-tune: measure this machine, and kernels on it, for the choice of tiles.

rc-tune --device                    keep the record where compile_onnx finds it
rc-tune --device=cpu:v3 -o v3.json  write it elsewhere: for rc-compile --device=v3.json
rc-tune --device=cuda -o gpu.json   measure the GPU: for rc-compile --target=gpu.json
rc-tune model.onnx                  measure the best tilings of every operator: for --tune=kernels;
                                    then the program that the fastest of them make
rc-tune model.onnx --budget=60      explore plans of the whole model (fusion, kernels, EUs, memory)
                                    for a minute: for --tune=warmup; the same again goes on
rc-tune --export=FILE, --import=FILE    the profile index as lines of JSON; --here: count them as
                                    measured on this machine
rc-tune --prune                     remove from it what other versions of the compiler measured

compile_onnx does the same in a quarter of a second, at its first use on a machine; this takes more
time and so is less disturbed by other programs.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rcompiler.errors import CompilerError, DeviceError
from rcompiler.tools._command import Command, Misused
from rcompiler.tools._console import (
    CACHE_HELP,
    check_writable,
    positive,
    seconds,
    table,
)

if TYPE_CHECKING:
    from rcompiler.device.model import Device

_ROUNDS = 7
_MOST = 1 << 62  # bytes: as large as the caches ask for
_GPU_RUNS = 15 * (7 + 2)  # the same of a GPU
_RUNS = 9 * (_ROUNDS + 2)  # of about nine kernels; two rounds go into finding how often to repeat


def _run(options: argparse.Namespace) -> int:
    if options.here and not options.imported:
        raise Misused("--here goes with --import=FILE")
    if options.code and options.device != "cuda":
        raise Misused("--code goes with --device=cuda")
    if options.budget is None and (options.dims or options.tree):
        raise Misused("--dims and --tree go with --budget=S")
    if options.budget is not None and not options.model:
        raise Misused("--budget goes with a model")
    if options.model:
        return _tune(options)
    if options.exported or options.imported:
        return _move(options)
    if options.prune is not None:
        return _prune(options.prune)
    return _measure(options)


def _tune(options: argparse.Namespace) -> int:
    """Profile all operators of a model into the index, then the program that they make."""
    from rcompiler.tools._progress import progress
    from rcompiler.tools._sources import resolve, shapes_of
    from rcompiler.tools._tune import Tuning

    source = resolve(options.model)
    if source.proto is None:
        raise CompilerError(f"{source.path}: is compiled already; rc-tune reads an ONNX model")
    if options.budget is not None:
        from rcompiler.tools._explore import explore

        shapes, dims = shapes_of(options, source), "".join(options.dims or "fksm")
        folder = _cache()
        explore(source.proto, shapes, options.eus, folder, options.budget, dims, tree=options.tree)
        return 0
    tuning = Tuning.here(source.proto, shapes_of(options, source), options.eus, _cache())
    with progress("rc-tune") as told:
        tuning.kernels(told)
    with progress("rc-tune") as told:
        tuning.program(options.seconds, told)
    return 0


def _move(options: argparse.Namespace) -> int:
    """The profile index to a file, or from one."""
    from rcompiler.device.store import fingerprint
    from rcompiler.driver.host import target_device
    from rcompiler.profiler.index import ProfileIndex
    from rcompiler.profiler.storage import NAME

    index = ProfileIndex(_cache() / NAME)
    try:
        if options.exported:
            text = "".join(f"{line}\n" for line in index.export())
            Path(options.exported).write_text(text)
            print(f"{options.exported}: {text.count(chr(10))} measurements")
        else:
            with Path(options.imported).open() as lines:
                machine = fingerprint(target_device("cpu")) if options.here else None
                print(f"{options.imported}: {index.load(lines, machine)} measurements")
    finally:
        index.close()
    return 0


def _prune(days: float) -> int:
    """Remove what was measured with versions of the code that measured nothing for so long."""
    from rcompiler.profiler.index import ProfileIndex, code_version
    from rcompiler.profiler.storage import NAME

    before = None
    if days:
        then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
        before = then.isoformat(timespec="seconds")
    path = _cache() / NAME
    index = ProfileIndex(path)
    try:
        removed = index.prune(code_version(), before)
        left = sum(1 for _ in index.export())
    finally:
        index.close()
    print(f"{path}: {removed} measurements removed, {left} left")
    return 0


def _cache() -> Path:
    from rcompiler.options import default_cache

    folder = default_cache()
    if folder is None:
        raise CompilerError("there is no cache folder (RC_CACHE_DIR is empty) for the index")
    return folder


def _measure_gpu(options: argparse.Namespace) -> int:
    from rcompiler.device.gpu_measure import gpu_figures
    from rcompiler.device.record import to_json
    from rcompiler.profiler.gpu_bench import for_driver, measure_cuda
    from rcompiler.runtime.gpu.cuda import CudaDriver

    if not options.output:
        raise CompilerError("the record of a GPU is a file for --target: give -o FILE")
    driver = CudaDriver()
    to_stdout = options.output == "-"
    if not to_stdout:
        check_writable(options.output)
    code = Path(options.code).read_bytes() if options.code else None
    found = measure_cuda(driver, code, seconds=options.seconds / _GPU_RUNS)
    default = for_driver(driver)
    stream = sys.stderr if to_stdout else sys.stdout
    _print(gpu_figures(default), gpu_figures(found), found, stream)
    if to_stdout:
        sys.stdout.write(to_json(found))
    else:
        Path(options.output).write_text(to_json(found))
        print(f"record: {options.output}")
    return 0


def _measure(options: argparse.Namespace) -> int:
    if options.device == "cuda":
        return _measure_gpu(options)
    from rcompiler.codegen.microbench import measure_host
    from rcompiler.device.cpu import lacking
    from rcompiler.device.measure import figures
    from rcompiler.device.record import to_json
    from rcompiler.device.store import store_record
    from rcompiler.device.target import is_host
    from rcompiler.driver.host import target_device
    from rcompiler.options import default_cache

    default = target_device(options.device)
    if not is_host(options.device):
        raise DeviceError(
            f"--device={options.device}: only this machine can be measured: give cpu, or cuda"
        )
    to_stdout = options.output == "-"
    folder = None if options.output else default_cache()
    if missing := lacking(default):
        raise DeviceError(
            f"--device={options.device}: this machine has no {', '.join(missing)}; measure on one "
            "that has, or give cpu"
        )
    if folder is None and not options.output:
        raise CompilerError("there is no cache folder (RC_CACHE_DIR is empty); give -o FILE")
    if folder is None and not to_stdout:
        check_writable(options.output)
    each = options.seconds / _RUNS
    found = measure_host(default, seconds=each, rounds=_ROUNDS, most=_MOST)
    _print(figures(default), figures(found), found, sys.stderr if to_stdout else sys.stdout)
    if to_stdout:
        sys.stdout.write(to_json(found))
        return 0
    if folder is not None:
        path = store_record(found, folder)
    else:
        path = Path(options.output)
        path.write_text(to_json(found))
    print(f"record: {path}")
    return 0


def _print(
    default: Mapping[str, float], measured: Mapping[str, float], found: Device, stream: IO[str]
) -> None:
    rows = [
        (name, _unit(name), f"{value:g}", f"{measured[name]:g}", f"{measured[name] / value:.2f}")
        for name, value in default.items()
    ]
    table(("figure", "unit", "default", "measured", "ratio"), rows, stream)
    assert found.measurement is not None
    for name, value in found.measurement.others:
        print(f"{name}: {value:g}", file=stream)
    print(f"machine: {found.measurement.machine}", file=stream)


def _unit(name: str) -> str:
    kind = name.partition(" ")[0]
    units = {"clock": "GHz", "peak": "Gop/s", "window": "instructions", "matrix": "Gop/s"}
    units |= dict.fromkeys(("launch", "barrier", "hand-off"), "ns")
    return units.get(kind, "GB/s")


def _days(text: str) -> float:
    """An argparse type: a number of days."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e5:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return value


def _dimensions(text: str) -> list[str]:
    """An argparse type: some of f, k, s, m, separated by commas."""
    found = [item for item in text.split(",") if item]
    if not found or not {*found} <= {*"fksm"} or len({*found}) != len(found):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of f, k, s and m")
    return found


def _options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "model", nargs="?", help="an ONNX file, or a built-in model: measure all its operators"
    )
    what.add_argument(
        "--device", nargs="?", const="cpu", metavar="TARGET",
        help="measure a device: cpu (default), a feature level of it such as cpu:v3, or cuda, the "
        "GPU of this machine",
    )  # fmt: skip
    what.add_argument("--export", dest="exported", metavar="FILE", help="write the profile index")
    what.add_argument(
        "--import", dest="imported", metavar="FILE", help="add measurements to the profile index"
    )
    what.add_argument(
        "--prune", nargs="?", type=_days, const=0.0, metavar="DAYS",
        help="remove from the profile index what other versions of the compiler measured; with "
        "DAYS only those that have measured nothing for so long",
    )  # fmt: skip
    parser.add_argument(
        "--here", action="store_true",
        help="with --import: the measurements, of one machine, count as those of this one",
    )  # fmt: skip
    parser.add_argument(
        "--shapes", action="append", default=[], metavar="NAME=DIMS", help="as for rc-compile"
    )
    parser.add_argument("--eus", type=positive, metavar="N", help="as for rc-compile")
    parser.add_argument(
        "--budget", type=seconds, metavar="S",
        help="explore plans of the whole model for so many seconds, after an estimate",
    )  # fmt: skip
    parser.add_argument(
        "--dims", type=_dimensions, metavar="LIST",
        help="with --budget: what is explored: f (fusion groups), k (kernels), s (EUs and how they "
        "wait), m (memory of temporary tensors); default: f,k,s,m",
    )  # fmt: skip
    parser.add_argument("--tree", action="store_true", help="with --budget: print the choices")
    parser.add_argument(
        "--code", metavar="FILE",
        help="with --device=cuda: the kernels that measure, from the folder of gpu_bench compile, "
        "where the compiler is not installed",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="write the record there (- for standard output) instead of into the cache folder",
    )  # fmt: skip
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=1.0,
        metavar="S",
        help="to measure a device, or to launch a program; default: 1",
    )


main = Command("rc-tune", __doc__, _options, _run, epilog=CACHE_HELP)


if __name__ == "__main__":
    sys.exit(main())
