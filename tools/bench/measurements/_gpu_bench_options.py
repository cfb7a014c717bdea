"""The command line of gpu_bench."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from measurements._sanitizer import TOOLS
from measurements._torch_baselines import BASELINES
from rcompiler.options import GpuPrecision, Policy
from rcompiler.tools._console import items, positive, seconds, timing_options

NAME = "gpu_bench"
_PAPER = "resnext29_16x64d,nasnet_a,alexnet,deepspeech2,lstm_tc,seq2seq"
_MODELS = f"{_PAPER},resnet50,bert_base,gemm,convolution,stress"
_POLICIES = "base,wave,rammer,list"
_PRECISIONS = "f32,tf32,f16"


def _choices(known: Sequence[str]) -> Any:
    """An argparse type: a list of some of these."""

    def parse(text: str) -> list[str]:
        names = items(text)
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return list(dict.fromkeys(names))

    return parse


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the command line may ask for; command: compile, run or stress."""
    parts = parser.add_subparsers(required=True, dest="command", metavar="compile|run|stress")
    made = parts.add_parser(
        "compile", description="Compile models into a folder; needs no GPU.", help="no GPU needed"
    )
    made.add_argument(
        "--models", type=items, default=items(_MODELS), metavar="LIST",
        help="built-in models, ONNX files, gemm and convolution (operators one by one), stress; "
        f"default: {_MODELS}",
    )  # fmt: skip
    _choice(made, "--policies", get_args(Policy), _POLICIES, "scheduling policies")
    _choice(made, "--precisions", get_args(GpuPrecision), _PRECISIONS, "of products")
    made.add_argument("--target", default="cuda:h200", metavar="NAME", help="default: cuda:h200")
    made.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs")
    made.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to add to")
    run = parts.add_parser(
        "run", description="Measure what a folder holds beside PyTorch.", help="measure a folder"
    )
    _of_folder(run)
    run.add_argument(
        "--baseline", type=_baselines, metavar="LIST",
        help=f"of {', '.join(BASELINES)}, or none; default: all, of single operators all but "
        "torch_compile",
    )  # fmt: skip
    timing_options(run, "engine and group, by each of both clocks", 10, 1.0)
    run.add_argument(
        "--limit", type=seconds, default=180.0, metavar="S",
        help="until a baseline is ready to be measured; default: 180",
    )  # fmt: skip
    _limits(run, "that a group may take", 600.0)
    again = parts.add_parser(
        "stress", description="Launch models again and again, check all results.",
        help="check many launches",
    )  # fmt: skip
    _of_folder(again)
    again.add_argument(
        "--launches", type=positive, default=1_000_000, metavar="N",
        help="of each model and policy; default: 1000000",
    )  # fmt: skip
    again.add_argument(
        "--sanitizer", choices=TOOLS, help="run below this tool of compute-sanitizer"
    )
    again.add_argument(
        "--sanitizer-path", metavar="FILE", help="default: the one on PATH or below CUDA_HOME"
    )
    again.add_argument("--json", metavar="FILE", help="write results and their circumstances")
    _limits(again, "that compute-sanitizer may take", 600.0)


def _baselines(text: str) -> list[str]:
    return [] if text == "none" else _choices(list(BASELINES))(text)


def _of_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="made by gpu_bench compile")
    parser.add_argument(
        "--models", type=items, metavar="LIST",
        help="only these models, or kinds: network, gemm, convolution, stress",
    )  # fmt: skip
    _choice(parser, "--policies", get_args(Policy), None, "only these")
    _choice(parser, "--precisions", get_args(GpuPrecision), None, "only these")


def _choice(
    parser: argparse.ArgumentParser, name: str, known: Sequence[str], default: str | None, what: str
) -> None:
    end = f"; default: {default}" if default else ""
    parser.add_argument(
        name, type=_choices(known), default=items(default) if default else None, metavar="LIST",
        help=f"{what}{end}",
    )  # fmt: skip


def _limits(parser: argparse.ArgumentParser, what: str, most: float) -> None:
    parser.add_argument(
        "--most", type=seconds, default=most, metavar="S", help=f"seconds {what}; default: {most:g}"
    )
    parser.add_argument(
        "--wait-limit", type=seconds, default=2.0, metavar="S",
        help="a wait inside of a kernel that takes longer ends it; default: 2",
    )  # fmt: skip
