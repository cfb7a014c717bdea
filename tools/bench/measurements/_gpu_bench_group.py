"""What one folder of gpu_bench holds of each model: a group, measured together."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np

from measurements._packed_folder import PackedFolder
from rcompiler.errors import CompilerError
from rcompiler.options import Precision
from rcompiler.tools._reference import compare

Kind = Literal["network", "gemm", "convolution", "stress"]
# What an output may differ by, as a share of the root mean square of the reference: f32 as two
# orders of its sums do, the others by the rounding of factors, all through a network.
TOLERANCE: Mapping[Precision, float] = {"f32": 1e-4, "tf32": 1e-2, "f16": 1e-2, "bf16": 6e-2}
_SAMPLE = 1 << 16  # elements of an output that are kept, and compared
_STEP = 2654435761  # from one to the next: prime, so that they lie all over the output


@dataclass
class Group:
    """A model in one precision, scheduled by several policies.

    kind: what it is. flops: of a run, 2 per multiply-add; 0 where nobody has counted. policies: by
    name the keys of the artifact. expected_ms: by name what the schedule should take, by the device
    record. onnx: key of the model for other engines. feeds, wanted: keys of arrays: the inputs, and
    samples of the outputs of a reference. commit: of the compiler, see `_record.commit`.
    """

    model: str
    kind: Kind
    precision: Precision
    target: str
    flops: int = 0
    policies: dict[str, list[str]] = field(default_factory=dict)
    expected_ms: dict[str, float] = field(default_factory=dict)
    onnx: str = ""
    feeds: str = ""
    wanted: str = ""
    commit: str | None = None

    def __str__(self) -> str:
        return f"{self.model}, {self.precision}"


def read_groups(folder: PackedFolder) -> list[Group]:
    """All groups of a folder. Raises CompilerError for another index."""
    try:
        return [Group(**entry) for entry in folder.index()]
    except TypeError as error:
        raise CompilerError(f"{folder.path}: of another version ({error}); make it again") from None


def add_group(folder: PackedFolder, group: Group) -> None:
    """Into the index, in place of the one of the same model, precision and target."""
    same = (group.model, group.precision, group.target)
    others = [g for g in read_groups(folder) if (g.model, g.precision, g.target) != same]
    folder.write_index([asdict(g) for g in (*others, group)])


def put_arrays(folder: PackedFolder, arrays: Mapping[str, np.ndarray]) -> str:
    """Keep arrays; their key."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return folder.put(file.getvalue())


def get_arrays(folder: PackedFolder, key: str) -> dict[str, np.ndarray]:
    """The arrays of a key, in the order in which they were given."""
    with np.load(io.BytesIO(folder.get(key)), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def sample(array: np.ndarray) -> np.ndarray:
    """All elements, or 65536 from all over a larger array."""
    flat = array.reshape(-1)
    if flat.size <= _SAMPLE:
        return flat
    return flat[np.arange(_SAMPLE, dtype=np.uint64) * np.uint64(_STEP) % np.uint64(flat.size)]


def difference(
    outputs: Sequence[np.ndarray], wanted: Mapping[str, np.ndarray], allowed: float, who: str
) -> float:
    """The largest difference of samples from those that are wanted, as a share of their root mean
    square.

    Raises CompilerError where it is more than allowed, or where outputs have other shapes or NaN.
    """
    largest = 0.0
    for (name, want), output in zip(wanted.items(), outputs, strict=True):
        found = compare(sample(output), want, allowed)
        if not found.right or (np.isnan(output).any() and not np.isnan(want).any()):
            raise CompilerError(
                f"output '{name}' of {who} differs from the reference by {found.absolute:.3g}, "
                f"{found.relative_to_limit:.3g} times what is allowed"
            )
        largest = max(largest, found.relative_to_limit * allowed)
    return float(largest)
