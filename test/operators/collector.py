"""A plugin of pytest: nodes that tests compare with others are written to a file, and not compiled.

`compared.py` runs it; RC_COLLECT names the file.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles import contrib_node

import rcompiler

Found = tuple[bytes, dict[str, np.ndarray], list[np.ndarray] | None, int]
_FOUND: list[Found] = []
_MODEL = contrib_node.node_model


def _keep(
    op: str,
    inputs: contrib_node.Inputs,
    outputs: Sequence[str] = ("float32",),
    fed: int | Sequence[int] = 99,
    wanted: Sequence[np.ndarray] | None = None,
    apart: int = 0,
    **attributes: Any,
) -> None:
    model, feeds = _MODEL(op, inputs, outputs, fed, **attributes)
    known = None if wanted is None else [np.asarray(each) for each in wanted]
    _FOUND.append((model.SerializeToString(), feeds, known, apart))


def _keep_model(*arguments: Any, **attributes: Any) -> Any:
    model, feeds = _MODEL(*arguments, **attributes)
    _FOUND.append((model.SerializeToString(), feeds, None, 0))
    return model, feeds


def _enough(*_: Any, **__: Any) -> Any:
    pytest.skip("nothing is compiled")


def pytest_configure() -> None:
    """Before the modules of tests take the functions by name."""
    taken: dict[str, Callable[..., Any]] = {"check_node": _keep, "node_model": _keep_model}
    for name, function in taken.items():
        setattr(contrib_node, name, function)
    rcompiler.compile_onnx = _enough


def pytest_unconfigure() -> None:
    Path(os.environ["RC_COLLECT"]).write_bytes(pickle.dumps(_FOUND))
