"""Types and shapes that a model says of its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from rcompiler.frontend import dtypes


def declared(model: ModelProto, values: Mapping[str, Any], kinds: Mapping[str, str]) -> ModelProto:
    """The model, which says of each of its values what it is here.

    Args:
        model: whose inputs, results and other values are declared anew.
        values: all of its values by name; of what is no tensor nothing is said.
        kinds: their element types.
    """
    out = ModelProto()
    out.CopyFrom(model)
    graph = out.graph
    fixed = {t.name for t in graph.initializer}
    for infos in (graph.input, graph.output):
        names = [v.name for v in infos]
        fixed.update(names)
        del infos[:]
        infos.extend(_info(name, values, kinds) for name in names)
    del graph.value_info[:]
    made = [name for node in graph.node for name in node.output if name and name not in fixed]
    tensors = [n for n in made if n in kinds and isinstance(values.get(n), np.ndarray)]
    graph.value_info.extend(_info(name, values, kinds) for name in tensors)
    return out


def _info(name: str, values: Mapping[str, Any], kinds: Mapping[str, str]) -> Any:
    shape = np.shape(values[name])
    return helper.make_tensor_value_info(name, dtypes.to_onnx(kinds[name]), shape)
