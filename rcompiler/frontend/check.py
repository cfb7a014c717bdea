"""``rc-compile --check``: every gap of a model, not only the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .onnx_graph import Model, list_gaps
from .registry import Gap


def check(
    model: Model,
    shapes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> list[Gap]:
    """All nodes that cannot be translated, each with reason and remedy, in graph order.

    Raises InvalidModel when the model cannot be read, ShapeError when an input's shape is unknown.
    """
    return list_gaps(model, shapes, values)
