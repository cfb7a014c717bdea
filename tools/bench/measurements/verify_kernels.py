"""Verify every candidate kernel of many operators: no time is measured.

    python tools/bench verify_kernels --operators=60 --json=kernel-verification.json

Candidates: the tilings that tuning would measure with each policy, and some drawn from the whole
aligned space. Each is compared bit by bit with the untiled kernel, and that one with f64.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rcompiler.errors import WrongKernel
from rcompiler.tools._command import Command
from rcompiler.tools._console import positive, table

if TYPE_CHECKING:
    from rcompiler.passes.roller_tile import Body
    from rcompiler.profiler.profile import Profiler

_MODELS: tuple[tuple[str, dict[str, int]], ...] = (
    ("tiny_llama", {}), ("lstm2", {}), ("unet", {"image": 64}), ("mobilenet_v2", {"image": 96}),
    ("bert_base", {"layers": 1, "sequence": 32}), ("squeezenet1_1", {"image": 96}),
    ("vit_b16", {"layers": 1, "image": 64}), ("gpt2_small", {"layers": 1, "sequence": 16}),
    ("resnet50", {"image": 64}),
)  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: one is wrong."""
    from measurements._operators import profiler
    from rcompiler.driver.host import target_device
    from rcompiler.tools._record import keep

    device = target_device("cpu")
    found: list[dict[str, Any]] = []
    with profiler(device, options.jobs) as runner:
        for model, body in _bodies(options.models, device, options.operators):
            found.append({"model": model} | _verified(runner, body, options.drawn))
            for error in found[-1]["wrong"]:
                print(f"wrong: {error}", file=sys.stderr)
            if len(found) >= options.operators:
                break
    summary = _summary(found)
    keep(options, summary=summary, operators=found)
    table(
        ("kind", "operators", "kernels"),
        [(k, str(n["operators"]), str(n["kernels"])) for k, n in summary["kinds"].items()],
    )
    print(
        f"{summary['kernels']} kernels of {summary['operators']} operators verified, "
        f"{summary['wrong']} wrong"
    )
    return 1 if summary["wrong"] else 0


def _verified(runner: Profiler, body: Body, drawn: int) -> dict[str, Any]:
    """What was verified of one operator, and the messages about kernels that are wrong."""
    from rcompiler.profiler.tuner import TOP
    from rcompiler.roller.policy import POLICIES, shortlist
    from rcompiler.roller.ranking import sampled

    expr, device = body.expression(), runner.device
    wanted = body.construct(device) if body.stages else sampled(expr, device, drawn)
    for policy in () if body.stages else POLICIES:
        best, model = shortlist(expr, device, TOP, policy)
        wanted += [*best, *model]
    candidates = runner.candidates(body, wanted)
    errors: tuple[WrongKernel, ...]
    try:
        errors = runner.run(body, candidates, eus=()).errors
    except WrongKernel as reference:
        errors = (reference,)
    return {
        "kind": body.kind,
        "results": [list(access.shape) for access in expr.outputs],
        "axes": list(expr.sizes),
        "kernels": len(candidates),
        "wrong": [str(error) for error in errors],
    }


def _summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    kinds = {
        kind: {
            "operators": sum(entry["kind"] == kind for entry in found),
            "kernels": sum(entry["kernels"] for entry in found if entry["kind"] == kind),
        }
        for kind in sorted({entry["kind"] for entry in found})
    }
    return {
        "operators": len(found),
        "kernels": sum(entry["kernels"] for entry in found),
        "wrong": sum(len(entry["wrong"]) for entry in found),
        "kinds": kinds,
    }


def _bodies(models: Sequence[str], device: Any, count: int) -> Iterator[tuple[str, Body]]:
    """Different operators with the names of their models, at least `count` if there are so many: of
    the built-in models a few of each.
    """
    from rcompiler.compile import operators_of
    from rcompiler.passes.roller_tile import distinct_bodies
    from rcompiler.tools._sources import resolve
    from rcompiler.tools.models import build

    known = set()
    for model, options in [(m, {}) for m in models] if models else _MODELS:
        proto = build(model, **options) if options else resolve(model).proto
        each = count if models else -(-count // len(_MODELS)) + 2  # the smallest have few
        with operators_of(proto, device) as module:
            for body in islice(distinct_bodies(module.operation), each):
                if body.signature not in known:
                    known.add(body.signature)
                    yield model, body


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", help="ONNX files or built-in models; default: nine")
    parser.add_argument(
        "--operators", type=positive, default=60, metavar="N", help="to verify; default: 60"
    )
    parser.add_argument(
        "--drawn", type=positive, default=6, metavar="N",
        help="tilings to draw besides the best ones; default: 6",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write what was verified")
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes that compile")


main = Command(__name__, __doc__, _options, _run)
