"""What a folder of gpu_coverage holds of each case of ONNX's standard backend tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from measurements._gpu_bench_group import get_arrays, put_arrays
from measurements._packed_folder import PackedFolder
from rcompiler.errors import CompilerError
from rcompiler.support.random_inputs import dtype_of

COMPILED = "compiled"


@dataclass(frozen=True)
class Run:
    """One comparison of a case.

    artifact: keys of the model. feeds, wanted: keys of its arguments, and of what it is to return.
    rtol, atol: by how much that may be missed, as numpy's `allclose` has it.
    """

    artifact: list[str]
    feeds: str
    wanted: str
    rtol: float
    atol: float


@dataclass(frozen=True)
class Case:
    """operator: that it is about. status: COMPILED, or that of `backend_coverage` and the reason
    why it is not. facts: see `backend_coverage.Witness`. commit: of the compiler.
    """

    name: str
    operator: str
    target: str
    status: str
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    commit: str | None = None


def read_cases(folder: PackedFolder) -> list[Case]:
    """All cases of a folder. Raises CompilerError for another index."""
    try:
        return [
            Case(**{**entry, "runs": [Run(**run) for run in entry["runs"]]})
            for entry in folder.index()
        ]
    except (TypeError, KeyError) as error:
        raise CompilerError(
            f"{folder.path}: is not made by this version of gpu_coverage ({error}); make it again"
        ) from None


def add_cases(folder: PackedFolder, cases: Sequence[Case]) -> None:
    """Into the index, in place of those of the same names and targets."""
    new = {(case.name, case.target) for case in cases}
    kept = [case for case in read_cases(folder) if (case.name, case.target) not in new]
    folder.write_index([asdict(case) for case in (*kept, *cases)])


def put_tensors(folder: PackedFolder, arrays: Iterable[np.ndarray]) -> str:
    """Keep arrays of any type that models have; their key."""
    tensors = list(arrays)
    names = np.array([tensor.dtype.name for tensor in tensors], dtype=np.str_)
    plain = {str(number): _plain(tensor) for number, tensor in enumerate(tensors)}
    return put_arrays(folder, {"types": names} | plain)


def get_tensors(folder: PackedFolder, key: str) -> list[np.ndarray]:
    """The arrays of a key, of the types that they had."""
    types, *found = get_arrays(folder, key).values()
    return [array.view(dtype_of(str(name))) for name, array in zip(types, found, strict=True)]


def _plain(tensor: np.ndarray) -> np.ndarray:
    """The same bytes as a type that numpy's files have: they write that of ml_dtypes as another, or
    as one that they refuse to read.
    """
    return tensor if tensor.dtype.isbuiltin == 1 else tensor.view(f"u{tensor.dtype.itemsize}")
