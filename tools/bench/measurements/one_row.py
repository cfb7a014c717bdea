"""How near to the memory's bandwidth products with one row are, and a decoder's layer for a token.

    python tools/bench one_row                              # 1x4096x4096, 1x4096x11008, a layer
    python tools/bench one_row 4096x11008 --threads=1

Weights of f32, and of the same rounded to bf16, 8 and 4 bits. In front of every call that is timed,
as many threads read an array larger than the caches: that is the bandwidth, and afterwards the
weights come from memory. Printed are GB of weights and scales a second, as a share of it, and how
many times as fast as f32: by the fastest of all calls, and of all pieces of that array.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

import rcompiler
from measurements._decoder_step import decoder_step, one_product
from rcompiler.errors import CompilerError
from rcompiler.frontend.rounded_weights import with_rounded_weights
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep

_SHAPES = ("4096x4096", "4096x11008", "layer")
_LAYER = {"hidden": 2048, "inner": 5504, "heads": 16, "cached": 128}
_PIECE = 32  # megabytes
_COLUMNS = ("product", "threads", "weights", "MB", "ms", "GB/s", "of the bandwidth", "over f32")


@dataclass(frozen=True)
class Figure:
    """Of one form of the weights: bytes read, ns of the fastest call."""

    product: str
    threads: int
    form: str
    bytes: int
    ns: float
    over_f32: float
    share: float


def in_bf16(model: ModelProto) -> ModelProto:
    """The model of f32 in bf16: weights, inputs and outputs."""
    made = ModelProto()
    made.CopyFrom(model)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    constants = (node.attribute[0].t for node in made.graph.node if node.op_type == "Constant")
    for tensor in (*made.graph.initializer, *constants):
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(ml_dtypes.bfloat16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return made


FORMS: Mapping[str, Callable[[ModelProto], ModelProto]] = {
    "f32": lambda model: model,
    "bf16": in_bf16,
    "8 bits": lambda model: with_rounded_weights(model, 8)[0],
    "4 bits": lambda model: with_rounded_weights(model, 4)[0],
}


def weight_bytes(model: ModelProto) -> int:
    """Bytes of the constants of a model."""
    return sum(numpy_helper.to_array(t).nbytes for t in model.graph.initializer)


class Reader:
    """Reads an array larger than the caches, by some threads, piece by piece: of a whole one other
    programs would disturb each reading, and of a product of a millisecond few.
    """

    def __init__(self, megabytes: int, threads: int) -> None:
        array = np.ones(megabytes << 18, np.float32)
        pieces = np.array_split(array, -(-megabytes // _PIECE))
        self._pieces = [np.array_split(piece, threads) for piece in pieces]
        self._others = ThreadPoolExecutor(threads)

    def __call__(self) -> float:
        """Bytes per ns of the fastest piece."""
        return max(map(self._rate, self._pieces))

    def _rate(self, parts: list[np.ndarray]) -> float:
        first, *rest = parts
        start = time.perf_counter_ns()
        others = [self._others.submit(np.maximum.reduce, part) for part in rest]
        np.maximum.reduce(first)
        for other in others:
            other.result()
        return sum(part.nbytes for part in parts) / (time.perf_counter_ns() - start)


def _run(options: argparse.Namespace) -> int:
    threads = [int(n) for n in options.threads.split(",")]
    figures = [f for name in options.products for n in threads for f in measured(name, n, options)]
    table(_COLUMNS, [_row(figure) for figure in figures])
    keep(options, figures=[vars(figure) for figure in figures])
    return 0


def _row(figure: Figure) -> list[str]:
    rate = figure.bytes / figure.ns
    return [
        *(figure.product, str(figure.threads), figure.form, f"{figure.bytes / 1e6:.1f}"),
        *(f"{figure.ns / 1e6:.3f}", f"{rate:.1f}", f"{figure.share:.2f}", f"{figure.over_f32:.2f}"),
    ]


def model_of(name: str) -> ModelProto:
    """Of DEPTHxCOLUMNS, or "layer"."""
    if name == "layer":
        return decoder_step(**_LAYER)
    depth, _, columns = name.partition("x")
    if not (depth.isdecimal() and columns.isdecimal() and int(depth) and int(columns)):
        raise CompilerError(f"{name}: write DEPTHxCOLUMNS, such as 4096x4096, or layer")
    return one_product(int(depth), int(columns))


def measured(name: str, threads: int, options: argparse.Namespace) -> list[Figure]:
    """All forms of one product by turns."""
    model = model_of(name)
    engines: dict[str, Callable[[], object]] = {}
    sizes: dict[str, int] = {}
    for form, change in FORMS.items():
        doing(f"{name}, {threads} threads, {form}: compile")
        changed = change(model)
        compiled: Any = rcompiler.compile_onnx(changed, target=options.target, eus=threads)
        engines[form] = compiled.bind(random_inputs(compiled.inputs, 0))
        sizes[form] = weight_bytes(changed)
    doing(f"{name}, {threads} threads: measure")
    reader = Reader(options.megabytes, threads)
    bandwidth = 0.0
    times: dict[str, list[float]] = {form: [] for form in engines}
    for _ in range(options.rounds):
        for form, engine in engines.items():
            bandwidth = max(bandwidth, reader())
            start = time.perf_counter_ns()
            engine()
            times[form].append(time.perf_counter_ns() - start)
    fastest = {form: min(each) for form, each in times.items()}
    return [
        Figure(
            name, threads, form, sizes[form], ns, fastest["f32"] / ns, sizes[form] / ns / bandwidth
        )
        for form, ns in fastest.items()
    ]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "products", nargs="*", default=list(_SHAPES), metavar="PRODUCT",
        help="DEPTHxCOLUMNS, or layer; default: " + " ".join(_SHAPES),
    )  # fmt: skip
    parser.add_argument("--threads", default="1,2", metavar="LIST", help="default: 1,2")
    parser.add_argument("--target", default="cpu", metavar="NAME", help="as for rc-compile")
    parser.add_argument("--rounds", type=positive, default=20, metavar="N", help="default: 20")
    parser.add_argument(
        "--megabytes", type=positive, default=1024, metavar="N",
        help="of the array that is read, more than all caches have; default: 1024",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command("one_row", __doc__, _options, _run)
