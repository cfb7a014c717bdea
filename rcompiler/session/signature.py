"""Inputs and outputs of a session as onnxruntime names them, what a model says of itself, and what
arrays are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rcompiler.errors import ShapeError
from rcompiler.session.values import dtype_named, type_text


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a session.

    Attributes:
        name: as in the model.
        shape: numbers; names, or None, of open dimensions. [] also where the rank is not known.
        type: as "tensor(float)"; of an output that a ZipMap makes "seq(map(int64,tensor(float)))"
            or "seq(map(string,tensor(float)))".
    """

    name: str
    shape: list[int | str | None]
    type: str


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself; of a compiled file all of it is empty.

    Attributes:
        producer_name, graph_name, domain, description, graph_description: texts of the model.
        version: of the model.
        custom_metadata_map: its metadata_props.
    """

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def args_of(tensors: Sequence[Any]) -> list[NodeArg]:
    """Of tensors whose shapes are numbers."""
    return [NodeArg(t.name, list(t.shape), type_text(t.dtype)) for t in tensors]


def check_tensor(arg: NodeArg) -> None:
    """Refuse an output that no OrtValue holds. Raises ShapeError."""
    if not arg.type.startswith("tensor("):
        raise ShapeError(
            f"output '{arg.name}' is {arg.type}, which is no tensor: name the other outputs here, "
            "and read this one by run"
        )


def array_of_list(arg: NodeArg, value: Any) -> np.ndarray:
    """Numbers of Python's, in the type of the input."""
    try:
        return np.asarray(value, dtype_named(arg.type))
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"input '{arg.name}' is not an array of {arg.type}: {error}") from None


def check_array(arg: NodeArg, array: np.ndarray) -> None:
    """Refuse what no program is compiled for. Raises ShapeError."""
    found = type_text(array.dtype.name)
    if found != arg.type:
        raise ShapeError(f"input '{arg.name}' is {found}, the model wants {arg.type}; convert it")
    if arg.shape and not _fits(arg.shape, array.shape):
        wanted = ", ".join("?" if d is None else str(d) for d in arg.shape)
        raise ShapeError(
            f"input '{arg.name}' has shape {list(array.shape)}, the model wants [{wanted}]"
        )


def _fits(wanted: Sequence[Any], shape: Sequence[int]) -> bool:
    pairs = zip(wanted, shape, strict=False)
    return len(wanted) == len(shape) and all(d == e for d, e in pairs if isinstance(d, int))
