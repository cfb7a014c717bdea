"""A folder of models compiled for `gpu_bench`."""

from pathlib import Path

import onnx
from measurements import gpu_bench
from measurements._gpu_bench_group import Group, read_groups
from measurements._packed_folder import PackedFolder

from rcompiler.tools import models

TARGET = "cuda:emulated"


def compiled(path: Path) -> PackedFolder:
    """Holds "tiny" by two policies, and what to stress; made below `path`."""
    onnx.save(models.build("mlp", batch=2, layers=(16, 24, 10)), path / "tiny.onnx")
    options = [f"--target={TARGET}", "--precisions=f32", "--policies=wave,rammer"]
    names = f"--models={path / 'tiny.onnx'},stress"
    assert gpu_bench.main(["compile", names, *options, "-o", str(path / "made")]) == 0
    return PackedFolder(path / "made")


def tiny(folder: PackedFolder) -> Group:
    return next(group for group in read_groups(folder) if group.model == "tiny")
