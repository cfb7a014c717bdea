"""Several compiled models with steps between them that are functions of Python: data of a file.

The file is a container like that of an artifact, with a section for the file of each part; it has
no code of the functions, which whoever loads it gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime import container
from rcompiler.runtime.program import Tensor, check_tensor
from rcompiler.runtime.untrusted import integer, integers, string
from rcompiler.support.random_keys import without_key

STEPS = "steps"  # of the header: what tells such a file from one of an artifact


@dataclass(frozen=True)
class PartStep:
    """Run a part.

    Attributes:
        part: its number.
        reads, writes: names of the values that are its inputs and outputs, in order.
    """

    part: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class FunctionStep:
    """Call a function.

    Attributes:
        node: name of the node that it stands for.
        op: its operator.
        reads: names of values; None for an operand that is left out.
        attributes: numbers, text, lists of them, and arrays.
        results: what it promises; names are those of values, "" of one that nobody reads.
        reason: why the node is not compiled.
    """

    node: str
    op: str
    reads: tuple[str | None, ...]
    attributes: Mapping[str, Any]
    results: tuple[Tensor, ...]
    reason: str

    @property
    def what(self) -> str:
        """The node, for messages."""
        return f"node '{self.node}' ({self.op})"


Step = PartStep | FunctionStep


@dataclass(frozen=True, eq=False)
class Plan:
    """What runs when.

    Attributes:
        inputs, outputs: of the whole.
        steps: in order.
        constants: values that are known, by name.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, np.ndarray]

    def demanded(self) -> tuple[str, ...]:
        """The operators that functions are needed for."""
        return tuple(dict.fromkeys(s.op for s in self.steps if isinstance(s, FunctionStep)))

    def check(self, parts: Sequence[Any]) -> None:
        """Refuse steps that read what nothing makes, or do not fit the parts.

        Args:
            parts: artifacts or models; inputs and outputs of each are looked at.

        Raises:
            ArtifactError: naming what is wrong.
        """
        known: dict[str, Tensor] = {tensor.name: tensor for tensor in self.inputs}
        known |= {n: Tensor(n, x.shape, x.dtype.name) for n, x in self.constants.items()}
        for step in self.steps:
            for name in step.reads:
                if name is not None and name not in known:
                    raise ArtifactError(f"a step reads '{name}', which nothing makes")
            if isinstance(step, FunctionStep):
                known |= {tensor.name: tensor for tensor in step.results if tensor.name}
                continue
            if not 0 <= step.part < len(parts):
                raise ArtifactError(f"there is no part {step.part}")
            part = parts[step.part]
            for tensor, name in _paired(without_key(part.inputs), step.reads):
                if (known[name].shape, known[name].dtype) != (tensor.shape, tensor.dtype):
                    raise ArtifactError(f"part {step.part} reads '{name}' as something else")
            known |= {
                name: Tensor(name, tensor.shape, tensor.dtype)
                for tensor, name in _paired(part.outputs, step.writes)
            }
        for tensor in self.outputs:
            if known.get(tensor.name) != tensor:
                raise ArtifactError(f"no step makes the output '{tensor.name}'")


def _paired(tensors: Sequence[Tensor], names: Sequence[str]) -> list[tuple[Tensor, str]]:
    if len(tensors) != len(names):
        raise ArtifactError(f"a part has {len(tensors)} tensors where a step names {len(names)}")
    return list(zip(tensors, names, strict=True))


def packed(plan: Plan, parts: Sequence[bytes]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and sections of the file.

    Args:
        plan: what runs when.
        parts: the bytes of the files of the parts.
    """
    arrays: list[np.ndarray] = []
    header = {
        "inputs": [[t.name, list(t.shape), t.dtype] for t in plan.inputs],
        "outputs": [[t.name, list(t.shape), t.dtype] for t in plan.outputs],
        STEPS: [_encoded(step, arrays) for step in plan.steps],
        "constants": {n: _kept(x, arrays) for n, x in sorted(plan.constants.items())},
    }
    sections = {f"part.{i}": np.frombuffer(data, np.uint8) for i, data in enumerate(parts)}
    sections |= {f"array.{i}": _bytes(array) for i, array in enumerate(arrays)}
    return header, dict(sorted(sections.items()))


def unpacked(
    path: str | Path, header: Mapping[str, Any], sections: Mapping[str, np.ndarray]
) -> tuple[Plan, list[np.ndarray]]:
    """The plan of a file, and the bytes of its parts.

    Args:
        path: of the file, for messages.
        header, sections: what the container has.

    Raises:
        ArtifactError: the file is damaged.
    """

    def decode() -> tuple[Plan, list[np.ndarray]]:
        plan = Plan(
            _tensors(header["inputs"]),
            _tensors(header["outputs"]),
            tuple(_decoded(entry, sections) for entry in header[STEPS]),
            {string(n): _array(x, sections) for n, x in header["constants"].items()},
        )
        count = sum(name.startswith("part.") for name in sections)
        return plan, [sections[f"part.{i}"] for i in range(count)]

    return container.decoded(str(path), decode)


def demands(path: str | Path, header: Mapping[str, Any]) -> str:
    """What to say of such a file to who has no functions for it.

    Args:
        path: of the file.
        header: of the container.

    Raises:
        ArtifactError: the file is damaged.
    """

    def decode() -> list[str]:
        return sorted({string(entry["op"]) for entry in header[STEPS] if "op" in entry})

    ops = container.decoded(str(path), decode)
    given = ", ".join(f"'{op}': function" for op in ops)
    return (
        f"{path}: the model has operators that are no part of the file; load it by "
        f"rcompiler.load(path, fallback={{{given}}})"
    )


def _encoded(step: Step, arrays: list[np.ndarray]) -> dict[str, Any]:
    if isinstance(step, PartStep):
        return {"part": step.part, "reads": list(step.reads), "writes": list(step.writes)}
    attributes = {name: _written(value, arrays) for name, value in step.attributes.items()}
    return {
        "node": step.node,
        "op": step.op,
        "reads": list(step.reads),
        "attributes": attributes,
        "results": [[t.name, list(t.shape), t.dtype] for t in step.results],
        "reason": step.reason,
    }


def _decoded(entry: Any, sections: Mapping[str, np.ndarray]) -> Step:
    if "part" in entry:
        reads, writes = (tuple(map(string, entry[name])) for name in ("reads", "writes"))
        return PartStep(integer(entry["part"]), reads, writes)
    attributes = {string(n): _read(x, sections) for n, x in entry["attributes"].items()}
    return FunctionStep(
        string(entry["node"]),
        string(entry["op"]),
        tuple(None if name is None else string(name) for name in entry["reads"]),
        attributes,
        _tensors(entry["results"]),
        string(entry["reason"]),
    )


def _written(value: Any, arrays: list[np.ndarray]) -> Any:
    """An attribute as JSON; it has no infinity, so floats are text."""
    if isinstance(value, np.ndarray):
        return {"array": _kept(value, arrays)}
    if isinstance(value, float):
        return {"float": value.hex()}
    return [_written(x, arrays) for x in value] if isinstance(value, list) else value


def _read(value: Any, sections: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_read(x, sections) for x in value]
    if isinstance(value, dict):
        [(kind, inner)] = value.items()
        return float.fromhex(string(inner)) if kind == "float" else _array(inner, sections)
    return value if isinstance(value, int) else string(value)


def _tensors(entries: Any) -> tuple[Tensor, ...]:
    found = tuple(Tensor(string(n), integers(shape), string(d)) for n, shape, d in entries)
    for tensor in found:
        check_tensor(tensor)
    return found


def _kept(array: np.ndarray, arrays: list[np.ndarray]) -> list[Any]:
    """Notes an array; what the header says of it."""
    arrays.append(array)
    return [len(arrays) - 1, list(array.shape), array.dtype.name]


def _array(entry: Any, sections: Mapping[str, np.ndarray]) -> np.ndarray:
    number, shape, dtype = entry
    tensor = Tensor("constant", integers(shape), string(dtype))
    check_tensor(tensor)
    data = sections[f"array.{integer(number)}"]
    return data.view(tensor.numpy_dtype()).reshape(tensor.shape)


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
