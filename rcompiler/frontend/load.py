"""Reading a model and refusing what is not valid ONNX, before anything is compiled."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    helper,
    numpy_helper,
)

from rcompiler.errors import Gap, InvalidModel, ShapeError, UnsupportedOp

from . import dtypes
from .external_data import extent_of, external_tensors, location_of, open_beside, read_into
from .weights_outside import (
    LARGE,
    File,
    Given,
    Outside,
    Store,
    is_outside,
    outside,
    place_outside,
    raw_bytes,
    without_weights,
)

MAX_TENSOR_BYTES = 1 << 36
MAX_RANK = 64  # of a numpy array
# Types of which a byte has several, and others whose bytes are not those of the array.
_PACKED = {
    number
    for name, number in TensorProto.DataType.items()
    if name.endswith(("INT2", "INT4", "E2M1", "STRING", "UNDEFINED"))
}


def load(model: str | os.PathLike | bytes | ModelProto) -> ModelProto:
    """The model, with external data read in. Raises InvalidModel."""
    if isinstance(model, ModelProto):
        proto = model
    elif isinstance(model, bytes | bytearray | memoryview):
        proto = _parse(bytes(model), "the given bytes")
    elif isinstance(model, str | os.PathLike):
        proto, _ = read(Path(model))
    else:
        raise InvalidModel(
            f"a model is a path, bytes or onnx.ModelProto, not {type(model).__name__}"
        )
    if not proto.HasField("graph"):
        raise InvalidModel("the model holds no graph. Is it an ONNX file?")
    return proto


_ORT = b"ORTM"  # how files of onnxruntime's own format identify themselves


def _parse(data: bytes, what: str) -> ModelProto:
    if data[4:8] == _ORT:
        raise InvalidModel(
            f"{what}: a model in onnxruntime's own format (.ort). Give the ONNX model that it was "
            "made of, or have onnxruntime write one: a session of the file with "
            "optimized_model_filepath='model.onnx', graph_optimization_level ORT_ENABLE_EXTENDED "
            "and the entry session.save_model_format 'ONNX'"
        )
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, which has no typed module
        raise InvalidModel(f"{what}: not an ONNX model ({error})") from None
    return proto


def read(path: Path, data: bytes | None = None) -> tuple[ModelProto, set[str]]:
    """The model of a file with what it has in other files read in, and the names of those.

    data: the bytes of the file, where they were read before. Raises InvalidModel.
    """
    try:
        data = path.read_bytes() if data is None else data
    except OSError as error:
        raise InvalidModel(f"{path}: {error.strerror or error}") from None
    proto = _parse(data, str(path))
    tensors = list(external_tensors(proto))
    names = set(map(location_of, tensors))
    with _external_data(path):
        for tensor in tensors:
            read_into(tensor, path.parent)
    return proto, names


@contextmanager
def opened(model: str | os.PathLike | bytes | ModelProto) -> Iterator[ModelProto]:
    """As `load`, without the large weights: inside of the context `array_of` reads them from where
    they are, and raises InvalidModel where a file was written to meanwhile.
    """
    if not isinstance(model, str | os.PathLike | bytes):
        yield load(model)
        return
    if isinstance(model, bytes):
        with opened_bytes(model) as proto:
            yield load(proto)
    else:
        with opened_file(Path(model)) as (proto, _, _):
            yield load(proto)


@contextmanager
def opened_bytes(data: bytes) -> Iterator[ModelProto]:
    """As `opened`."""
    with outside() as stores:
        yield _light(Given(data), stores, "the given bytes")


@contextmanager
def opened_file(path: Path) -> Iterator[tuple[ModelProto, set[str], tuple[int, ...]]]:
    """The model of a file as of `opened`, the names of the files that it has weights in, and what
    the system says of the file, which changes with it: of a pipe nothing, which is read at once.
    """
    if not path.is_file():
        yield *read(path), ()
        return
    with ExitStack() as held:
        stores = held.enter_context(outside())
        try:
            file = File(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            held.callback(file.close)
            proto = _light(file, stores, str(path))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InvalidModel(f"{path}: {why or error}") from None
        with _external_data(path):
            names = _place(proto, path.parent, stores, held)
        yield proto, names, file.status


def whole(model: ModelProto) -> ModelProto:
    """A model with its large weights, inside of the context that leaves them out; itself where it
    has them. Raises InvalidModel where a file was written to meanwhile.
    """
    outside = [k for k, tensor in enumerate(model.graph.initializer) if is_outside(tensor)]
    if not outside:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in (made.graph.initializer[k] for k in outside):
        try:
            data = raw_bytes(tensor)
        except (OSError, ValueError) as error:
            raise InvalidModel(f"tensor '{tensor.name}': {error}") from None
        tensor.ClearField("data_location")
        del tensor.external_data[:]
        tensor.raw_data = data.tobytes()
    return made


def _light(store: Store, stores: Outside, what: str) -> ModelProto:
    """A model without its large weights, whole where there are none. Raises ValueError, OSError."""
    light = without_weights(store, stores.add(store)) if store.size > LARGE else None
    return _parse(store.read(0, store.size).tobytes() if light is None else light, what)


def _place(proto: ModelProto, folder: Path, stores: Outside, held: ExitStack) -> set[str]:
    """Let the large weights of a model say where in the opened files of a folder they are, and read
    in what else it has there; the names of the files. Raises ValueError, OSError.
    """
    files: dict[str, tuple[File, str]] = {}  # with the names of the stores
    for tensor in proto.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL or is_outside(tensor):
            continue
        location = location_of(tensor)
        if location not in files:
            file = File(open_beside(tensor, folder))
            held.callback(file.close)
            files[location] = file, stores.add(file)
        file, store = files[location]
        start, count = extent_of(tensor, file.size)
        if count > LARGE:
            place_outside(tensor, store, start, count)
    rest = [tensor for tensor in external_tensors(proto) if not is_outside(tensor)]
    names = {*files, *map(location_of, rest)}
    for tensor in rest:
        read_into(tensor, folder)
    return names


@contextmanager
def _external_data(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise InvalidModel(
            f"{path}: external data cannot be read ({error}). Put the weight files beside the model"
        ) from None


def array_of(tensor: TensorProto | SparseTensorProto) -> np.ndarray:
    """A tensor's values, zeros for those that a sparse one leaves out.

    Raises InvalidModel when dims and data disagree, UnsupportedOp for strings and the like,
    ShapeError when a sparse tensor would be huge.
    """
    if isinstance(tensor, SparseTensorProto):
        return _dense(tensor)
    name = tensor.name or "unnamed"
    dtype = dtypes.from_onnx(tensor.data_type)
    kept = is_outside(tensor)
    if tensor.data_location == TensorProto.EXTERNAL and not (kept or tensor.HasField("raw_data")):
        raise InvalidModel(
            f"tensor '{name}' has its data in a file, which was not loaded. "
            "Pass the path of the model, or load the data first"
        )
    if not dtypes.is_supported(dtype):
        raise UnsupportedOp(Gap(name, "", *untranslated(dtype, list(tensor.dims)), kind="tensor"))
    if any(d < 0 for d in tensor.dims) or math.prod(tensor.dims) > MAX_TENSOR_BYTES:
        raise InvalidModel(f"tensor '{name}' has impossible dims {list(tensor.dims)}")
    try:
        return _from_outside(tensor) if kept else numpy_helper.to_array(tensor)
    except Exception as error:  # numpy and onnx raise several kinds
        raise InvalidModel(f"tensor '{name}' of dims {list(tensor.dims)}: {error}") from None


def _from_outside(tensor: TensorProto) -> np.ndarray:
    """As `numpy_helper.to_array`, read-only. Raises several kinds."""
    data, dtype = raw_bytes(tensor), helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if tensor.data_type in _PACKED or data.size != math.prod(tensor.dims) * dtype.itemsize:
        whole = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
        return numpy_helper.to_array(whole)
    array = data.view(dtype).reshape(tensor.dims)  # not aligned, where it is of a caller's bytes
    array.flags.writeable = False
    return array


def captured(graph: GraphProto) -> set[str]:
    """Names a subgraph reads from outside."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {t.values.name for t in graph.sparse_initializer}
    reads: set[str] = set()
    for node in graph.node:
        reads |= {name for name in node_reads(node) if name not in own}
        own.update(node.output)
    return reads | {v.name for v in graph.output if v.name not in own}


def node_reads(node: NodeProto) -> Iterator[str]:
    """Names a node reads, also from inside its subgraphs."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from captured(attribute.g)


def _dense(sparse: SparseTensorProto) -> np.ndarray:
    """A sparse tensor as an array; ShapeError when it would be huge."""
    values, indices = array_of(sparse.values), array_of(sparse.indices)
    check_size(sparse.dims, dtypes.name_of(values), sparse.values.name, "", "tensor")
    out = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        out.reshape(-1)[indices] = values
    else:
        out[tuple(indices.T)] = values
    return out


def untranslated(dtype: str, shape: Sequence[Any] | None = None) -> tuple[str, str, str]:
    """Reason, remedy and detail for an element type that tensors are not compiled of."""
    if dtype == "string":
        remedy = "Do what is done with text outside of the model, and feed it numbers such as ids"
    elif dtype.startswith("complex"):
        remedy = "Keep the real and the imaginary part in a last dimension of 2, as DFT does"
    else:
        remedy = "Export the model again with an element type that ONNX knows"
    dims = "" if shape is None else f"[{','.join(map(str, shape))}]"
    return f"element type {dtype} is not translated", remedy, dtype + dims


def check_size(
    shape: Sequence[int], dtype: str, node: str, op: str, kind: Literal["node", "input", "tensor"]
) -> None:
    """Refuse tensors beyond any memory before something tries to allocate them.

    node, op and kind: what has the tensor, as in a Gap.
    """
    what = "a result" if kind == "node" else "a tensor"
    detail = f"{dtype}[{','.join(map(str, shape))}]"
    if len(shape) > MAX_RANK:
        reason, remedy = (
            f"{what} has more than {MAX_RANK} dimensions",
            "Join some of its dimensions",
        )
        raise ShapeError(Gap(node, op, reason, remedy, detail, (), kind))
    # Of an empty tensor the other extents count, too: numpy wants it so.
    elements = math.prod(max(extent, 1) for extent in shape)
    if elements * dtypes.storage_dtype(dtype).itemsize > MAX_TENSOR_BYTES:
        reason = f"{what} is larger than {MAX_TENSOR_BYTES >> 30} GiB"
        remedy = "Use smaller shapes, such as a smaller batch"
        raise ShapeError(Gap(node, op, reason, remedy, detail, (), kind))
