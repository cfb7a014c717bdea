"""Products that another compiler made: the emulator runs them, right in every order of blocks.

What they are: test/Inputs/ptx/triton/README.md. Triton orders the initialisation of an mbarrier by
the barrier of the block alone, so nothing more is asked for.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ptx_bench import get, put

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.settings import Checks, Limits
from rcompiler.runtime.gpu.driver import TensorTile

INPUTS = Path(__file__).parents[1] / "Inputs" / "ptx" / "triton"
MODES = [{}, {"interleave": True, "seed": 3}]
M, N, K = 128, 256, 128


@dataclass(frozen=True)
class Case:
    """tile: rows, columns, steps. shared: bytes. turned: which factors lie transposed. boxes: their
    swizzle in bytes, rows and columns; none where the kernel takes pointers.
    """

    name: str
    tile: tuple[int, int, int]
    shared: int
    turned: tuple[bool, bool] = (False, False)
    boxes: tuple[tuple[int, int, int], ...] = ()

    @property
    def capability(self):
        return (8, 0) if self.name == "ptr_80" else (9, 0)

    @property
    def threads(self):
        return 128 if self.tile[0] == 64 else 256


def by_boxes(name, tile, shared, turned, *boxes):
    return Case(name, tile, shared, (turned[0] == "1", turned[1] == "1"), boxes)


CASES = [
    Case("ptr_80", (64, 64, 32), 16384),
    Case("ptr_90", (64, 64, 32), 24576),
    by_boxes("desc_64_64_0", (64, 64, 64), 49176, "00", (128, 64, 64), (128, 64, 64)),
    by_boxes("desc_64_64_1", (64, 64, 64), 49176, "01", (128, 64, 64), (128, 64, 64)),
    by_boxes("desc_128_128_0", (128, 128, 64), 98328, "00", (128, 128, 64), (128, 64, 64)),
    by_boxes("desc_128_128_1", (128, 128, 64), 98328, "01", (128, 128, 64), (128, 128, 64)),
    by_boxes("d2_64_32_64_00", (64, 32, 64), 36888, "00", (128, 64, 64), (64, 64, 32)),
    by_boxes("d2_64_16_64_00", (64, 16, 64), 30744, "00", (128, 64, 64), (32, 64, 16)),
    by_boxes("d2_64_64_32_01", (64, 64, 32), 24600, "01", (64, 64, 32), (64, 64, 32)),
    by_boxes("d2_64_64_16_01", (64, 64, 16), 16384, "01", (32, 64, 16), (32, 64, 16)),
    by_boxes("d2_64_64_32_10", (64, 64, 32), 24632, "10", (128, 32, 64), (128, 32, 64)),
    by_boxes("d2_64_32_32_11", (64, 32, 32), 18488, "11", (128, 32, 64), (64, 32, 32)),
    by_boxes("d2_128_64_64_10", (128, 64, 64), 73784, "10", (128, 64, 64), (128, 64, 64)),
    by_boxes("d2_64_256_64_00", (64, 256, 64), 122904, "00", (128, 64, 64), (128, 64, 64)),
    by_boxes("d2_128_256_64_01", (128, 256, 64), 147480, "01", (128, 128, 64), (128, 256, 64)),
]


def run(case, text, mode, published=False):
    """The largest error of the product; numbers are so small that it should be 0."""
    checks = Checks(published_mbarriers=published)
    limits = Limits(patience=100)
    driver = EmulatedDriver(
        capability=case.capability, multiprocessors=4, checks=checks, limits=limits, **mode
    )
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    factors = [np.ascontiguousarray(v.T) if turned else v
               for v, turned in zip((a, b), case.turned, strict=True)]  # fmt: skip
    result = np.zeros((M, N), np.float32)
    place = driver.allocate(result.nbytes)
    given = []
    for factor, box in zip(factors, case.boxes or (None, None), strict=True):
        rows, columns = factor.shape
        address = put(driver, factor)
        if box is None:
            given.append(np.uint64(address))
            continue
        swizzle, *extents = box
        tile = TensorTile(
            address, 2, (columns, rows), (2 * columns,), tuple(extents[::-1]), swizzle
        )
        given += [driver.tensor_map(tile), np.int32(rows), np.int32(columns), np.int64(columns),
                  np.int64(1)]  # fmt: skip
    scratch = [np.uint64(place)] * 2
    arguments = [*given, np.uint64(place), *(np.int32(x) for x in (M, N, K)), *scratch]
    function = driver.function(driver.load(text.encode()), "mm_desc" if case.boxes else "mm_ptr")
    grid = (M // case.tile[0], N // case.tile[1], 1)
    driver.launch(function, grid, (case.threads, 1, 1), case.shared, arguments)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    return np.abs(get(driver, place, result) - wanted).max()


def text_of(case):
    return (INPUTS / f"{case.name}.ptx").read_text()


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_products(case, mode):
    assert run(case, text_of(case), mode) == 0


def test_all_kernels_are_run():
    assert {case.name for case in CASES} == {path.stem for path in INPUTS.glob("*.ptx")}


FACTORS = {"late-async-copy", "shared-race", "uninitialised-read"}
FAULTS = [
    ("desc_64_64_0", r"wgmma\.fence\S*;", "", {"missing-wgmma-fence"}),
    ("d2_64_64_16_01", r"(wgmma\.wait_group\S*\s+)1;", r"\1 3;", {"shared-race"}),
    ("desc_64_64_0", r"(wgmma\.wait_group\S*\s+)0;", r"\1 1;", {"late-async-copy"}),
    ("desc_64_64_0", r"@!complete bra\.uni waitLoop;", "", FACTORS),
    ("ptr_90", r"fence\.proxy\.async\S*;", "", {"missing-proxy-fence"}),
    ("ptr_90", r"fence\.proxy\.async\S*;", "fence.proxy.async.global;", {"missing-proxy-fence"}),
    ("ptr_90", r"cp\.async\.wait_group\s+\S+;", "", {"late-async-copy"}),
    ("ptr_80", r"cp\.async\.wait_group\s+\S+;", "", {"late-async-copy"}),
    ("ptr_80", r"bar\.sync[^;]*;", "", FACTORS),
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("name", "pattern", "by", "kinds"), FAULTS)
def test_faults_put_into_them_are_reported(name, pattern, by, kinds, mode):
    case = next(case for case in CASES if case.name == name)
    text, count = re.subn(pattern, by, text_of(case))
    assert count
    with pytest.raises(EmulationFault) as error:
        run(case, text, mode)
    assert error.value.kind in kinds, str(error.value)


def test_what_triton_leaves_out_can_be_asked_for():
    case = next(case for case in CASES if case.boxes)
    with pytest.raises(EmulationFault) as error:
        run(case, text_of(case), {}, published=True)
    assert error.value.kind == "missing-init-fence"
