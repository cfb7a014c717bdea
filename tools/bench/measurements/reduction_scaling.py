"""How many times faster reductions of 4M elements are on several EUs than on one.

    python tools/bench reduction_scaling --eus=2

Each is a model of one operator, compiled for both numbers of EUs, which take turns in short rounds:
a reduction that is not split among EUs, or split badly, shows as 1. On a machine that others use
the figures say little, as a launch may run on the caller's thread alone there (runtime/pace.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorProto, helper

from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, table, timing_options
from rcompiler.tools._record import keep

_COUNT = 1 << 22
_SQUARE, _ROWS = (2048, 2048), (65536, 64)


@dataclass(frozen=True)
class Reduction:
    """op over `axes` of a tensor of 4M f32; ArgMax takes one axis."""

    op: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.op} {'x'.join(map(str, self.shape))} over {','.join(map(str, self.axes))}"

    def model(self) -> ModelProto:
        kept = [1 if axis in self.axes else n for axis, n in enumerate(self.shape)]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        if self.op == "ArgMax":
            node = helper.make_node("ArgMax", ["x"], ["y"], axis=self.axes[0])
            weights, kind = [], TensorProto.INT64
        else:
            node = helper.make_node(self.op, ["x", "axes"], ["y"])
            axes = helper.make_tensor("axes", TensorProto.INT64, [len(self.axes)], self.axes)
            weights, kind = [axes], TensorProto.FLOAT
        y = helper.make_tensor_value_info("y", kind, kept)
        graph = helper.make_graph([node], self.op, [x], [y], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def reductions() -> Iterator[Reduction]:
    """All of a tensor, over rows and along rows."""
    for op in ("ReduceSum", "ReduceMax", "ReduceL2", "ArgMax"):
        yield Reduction(op, (_COUNT,), (0,))
    for shape in (_SQUARE, _ROWS):
        yield Reduction("ReduceMean", shape, (0,))
        yield Reduction("ReduceMax", shape, (0,))
    yield Reduction("ReduceSum", _SQUARE, (1,))


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a reduction failed."""
    found = {}
    for each in reductions():
        doing(each.name)
        found[each.name] = _measured(each, options)
    rows = [
        [name, f"{f['one_us']:.4g}", f"{f['eus_us']:.4g}", f"{f['ratio']:.2f}"]
        for name, f in found.items()
    ]
    table(["reduction", "us on 1 EU", f"us on {options.eus} EUs", "ratio"], rows)
    print(f"at least {min(f['ratio'] for f in found.values()):.2f} times as fast")
    keep(options, reductions=[{"reduction": name, **of} for name, of in found.items()])
    return 0


def _measured(each: Reduction, options: argparse.Namespace) -> dict[str, float]:
    import rcompiler
    from rcompiler.bucketed import BucketedModel
    from rcompiler.tools._measure import interleaved, medians, ratio

    proto = each.model()
    x = np.random.default_rng(0).standard_normal(each.shape).astype(np.float32)
    models = [rcompiler.compile_onnx(proto, eus=eus) for eus in (1, options.eus)]
    one, several = (m.bind({"x": x}) for m in models if not isinstance(m, BucketedModel))
    times = interleaved(
        {"one": one, "eus": several}, options.rounds, options.seconds / options.rounds
    )
    figures = {f"{name}_us": float(np.median(medians(t))) / 1e3 for name, t in times.items()}
    return figures | {"ratio": ratio(times["eus"], times["one"])}


def _several(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError("at least 2, which are compared with one")
    return int(text)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--eus", type=_several, default=2, metavar="N", help="default: 2")
    timing_options(parser, "reduction", 15, 0.3)


main = Command(__name__, __doc__, _options, _run)
