"""Weights that a model has in files beside it.

A model is a stranger's, and names the files: only those of its own folder are read, through no
link, and no more of them than there is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnx import TensorProto


def external_tensors(message: Any) -> Iterator[TensorProto]:
    """The tensors of a model, or of any part of it, that have their data in files.

    message: of protobuf; before that data is loaded.
    """
    if isinstance(message, TensorProto):
        if message.data_location == TensorProto.EXTERNAL:
            yield message
        return
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for part in (value,) if hasattr(value, "ListFields") else value:
            yield from external_tensors(part)


def location_of(tensor: TensorProto) -> str:
    """The file that a tensor says its data is in; "" where it says none."""
    return _said(tensor).get("location", "")


def read_into(tensor: TensorProto, folder: Path) -> None:
    """Read the data of a tensor from its file in a folder, that of the model.

    Raises ValueError and OSError.
    """
    file = open_beside(tensor, folder)
    with os.fdopen(file, "rb") as stream:
        start, count = extent_of(tensor, os.fstat(file).st_size)
        stream.seek(start)
        tensor.raw_data = stream.read(count)
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def extent_of(tensor: TensorProto, size: int) -> tuple[int, int]:
    """Where the data of a tensor begins in its file, and how many bytes it is.

    size: bytes of the file. Raises ValueError.
    """
    said, what = _said(tensor), _named(tensor)
    offset = _number(said, "offset", 0, what)
    length = _number(said, "length", max(size - offset, 0), what)
    if offset + length > size:
        raise ValueError(
            f"{what} has bytes {offset} to {offset + length} of '{location_of(tensor)}', which has "
            f"{size}"
        )
    return offset, length


def open_beside(tensor: TensorProto, folder: Path) -> int:
    """A descriptor of the file of a tensor: a plain one in the folder, that of the model.

    Raises ValueError and OSError.
    """
    location, what = location_of(tensor), _named(tensor)
    if not location:
        raise ValueError(f"{what} does not say which file its data is in")
    if os.path.isabs(location) or ".." in Path(location).parts or "\0" in location:
        raise ValueError(f"{what} has its data in '{location}', which is not in the model's folder")
    path = Path(os.path.realpath(folder), location)
    if os.path.realpath(path) != os.path.normpath(path):
        raise ValueError(f"{what} has its data in '{location}', which is a link")
    # O_NONBLOCK: to open a pipe would wait for who writes into it
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(file)
        raise ValueError(f"{what} has its data in '{location}', which is no file of its own")
    return file


def _said(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _named(tensor: TensorProto) -> str:
    return f"tensor '{tensor.name}'"


def _number(said: dict[str, str], key: str, default: int, what: str) -> int:
    text = said.get(key)
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{what} has {key} '{text}', which is no number of bytes")
    return int(text)
