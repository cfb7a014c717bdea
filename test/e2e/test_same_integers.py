"""Quantised networks give the same integers on every level of CPUs, bit for bit: with and without
VNNI, with and without tile registers."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from measurements._same_levels import levels
from quantised_networks import convolutions, products

import rcompiler
from rcompiler.device.cpu import host_features


@pytest.mark.parametrize(
    ("network", "sizes"),
    [
        (convolutions, (64, 28)),
        (convolutions, (40, 17)),
        (convolutions, (128, 14)),
        (products, (50, 192)),
        (products, (33, 100)),
        (products, (1, 64)),
    ],
)
def test_every_level_gives_the_same(network, sizes):
    model, shape = network(*sizes)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    results = {
        target: rcompiler.compile_onnx(model, target=target, eus=1)(x)[0] for target in levels()
    }
    first = next(iter(results.values()))
    assert len(np.unique(first)) > 8  # no network that always says the same
    for target, result in results.items():
        assert np.array_equal(first, result), target


@pytest.mark.skipif("amx-int8" not in host_features(), reason="this host has no tile registers")
def test_kernels_on_tile_registers_are_measured_in_a_process_that_has_not_run_any(tmp_path):
    """Who measures code asks for the permission that it needs; without it the process would end."""
    model, _ = products(50, 192)
    onnx.save(model, tmp_path / "model.onnx")
    text = (
        "import rcompiler, sys\n"
        "model = rcompiler.compile_onnx(sys.argv[1], eus=1, tune='kernels')\n"
        "sys.exit('tdpb' not in model.stage('asm'))"
    )
    environment = {**os.environ, "RC_CACHE_DIR": str(tmp_path), "RC_DEVICE": ""}
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "model.onnx")], env=environment, check=False
    )
    assert done.returncode == 0
