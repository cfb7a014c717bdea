"""What a model declares of itself, as the front end reads it and caches keep it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rcompiler.support.dimension_names import names_in

Extent = int | str | None  # a number, the name of an open one, or neither


@dataclass(frozen=True)
class DeclaredTensor:
    """An input or output. shape: None where the rank is not known. dtype: of numpy or ml_dtypes;
    "string", or "undefined" for what is no tensor. labels: of a sequence of maps, in the order of
    the scores that a program has for it; empty where they are not known, and None for all else.
    refusal: why no program takes an input; ignored: whether a call may give it nevertheless, as no
    node reads it.
    """

    name: str
    shape: tuple[Extent, ...] | None
    dtype: str
    labels: tuple[int, ...] | tuple[str, ...] | None = None
    refusal: str = ""
    ignored: bool = False


@dataclass(frozen=True)
class Declared:
    """inputs: those that a call has to give; optional: those that have a value in the model."""

    inputs: tuple[DeclaredTensor, ...]
    optional: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    producer: str = ""
    graph: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)

    def open_sizes(self, given: Collection[str], fixed: Collection[str]) -> dict[str, bool]:
        """Names of dimensions of inputs whose size is open, and whether each is a first one.

        given: dimensions and inputs of which the caller says it; fixed: inputs that are constants.
        """
        found: dict[str, bool] = {}
        for tensor in self.inputs:
            if tensor.ignored or tensor.name in given or tensor.name in fixed:
                continue
            for axis, size in enumerate(tensor.shape or ()):
                if not isinstance(size, str) or size in given:
                    continue
                for name in names_in(size):
                    if name not in given:
                        found.setdefault(name, axis == 0)
        return found

    def data(self) -> dict[str, Any]:
        """As values of JSON."""
        return asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Declared:
        """What `data` was of, also after its way through JSON.

        Raises KeyError, TypeError, ValueError where it is of something else.
        """
        found: dict[str, Any] = {name: tuple(map(_tensor, data[name])) for name in _TENSORS}
        found |= {name: _of(str, data[name]) for name in _TEXTS}
        found["version"] = _of(int, data["version"])
        pairs = data["metadata"].items()
        found["metadata"] = {_of(str, key): _of(str, value) for key, value in pairs}
        return Declared(**found)


_TENSORS = ("inputs", "optional", "outputs")
_TEXTS = ("producer", "graph", "domain", "description", "graph_description")


def _tensor(data: Mapping[str, Any]) -> DeclaredTensor:
    shape = data["shape"]
    if shape is not None:
        shape = tuple(None if size is None else _of((int, str), size) for size in shape)
    labels = data["labels"]
    if labels is not None:
        labels = tuple(_of((int, str), label) for label in labels)
    name, dtype, refusal = (_of(str, data[key]) for key in ("name", "dtype", "refusal"))
    return DeclaredTensor(name, shape, dtype, labels, refusal, _of(bool, data["ignored"]))


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value
