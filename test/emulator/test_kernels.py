"""Whole kernels that a code generator made: right results, and every fault put into them found.

The inputs: a f32 GEMM on cp.async, f16 and bf16 GEMMs on ldmatrix and mma.sync, tf32 products, a
warp-specialised GEMM on TMA, mbarriers and wgmma, and a persistent kernel that runs tasks of a
table with waits and signals between blocks; once with its tasks inlined, once with calls.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from ptx_bench import get, put

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.settings import Checks, Limits
from rcompiler.runtime.gpu.driver import TensorTile

INPUTS = Path(__file__).parents[1] / "Inputs" / "ptx"
MODES = [
    {},
    {"checks": Checks(races=False, uninitialised=False)},
    *({"interleave": True, "seed": seed} for seed in range(3)),
]


def text_of(name):
    return (INPUTS / f"{name}.ptx").read_text()


def driver_of(mode):
    return EmulatedDriver(multiprocessors=8, limits=Limits(patience=100), **mode)


def launch(driver, text, name, grid, threads, shared, arguments, cooperative=False):
    function = driver.function(driver.load(text.encode()), name)
    given = [a if isinstance(a, bytes) else np.uint64(a) for a in arguments]
    driver.launch(function, grid, (threads, 1, 1), shared, given, cooperative)


def normal(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


def product(text, name, a, b, threads, grid=(2, 2, 1), mode=None):
    """The f32 product that the kernel makes of two matrices."""
    driver = driver_of(mode or {})
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    places = [put(driver, x) for x in (a, b)] + [driver.allocate(c.nbytes)]
    launch(driver, text, name, grid, threads, 0, places)
    return get(driver, places[2], c)


def sgemm(text, mode=None):
    a, b = normal((64, 64)), normal((64, 64), seed=1)
    np.testing.assert_allclose(product(text, "sgemm", a, b, 64, mode=mode), a @ b, atol=1e-4)


def hgemm(text, mode=None):
    a, b = normal((64, 96), np.float16), normal((96, 64), np.float16, 1)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(product(text, "hgemm", a, b, 128, mode=mode), want, atol=1e-3)


def hgemm_bf16(text, mode=None):
    a, b = ((x.view(np.uint32) >> 16).astype(np.uint16)
            for x in (normal((64, 96)), normal((96, 64), seed=1)))  # fmt: skip
    wide = [(x.astype(np.uint32) << 16).view(np.float32) for x in (a, b)]
    got = product(text, "hgemm", a, b, 128, mode=mode)
    np.testing.assert_allclose(got, wide[0] @ wide[1], atol=1e-3)


def tf32(text, mode=None):
    a, b = normal((16, 64)), normal((64, 8), seed=1)
    cut = [(x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b)]
    got = product(text, "tf32", a, b, 32, (1, 1, 1), mode)
    np.testing.assert_allclose(got, cut[0] @ cut[1], atol=1e-4)


def hopper(text, mode=None):
    a, b = normal((256, 384), np.float16), normal((384, 256), np.float16, 1)
    driver = driver_of(mode or {})
    pa, pb = put(driver, a), put(driver, b)
    c = np.zeros((256, 256), np.float32)
    pc = driver.allocate(c.nbytes)
    left = driver.tensor_map(TensorTile(pa, 2, (384, 256), (768,), (64, 128), 128))
    right = driver.tensor_map(TensorTile(pb, 2, (256, 384), (512,), (64, 64), 128))
    launch(driver, text, "hopper", (2, 2, 1), 256, 3 * 32768, [left, right, pc])
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(get(driver, pc, c), want, atol=1e-2)


# Task: kind, two inputs, output (places in the arena), event waited for (-1: none), count, signal.
KINDS = ("gemm32", "relu", "add", "softmax", "transpose")
X, Y, Z, S, P, MA, MB, MC, MD = (k << 14 for k in range(9))
TASKS = [
    [("relu", X, 0, Y, -1, 0, 0), ("softmax", S, 0, P, 1, 1, 2), ("gemm32", MA, MB, MC, -1, 0, 3)],
    [("add", Y, Z, S, 0, 1, 1), ("transpose", MC, 0, MD, 3, 1, 4)],
    [("add", S, P, Z, 2, 1, 5), ("relu", MD, 0, X, 4, 1, 6)],
]


def changed(block, task, **fields):
    """TASKS with some fields of one task replaced."""
    names = ("kind", "first", "second", "out", "event", "count", "signal")
    tasks = [list(row) for row in TASKS]
    old = dict(zip(names, tasks[block][task], strict=True))
    tasks[block][task] = tuple({**old, **fields}.values())
    return tasks


def persistent(text, mode=None, tasks=TASKS):
    driver = driver_of(mode or {})
    arena = normal(1 << 18)
    rows = [[KINDS.index(kind), *rest, 0] for block in tasks for kind, *rest in block]
    starts = np.cumsum([0, *(len(block) for block in tasks)]).astype(np.int32)
    places = [put(driver, x) for x in (arena, np.array(rows, np.int32), starts,
                                       np.zeros(16, np.int32))]  # fmt: skip
    launch(driver, text, "mega", (len(tasks), 1, 1), 256, 0, places, True)
    got = get(driver, places[0], arena)

    def part(memory, place, count=4096):
        return memory[place : place + count]

    relu = np.maximum(part(arena, X), 0)
    total = relu + part(arena, Z)
    soft = np.exp(total[:1024] - total[:1024].max())
    soft /= soft.sum()
    matrix = part(arena, MA, 2048).reshape(32, 64) @ part(arena, MB).reshape(64, 64)[:, :32]
    np.testing.assert_allclose(part(got, Y), relu)
    np.testing.assert_allclose(part(got, S), total)
    np.testing.assert_allclose(part(got, P, 1024), soft, rtol=1e-4)
    np.testing.assert_allclose(part(got, Z, 1024), total[:1024] + soft, rtol=1e-4)
    result = part(got, MC, 2048).reshape(32, 64)[:, :32]
    np.testing.assert_allclose(result, matrix, atol=1e-4)
    turned = got[MD : MD + 32 * 1024].reshape(32, 1024)[:, :32]
    source = got[MC : MC + 32 * 1024].reshape(32, 1024)
    np.testing.assert_allclose(turned[:, :16], source[:16, :32].T)
    np.testing.assert_allclose(part(got, X), np.maximum(part(got, MD), 0))


KERNELS = {
    "sgemm": sgemm,
    "hgemm_f16": hgemm,
    "hgemm_bf16": hgemm_bf16,
    "tf32": tf32,
    "hopper": hopper,
    "persistent": persistent,
    "persistent_calls": persistent,
}


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_results(name, mode):
    KERNELS[name](text_of(name), mode)


def replaced(text, pattern, by, which=None):
    """The text with all matches replaced, or number `which` of them; there must be one."""
    found = list(re.finditer(pattern, text))
    assert found and (which is None or which < len(found))
    chosen = found if which is None else [found[which]]
    for match in reversed(chosen):
        text = text[: match.start()] + match.expand(by) + text[match.end() :]
    return text


BAR, FENCE = r"bar\.sync[^;]*;", r"fence\.release\.gpu;"
COPIED, SPIN = r"cp\.async\.wait_group\s+1;", r"ld\.acquire\.gpu"
WAITED, ARRIVED = r"@P1 bra\.uni DONE", r"mbarrier\.arrive\.shared[^;]*;"
READ = r"wgmma\.wait_group\S*\s*\d;"
RACES = {"shared-race", "late-async-copy", "uninitialised-read"}
# Kernel, what is put in for which match of what, the kinds of faults that may be reported.
MUTANTS = [
    ("sgemm", BAR, "", None, RACES),
    ("sgemm", BAR, "@%p1 bar.sync 0;", None, RACES | {"barrier-deadlock"}),
    ("sgemm", BAR, "bar.sync 0, 128;", None, {"barrier-deadlock"}),
    ("sgemm", COPIED, "", None, {"late-async-copy"}),
    ("sgemm", COPIED, "cp.async.wait_group 2;", None, {"late-async-copy"}),
    ("sgemm", r"cp\.async\.commit_group;", "", 2, {"late-async-copy"}),
    ("sgemm", r"(ld\.shared\.v4\.b32\s+\{[^}]*\}, \[%rd\d+)\]", r"\1+4]", 0, {"misaligned"}),
    ("sgemm", r"(ld\.shared\.v4\.b32\s+\{[^}]*\}, \[%rd\d+)\]", r"\1+65536]", 0,
     {"out-of-bounds"}),
    ("hgemm_f16", BAR, "", None, RACES),
    ("hgemm_f16", BAR, "", 0, RACES),
    ("hgemm_f16", COPIED, "", None, {"late-async-copy"}),
    ("hgemm_f16", COPIED, "cp.async.wait_group 2;", None, {"late-async-copy"}),
    ("hgemm_f16", r"(\bldmatrix[^;]*;)", r"{ .reg .pred g; .reg .u32 t; mov.u32 t, %tid.x; "
     r"setp.ne.u32 g, t, 5; @g \1 }", 0, {"partial-warp"}),
    ("hgemm_bf16", COPIED, "", 0, {"late-async-copy"}),
    *(("hopper", WAITED, "bra.uni DONE", k, RACES) for k in (0, 1, 2, 3, 4, 9, 10)),
    *(("hopper", READ, "", k, {"shared-race", "late-async-copy"}) for k in (1, 2, 3, 5)),
    *(("hopper", ARRIVED, "", k, {"timeout"}) for k in (0, 1, 2)),
    ("hopper", BAR, "", None, {"shared-race", "barrier-misuse"}),
    ("hopper", r"(mov\.b32\s+%r\d+), 32768;", r"\1, 32784;", None, {"timeout"}),
    ("persistent", SPIN, "ld.relaxed.gpu", None, {"global-race"}),
    ("persistent", FENCE, "", None, {"global-race"}),
    *(("persistent", BAR, "", k, RACES | {"global-race"}) for k in (0, 1, 2, 3, 4, 6, 7, 8)),
    ("persistent_calls", SPIN, "ld.relaxed.gpu", None, {"global-race"}),
    ("persistent_calls", FENCE, "", None, {"global-race"}),
]  # fmt: skip


@pytest.mark.parametrize("mode", [MODES[0], MODES[2]], ids=str)
@pytest.mark.parametrize(
    ("name", "pattern", "by", "which", "kinds"),
    MUTANTS,
    ids=lambda v: v if isinstance(v, str) and re.fullmatch(r"\w+", v) else "",
)
def test_mutants_are_reported(name, pattern, by, which, kinds, mode):
    text = replaced(text_of(name), pattern, by, which)
    with pytest.raises(EmulationFault) as error:
        KERNELS[name](text, mode)
    assert error.value.kind in kinds, str(error.value)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("block", "task"), [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)], ids=lambda k: str(k)
)
def test_dropped_waits_are_races_in_every_order(block, task, seed):
    """A schedule that forgets to wait: reported whether or not the results come out right."""
    tasks = changed(block, task, event=-1, count=0)
    for mode in ({"interleave": True, "seed": seed}, {}):
        with pytest.raises(EmulationFault) as error:
            persistent(text_of("persistent"), mode, tasks)
        assert error.value.kind == "global-race"


@pytest.mark.parametrize("mode", [MODES[0], *MODES[2:]], ids=str)
@pytest.mark.parametrize(("block", "task"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)])
def test_lost_signals_are_timeouts(block, task, mode):
    """Whoever waits for the event is named with it."""
    event = TASKS[block][task][6]
    with pytest.raises(EmulationFault) as error:
        persistent(text_of("persistent"), mode, changed(block, task, signal=9))
    fault = error.value
    assert fault.kind == "timeout"
    waiting = [b for b, tasks in enumerate(TASKS) for t in tasks if t[4] == event]
    events = {address & 0xFF: site.block for site, address in fault.waiting}
    assert events[4 * event] in [(block, 0, 0) for block in waiting]
