"""Input arrays of a model: from files or drawn at random; output arrays to files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rcompiler.bucketed import BucketedModel
from rcompiler.errors import CompilerError, InvalidModel, ShapeError
from rcompiler.packed import PackedModel
from rcompiler.support.random_inputs import Range, TensorLike, random_inputs


class Declared(NamedTuple):
    """An input as a model declares it."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def declared_inputs(model: Any, remedy: str = "write the network with one") -> list[Declared]:
    """Those of an onnx.ModelProto that are no weights. Raises InvalidModel, with the remedy, for
    one of no static shape.
    """
    from onnx import helper

    weights = {weight.name for weight in model.graph.initializer}
    found = []
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        if value.name in weights:
            continue
        if 0 in shape:
            raise InvalidModel(
                f"input '{value.name}' has no static shape, and is to be drawn at random; {remedy}"
            )
        found.append(
            Declared(value.name, shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type).name)
        )
    return found


def parse_ranges(texts: Iterable[str]) -> dict[str, Range]:
    """``name=low:high`` items as a dict. Raises ShapeError."""
    ranges = {}
    for text in texts:
        name, found, bounds = text.rpartition("=")
        low, colon, high = bounds.partition(":")
        try:
            ranges[name] = float(low), float(high)
        except ValueError:
            found = ""
        if not found or not colon or not ranges[name][0] < ranges[name][1]:
            raise ShapeError(f"--range={text}: expected NAME=LOW:HIGH with LOW below HIGH")
    return ranges


def read_inputs(files: Sequence[str], inputs: Sequence[TensorLike]) -> dict[str, np.ndarray]:
    """Arrays from files, by input name.

    files: ``x.npy`` and ``x.pb`` (an ONNX TensorProto) fill the inputs in order, ``name=x.npy``
    one by name, ``x.npz`` those that it names. Raises CompilerError, ShapeError.
    """
    names = [tensor.name for tensor in inputs]
    given: dict[str, np.ndarray] = {}
    for text in files:
        name, found, file = text.rpartition("=")
        if not found or Path(text).exists():
            name, file = "", text
        arrays = read_arrays(Path(file))
        if name and len(arrays) > 1:
            raise ShapeError(f"{text}: the file names its arrays itself; give {file} alone")
        for key, array in arrays.items():
            key = name or key or next((n for n in names if n not in given), "")
            if key not in names or key in given:
                problem = f"'{key}' is given twice" if key in given else f"not an input: '{key}'"
                problem = problem if key else "more files than inputs"
                raise ShapeError(f"{file}: {problem}; the inputs are: {', '.join(names)}")
            given[key] = array
    missing = [name for name in names if name not in given]
    if missing:
        raise ShapeError(f"no file is given for input '{missing[0]}'")
    return given


def need_unpacked(model: Any, tool: str) -> None:
    """Raises CompilerError for a model that a tool has no arrays for."""
    if isinstance(model, PackedModel):
        raise CompilerError(
            f"{tool}: the model is for packed requests, which are lists of arrays; call it from "
            "Python"
        )


def random_feeds(model: Any, seed: int, ranges: Mapping[str, Range]) -> dict[str, np.ndarray]:
    """Random arrays for a compiled model, see `random_inputs`; where a size is known at run time
    only, one of its range is drawn, too; of a model for several sizes, a program.
    """
    rng = np.random.default_rng(seed)
    if isinstance(model, BucketedModel):
        _, model = model.programs[int(rng.integers(len(model.programs)))]
    counts = {s.name: int(rng.integers(s.low, s.high + 1)) for s in model.artifact.sizes}
    shaped = [replace(t, shape=t.shape_at(counts), extents=()) for t in model.inputs]
    return random_inputs(shaped, seed, ranges)


TEXTS = (".mlir", ".schedule")  # endings of modules as text


def write_arrays(text: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """A .npz beside the text of a module, with the bytes of what it names; none where that is
    nothing. Raises CompilerError where that file has weights of another text of the same stem.
    """
    if arrays:
        path = text.with_suffix(".npz")
        _keep_those_of_others(text, path, arrays)
        raw = {
            key: np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for key, array in arrays.items()
        }
        np.savez(path, **raw)  # type: ignore[arg-type]


def _keep_those_of_others(text: Path, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    others = [text.with_suffix(suffix) for suffix in TEXTS if suffix != text.suffix]
    others = [other for other in others if other.exists()]
    if others and path.exists() and not read_arrays(path).keys() <= arrays.keys():
        raise CompilerError(
            f"{path}: has weights that {others[0].name} names; give {text.name} another name, or "
            f"remove {others[0].name}"
        )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a .npz by name; the one of a .npy or .pb under "". Raises CompilerError."""
    try:
        if path.suffix == ".pb":
            from onnx import TensorProto, numpy_helper

            return {"": numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))}
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except OSError as error:
        raise CompilerError(f"{path}: cannot read: {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CompilerError(f"{path}: not a .npy, .npz or .pb file ({error})") from None
    except Exception as error:
        if type(error).__name__ != "DecodeError":  # of protobuf, which only onnx brings in
            raise
        raise CompilerError(f"{path}: not an ONNX tensor ({error})") from None


def save_outputs(path: Path, outputs: Mapping[str, np.ndarray]) -> None:
    """Write outputs: ``.npz`` by output name, ``.npy`` when there is only one."""
    if path.suffix == ".npz":
        # Not savez, whose keyword arguments clash with outputs called "file" or "allow_pickle".
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in outputs.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array)
    elif path.suffix == ".npy" and len(outputs) == 1:
        np.save(path, next(iter(outputs.values())))
    else:
        raise CompilerError(f"{path}: outputs are saved as .npz, or as .npy when there is one")
