"""Verify every candidate kernel of many operators: no time is measured.

    python -m rcompiler.tools.verify_kernels --operators=60

Candidates: the tilings that tuning would measure with each policy, and some drawn from the whole
aligned space. Each is compared bit by bit with the untiled kernel, and that one with f64.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rcompiler.errors import WrongKernel
from rcompiler.tools._console import Parser, guard, positive, table

if TYPE_CHECKING:
    from rcompiler.passes.roller_tile import Body

_MODELS: tuple[tuple[str, dict[str, int]], ...] = (
    ("tiny_llama", {}), ("lstm2", {}), ("unet", {"image": 64}), ("mobilenet_v2", {"image": 96}),
    ("bert_base", {"layers": 1, "sequence": 32}), ("squeezenet1_1", {"image": 96}),
    ("vit_b16", {"layers": 1, "image": 64}), ("gpt2_small", {"layers": 1, "sequence": 16}),
    ("resnet50", {"image": 64}),
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 all are right, 1 one is wrong, 2 wrong arguments, 130 interrupted."""
    options = _options(argv)
    return guard("verify_kernels", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    from rcompiler.host import target_device
    from rcompiler.profiler.tuner import TOP
    from rcompiler.roller.policy import POLICIES, shortlist
    from rcompiler.roller.ranking import sampled
    from rcompiler.tools._operators import profiler

    device = target_device("cpu")
    operators: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    wrong = 0
    with profiler(device, options.jobs) as found:
        for body in _bodies(options.models, device, options.operators):
            expr = body.expression()
            wanted = sampled(expr, device, options.drawn)
            for policy in POLICIES:
                best, model = shortlist(expr, device, TOP, policy)
                wanted += [*best, *model]
            candidates = found.candidates(body, wanted)
            try:
                errors = found.run(body, candidates, timed=False).errors
            except WrongKernel as reference:
                errors = (reference,)
            for error in errors:
                print(f"wrong: {error}", file=sys.stderr)
            wrong += len(errors)
            operators[body.kind] += 1
            kernels[body.kind] += len(candidates)
            if operators.total() >= options.operators:
                break
    table(
        ("kind", "operators", "kernels"),
        [(k, str(n), str(kernels[k])) for k, n in sorted(operators.items())],
    )
    print(f"{kernels.total()} kernels of {operators.total()} operators verified, {wrong} wrong")
    return 1 if wrong else 0


def _bodies(models: Sequence[str], device: Any, count: int) -> Iterator[Body]:
    """Different operators of the models, at least `count` if there are so many: of the built-in
    models a few of each.
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
                    yield body


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("verify_kernels", "Verify every candidate kernel of many operators.")
    parser.add_argument("models", nargs="*", help="ONNX files or built-in models; default: nine")
    parser.add_argument(
        "--operators", type=positive, default=60, metavar="N", help="to verify; default: 60"
    )
    parser.add_argument(
        "--drawn", type=positive, default=6, metavar="N",
        help="tilings to draw besides the best ones; default: 6",
    )  # fmt: skip
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes that compile")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
