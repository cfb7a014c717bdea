"""Models for AMD GPUs: compiled to assembly and an object that lack nothing, and not run."""

import io
import re
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest
from elftools.elf.elffile import ELFFile
from gpu_networks import FINE, NETWORKS
from onnx import helper

import rcompiler
from rcompiler.device.gpu import GPUS
from rcompiler.driver.compilation import Compilation
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.model import model_of
from rcompiler.options import CompileOptions
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools import models

NAMES = {"gfx90a": "mi210", "gfx942": "mi300x"}
every_chip = pytest.mark.parametrize("chip", NAMES)
every_model = pytest.mark.parametrize("name", NETWORKS)


@cache
def compiled(name: str, chip: str) -> Artifact:
    """For four EUs on which sharing is cheap, so that small networks are shared out."""
    device = replace(GPUS[NAMES[chip]], name="fine", eus=4, costs=FINE.costs)
    options = CompileOptions(f"rocm:{chip}")
    run = Compilation(options, device, None)
    [artifact] = run.from_onnx(NETWORKS[name](), None, None, device, [options])
    return artifact


@every_chip
@every_model
def test_networks_become_objects_that_lack_nothing(name: str, chip: str):
    image = compiled(name, chip).image
    assert (image.chip, image.language, image.entry) == (chip, "amdgcn", "veu")
    elf = ELFFile(io.BytesIO(image.cubin))
    assert elf.header.e_machine == "EM_AMDGPU"
    symbols = [s for s in elf.get_section_by_name(".symtab").iter_symbols() if s.name]
    undefined = {s.name for s in symbols if s.entry.st_shndx == "SHN_UNDEF"}
    assert undefined == set() and "veu.kd" in {s.name for s in symbols}


@every_chip
@every_model
def test_networks_are_the_same_program_and_spill_nothing(name: str, chip: str):
    artifact = compiled(name, chip)
    gpu, text = artifact.stages["gpu"], artifact.image.ptx.decode()
    assert "nvvm" not in gpu and 'syncscope("device")' not in gpu
    assert f'amdgcn_target "amdgcn-amd-amdhsa--{chip}"' in text
    assert ".wavefront_size: 64" in text and ".max_flat_workgroup_size: 256" in text
    for k in artifact.kernels:
        assert re.search(rf"^{k.name}:$", text, re.MULTILINE)
    report = model_of(artifact).report()
    assert 0 < report.registers <= 512
    assert {op.spilled_bytes for op in report.operators} == {0}
    assert artifact.image.shared <= 64 << 10


@every_chip
def test_a_call_says_that_it_is_not_run(chip: str, tmp_path):
    artifact = compiled("mlp", chip)
    artifact.save(tmp_path / "m.rcx")
    model = rcompiler.load(tmp_path / "m.rcx", eus=4)
    assert model.artifact.image == artifact.image and model.needs.blocks == 4
    assert model.stage("amdgcn") == artifact.image.ptx.decode()
    wanted = f"the model is compiled for {chip}; this build runs NVIDIA GPUs and CPUs only"
    feeds = [np.zeros(t.shape, t.dtype) for t in model.inputs]
    for call in (model, model.on_device):
        with pytest.raises(DeviceError, match=wanted):
            call(*feeds)
    with pytest.raises(CompilerError, match="no stage 'ptx'; there are: .*amdgcn"):
        model.stage("ptx")


@every_chip
def test_equal_models_give_equal_bytes_from_text_as_well(chip: str):
    proto = models.build("two_branch", rows=64, width=32)
    target = {"target": f"rocm:{chip}", "cache": False}
    first, second = (rcompiler.compile_onnx(proto, **target) for _ in range(2))
    assert first.artifact.certificate == second.artifact.certificate
    alone = rcompiler.compile_schedule(
        first.stage("vdevice"), first.constants(), machine_code=False, **target
    )
    assert first.artifact.image.cubin and not alone.artifact.image.cubin
    assert alone.artifact.image.ptx == first.artifact.image.ptx
    assert alone.report().registers == first.report().registers


SIZES = ((24, 40), (40, 32), (24, 32))


@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16", "DOUBLE", "INT32"])
def test_products_of_other_types(kind: str):
    real = getattr(onnx.TensorProto, kind)
    sides = [helper.make_tensor_value_info(n, real, s) for n, s in zip("xwy", SIZES, strict=True)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", sides[:2], sides[2:]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    model = rcompiler.compile_onnx(proto, target="rocm:gfx942", eus=4, cache=False)
    fma = {"DOUBLE": "v_fma(c_|_)f64", "INT32": "v_mul_lo_u32|v_mad_u64_u32"}
    assert re.search(fma.get(kind, "v_(pk_)?fma(c|_mix)?_f32"), model.stage("amdgcn"))


def test_matrix_units_are_not_programmed():
    with pytest.raises(
        CompilerError, match="'f16' is not one of target 'rocm:gfx942', which has f32"
    ):
        rcompiler.compile_onnx(models.build("two_branch"), target="rocm:gfx942", precision="f16")
