"""rtask-form leaves no op in an operator that nothing uses: its operands would be read too."""

from torch_mlir import ir

from rcompiler.compile import operators_of
from rcompiler.driver.host import target_device
from rcompiler.tools import models


def test_a_copy_that_another_operator_makes_is_not_left_behind():
    model = models.build("vit_b16", layers=1, image=32, hidden=48, heads=3, classes=8)
    dead = []

    def visit(op):
        if len(op.results) and not any(list(r.uses) for r in op.results):
            dead.append(str(op.location))
        return ir.WalkResult.ADVANCE

    with operators_of(model, target_device("cpu")) as module:
        for view in module.body.operations:
            for operator in view.operation.regions[0].blocks[0].operations:
                if operator.operation.name == "rtask.operator":
                    for inner in operator.operation.regions[0].blocks[0].operations:
                        inner.operation.walk(visit)
    assert dead == []
