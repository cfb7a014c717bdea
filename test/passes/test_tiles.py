"""roller-tile on the operators of models: the tasks of each kernel write each result once."""

import numpy as np
import pytest
from torch_mlir import ir

from rcompiler.compile import operators_of
from rcompiler.device.cpu import cpu_device
from rcompiler.passes.roller_tile import tile_operators
from rcompiler.passes.schedule.schedule_graph import kernel_of
from rcompiler.rammer.regions import task_boxes
from rcompiler.roller.policy import POLICIES
from rcompiler.tools import models

# Padded results, several results, windows, odd shapes, reductions over columns, gathers.
MODELS = {
    "unet": {"image": 20, "width": 8, "depth": 1},
    "tiny_llama": {
        "sequence": 7,
        "layers": 1,
        "hidden": 32,
        "heads": 4,
        "kv_heads": 2,
        "inner": 48,
    },
    "squeezenet1_1": {"image": 35},
    "lstm2": {"sequence": 2, "features": 24, "hidden": 20, "layers": 1},
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("eus", [2, 64])
@pytest.mark.parametrize("name", MODELS)
def test_the_tasks_of_every_kernel_write_each_element_once(name, eus, policy):
    device = cpu_device("v4", eus=eus)
    kernels = 0
    with operators_of(models.build(name, **MODELS[name]), device) as module:
        tile_operators(module.operation, lambda body: body.construct(device, policy))
        for view in module.body.operations:
            if view.operation.name == "rtask.kernel":
                kernel = kernel_of(view.operation)
                kernels += 1
                for access in kernel.writes:
                    written = np.zeros(access.shape, np.int64)
                    for box in task_boxes(kernel.grid, access):
                        written[tuple(slice(low, high) for low, high in box)] += 1
                    assert (written == 1).all(), ir.Attribute(view.operation.attributes["sym_name"])
    assert kernels > 5
