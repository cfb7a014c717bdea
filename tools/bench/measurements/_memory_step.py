"""One process of `memory`: writes a model, or says what a process that has it takes, in MB.

    python _memory_step.py write CASE FILE MEGABYTES
    python _memory_step.py compile|onnxruntime CASE FILE
    python _memory_step.py repeat COMPILATIONS

The last line that it prints is a line of JSON.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

_WIDTH, _CHANNELS, _SIDE, _ROWS = 2048, 512, 14, (1, 4, 8)
_WARM = 10  # compilations before the first figures


def _status() -> dict[str, float]:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return {"peak": int(found["VmHWM"]) / 1024, "stays": int(found["VmRSS"]) / 1024}


def write(case: str, path: str, megabytes: str) -> dict[str, float]:
    """Write the model of a case. Its weights, in MB."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    filters = case == "filters"
    shape = (_CHANNELS, _CHANNELS, 3, 3) if filters else (_WIDTH, _WIDTH)
    count = max(1, (int(megabytes) << 20) // (4 * int(np.prod(shape))))
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for k in range(count):
        array = rng.standard_normal(shape, np.float32) / np.float32(64)
        weights.append(numpy_helper.from_array(array, f"w{k}"))
        more = {"pads": [1] * 4} if filters else {}
        op, out = "Conv" if filters else "MatMul", "y" if k == count - 1 else f"v{k}"
        nodes.append(helper.make_node(op, [f"v{k - 1}" if k else "x", f"w{k}"], [out], **more))
    rows: int | str = "rows" if case == "session" else 8
    dims = (1, _CHANNELS, _SIDE, _SIDE) if filters else (rows, _WIDTH)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xy")
    opsets = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, case, [x], [y], weights)
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    external = {"save_as_external_data": True, "location": "weights"} if case == "external" else {}
    onnx.save(model, path, **external)
    return {"weights": 4 * count * float(np.prod(shape)) / 2**20}


def compile(case: str, path: str) -> dict[str, float]:
    """Of a process that has the model compiled."""
    import rcompiler

    model: Any
    if case == "session":
        model = rcompiler.InferenceSession(path, cache=False)
        for rows in _ROWS:
            model.run(None, {"x": np.zeros((rows, _WIDTH), np.float32)})
    else:
        model = rcompiler.compile_onnx(path, eus=1, cache=False, device="default")
        model(np.zeros(model.inputs[0].shape, np.float32))
    return _status()


def onnxruntime(case: str, path: str) -> dict[str, float]:
    """Of a process that has a session of onnxruntime's."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(path, options, ["CPUExecutionProvider"])
    [x] = session.get_inputs()
    shape = [size if isinstance(size, int) else rows for size in x.shape for rows in _ROWS[-1:]]
    session.run(None, {x.name: np.zeros(shape, np.float32)})
    return _status()


def repeat(count: str) -> dict[str, float]:
    """Of a process that compiles small networks, after the first ones and at the end."""
    import rcompiler
    from rcompiler.runtime.memory import heap_in_use
    from rcompiler.tools import models

    found: dict[str, float] = {}
    for number in range(_WARM + int(count)):
        layers = (64, 32 + 8 * (number % 7), 16)
        proto = models.build("mlp", batch=4, layers=layers)
        for tensor in proto.graph.initializer:  # no two have a weight in common
            changed = np.frombuffer(tensor.raw_data, np.float32) + np.float32(number)
            tensor.raw_data = changed.tobytes()
        rcompiler.compile_onnx(proto, eus=1, cache=False, device="default").close()
        if number in (_WARM - 1, _WARM + int(count) - 1):
            gc.collect()
            end = "_first" if number < _WARM else ""
            found |= {f"heap{end}": heap_in_use() / 2**20, f"resident{end}": _status()["stays"]}
    return found


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    steps: dict[str, Any] = {f.__name__: f for f in (write, compile, onnxruntime, repeat)}
    print(json.dumps(steps[what](*rest)))
