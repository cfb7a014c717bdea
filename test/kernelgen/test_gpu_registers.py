"""Registers of GPU code: coordinates are computed in 32 bits, and contractions spill nothing."""

import re
import sys
from pathlib import Path

import pytest
from gpu_cases import UNITS, GpuKernel
from kernel_cases import Tile, random, sum_of_products, type_of
from torch_mlir import ir

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from toolkit import needs_ptxas  # noqa: E402
from turns import turn_of  # noqa: E402

from rcompiler import dialects  # noqa: E402
from rcompiler.codegen.ptx import PtxModule, ptx  # noqa: E402
from rcompiler.codegen.ptxas import assemble  # noqa: E402
from rcompiler.kernelgen.simt.emitter import GLOBAL, SHARED, SimtEmitter  # noqa: E402
from rcompiler.kernelgen.simt.move_grid import ThreadBlock  # noqa: E402
from rcompiler.kernelgen.simt.target import SimtFeatures  # noqa: E402
from rcompiler.kernelgen.simt.vendor import AMD, NVIDIA  # noqa: E402
from rcompiler.linalg.affine import Linear  # noqa: E402
from rcompiler.passes._pipeline_text import runner  # noqa: E402

CONVOLUTIONS = Path(__file__).parents[1] / "Inputs" / "gpu" / "convolutions.mlir"


def compiled(device: str, chip: str, precision: str) -> PtxModule:
    attach = f"vdevice-attach-device{{device={device} precision={precision}}}"
    passes = f"{attach},vdevice-to-gpu,gpu-to-nvvm{{chip={chip}}}"
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        module = ir.Module.parse(CONVOLUTIONS.read_text())
        runner(passes, context)(module)
        return ptx(module)


def test_a_block_has_a_multiprocessor_for_itself():
    """Else ptxas may leave half of the registers to a second one, and spill for that."""
    text = compiled("h200", "sm_90a", "f32").text.decode()
    assert ".minnctapersm 1" in text[text.index(".entry veu") :].partition("{")[0]


@needs_ptxas
@pytest.mark.parametrize(
    ("device", "chip", "precision"),
    turn_of(
        (
            (*place, precision)
            for precision in ("f32", "tf32", "f16")
            for place in (("h200", "sm_90a"), ("a100", "sm_80"))
        ),
        3,
    ),
)
def test_a_large_register_tile_spills_nothing(device, chip, precision):
    functions = {f.name: f for f in assemble(compiled(device, chip, precision)).functions}
    assert {name: f.spill_stores for name, f in functions.items() if f.spill_stores} == {}
    assert "k_convolutions" in functions


def convolution(
    out: tuple[int, int, int], window: tuple[int, int, int], stride: int, pad: int, precision: str
) -> GpuKernel:
    """A convolution of an image whose channels lie apart, so that copies have 4 bytes; out: rows,
    columns, maps of the one tile; window: channels, rows, columns.
    """
    channels, *sizes = window
    around = [channels, *((n - 1) * stride + k for n, k in zip(out, sizes, strict=False))]
    shape = (channels, around[1] - 2 * pad, around[2] - 2 * pad)
    weights = (*window, out[2])
    body = f"""%nothing = arith.constant 0.0 : f32
      %around = tensor.pad %a0 low[0, {pad}, {pad}] high[0, {pad}, {pad}] {{
      ^bb0(%i: index, %j: index, %k: index):
        tensor.yield %nothing : f32
      }} : {type_of(shape)} to {type_of(around)}
    """ + sum_of_products(
        "h, w, o, c, p, q",
        (f"c, h * {stride} + p, w * {stride} + q", "c, p, q, o", "h, w, o"),
        (around, weights, out),
        factors="%around, %a1",
    )
    block = ThreadBlock(256)
    features = SimtFeatures(block, 160 << 10, units=UNITS, precision=precision, asynchronous=True)
    tile = Tile(out, (), out, vector_dim=2, lanes=min(out[2], 32))
    inputs = [random(shape), random(weights, 1)]
    return GpuKernel(body, ["%r"], inputs, [(out, "float32")], tile, features, "convolution")


COPIES = [
    ((3, 86, 32), (1, 41, 11), 2, 0, "f32", 160),  # 258 positions, 33 copies of a thread
    ((10, 25, 64), (3, 7, 7), 2, 3, "f32", 255),
    ((16, 31, 32), (3, 7, 7), 2, 3, "f32", 255),
    ((18, 29, 32), (5, 7, 7), 1, 3, "tf32", 255),  # 72 copies, were a part of 32 steps
    ((37, 53, 8), (3, 5, 5), 1, 2, "f16", 255),  # 132 elements that a thread would fetch
    ((1, 55, 64), (3, 3, 3), 2, 0, "f32", 160),  # few sums: a whole part would be read ahead
]


@needs_ptxas
@pytest.mark.parametrize(
    ("out", "window", "stride", "pad", "precision", "most", "chip"),
    turn_of(((*case, chip) for chip in ("sm_80", "sm_90a") for case in COPIES), 4),
)
def test_copies_of_single_elements_spill_nothing(out, window, stride, pad, precision, most, chip):
    """Where they lie is the sum of few values: what one of them needs does not make 30."""
    text = convolution(out, window, stride, pad, precision).text.decode()
    text = re.sub(r"^\.target .*$", f".target {chip}", text, flags=re.MULTILINE)
    # as the persistent program says it
    text = text.replace(".maxntid 256, 1, 1", ".maxntid 256, 1, 1\n.minnctapersm 1")
    functions = assemble(PtxModule(chip, text.encode())).functions
    assert [f.name for f in functions if f.spill_stores or f.spill_loads] == []
    assert 0 < max(f.registers for f in functions) <= most


def test_divisions_are_of_32_bits():
    """Those of 64 bits are dozens of instructions each."""
    text = compiled("h200", "sm_90a", "f32").text.decode()
    function = text[text.index(".func k_convolutions") :].partition("\n}")[0]
    assert not re.findall(r"\b(?:mul\.hi|div|rem|min|max)\.[us]64", function)


def test_words_of_the_schedule_are_read_whole():
    """Two halves take twice the loads, and registers and instructions to put them together."""
    text = compiled("h200", "sm_90a", "f32").text.decode()
    halves = re.findall(r"ld\.global\.b32\s+%rd\d+", text)
    assert "ld.global.b64" in text and not halves


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_the_walk_keeps_few_values_while_an_rkernel_runs(precision):
    """Its place, its meetings and where it counts its steps; the number of the thread and of the
    block, what they are compared with; parameters need no registers.
    """
    text = compiled("h200", "sm_90a", precision).text.decode()
    head, _, walk = text[text.index(".entry veu") :].partition("brx.idx")
    made = re.findall(r"^\t(?!ld\.param)[a-z]\S+\s+(%r\w+),", head, re.MULTILINE)
    kept = set(made).intersection(re.findall(r"%r\w+", walk))
    assert 3 <= len(kept) <= 11, sorted(kept)


# -- the emitter
def test_a_bounded_number_says_how_large_it_is():
    e = SimtEmitter(ThreadBlock(256), 32, NVIDIA)
    e.bounded(Linear.of("%n", 2) + 1, 1000)
    *_, short, most, low, wide = e.text()
    assert "arith.trunci" in short and "i64 to i32" in short
    assert most.endswith("arith.constant 1023 : i32")
    assert "arith.andi" in low and "arith.extui" in wide


def test_a_number_that_may_need_more_bits_stays():
    e = SimtEmitter(ThreadBlock(256), 32, NVIDIA)
    number = Linear.of("%n")
    assert e.bounded(number, (1 << 31) + 1) is number
    assert e.bounded(number, 1 << 31) is not number


def test_what_differs_between_threads_is_added_up_before_it_meets_the_pointer():
    e = SimtEmitter(ThreadBlock(256), 8, NVIDIA)
    e.pointer("%p", GLOBAL)
    own = e.lane_number * 3 + e.group
    e.load("%p", "f32", Linear.of("%a", 3) + own + 7, 0, readonly=False)
    lines = e.text()
    alike, apart, last = [line for line in lines if "getelementptr" in line]
    assert "getelementptr %p[" in alike and "[7]" in last
    total = apart.partition("[")[2].partition("]")[0]
    [added] = [line for line in lines if line.startswith(f"{total} = ")]
    assert "arith.addi" in added and "i64" in added


def test_pointers_of_32_bits_take_every_summand():
    e = SimtEmitter(ThreadBlock(256), 8, NVIDIA)
    e.pointer("%p", SHARED)
    e.load("%p", "f32", e.lane_number * 3 + e.group + 7, 0, readonly=False)
    assert len([line for line in e.text() if "getelementptr" in line]) == 3


def test_the_thread_is_taken_anew_in_32_bits():
    e = SimtEmitter(ThreadBlock(256), 32, NVIDIA)
    before = e.thread
    with e.renewed():
        assert e.thread != before and e.ranges[e.thread] == 256
    assert e.thread == before
    [copy] = [line for line in e.text() if "inline_asm" in line]
    assert '"mov.b32 $0, $1;"' in copy and copy.endswith("(i32) -> i32")


def test_groups_that_have_nothing_to_do_take_what_comes_next():
    """8 groups: after 3 register tiles the fourth group is the first, and behind a barrier all are
    free again.
    """
    e = SimtEmitter(ThreadBlock(256), 32, NVIDIA)
    assert e.next_group(3) == e.group, "not in turn: a thread may read what it wrote"
    e.taken = 0
    assert e.next_group(3) == e.group
    second = e.next_group(2)
    [ahead] = [line for line in e.text() if f"{second.terms[0][0]} = arith.remui" in line]
    [five] = [line for line in e.text() if "arith.constant 5 : i64" in line]  # group 3 comes to 8
    assert five.split()[0] in "".join(e.text()) and "arith.constant 8 : i64" in "".join(e.text())
    assert ahead
    e.barrier()
    assert e.next_group(1) == e.group and e.taken == 1


def test_only_warps_that_have_anything_to_do_meet():
    """3 groups of 32 threads, or of 8, which are less than a warp; on AMD GPUs all of a block."""
    for width, vendor, threads in ((32, NVIDIA, 96), (8, NVIDIA, 32), (32, AMD, None)):
        e = SimtEmitter(ThreadBlock(256), width, vendor)
        e.taken = 0
        e.next_group(2)
        e.next_group(1)
        e.barrier()
        lines = e.shared_out(e.text())
        barriers = [line.strip() for line in lines if "barrier" in line]
        if threads is None:
            assert lines == e.text() and barriers == ["gpu.barrier"]
            continue
        assert barriers == ["nvvm.barrier id = %meeting number_of_threads = %meeting_threads"]
        assert f"%meeting_threads = arith.constant {threads} : i32" in lines
        assert lines[-1] == "}" and "scf.if %meets {" in lines


def test_where_all_groups_have_something_to_do_the_block_meets():
    e = SimtEmitter(ThreadBlock(256), 32, NVIDIA)
    e.taken = 0
    for count in (6, 3):  # the ninth is of the first group again
        e.next_group(count)
    e.barrier()
    assert e.sharing == 8 and e.shared_out(e.text()) == e.text()
