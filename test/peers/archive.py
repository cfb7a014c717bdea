"""The cases in the archive: a model, inputs and expected results each."""

from __future__ import annotations

import tarfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, OptionalProto, SequenceProto, TensorProto, ValueInfoProto, numpy_helper

ARCHIVE = Path(__file__).with_name("suites.tar.xz")


@dataclass(frozen=True)
class Case:
    """files: bytes by name, of the layout that ONNX's backend tests have."""

    name: str
    files: Mapping[str, bytes]

    @property
    def model(self) -> bytes:
        return self.files["model.onnx"]

    def feeds(self) -> dict[str, Any]:
        """By name: of the inputs that are no weights the first so many."""
        graph = ModelProto.FromString(self.model).graph
        weights = {tensor.name for tensor in graph.initializer}
        formals = [v for v in graph.input if v.name not in weights]
        given = self._values("input", formals)
        return {v.name: value for v, value in zip(formals, given, strict=False)}

    def expected(self) -> list[Any]:
        """The results in their order."""
        return self._values("output", list(ModelProto.FromString(self.model).graph.output))

    def _values(self, what: str, formals: list[ValueInfoProto]) -> list[Any]:
        found = []
        for number, formal in enumerate(formals):
            data = self.files.get(f"test_data_set_0/{what}_{number}.pb")
            if data is None:
                break
            found.append(_value(formal, data))
        return found


def _value(formal: ValueInfoProto, data: bytes) -> Any:
    match formal.type.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(OptionalProto.FromString(data))
    array: np.ndarray = numpy_helper.to_array(TensorProto.FromString(data))
    return array


def cases(archive: Path = ARCHIVE) -> list[Case]:
    """All of the archive, in the order of their names."""
    found: dict[str, dict[str, bytes]] = defaultdict(dict)
    with tarfile.open(archive) as tar:
        for member in tar:
            if (stream := tar.extractfile(member)) is not None:
                suite, name, rest = member.name.removeprefix("./").split("/", 2)
                found[f"{suite}/{name}"][rest] = stream.read()
    return [Case(name, found[name]) for name in sorted(found)]
