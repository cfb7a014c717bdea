"""How the blocks of whole models hand over: the PTX has the forms that the schedule is proved for,
as many as the persistent kernel says, each where it must stand, and no others."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from gpu_networks import ARCHITECTURES, NETWORKS, compiled
from ptx_flow import Flow

from rcompiler.codegen.ptx import check, orderings
from rcompiler.emulator.ptx.parser import parse
from rcompiler.emulator.ptx.syntax import Immediate, Instruction, Label, Module
from rcompiler.kernelgen.simt.program import ENTRY

CASES = [
    pytest.param(name, chip, precision, id=f"{name}-{chip}-{precision}")
    for name in NETWORKS
    for chip in ARCHITECTURES
    for precision in ("f32", "f16")
]
every_model = pytest.mark.parametrize("name, chip, precision", CASES)
WARP = 32
# fence.release needs a newer PTX than drivers for sm_80 may know; fence.acq_rel orders more.
FENCES = {"sm_80": "fence.acq_rel", "sm_90a": "fence.release"}

# What is said once in the kernel's text, as code: how often it is there, by what it becomes.
# Loops that wait look a first time in front of them.
SAID = {
    "FENCE.gpu": ('llvm.fence syncscope("device") release', 1),
    "atom.global.add.u64": ("llvm.atomicrmw add", 1),
    "ld.acquire.gpu.global.b64": ('atomic syncscope("device") acquire', 2),
    "st.relaxed.gpu.global.b64": ('atomic syncscope("device") monotonic', 1),
    "bar.sync 0": ("gpu.barrier", 1),
    "nanosleep.u32": ("nvvm.nanosleep", 1),
    "trap": ("llvm.intr.trap", 1),
}
# Words that synchronise or order anything, or read behind the back of what does.
SYNCHRONISES = frozenset(
    "bar barrier fence membar atom red ld st ldu tex tld4 suld sust sured multimem mbarrier "
    "nanosleep trap griddepcontrol elect vote match activemask".split()
)
# Of the entry where factors of products come in boxes: their maps.
MAPS = "fence.proxy.tensormap::generic.acquire.sys"
# Of these products.
BOXES = {
    "elect.sync",  # who asks for them
    "fence.mbarrier_init.release.cluster",
    "fence.proxy.async.global",
    "fence.proxy.async.shared::cta",
    "mbarrier.arrive.expect_tx.shared.b64",
    "mbarrier.init.shared.b64",
    "mbarrier.inval.shared.b64",
    "mbarrier.try_wait.parity.shared.b64",
    "trap",
}
# Of the end of a wait for a box that never comes: the report.
REPORTED = {"atom.relaxed.gpu.global.cas.b64", "atom.global.or.b64"}
GIVEN_BACK = "mbarrier.arrive.shared.b64"  # a buffer: where there are more parts than buffers
PLAIN = re.compile(r"(ld|st)\.(global|shared|param)(\.v[248])?\.[bfsu]\d+")


@cache
def texts(name: str, chip: str, precision: str) -> tuple[str, str]:
    """The gpu dialect and the PTX of a network."""
    artifact = compiled(NETWORKS[name](), ["rammer"], chip, precision)["rammer"]
    return artifact.stages["gpu"], artifact.image.ptx.decode()


@cache
def module(name: str, chip: str, precision: str) -> Module:
    return parse(texts(name, chip, precision)[1])


def said(gpu: str, function: str) -> str:
    """The text of one function in the gpu dialect."""
    parts = re.split(r"^    (?=(?:gpu|func)\.func )", gpu, flags=re.MULTILINE)
    [found] = [part for part in parts if re.match(rf"\S+ (?:private )?@{function}\(", part)]
    return found


def form(op: Instruction) -> str:
    """An instruction without its operands; of a barrier, with them."""
    word = ".".join([op.name, *op.modifiers])
    if op.name not in ("bar", "barrier"):
        return word
    numbers = [str(o.value) if isinstance(o, Immediate) else "?" for o in op.operands]
    return f"{word} {', '.join(numbers)}"


def forms(found: Module, function: str) -> Counter[str]:
    """What synchronises in a function, but plain loads and stores, which it has."""
    every = [form(op) for op in found.functions[function].instructions if op.name in SYNCHRONISES]
    assert any(map(PLAIN.fullmatch, every))
    return Counter(word for word in every if not PLAIN.fullmatch(word))


def rkernels(found: Module) -> list[str]:
    return [name for name in found.functions if name not in (ENTRY, "give_up")]


@every_model
def test_the_persistent_kernel_has_the_forms_that_its_text_says(name, chip, precision):
    gpu, _ = texts(name, chip, precision)
    text = said(gpu, ENTRY)
    wanted = {
        word.replace("FENCE", FENCES[chip]): text.count(words) * times
        for word, (words, times) in SAID.items()
    }
    assert min(wanted.values()) > 0
    counted = forms(module(name, chip, precision), ENTRY)
    assert counted.pop(MAPS, 0) == gpu.count("nvvm.fence.proxy.acquire") == ("wgmma" in gpu)
    assert counted == wanted


@every_model
def test_the_report_of_a_wait_is_released_to_the_host_before_the_trap(name, chip, precision):
    found = module(name, chip, precision)
    # what others count is read by an atomic that changes nothing, as often as loops are unrolled
    counted = forms(found, "give_up")
    assert counted.pop("atom.global.or.b64") >= 2
    fence = f"{FENCES[chip]}.sys"
    assert counted == {"atom.relaxed.gpu.global.cas.b64": 1, fence: 1, "trap": 1}
    words = [form(op) for op in found.functions["give_up"].instructions]
    assert words[words.index(fence) + 1] == "trap"


@every_model
def test_rkernels_synchronise_the_threads_of_their_block_only(name, chip, precision):
    found, (gpu, _) = module(name, chip, precision), texts(name, chip, precision)
    kernels = rkernels(found)
    assert kernels
    for kernel in kernels:
        counted = forms(found, kernel)
        text, threads = said(gpu, kernel), found.functions[ENTRY].threads
        if "wgmma" in text:
            wanted = BOXES | REPORTED | {f"{FENCES[chip]}.sys"}
            there = {word: counted.pop(word, 0) for word in (*wanted, GIVEN_BACK)}
            assert min(there[word] for word in wanted) > 0
            assert (there[GIVEN_BACK] > 0) == ("nvvm.mbarrier.arrive %" in text)
        assert {word for word in counted if not is_barrier(word, threads)} == set()
        # loops may be unrolled, and the ways of a branch share what all of them begin with
        assert counted.total() >= text.count("gpu.barrier") or "scf.if" in text
        assert bool(counted) == ("gpu.barrier" in text or "nvvm.barrier " in text)


def is_barrier(word: str, threads: int) -> bool:
    """Of all threads: number 0; of some: another number, and how many whole warps they are."""
    if word == "bar.sync 0":
        return True
    match = re.fullmatch(r"bar(?:rier)?\.sync (\d+), (\d+)", word)
    if match is None:
        return False
    number, count = int(match[1]), int(match[2])
    return 0 < number < 16 and count % WARP == 0 and 0 < count < threads


def test_some_rkernels_have_barriers_and_some_share_matrix_units():
    """What is said of them above is said of something."""
    found = module("attention", "sm_80", "f16")
    assert sum(forms(found, kernel).total() for kernel in rkernels(found)) >= 4
    assert "mma.sync" in texts("attention", "sm_80", "f16")[1]
    assert "wgmma.mma_async" in texts("attention", "sm_90a", "f16")[1]


@every_model
def test_a_model_is_one_entry_and_calls_nothing_outside(name, chip, precision):
    found, (_, text) = module(name, chip, precision), texts(name, chip, precision)
    assert [f.name for f in found.functions.values() if f.entry] == [ENTRY]
    assert all(function.defined for function in found.functions.values())
    assert re.findall(r"\.extern\b.*", text) == (
        [".extern .shared .align 1024 .b8 veu_shared[];"] if "veu_shared" in text else []
    )
    called = [label(op) for f in found.functions.values() for op in calls(f.instructions)]
    assert Counter(called) == {"give_up": 2, **dict.fromkeys(rkernels(found), 1)}


@every_model
def test_no_load_misses_what_other_blocks_write(name, chip, precision):
    _, text = texts(name, chip, precision)
    loads = Counter(re.findall(r"\bldu?\.[\w.:]+", text))
    assert sum(n for word, n in loads.items() if word.startswith("ld.global.")) > 10
    assert {word for word in loads if not PLAIN.fullmatch(word)} == {"ld.acquire.gpu.global.b64"}


@every_model
def test_what_the_compiler_checks_is_what_is_there(name, chip, precision):
    """`check` reads text by patterns; here is what a parser of PTX finds."""
    _, text = texts(name, chip, precision)
    check(text)
    atomic = ("atom", "red", "fence", "membar")
    functions = module(name, chip, precision).functions.values()
    ordered = {"acquire", "relaxed", "release"}
    parsed = Counter(
        form(op)
        for function in functions
        for op in function.instructions
        if (op.name in atomic or ordered & set(op.modifiers)) and not is_of_copies(op)
    )
    assert parsed == Counter(orderings(text))


def is_of_copies(op: Instruction) -> bool:
    """A fence for what copies read and write, and their counters."""
    return op.name == "fence" and bool({"proxy", "mbarrier_init"} & set(op.modifiers))


# -- where they stand


def label(op: Instruction) -> str:
    [name] = [operand.name for operand in op.operands if isinstance(operand, Label)]
    return name


def calls(instructions: list[Instruction]) -> Iterator[Instruction]:
    return (op for op in instructions if op.name == "call")


def is_run(op: Instruction) -> bool:
    """A call of an rKernel: the only one that touches what blocks hand over."""
    return op.name == "call" and label(op) != "give_up"


def is_meeting(op: Instruction) -> bool:
    return form(op) == "bar.sync 0"


def misplaced(found: Module) -> set[str]:
    """What hand-overs lack on some way through the persistent kernel."""
    flow = Flow(found.functions[ENTRY])
    ops, wrong = flow.instructions, set()
    runs = set(flow.where(is_run))
    for at in runs:
        if runs & flow.reached(at, is_meeting):
            wrong.add("no barrier between two runs")
    for at in flow.where(lambda op: "acquire" in op.modifiers):
        if runs & flow.reached(at, is_meeting):
            wrong.add("no barrier between a wait and a run")
    fences = flow.where(lambda op: op.name == "fence" and not is_of_copies(op))
    for at in fences:
        if {None, *runs} & flow.leading_to(at, is_meeting):
            wrong.add("no barrier between a run and its signal")
    for at in flow.where(lambda op: op.name == "atom"):
        before = flow.leading_to(at, lambda op: op.name == "fence" and not is_of_copies(op))
        if ops[at].guard or {None, *runs} & before:
            wrong.add("a count that no fence precedes")
    return wrong


@every_model
def test_hand_overs_are_complete_on_every_way(name, chip, precision):
    assert misplaced(module(name, chip, precision)) == set()


@pytest.mark.parametrize("chip", ARCHITECTURES)
def test_what_is_missing_is_found(chip):
    """Each barrier of a run and of a signal, and each fence, taken away alone."""
    _, text = texts("mlp", chip, "f32")
    start, missing = text.index(f".entry {ENTRY}"), Counter[str]()
    for match in re.finditer(r"^\t(?:bar\.sync|fence)\b.*\n", text[start:], re.MULTILINE):
        cut = text[: start + match.start()] + text[start + match.end() :]
        missing.update(misplaced(parse(cut)))
    assert missing == {
        "no barrier between two runs": 1,
        "no barrier between a wait and a run": 1,
        "no barrier between a run and its signal": 2,
        "a count that no fence precedes": 2,
    }
