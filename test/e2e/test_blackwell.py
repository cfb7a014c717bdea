"""Code for GPUs that nothing here runs (sm_100a, sm_120a): ptxas accepts it, and it asks for no
more than the GPU has.
"""

import sys
from pathlib import Path

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from gpu_networks import attention_block, lstm, residual_block  # noqa: E402
from quantised_networks import products as products_of_bytes  # noqa: E402
from short_networks import half_block  # noqa: E402
from toolkit import needs_ptxas  # noqa: E402

import rcompiler  # noqa: E402
from rcompiler.device.target import find_device  # noqa: E402
from rcompiler.tools.models.graph import ModelGraph  # noqa: E402

CHIPS = {"cuda:b200": ("sm_100a", "8.6"), "cuda:rtx5090": ("sm_120a", "8.7")}


def matmul() -> onnx.ModelProto:
    """A product so large that its tiles are cut for shared memory."""
    g = ModelGraph("product", 1)
    return g.model(output=(g.matmul(g.input("x", (256, 1024)), 512), (256, 512)))


# Networks, the precision of their products of f32, and an instruction that their code must have.
NETWORKS = {
    "product of f32": (matmul, "f32", "fma.rn.f32"),
    "product in tf32": (matmul, "tf32", "m16n8k8.row.col.f32.tf32.tf32.f32"),
    "products of f16": (lambda: half_block(128, 256), "f32", "m16n8k16.row.col.f32.f16.f16.f32"),
    "products of bytes": (lambda: products_of_bytes(128, 256)[0], "f32", "m16n8k32.row.col"),
    "convolution": (residual_block, "f16", "m16n8k16.row.col.f32.f16.f16.f32"),
    "attention and layer norm": (attention_block, "f16", "m16n8k16.row.col.f32.f16.f16.f32"),
    "LSTM": (lstm, "f32", "fma.rn.f32"),
}


@needs_ptxas
@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_code_for_blackwell_is_assembled(name, target):
    network, precision, instruction = NETWORKS[name]
    chip, version = CHIPS[target]
    model = rcompiler.compile_onnx(network(), target=target, precision=precision)
    image, report = model.artifact.image, model.report()
    text = image.ptx.decode()
    assert f".version {version}\n.target {chip}\n" in text
    assert instruction in text
    assert not any(word in text for word in ("wgmma", "cp.async.bulk", "tcgen05"))
    assert image.cubin.startswith(b"\x7fELF") and not image.boxes
    assert image.shared <= find_device(target).block_shared_bytes
    assert {op.spilled_bytes for op in report.operators} == {0}
    said = "no code is made for its tcgen05" in str(report)
    assert said == (chip == "sm_100a" and "mma.sync" in text)
