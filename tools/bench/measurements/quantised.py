"""What 8 and 16 bits gain: such networks beside their f32 selves and other engines.

    python tools/bench quantised resnet50 mobilenet_v2 bert_base:dynamic resnet50:f16 --threads=1,2
    python tools/bench quantised resnet50:bf16 gpt2_small:w4
    python tools/bench quantised resnet50 bert_base:dynamic --same

A network is quantised as onnxruntime's tools do it, calibrated with scales by channel, or
":dynamic", or is converted to ":f16"; with ":bf16", ":w8" or ":w4" it is that of f32, which we
compile at this precision, and OpenVINO multiplies bf16 for ":bf16". All engines take turns in one
process. Printed are medians, how many times as fast as in f32 and as the faster other engine on the
same network it is, how large its file is beside that of f32, and how often the largest output is
where the f32 network has it, beside how often onnxruntime's is: of each row of the first output,
over random inputs.

With --same nothing is timed: whether all levels of CPUs that this one has give the same outputs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._baselines import BASELINES, Baseline, OpenVino, installed
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._measure import interleaved, percentiles, ratio
from rcompiler.tools._record import keep
from rcompiler.tools._reference import session
from rcompiler.tools._sources import resolve
from rcompiler.tools.quantise import calibrated, dynamic, half

from ._same_levels import unlike

_INPUTS = 10  # random ones that answers are compared on
_FORMS: Mapping[str, Callable[[ModelProto], ModelProto]] = {
    "": calibrated, "dynamic": dynamic, "f16": half
}  # fmt: skip
_PRECISIONS = ("bf16", "w8", "w4")


def _run(options: argparse.Namespace) -> int:
    if options.same:
        return _compare_levels(options.models)
    threads = [int(n) for n in options.threads.split(",")]
    rows = [_measured(name, n, options) for name in options.models for n in threads]
    engines = sorted({engine for row in rows for engine in row["others"]})
    table(
        [
            "model",
            "threads",
            "ours",
            "f32",
            *engines,
            "over f32",
            "over faster",
            "file",
            "top-1",
            "ort's",
        ],  # fmt: skip
        [
            [
                *(row["model"], row["threads"], f"{row['ours']:.3g}", f"{row['f32']:.3g}"),
                *(f"{row['others'][e]:.3g}" if e in row["others"] else "-" for e in engines),
                *(f"{row['over_f32']:.2f}", f"{row['over_faster']:.2f}", f"{row['file']:.2f}"),
                *(f"{row['top1']:.3f}", f"{row['top1_onnxruntime']:.3f}"),
            ]
            for row in rows
        ],
    )
    faster = [row["over_faster"] for row in rows if not math.isnan(row["over_faster"])]
    mean = math.exp(sum(map(math.log, faster)) / len(faster)) if faster else math.nan
    print(f"ms, medians; over the faster other engine: geometric mean {mean:.3f}")
    keep(options, models=rows, mean_over_faster=mean)
    return 0


def _compare_levels(names: Sequence[str]) -> int:
    """Exit code 1: two levels differ."""
    found = {name: unlike(_both(name)[1], partial(_doing, name)) for name in names}
    for name, differences in found.items():
        print(f"{name}: {'; '.join(differences) or 'the same'}")
    return 1 if any(found.values()) else 0


def _doing(name: str, what: str) -> None:
    doing(f"{name}: {what}")


def _both(name: str) -> tuple[ModelProto, ModelProto]:
    """The network in f32, and in the form that is asked for. Raises CompilerError."""
    plain, _, kind = name.partition(":")
    known = [form for form in (*_FORMS, *_PRECISIONS) if form]
    if kind and kind not in known:
        raise CompilerError(f"{name}: write {plain}, or behind it a colon and {', '.join(known)}")
    doing(f"{name}: quantise")
    proto = resolve(plain).proto
    if proto is None:
        raise CompilerError(f"{plain}: is compiled already; give an ONNX model")
    return proto, proto if kind in _PRECISIONS else _FORMS[kind](proto)


def _precision(name: str) -> Any:
    """That ours is compiled with."""
    kind = name.partition(":")[2]
    return kind if kind in _PRECISIONS else "f32"


def _measured(name: str, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    plain, short = _both(name)
    doing(f"{name}, {threads} threads: compile")
    chosen: dict[str, Any] = {"target": options.target, "eus": threads}
    with (
        rcompiler.compile_onnx(plain, **chosen) as f32,
        rcompiler.compile_onnx(short, precision=_precision(name), **chosen) as ours,
    ):
        others = {engine: BASELINES[engine] for engine in installed()}
        if _precision(name) == "bf16" and "openvino" in others:
            others["openvino"] = OpenVino("bf16")
        found = _beside(short, f32, ours, others, threads, options)
        return {"model": name, "threads": threads} | found


def _file_size(model: Any) -> int:
    """Bytes of the compiled file."""
    return len(model.artifact.to_bytes())


def _beside(
    model: ModelProto,
    f32: Any,
    ours: Any,
    baselines: Mapping[str, Baseline],
    threads: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    feeds = random_inputs(ours.inputs, 0)
    engines = {"ours": ours.bind(feeds), "f32": f32.bind(random_inputs(f32.inputs, 0))}
    refused: dict[str, str] = {}
    for engine, baseline in baselines.items():
        try:
            engines[engine] = baseline.bind(model, threads, feeds).run
        except CompilerError as error:
            refused[engine] = str(error)
    doing("measure")
    times = interleaved(engines, options.rounds, options.seconds / options.rounds)
    medians = {engine: percentiles(timing)["p50"] for engine, timing in times.items()}
    others = {engine: medians[engine] for engine in engines if engine not in ("ours", "f32")}
    faster = min(others, key=others.__getitem__) if others else None
    return {
        "ours": medians["ours"],
        "f32": medians["f32"],
        "others": others,
        "refused": refused,
        "times": {engine: percentiles(timing) for engine, timing in times.items()},
        "over_f32": ratio(times["ours"], times["f32"]),
        "over_faster": ratio(times["ours"], times[faster]) if faster else math.nan,
        "file": _file_size(ours) / _file_size(f32),
        **_agreement(model, f32, ours),
    }


def _agreement(model: ModelProto, f32: Any, ours: Any) -> dict[str, float]:
    """Shares of the rows of the first output whose largest element is where f32 has it."""
    loaded = session(model, 1)
    same: dict[str, list[float]] = {"top1": [], "top1_onnxruntime": []}
    for seed in range(_INPUTS):
        right = f32(random_inputs(f32.inputs, seed))[0].argmax(-1)
        feeds: Mapping[str, np.ndarray] = random_inputs(ours.inputs, seed)
        answers = {"top1": ours(feeds)[0], "top1_onnxruntime": loaded.run(None, dict(feeds))[0]}
        for name, answer in answers.items():
            same[name].append(float((answer.argmax(-1) == right).mean()))
    return {name: float(np.mean(found)) for name, found in same.items()}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="NAME, NAME:dynamic and others")
    parser.add_argument("--threads", default="1", metavar="LIST", help="such as 1,2; default: 1")
    parser.add_argument("--target", default="cpu", metavar="NAME", help="as for rc-compile")
    parser.add_argument("--rounds", type=positive, default=10, metavar="N", help="default: 10")
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="timed per engine; default: 3"
    )
    parser.add_argument(
        "--same", action="store_true", help="compare the outputs of levels of CPUs instead"
    )
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command("quantised", __doc__, _options, _run)
