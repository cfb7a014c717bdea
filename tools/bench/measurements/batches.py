"""A model for several batches: its file and its times beside models for one batch each.

    python tools/bench batches resnet50 --sizes=1+2+4+8+16
    python tools/bench batches resnet50 --sizes=1..16 --json=batches.json

All batches are programs of one model over one block of weights. Each is timed beside the model that
is compiled for its batch alone, in short rounds that alternate; results are compared before.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.tools import models
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, several, table, timing_options
from rcompiler.tools._record import keep

_SYMBOL = "batch"


def _sizes(text: str) -> tuple[int, ...]:
    sizes = several(text)
    if len(sizes) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: give several batches, as 1+4+8 or 1..16")
    return sizes


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a model fails, or its results differ."""
    import rcompiler
    from rcompiler.bucketed import BucketedModel
    from rcompiler.model import CompiledModel
    from rcompiler.tools._measure import interleaved, ratio

    proto = models.build(options.model)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = _SYMBOL
    common: dict[str, Any] = {"eus": options.threads}
    doing(f"{options.model}, {len(options.sizes)} batches")
    family = rcompiler.compile_onnx(proto, shapes={_SYMBOL: options.sizes}, **common)
    assert isinstance(family, BucketedModel)
    whole, figures = len(family.family.to_bytes()), {}
    for size in options.sizes:
        doing(f"{options.model}, batch {size}")
        alone = rcompiler.compile_onnx(proto, shapes={_SYMBOL: size}, **common)
        assert isinstance(alone, CompiledModel)
        rng = np.random.default_rng(size)
        x = rng.standard_normal(alone.inputs[0].shape).astype(np.float32)
        if any(a.tobytes() != b.tobytes() for a, b in zip(alone(x), family(x), strict=True)):
            raise CompilerError(f"batch {size}: the results are not those of its own model")
        one, several = alone.bind([x]), family.program(**{_SYMBOL: size}).bind([x])
        engines = {"alone": one, "family": several}
        times = interleaved(engines, options.rounds, options.seconds / options.rounds)
        figures[size] = {
            "ratio": ratio(times["family"], times["alone"]),
            "ms": float(np.median(np.concatenate(times["family"].blocks))) / 1e6,
            "bytes": len(alone.artifact.to_bytes()),
        }
        alone.close()
    rows = [[str(n), f"{f['ms']:.2f}", f"{f['ratio']:.3f}"] for n, f in figures.items()]
    table(["batch", "ms", "alone over family"], rows)
    least, one_file = min(f["ratio"] for f in figures.values()), figures[options.sizes[0]]["bytes"]
    print(
        f"at least {least:.3f} of the speed of models for one batch; the file has "
        f"{whole / 1e6:.1f} MB, {whole / one_file:.3f} times that of batch {options.sizes[0]}"
    )
    keep(options, batches=figures, bytes=whole)
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a built-in network")
    parser.add_argument(
        "--sizes", type=_sizes, default=(1, 2, 4, 8), metavar="N+N", help="default: 1+2+4+8"
    )
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="default: 1")
    timing_options(parser, "batch", 15, 1.5)


main = Command(__name__, __doc__, _options, _run)
