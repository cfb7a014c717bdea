"""Machine code of products for GPUs: asynchronous copies, long accesses, no spilled register."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from onnx import ModelProto

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from small_networks import SMALL  # noqa: E402
from toolkit import needs_ptxas, needs_sass  # noqa: E402

import rcompiler  # noqa: E402
from rcompiler.codegen.sass import opcodes  # noqa: E402
from rcompiler.tools.models import build  # noqa: E402
from rcompiler.tools.models.graph import ModelGraph  # noqa: E402

TARGETS = ["cuda:a100", "cuda:h200"]


def product() -> ModelProto:
    """256 x 512 by 512 x 256: 16-byte pieces of both factors and of the result."""
    g = ModelGraph("product", 0)
    return g.model(output=(g.op("Relu", g.matmul(g.input("input", (256, 512)), 256)), (256, 256)))


def compiled(model: ModelProto, target: str, precision: str) -> tuple[Counter[str], Counter[str]]:
    """Instructions of the product's rKernels, and of all; no rKernel spills."""
    options = {"target": target, "precision": precision, "cache": False}
    made = rcompiler.compile_onnx(model, eus=4, **options)  # so few that tiles are large
    operators = made.report().operators
    assert {op.spilled_bytes for op in operators} == {0}
    counts = opcodes(made.artifact.image.cubin)
    kernels = {op.kernel for op in operators if op.kind == "contraction"}
    own = sum((counts[name] for name in kernels), Counter[str]())
    return own, sum(counts.values(), Counter[str]())


def number(counts: Counter[str], *parts: str) -> int:
    """Of instructions whose name has all these parts between dots."""
    return sum(n for name, n in counts.items() if set(parts) <= set(name.split(".")))


@needs_ptxas
@needs_sass
@pytest.mark.parametrize("target", TARGETS)
def test_a_product_of_f32(target: str):
    own, _ = compiled(product(), target, "f32")
    assert number(own, "LDGSTS", "128") and number(own, "LDGSTS") == number(own, "LDGSTS", "128")
    # several elements at a time, and few for what a thread computes
    assert number(own, "LDS", "128") and not own["LDS"] and not own["STG.E"]
    assert number(own, "FFMA") >= 4 * number(own, "LDS")
    assert not number(own, "STS")  # nothing goes by way of registers


@needs_ptxas
@needs_sass
@pytest.mark.parametrize("target", TARGETS)
def test_a_product_of_tf32(target: str):
    """Rows have their steps side by side, as ldmatrix reads them; columns have not."""
    own, _ = compiled(product(), target, "tf32")
    assert number(own, "LDGSTS") == number(own, "LDGSTS", "128") > 0 == number(own, "STS")
    assert number(own, "HMMA", "TF32") and number(own, "LDSM", "M88") and number(own, "STG", "64")


@needs_ptxas
@needs_sass
@pytest.mark.parametrize("target", TARGETS)
def test_a_product_that_is_rounded_to_f16(target: str):
    """Rounded where they are computed, factors are copied as they are."""
    own, _ = compiled(product(), target, "f16")
    if target == "cuda:h200":
        assert any(name.startswith("HGMMA") for name in own) and number(own, "UTMALDG")
        return
    assert number(own, "HMMA") and number(own, "LDSM", "M88") and number(own, "LDSM", "MT88")
    assert number(own, "LDGSTS") == number(own, "LDGSTS", "128") > 0 == number(own, "STS")


@needs_ptxas
@needs_sass
@pytest.mark.parametrize("precision", ["f32", "tf32", "f16"])
@pytest.mark.parametrize("name", ["resnet50", "bert_base", "mobilenet_v2"])
def test_networks_spill_nothing(name: str, precision: str):
    _, counts = compiled(build(name, **SMALL[name]), "cuda:h200", precision)
    units = number(counts, "HMMA") + number(counts, "HGMMA")
    assert bool(units) == (precision != "f32")
    assert number(counts, "HGMMA" if precision == "f16" else "LDGSTS")
