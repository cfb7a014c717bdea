"""What the code for Hopper needs to be right, left out or changed one by one: all of it is seen."""

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.settings import Limits
from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.executable import GpuExecutable

MODES = [{}, {"interleave": True, "seed": 1}]
ROWS, SIZES = 128, (8192, 64, 128)  # buffers of the first product are used eight times


@pytest.fixture(scope="module")
def program():
    """Two products of f16, the second of which reads what other blocks have stored."""
    half, inputs, nodes, x = TensorProto.FLOAT16, {"x": (ROWS, SIZES[0])}, [], "x"
    for k, shape in enumerate(zip(SIZES, SIZES[1:], strict=False)):
        inputs[f"w{k}"] = shape
        nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"m{k}"]))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"r{k}"]))
        x = f"r{k}"
    values = [helper.make_tensor_value_info(n, half, shape) for n, shape in inputs.items()]
    result = helper.make_tensor_value_info(x, half, (ROWS, SIZES[-1]))
    graph = helper.make_graph(nodes, "products", values, [result])
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    rng = np.random.default_rng(7)
    arrays = [(rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float16) for s in inputs.values()]
    return rcompiler.compile_onnx(model, target="cuda:emulated-sm_90a").artifact, arrays


def run(program, text: str, mode) -> np.ndarray:
    """The result of the program with other PTX."""
    artifact, arrays = program
    image = dataclasses.replace(artifact.image, ptx=text.encode())
    changed = dataclasses.replace(artifact, image=image)

    def device() -> EmulatedDriver:
        limits = Limits(patience=100)
        return EmulatedDriver(capability=(9, 0), multiprocessors=4, limits=limits, **mode)

    return GpuExecutable(changed, device)(*arrays)[0]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_program_is_right(program, mode):
    artifact, (x, *weights) = program
    found = run(program, artifact.image.ptx.decode(), mode)
    for w in weights:
        x = np.maximum(x.astype(np.float32) @ w.astype(np.float32), 0).astype(np.float16)
    assert np.abs(found.astype(np.float32) - x).max() <= 2e-3 * np.abs(x).max()


Change = Callable[[str], tuple[str, int]]


def by(pattern: str, text: str = "") -> Change:
    return lambda ptx: re.subn(pattern, text, ptx, flags=re.MULTILINE)


def other_number(registers: str, number: str, change: Callable[[int], int]) -> Change:
    """The number that is put into the registers that the first pattern finds is another one."""

    def changed(ptx: str) -> tuple[str, int]:
        names = "|".join(map(re.escape, set(re.findall(registers, ptx))))
        pattern = rf"(mov\.b32\s+(?:{names})), ({number});"
        return re.subn(pattern, lambda m: f"{m[1]}, {change(int(m[2]))};", ptx)

    return changed


PLACE = r"\[[%\w+]+\]"  # in shared memory: a register, or the symbol and a displacement
ARRIVALS, BYTES = (
    rf"mbarrier\.init\S*\s+{PLACE}, (%r\d+);",
    rf"expect_tx\S*\s+\S+ {PLACE}, (%r\d+);",
)
GIVEN_UP = "waits for a box of a tensor"  # what the kernel says by itself, within its limit
FAULTS: dict[str, tuple[Change, set[str]]] = {
    "no wgmma.fence": (by(r"^\s*wgmma\.fence\S*;"), {"missing-wgmma-fence"}),
    "no proxy fence": (by(r"^\s*fence\.proxy\.async\.\S*;"), {"missing-proxy-fence"}),
    "proxy fences of shared memory": (
        by(r"fence\.proxy\.async\.global;", "fence.proxy.async.shared::cta;"),
        {"missing-proxy-fence"},
    ),
    "no fence of mbarriers": (by(r"^\s*fence\.mbarrier_init\S*;"), {"missing-init-fence"}),
    "no fence of tensor maps": (by(r"^\s*fence\.proxy\.tensormap.*;"), {"missing-map-fence"}),
    "no release fence": (by(r"^\s*fence\.release\.gpu;"), {"global-race"}),
    "relaxed for acquire": (by(r"ld\.acquire\.gpu", "ld.relaxed.gpu"), {"global-race"}),
    "three parts unread": (by(r"(wgmma\.wait_group\S*)\s+1;", r"\1 3;"), {"shared-race"}),
    "one part unfinished": (by(r"(wgmma\.wait_group\S*)\s+0;", r"\1 1;"), {"late-async-copy"}),
    "a warp that need not arrive": (
        other_number(ARRIVALS, "8", lambda n: n - 1), {"shared-race", GIVEN_UP},
    ),
    "too few bytes": (other_number(BYTES, r"\d{4,}", lambda n: n - 16), {GIVEN_UP}),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_reported(program, name, mode):
    change, kinds = FAULTS[name]
    text, count = change(program[0].image.ptx.decode())
    assert count
    with pytest.raises((EmulationFault, DeviceError)) as error:
        run(program, text, mode)
    said = str(error.value)
    found = getattr(error.value, "kind", GIVEN_UP if GIVEN_UP in said else "")
    assert found in kinds, said


BEFORE_RING = r"(fence\.proxy\.async\.shared::cta;\s*)bar\.sync\s+0;"


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_barrier_in_front_of_a_product(program, mode):
    """It orders the product's mbarriers behind whoever used their memory before. These programs use
    it last in front of a barrier that stands between all tasks, so nothing goes wrong without it;
    where a thread still reads that memory, its absence is seen.
    """
    ptx = program[0].image.ptx.decode()
    first = re.search(rf"mbarrier\.init\S*\s+({PLACE})", ptx)
    assert first
    reads = (
        "{ .reg .b32 r; .reg .pred q; mov.u32 r, %tid.x; setp.eq.u32 q, r, 0; "
        f"@q st.shared.b32 {first[1]}, 0; bar.sync 0; ld.shared.b32 r, {first[1]}; }}"
    )
    reading = re.sub(BEFORE_RING, rf"{reads}\n\1bar.sync 0;", ptx, count=1)
    assert reading != ptx
    whole = run(program, ptx, mode)
    np.testing.assert_array_equal(run(program, reading, mode), whole)
    np.testing.assert_array_equal(run(program, re.sub(BEFORE_RING, r"\1", ptx), mode), whole)
    with pytest.raises(EmulationFault) as error:
        run(program, re.sub(BEFORE_RING, r"\1", reading), mode)
    assert error.value.kind == "shared-race"
