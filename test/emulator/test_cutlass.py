"""Products that NVIDIA's CUTLASS wrote: the emulator runs them, right in every order of blocks.

What they are: test/Inputs/ptx/cutlass/README.md.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from ptx_bench import get, put

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.settings import Limits
from rcompiler.runtime.gpu.driver import TensorTile

TEXT = (Path(__file__).parents[1] / "Inputs/ptx/cutlass/wgmma_tma_sm90.ptx").read_text()
MODES = [{}, *({"interleave": True, "seed": seed} for seed in range(2))]
TILE, SHARED = 128, 3 * 2 * 128 * 64 * 2 + 48  # three buffers of both factors; mbarriers
M, N, K = 256, 128, 320
# By the order in the module: whether factors lie by steps, and rows of their boxes.
KERNELS = {"by positions": (0, (64, 8)), "by steps": (1, (64, 128))}


def run(text, name, mode):
    """The largest error of the product; numbers are so small that it should be 0."""
    number, box = KERNELS[name]
    driver = EmulatedDriver(multiprocessors=4, limits=Limits(patience=100), **mode)
    module = driver.load(text.encode())
    kernels = [entry for entry in module.module.functions if "gemm_device" in entry]
    function = driver.function(module, kernels[number])
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-1, 2, (rows, K)).astype(np.float16) for rows in (M, N))
    factors = []  # each its address, and a tensor map with what CUTLASS keeps beside it
    for factor in (a, b):
        stored = factor if number else np.ascontiguousarray(factor.T)
        address, (rows, columns) = put(driver, stored), stored.shape
        made = driver.tensor_map(TensorTile(address, 2, (columns, rows), (2 * columns,), box, 128))
        factors += [np.uint64(address), made + bytes(128)]
    result = np.zeros((N, M), np.float16)
    place = put(driver, result)
    shape, ones = np.array([M, N, K], np.int32), np.array([1, 1], np.int32)
    arguments = [shape.tobytes(), bytes(1), *factors, np.uint64(place), np.int32(M),
                 ones.tobytes(), np.float16(1), np.float16(0)]  # fmt: skip
    driver.launch(function, (M // TILE, N // TILE, 1), (128, 1, 1), SHARED, arguments)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    return np.abs(get(driver, place, result).T - wanted).max()


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_products(name, mode):
    assert run(TEXT, name, mode) == 0


FAULTS = [
    (r"wgmma\.fence\S*;", "", {"missing-wgmma-fence"}),
    (r"(barrier\.cluster\.arrive)\.aligned", r"\1.relaxed.aligned", {"missing-init-fence"}),
    (r"barrier\.cluster\.\S*;", "", {"barrier-misuse", "missing-init-fence"}),
    (r"barrier\.cluster\.arrive\S*;", "", {"barrier-misuse"}),
    (r"wgmma\.wait_group\S*\s+\d;", "", {"shared-race", "late-async-copy"}),
]


@pytest.mark.parametrize("mode", MODES[:2], ids=str)
@pytest.mark.parametrize(("pattern", "by", "kinds"), FAULTS)
def test_faults_put_into_them_are_reported(pattern, by, kinds, mode):
    text, count = re.subn(pattern, by, TEXT)
    assert count
    with pytest.raises(EmulationFault) as error:
        run(text, "by steps", mode)
    assert error.value.kind in kinds, str(error.value)
