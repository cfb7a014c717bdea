"""rc-run: run a compiled file, or an ONNX model, on given or random inputs.

rc-run model.rcx x.npy --save=y.npz
rc-run model.onnx --verify                    compare with the ONNX reference
rc-run model.onnx --verify --precision=bf16   and how far from f32 that is
rc-run model.onnx --verify --state=h:hn       several calls, of which each finds what one has left
rc-run model.onnx --debug=nodes               and every value between: which node is wrong first
rc-run model.rcx --profile=times.json         when each rTask ran, for rc-viz --measured
rc-run model.rcx --needs                      what a device must have to run it
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.bucketed import BucketedModel
from rcompiler.driver.model_views import taken_text
from rcompiler.errors import CompilerError, UnsupportedOp
from rcompiler.model import GpuModel, Model
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.support.installed import require_compiler
from rcompiler.tools._command import Command
from rcompiler.tools._console import complain, report, table
from rcompiler.tools._data import (
    need_unpacked,
    parse_ranges,
    random_feeds,
    read_inputs,
    save_outputs,
)
from rcompiler.tools._progress import progress
from rcompiler.tools._reference import ENGINES, reference
from rcompiler.tools._same_network import check_same_network
from rcompiler.tools._sources import Source, add_compile_options, check_eus, resolve, values_of

_CALLS = 3  # that are compared of a model with state: the first finds zeros
_PROFILED = 15  # launches: long enough to meet a quiet moment, and to know which is the usual one


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: also a wrong result."""
    source = resolve(options.model)
    if options.f32 and not options.verify:
        raise CompilerError("--f32: what --verify compares with; give that option, too")
    if options.debug:
        return _debug(options, source)
    oracle = _oracle(options, source) if options.verify else None
    if source.is_model:
        check_eus("rc-run", options.eus, options)
    with progress("rc-run") as told:
        model = source.executable(options, told)
    need_unpacked(model, "rc-run")
    if not source.is_model and not isinstance(model, GpuModel):
        check_eus("rc-run", options.eus, options)
    if options.needs:
        return _needs(model)
    if options.profile and isinstance(model, GpuModel):
        raise CompilerError(
            "--profile: GPUs leave no times of their rTasks; compile the model for a CPU"
        )
    if options.inputs:
        feeds = read_inputs(options.inputs, model.inputs)
    else:
        feeds = random_feeds(model, options.seed, parse_ranges(options.range))
    if isinstance(model, BucketedModel):
        model = model.taking(**feeds)
    if model.artifact.levels:
        print(f"{source.name}: {taken_text(model.artifact)}")
    if oracle is not None and model.artifact.states:
        return _verify_calls(options, oracle, model, feeds)
    start = time.perf_counter()
    outputs = model(**feeds)
    print(f"{source.name}: {(time.perf_counter() - start) * 1e3:.3f} ms (first run)")
    named = {t.name: y for t, y in zip(model.outputs, outputs, strict=True)}
    table(("output", "dtype", "shape", "min", "mean", "max"), [_summary(*x) for x in named.items()])
    if options.save:
        save_outputs(Path(options.save), named)
    if options.profile:
        _profile(Path(options.profile), model, feeds)
    all_feeds = {**feeds, **values_of(options)}  # which the reference still takes as inputs
    if oracle is None:
        return 0
    precision = model.artifact.provenance.get("precision", "f32")
    return _verify(options, oracle, precision, all_feeds, named)


def _needs(model: Model) -> int:
    """Print what a device must have; none is opened."""
    artifact = model.artifact
    if isinstance(model, GpuModel):
        needs = model.needs
        image = artifact.image
        assert isinstance(image, GpuImage)
        exact = "no other" if image.exact else "or later"
        rows = [
            ("GPU", f"{needs.chip}, {exact}"),
            ("blocks at the same time", f"{needs.blocks} of {needs.threads} threads"),
            ("shared memory of a block", f"{needs.shared} bytes"),
            ("memory", f"{needs.memory} bytes"),
        ]
        text = {"ptx": "PTX", "amdgcn": "assembly"}[image.language]
        alone = f"{text}, which the driver compiles" if image.language == "ptx" else text
        rows.append(("code", f"{text} and machine code" if needs.machine_code else alone))
    else:
        memory = artifact.arena_bytes + artifact.constants.size
        rows = [
            ("CPU", ", ".join(artifact.cpu_flags) or "x86-64"),
            *(
                (f"CPU, for {level.target}", ", ".join(level.cpu_flags))
                for level in artifact.levels
                if level.target != artifact.target
            ),
            ("threads", str(model.eus)),
            ("memory", f"{memory} bytes, inputs and outputs beside"),
        ]
    if artifact.states:
        kept = sum(t.nbytes for t in artifact.kept)
        twice = sum(artifact.inputs[s.input].nbytes for s in artifact.states if not s.in_place)
        rows.append(("state of each session", f"{kept + twice} bytes"))
    table(("needs", artifact.target), rows)
    return 0


def _profile(path: Path, model: Any, feeds: dict[str, np.ndarray]) -> None:
    """Write when the rTasks ran, of several launches as they usually do."""
    from rcompiler.model import CompiledModel
    from rcompiler.runtime.container import replacing
    from rcompiler.viz.measured import measured_text, usual

    timed = CompiledModel(model.artifact, model.eus, timed=True)
    launches = []
    for _ in range(_PROFILED):
        timed(**feeds)
        launches.append(timed.times())
    timed.close()
    times = usual(launches)
    with replacing(path) as file:
        file.write(measured_text(times).encode())
    print(f"{path}: {max(times['end_ns'], default=0) / 1e6:.3f} ms, the median of {_PROFILED} runs")


def _debug(options: argparse.Namespace, source: Source) -> int:
    from rcompiler.tools._debug_nodes import debug_nodes

    if options.state:
        raise CompilerError(
            "--debug=nodes compares the values of one call; leave --state out: what is kept are "
            "inputs and outputs then"
        )
    if source.proto is None:
        raise CompilerError(
            f"{source.path}: --debug=nodes compiles a model with all its values as results; give "
            "its ONNX file in the place of this one"
        )
    from rcompiler.tools._given_up import reference_at

    proto, rounded = reference_at(source.proto, options.precision or "f32")
    if proto is not source.proto:  # these weights are nodes of the graph, of f32 in the rest
        options.precision = None
    run = partial(_results, options, source)
    return report("rc-run", debug_nodes(proto, run, options, rounded))


def _results(
    options: argparse.Namespace, source: Source, proto: Any, feeds: dict[str, np.ndarray] | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs (those given, else random ones) and results by name of a variant of the model."""
    with progress("rc-run") as told:
        model = replace(source, given=proto).executable(options, told)
    if feeds is None and options.inputs:
        feeds = read_inputs(options.inputs, model.inputs)
    elif feeds is None:
        feeds = random_feeds(model, options.seed, parse_ranges(options.range))
    outputs = model(**{tensor.name: feeds[tensor.name] for tensor in model.inputs})
    model.close()
    return {**feeds, **values_of(options)}, {
        t.name: y for t, y in zip(model.outputs, outputs, strict=True)
    }


def _oracle(options: argparse.Namespace, source: Source) -> Any:
    """The ONNX model to verify against."""
    require_compiler("--verify")
    if options.onnx:
        source = resolve(options.onnx)
    proto = _holding(source, "--onnx")
    from rcompiler.frontend.randomness import find_draw  # with onnx, which others do without

    if (draw := find_draw(proto)) is not None:
        raise UnsupportedOp(draw)
    return proto


def _holding(source: Source, option: str) -> Any:
    """The ONNX model of a source that an option names."""
    if source.proto is None:
        raise CompilerError(
            f"{source.path} holds no ONNX model to verify against; name it with {option}=FILE"
        )
    return source.proto


def _verify_calls(
    options: argparse.Namespace, oracle: Any, model: Model, feeds: dict[str, np.ndarray]
) -> int:
    """Several calls in a row; each has to leave what the reference makes of what it found."""
    artifact, wrong = model.artifact, 0
    after = {
        artifact.outputs[s.output].name: artifact.inputs[s.input].name for s in artifact.states
    }
    names = [value.name for value in oracle.graph.output]
    precision = artifact.provenance.get("precision", "f32")
    for call in range(1, _CALLS + 1):
        print(f"call {call} of {_CALLS}:")
        found = {**feeds, **dict(model.state), **values_of(options)}
        outputs = model(**feeds)
        last = {name: model.state[read] for name, read in after.items()}
        given = last | {t.name: y for t, y in zip(model.outputs, outputs, strict=True)}
        named = {name: given[name] for name in [*names, *given] if name in given}
        wrong |= _verify(options, oracle, precision, found, named)
    return wrong


def _verify(
    options: argparse.Namespace,
    oracle: Any,
    precision: Any,
    feeds: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray],
) -> int:
    from rcompiler.tools._given_up import given_up, reference_at
    from rcompiler.tools._judge import Judge

    if options.onnx:
        check_same_network(oracle, feeds, outputs)
    same, rounded = reference_at(oracle, precision)
    engine, expected = reference(same, feeds, options.reference)
    judge = Judge(same, feeds, options.tolerance, rounded)
    wrong = []
    for (name, actual), want in zip(outputs.items(), expected, strict=True):
        found = judge(name, actual, want)
        print(
            f"{name}: largest error {found.absolute:.3g}, {found.relative_to_limit:.3f} of what "
            f"is allowed, against {engine}"
        )
        if not found.right:
            wrong.append(
                f"output '{name}' differs from {engine} by {found.absolute:.3g} at "
                f"{list(found.where)}: {actual[found.where]}, not {want[found.where]}"
            )
    for message in wrong:
        complain("rc-run", message)
    if options.f32 or precision != "f32":
        f32 = _holding(resolve(options.f32), "--f32") if options.f32 else oracle
        for line in given_up(outputs, f32, feeds, options.reference):
            print(line)
    return 1 if wrong else 0


def _summary(name: str, array: np.ndarray) -> tuple[str, ...]:
    shape = "x".join(map(str, array.shape)) or "scalar"
    if array.size == 0:
        return name, array.dtype.name, shape, "-", "-", "-"
    values = array.astype(np.float64)
    figures = (f"{f(values):.6g}" for f in (np.min, np.mean, np.max))
    return name, array.dtype.name, shape, *figures


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a .rcx file, an ONNX file or the name of a built-in model")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help=".npy or .pb in order of the inputs, NAME=FILE, or .npz; none: random data",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random data")
    parser.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="NAME=LOW:HIGH",
        help="bounds of the random data of one input; by default integers are 0 or 1",
    )
    parser.add_argument("--save", metavar="FILE", help="write the outputs to a .npz or .npy file")
    parser.add_argument(
        "--profile", metavar="FILE", help="write when each rTask ran, for rc-viz --measured"
    )
    parser.add_argument(
        "--needs", action="store_true", help="print what a device must have, and stop"
    )
    parser.add_argument(
        "--debug", choices=("nodes",), help="compare every value, name the first node that is wrong"
    )
    parser.add_argument("--verify", action="store_true", help="compare with a reference")
    parser.add_argument(
        "--reference", choices=ENGINES, default="auto", help="what computes the reference"
    )
    parser.add_argument("--onnx", metavar="FILE", help="the model of a .rcx file, for --verify")
    parser.add_argument(
        "--f32",
        metavar="FILE",
        help="the network in f32 that this one was quantised from: --verify tells how far from its "
        "results that is, as it does for a --precision without this option",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="allowed error over root mean square of a value; by default after its type and what "
        "the model rounds on the way: float32 1e-4, float16 1e-2, int8 6e-2",
    )
    add_compile_options(parser)


main = Command("rc-run", __doc__, _options, _run, intermixed=True)


if __name__ == "__main__":
    sys.exit(main())
