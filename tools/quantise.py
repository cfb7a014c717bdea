"""Write a network in 8 bits, or in f16, as onnxruntime's tools do.

    python -m rcompiler.tools.quantise resnet50.onnx -o int8.onnx             # QDQ, calibrated
    python -m rcompiler.tools.quantise bert_base.onnx -o int8.onnx --dynamic  # as it runs
    python -m rcompiler.tools.quantise bert_base.onnx -o half.onnx --f16

Calibrated are scales and zero points of activations, by random inputs; dynamic ones are computed in
the network, from the values that it has there. Static shapes are needed for the first.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rcompiler.errors import ToolError
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._command import Command
from rcompiler.tools._data import declared_inputs

SAMPLES = 4  # inputs that it is calibrated by


def calibrated(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with QuantizeLinear and DequantizeLinear around what is computed in 8 bits, its
    weights by channel.

    Raises ToolError without onnxruntime, InvalidModel for inputs of no static shape.
    """
    tools = _tools()
    inputs = declared_inputs(model, "write the network with one, or quantise it with --dynamic")

    class Samples(tools.CalibrationDataReader):  # type: ignore[name-defined]  # not typed
        """Random inputs, the same in every run."""

        def __init__(self) -> None:
            self._left = [random_inputs(inputs, seed) for seed in range(SAMPLES)]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self._left.pop() if self._left else None

    def write(source: Path, target: Path) -> None:
        folded = source.with_name("folded.onnx")  # normalisations, into the weights before them
        tools.quant_pre_process(source, folded, skip_symbolic_shape=True)
        tools.quantize_static(
            folded,
            target,
            Samples(),
            quant_format=tools.QuantFormat.QDQ,
            per_channel=True,
            activation_type=tools.QuantType.QUInt8,
            weight_type=tools.QuantType.QInt8,
        )

    return _written(model, write)


def dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with weights of 8 bits, and activations that are quantised while it runs.

    Weights of a network with convolutions are uint8: onnxruntime has no others in ConvInteger.
    Raises ToolError without onnxruntime.
    """
    tools = _tools()
    convolves = any(node.op_type == "Conv" for node in model.graph.node)
    kind = tools.QuantType.QUInt8 if convolves else tools.QuantType.QInt8

    def write(source: Path, target: Path) -> None:
        tools.quantize_dynamic(source, target, weight_type=kind)

    return _written(model, write)


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network in f16, with its inputs and outputs.

    Raises ToolError without onnxruntime.
    """
    _tools()
    from onnxruntime.transformers.float16 import convert_float_to_float16

    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # the tool changes what it is given
    made: onnx.ModelProto = convert_float_to_float16(copy)
    return made


def _run(given: argparse.Namespace) -> int:
    quantise = half if given.f16 else dynamic if given.dynamic else calibrated
    onnx.save(quantise(onnx.load(given.model)), given.output)
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--dynamic", action="store_true", help="quantise activations while the network runs"
    )
    form.add_argument("--f16", action="store_true", help="floats of 16 bits in place of bytes")


def _tools() -> Any:
    try:
        from onnxruntime import quantization
    except ImportError as error:
        raise ToolError(
            f"onnxruntime, which writes such networks, cannot be imported ({error}); install it "
            "with 'pip install onnxruntime'"
        ) from None
    return quantization


def _written(model: onnx.ModelProto, write: Callable[[Path, Path], None]) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory(prefix="rc-quantise-") as folder:
        source, target = Path(folder, "f32.onnx"), Path(folder, "int8.onnx")
        onnx.save(model, source)
        write(source, target)
        return onnx.load(target)


main = Command("quantise", __doc__, _options, _run)


if __name__ == "__main__":
    sys.exit(main())
