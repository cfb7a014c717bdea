"""device/occupancy.py: blocks per EU, each case by hand."""

import pytest

from rcompiler.device.cpu import cpu_device
from rcompiler.device.occupancy import BlockNeeds, co_resident, occupancy
from rcompiler.device.target import find_device
from rcompiler.errors import DeviceError


@pytest.mark.parametrize(
    ("target", "needs", "blocks", "limiter"),
    [
        # 64 warps / 8; registers: 32 x 32 a warp, 16 warps a partition
        ("h200", (256, 32), 8, "warps"),
        # 128 x 32 = 4096 of a warp, 4 in a partition of 16384: 16 warps / 8
        ("h200", (256, 128, 36_864), 2, "registers"),
        # 129 x 32 = 4128, up to 4352: 3 in a partition, 12 warps / 8
        ("h200", (256, 129), 1, "registers"),
        # one warp a block: never more than 32 blocks
        ("h200", (32, 16), 32, "blocks"),
        # 72 KiB + 1 KiB, three times in 228 KiB
        ("h200", (256, 40, 72 << 10), 3, "shared memory"),
        # 116000 + 1024, up to 117120: once
        ("h200", (128, 32, 116_000), 1, "shared memory"),
        ("h200", (128, 32, 227 << 10), 1, "shared memory"),
        ("h200", (128, 32, (227 << 10) + 1), 0, "shared memory"),
        ("h200", (1024, 64), 1, "registers"),
        ("h200", (1024, 65), 0, "registers"),  # 72 registers for 1024 threads are no block's
        ("h200", (1025, 16), 0, "threads of a block"),
        ("h200", (128, 256), 0, "registers"),  # no thread has so many
        ("b200", (128, 32, 227 << 10), 1, "shared memory"),
        # 48 warps / 8, and 24 blocks
        ("rtx5090", (256, 32), 6, "warps"),
        ("rtx5090", (32, 16), 24, "blocks"),
        ("rtx5090", (256, 255, 99 << 10), 1, "registers"),
        ("rtx5090", (256, 32, (99 << 10) + 1), 0, "shared memory"),
        # a warp of 33 threads is two
        ("a100", (33, 32), 32, "blocks"),
        ("a100", (96, 32), 21, "warps"),  # 64 / 3
        # 255 registers, 8192 of a warp: 2 in a partition, 8 warps / 8
        ("a100", (256, 255), 1, "registers"),
        # 9 warps, 12 as the block is checked: 12 x 8192 > 65536
        ("a100", (288, 255), 0, "registers"),
        # 40 KiB + 1 KiB, four times in 164 KiB
        ("a100", (128, 32, 40 << 10), 4, "shared memory"),
        ("a100", (128, 32, (40 << 10) + 1), 3, "shared memory"),
        ("a100", (128, 32, 163 << 10), 1, "shared memory"),
        # 168 registers: 5376 of a warp, 3 in a partition: 12 warps / 2; with 200 only 2
        ("v100", (64, 168), 6, "registers"),
        ("v100", (64, 200), 4, "registers"),
        # nothing is kept back: twice 48 KiB in 96 KiB
        ("v100", (128, 32, 48 << 10), 2, "shared memory"),
        # twice as many registers as later ones, but not for one block
        ("k80", (256, 255), 2, "registers"),
        ("k80", (512, 255), 0, "registers"),
        ("k80", (128, 32), 16, "blocks"),
        ("k80", (128, 32, 24 << 10), 4, "shared memory"),  # 112 / 24
        ("k80", (128, 32, (48 << 10) + 1), 0, "shared memory"),
        # 84 of 256 registers: 3 waves on each of 4 SIMDs, 4 waves a block
        ("mi50", (256, 84), 3, "registers"),
        ("mi50", (256, 85), 2, "registers"),
        ("mi50", (256, 24), 10, "warps"),  # 40 waves
        # 50 of 512 registers, as 56: 9 waves, but a SIMD has 8; 8 waves a block
        ("mi210", (512, 50), 4, "warps"),
        ("mi210", (256, 128), 4, "registers"),  # 4 waves a SIMD
        ("mi250x", (256, 512), 1, "registers"),
        ("mi210", (128, 32), 16, "blocks"),  # 16 barriers
        ("mi300x", (256, 64, 20 << 10), 3, "shared memory"),  # 64 / 20
        ("mi300x", (256, 64, (64 << 10) + 1), 0, "shared memory"),
    ],
)
def test_blocks_by_hand(target, needs, blocks, limiter):
    device = find_device(target)
    found = occupancy(device, BlockNeeds(*needs))
    assert (found.blocks, found.limiter) == (blocks, limiter)
    assert found.warps == blocks * -(-needs[0] // device.compute.warp)
    assert co_resident(device, BlockNeeds(*needs)) == device.eus * blocks


def test_a_grid_of_a_persistent_kernel():
    """One block of 256 threads and 200 KiB on every EU."""
    needs = BlockNeeds(threads=256, registers=232, shared=200 << 10)
    assert co_resident(find_device("cuda:h200"), needs) == 132
    assert co_resident(find_device("cuda:emulated-sm_90a"), needs) == 4
    assert co_resident(find_device("cuda:a100"), needs) == 0


def test_what_has_no_blocks_is_refused():
    with pytest.raises(DeviceError, match="does not say what its EUs hold at once"):
        occupancy(cpu_device("v3"), BlockNeeds(32, 32))
    for needs in (BlockNeeds(0, 32), BlockNeeds(32, -1), BlockNeeds(32, 32, -1)):
        with pytest.raises(DeviceError, match="one thread or more"):
            occupancy(find_device("h200"), needs)
