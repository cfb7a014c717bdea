"""Products of unequal sizes that need nothing of each other: one wave, the EUs evenly loaded.

What libraries call a grouped GEMM is no operator of its own here: a wave holds rTasks of any
rKernels, so products of different sizes stand side by side, each in the tiles that suit it.
"""

import numpy as np
import pytest
from measurements.simulate_models import graph_of
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rcompiler.compile import compile_policies
from rcompiler.device.target import find_device
from rcompiler.options import Scheduler
from rcompiler.rammer.cost import task_ns
from rcompiler.rammer.program import Run
from rcompiler.rammer.schedule import POLICIES
from rcompiler.rammer.simulate import simulate

# rows, depth and columns
SIZES = [(96, 200, 130), (17, 64, 300), (250, 48, 96), (64, 128, 40), (5, 500, 77), (128, 90, 256)]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    nodes, weights, inputs, outputs = [], [], [], []
    for i, (rows, depth, columns) in enumerate(SIZES):
        weight = rng.standard_normal((depth, columns)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"], name=f"product{i}"))
        info = helper.make_tensor_value_info
        inputs.append(info(f"x{i}", TensorProto.FLOAT, [rows, depth]))
        outputs.append(info(f"y{i}", TensorProto.FLOAT, [rows, columns]))
    graph = helper.make_graph(nodes, "grouped", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_all_policies_compute_the_same_products(model):
    rng = np.random.default_rng(4)
    inputs = [rng.standard_normal(size[:2]).astype(np.float32) for size in SIZES]
    want = ReferenceEvaluator(model).run(None, {f"x{i}": x for i, x in enumerate(inputs)})
    for by, compiled in compile_policies(model, [*map(Scheduler, POLICIES)], eus=3).items():
        for got, right in zip(compiled(*inputs), want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4, err_msg=str(by))


@pytest.mark.parametrize("eus", [2, 3, 8])
@pytest.mark.parametrize("policy", ["wave", "rammer", "list"])
def test_they_are_one_launch_that_loads_the_eus_evenly(model, tmp_path, policy, eus):
    path = tmp_path / "grouped.onnx"
    path.write_bytes(model.SerializeToString())
    device = find_device("cpu")
    graph = graph_of(str(path), device)
    assert len(graph.operators) >= len(SIZES)
    [program] = POLICIES[policy](graph, eus, device.costs)
    line = simulate([program], graph, device.costs)
    runs = [step for queue in program.queues for step in queue if isinstance(step, Run)]
    # No EU is done earlier than the others by more than one rTask.
    longest = max(task_ns(graph.kernel[run.kernel]) for run in runs)
    assert line.busy_ns.max() - line.busy_ns.min() <= longest + len(runs) * device.costs.task_ns
    one_by_one = POLICIES["base"](graph, eus, device.costs)
    assert line.makespan_ns < simulate(one_by_one, graph, device.costs).makespan_ns
