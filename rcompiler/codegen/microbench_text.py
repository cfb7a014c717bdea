"""The kernels of the micro-benchmarks as modules of the llvm dialect, as `microbench` says."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from rcompiler.device.measure import LINKS, TYPES
from rcompiler.device.model import DOT_STEPS

# Hide latencies of up to 6 cycles at two ports, and leave registers for x and y among 16.
ACCUMULATORS = 12
UNROLL = 4
CHAIN = 4 * ACCUMULATORS
STREAMS = 8  # accumulators, and loads in flight, of the streams
ONES = 2048  # bytes of the factors of `feed`, which stay in the first level

Step = Callable[[str, str], str]  # a multiply-add, from the names of the old and the new sums


@dataclass(frozen=True)
class Dot:
    """A dot-product instruction: LLVM's name, type of the sums, a word [1, 0, ..] of factors."""

    name: str
    sums: str
    one: int


DOTS = {
    "i8": Dot("avx512.vpdpbusd", "i32", 1),
    "bf16": Dot("avx512bf16.dpbf16ps", "f32", 0x3F80),
}


def module_text(vector_bytes: int, *, fused: bool) -> str:
    """All kernels as one module, for vectors of `vector_bytes`.

    fused: there is a multiply-add instruction; without one, a multiplication and an addition.
    """
    lanes = {name: vector_bytes // size for name, size in TYPES.items()}
    vectors = {name: f"vector<{lanes[name]}x{name}>" for name in TYPES}
    several = {name: partial(_multiply_add, vector, fused) for name, vector in vectors.items()}
    peaks = [
        _sums(f"peak_{name}", vectors[name], several[name], steps=UNROLL, chain=0) for name in TYPES
    ]
    steps = 2 if fused else 1
    clock = _sums("clock", vectors["f32"], several["f32"], steps=steps, chain=CHAIN)
    chains = [
        _sums(name, vectors["f32"], several["f32"], steps=LINKS, chain=0, chains=count)
        for name, count in (("one_chain", 1), ("chains", ACCUMULATORS))
    ]
    streams = [_stream(vector_bytes), _feed(vector_bytes, fused)]
    return "\n".join(["module {", *peaks, clock, *chains, *streams, "}"])


def dots_text(vector_bytes: int, elements: Collection[str]) -> str:
    """The peak kernels of dot groups as one module, for targets that have the instructions."""
    kernels = []
    for element in sorted(elements):
        vector = f"vector<{vector_bytes // 4}x{DOTS[element].sums}>"
        step = partial(_multiply_dots, element, vector_bytes)
        kernels.append(_sums(f"peak_{element}", vector, step, steps=UNROLL, chain=0))
    return "\n".join(["module {", *kernels, "}"])


_COUNTERS = """  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64"""


def _sums(name: str, vector: str, step: Step, *, steps: int, chain: int, chains: int = 0) -> str:
    """Multiply-adds on all accumulators, `steps` times per repetition, beside a chain.

    chains: so many accumulators, and all steps of one of them before those of the next.
    """
    several = range(chains or ACCUMULATORS)
    values = [[f"%a{i}_{step}" for i in several] for step in range(steps + 1)]
    loads = [
        f"%p{i} = llvm.getelementptr %data[{2 + i}] : (!llvm.ptr) -> !llvm.ptr, {vector}\n"
        f"  %i{i} = llvm.load %p{i} : !llvm.ptr -> {vector}"
        for i in several
    ]
    order = [(k, i) for k in range(steps) for i in several]
    if chains:
        order.sort(key=lambda at: at[1])
    body = [step(values[k][i], values[k + 1][i]) for k, i in order]
    links = [
        f"%c_{i + 1} = llvm.{'xor' if i % 2 else 'add'} %c_{i}, %w{i % 2} : i64"
        for i in range(chain)
    ]
    stores = [f"llvm.store {values[steps][i]}, %p{i} : {vector}, !llvm.ptr" for i in several]
    return f"""
llvm.func @{name}(%data: !llvm.ptr, %words: !llvm.ptr, %n: i64) -> i64 {{
{_COUNTERS}
  %x = llvm.load %data : !llvm.ptr -> {vector}
  %py = llvm.getelementptr %data[1] : (!llvm.ptr) -> !llvm.ptr, {vector}
  %y = llvm.load %py : !llvm.ptr -> {vector}
  %w0 = llvm.load %words : !llvm.ptr -> i64
  %pw = llvm.getelementptr %words[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %w1 = llvm.load %pw : !llvm.ptr -> i64
  {_lines(loads)}
  llvm.br ^loop({_passed(["%c0", "%c0"], [f"%i{i}" for i in several], vector)})
^loop({_declared(["%k", "%c_0"], values[0], vector)}):
  {_lines(_mixed(body, links))}
  %k1 = llvm.add %k, %c1 : i64
  %more = llvm.icmp "slt" %k1, %n : i64
  llvm.cond_br %more, ^loop({_passed(["%k1", f"%c_{chain}"], values[steps], vector)}), ^done
^done:
  {_lines(stores)}
  llvm.return %c_{chain} : i64
}}"""


def _multiply_add(vector: str, fused: bool, old: str, new: str) -> str:
    """new = old * x + y"""
    if fused:
        return f"{new} = llvm.intr.fma({old}, %x, %y) : ({vector}, {vector}, {vector}) -> {vector}"
    return f"{new}m = llvm.fmul {old}, %x : {vector}\n  {new} = llvm.fadd {new}m, %y : {vector}"


def _multiply_dots(element: str, size: int, old: str, new: str) -> str:
    """new = old + the products of the words of x and y"""
    dot = DOTS[element]
    vector = f"vector<{size // 4}x{dot.sums}>"
    words = f"vector<{size // 4 * DOT_STEPS[element]}x{element}>"
    call = f'llvm.call_intrinsic "llvm.x86.{dot.name}.{8 * size}"({old}, {new}x, {new}y)'
    return f"""{new}x = llvm.bitcast %x : {vector} to {words}
  {new}y = llvm.bitcast %y : {vector} to {words}
  {new} = {call} : ({vector}, {words}, {words}) -> {vector}"""


def _mixed(body: list[str], links: list[str]) -> list[str]:
    """Both lists in order, the second spread evenly over the first."""
    each = -(-len(links) // len(body))
    return [line for i, op in enumerate(body) for line in (op, *links[i * each : (i + 1) * each])]


def _stream(vector_bytes: int) -> str:
    vector = f"vector<{vector_bytes // 8}xi64>"
    load = "%l{0} = llvm.load %q{0} : !llvm.ptr -> " + vector
    body = [f"{load.format(i)}\n  %b{i} = llvm.add %a{i}, %l{i} : {vector}" for i in range(STREAMS)]
    return _read("stream", vector, vector_bytes, body)


def _feed(vector_bytes: int, fused: bool) -> str:
    """Every vector is multiplied twice: by a factor from the first level, and by itself."""
    vector = f"vector<{vector_bytes // 8}xf64>"
    body = [
        f"%l{i} = llvm.load %q{i} : !llvm.ptr -> {vector}\n"
        f"  %f{i} = llvm.getelementptr %ones[{i}] : (!llvm.ptr) -> !llvm.ptr, {vector}\n"
        f"  %x{i} = llvm.load %f{i} : !llvm.ptr -> {vector}\n"
        f"  {_product(f'%a{i}', f'%l{i}', f'%x{i}', f'%m{i}', vector, fused)}\n"
        f"  {_product(f'%m{i}', f'%l{i}', f'%l{i}', f'%b{i}', vector, fused)}"
        for i in range(STREAMS)
    ]
    where = f"""%turn = llvm.mlir.constant({ONES - 1} : i64) : i64
  %behind = llvm.mlir.constant({vector_bytes * STREAMS} : i64) : i64
  %around = llvm.and %at, %turn : i64
  %place = llvm.add %around, %behind : i64
  %ones = llvm.getelementptr %sums[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i8"""
    return _read("feed", vector, vector_bytes, [where, *body])


def _product(old: str, x: str, y: str, new: str, vector: str, fused: bool) -> str:
    """new = old + x * y"""
    if fused:
        return (
            f"{new} = llvm.intr.fma({x}, {y}, {old}) : ({vector}, {vector}, {vector}) -> {vector}"
        )
    return f"{new}m = llvm.fmul {x}, {y} : {vector}\n  {new} = llvm.fadd {old}, {new}m : {vector}"


def _read(name: str, vector: str, vector_bytes: int, body: list[str]) -> str:
    """Go over a buffer: `body` makes %b0, ... from %a0, ... and the vectors at %q0, ..."""
    several = range(STREAMS)
    outer, old, new = ([f"%{letter}{i}" for i in several] for letter in "oab")
    zero = "0.0" if vector.endswith("f64>") else "0"
    places = [
        f"%q{i} = llvm.getelementptr %q[{i}] : (!llvm.ptr) -> !llvm.ptr, {vector}" for i in several
    ]
    stores = [
        f"%w{i} = llvm.getelementptr %sums[{i}] : (!llvm.ptr) -> !llvm.ptr, {vector}\n"
        f"  llvm.store {new[i]}, %w{i} : {vector}, !llvm.ptr"
        for i in several
    ]
    return f"""
llvm.func @{name}(%from: !llvm.ptr, %bytes: i64, %n: i64, %sums: !llvm.ptr) {{
{_COUNTERS}
  %step = llvm.mlir.constant({vector_bytes * STREAMS} : i64) : i64
  %zero = llvm.mlir.constant(dense<{zero}> : {vector}) : {vector}
  llvm.br ^pass({_passed(["%c0"], ["%zero"] * STREAMS, vector)})
^pass({_declared(["%k"], outer, vector)}):
  llvm.br ^loop({_passed(["%c0"], outer, vector)})
^loop({_declared(["%at"], old, vector)}):
  %q = llvm.getelementptr %from[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  {_lines(places)}
  {_lines(body)}
  %next = llvm.add %at, %step : i64
  %more = llvm.icmp "slt" %next, %bytes : i64
  llvm.cond_br %more, ^loop({_passed(["%next"], new, vector)}), ^passed
^passed:
  %k1 = llvm.add %k, %c1 : i64
  %again = llvm.icmp "slt" %k1, %n : i64
  llvm.cond_br %again, ^pass({_passed(["%k1"], new, vector)}), ^done
^done:
  {_lines(stores)}
  llvm.return
}}"""


def _lines(lines: list[str]) -> str:
    return "\n  ".join(lines)


def _passed(words: list[str], vectors: list[str], vector: str) -> str:
    """Arguments of a branch: 64-bit integers and vectors."""
    types = ["i64"] * len(words) + [vector] * len(vectors)
    return f"{', '.join([*words, *vectors])} : {', '.join(types)}"


def _declared(words: list[str], vectors: list[str], vector: str) -> str:
    """Arguments of a block: 64-bit integers and vectors."""
    return ", ".join([f"{w}: i64" for w in words] + [f"{v}: {vector}" for v in vectors])
