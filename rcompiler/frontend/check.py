"""``rc-compile --check``: every gap of a model, not only the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rcompiler.errors import Gap

from .load import load
from .onnx_graph import Model, translate


def check(
    model: Model,
    shapes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> list[Gap]:
    """All that cannot be translated: inputs, weights, nodes and outputs, in graph order.

    After a gap the walk goes on with the types that ONNX infers; what reads a value of unknown type
    is only looked up by name. shapes, values: as for import_onnx.
    Raises InvalidModel when the model is not valid ONNX, ShapeError when ``shapes`` or ``values``
    do not fit it.
    """
    gaps: list[Gap] = []
    translate(load(model), shapes, values, gaps)
    return gaps
