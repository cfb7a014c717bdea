"""codegen/amdgcn.py: lowered gpu.modules become AMDGCN that calls nothing and spills nothing."""

import re
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from gpu_code import kernel, lowered, one_thread  # noqa: E402

from rcompiler.codegen.amdgcn import amdgcn, amdgcn_object  # noqa: E402
from rcompiler.errors import CompilerError, PipelineError  # noqa: E402

CHIPS = ("gfx90a", "gfx942")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["saxpy", "portable_gemm"])
def test_kernels_are_compiled_without_spills(name: str, chip: str, tmp_path: Path):
    module = kernel(name, f"gpu-to-rocdl{{chip={chip}}}")
    code = amdgcn(module)
    assert code == amdgcn(module) and code.chip == chip
    [(entry, resources)] = code.kernels.items()
    assert entry == name.removeprefix("portable_")
    assert resources.spills == resources.stack_bytes == 0
    assert resources.shared_bytes == {"saxpy": 512}.get(name, (64 * 20 + 16 * 64) * 4)
    assert 0 < resources.vector_registers <= 128 and resources.scalar_registers > 0
    (tmp_path / "k.o").write_bytes(amdgcn_object(module))
    with open(tmp_path / "k.o", "rb") as file:
        elf = ELFFile(file)
        assert elf.header.e_machine == "EM_AMDGPU"
        symbols = elf.get_section_by_name(".symtab").iter_symbols()
        undefined = [s.name for s in symbols if s.name and s.entry.st_shndx == "SHN_UNDEF"]
    assert undefined == []


def test_instructions_of_a_product():
    text = amdgcn(kernel("portable_gemm", "gpu-to-rocdl{chip=gfx90a}")).text.decode()
    for instruction in (r"v_pk_fma_f32|v_fmac_f32", "ds_read_b128", r"(global|flat)_load_dwordx4"):
        assert re.search(instruction, text)
    assert "s_barrier" in text and re.search(r"(global|flat)_atomic_add", text)


def test_products_and_sums_round_by_themselves():
    """And are one where the IR says so; denormal numbers stay."""
    for flags, fused in (("", False), (" fastmath<contract>", True)):
        body = f"""%x = memref.load %p[%t] : memref<64xf32>
        %m = arith.mulf %x, %x{flags} : f32
        %y = arith.addf %m, %x{flags} : f32
        memref.store %y, %p[%t] : memref<64xf32>"""
        text = amdgcn(lowered(one_thread(body), "gpu-to-rocdl")).text.decode()
        assert bool(re.search(r"v_fma(c|ak|mk)?_f32", text)) == fused
        assert ".amdhsa_float_denorm_mode_32 3" in text


def test_functions_that_are_called_are_defined():
    text = """module { gpu.module @kernels {
      func.func private @called(%x: f32) -> f32 attributes {no_inline} {
        %y = math.sin %x : f32
        return %y : f32 }
      gpu.func @k(%p: memref<64xf32>) kernel {
        %t = gpu.thread_id x
        %x = memref.load %p[%t] : memref<64xf32>
        %y = func.call @called(%x) : (f32) -> f32
        memref.store %y, %p[%t] : memref<64xf32>
        gpu.return } } }"""
    assert set(amdgcn(lowered(text, "gpu-to-rocdl")).kernels) == {"k"}


def test_external_functions_are_refused():
    text = """module { gpu.module @kernels {
      llvm.func @elsewhere(f32) -> f32
      gpu.func @k(%p: memref<64xf32>) kernel {
        %t = gpu.thread_id x
        %x = memref.load %p[%t] : memref<64xf32>
        %y = llvm.call @elsewhere(%x) : (f32) -> f32
        memref.store %y, %p[%t] : memref<64xf32>
        gpu.return } } }"""
    with pytest.raises(CompilerError, match="'elsewhere' is not defined"):
        amdgcn(lowered(text, "gpu-to-rocdl"))


FUNCTIONS = (
    "sqrt rsqrt floor ceil trunc roundeven round absf exp exp2 expm1 log log2 log10 log1p sin cos "
    "tan asin acos atan sinh cosh tanh asinh acosh atanh erf"
).split()


@pytest.mark.parametrize("flags", ["", " fastmath<afn>"])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_every_function_is_code(element: str, flags: str):
    body = f"%x0 = vector.load %p[%t] : memref<64x{element}>, vector<2x{element}>\n"
    for k, name in enumerate(FUNCTIONS):
        body += f"%x{k + 1} = math.{name} %x{k}{flags} : vector<2x{element}>\n"
    body += f"vector.store %x{len(FUNCTIONS)}, %p[%t] : memref<64x{element}>, vector<2x{element}>\n"
    code = amdgcn(lowered(one_thread(body, f"%p: memref<64x{element}>"), "gpu-to-rocdl"))
    assert "s_swappc" not in code.text.decode() and code.kernels["k"].spills == 0


def test_a_module_for_nvidia_is_refused():
    with pytest.raises(PipelineError, match="no rocdl target; lower it with gpu-to-rocdl"):
        amdgcn(lowered(one_thread(""), "gpu-to-nvvm"))


def test_what_functions_spill_is_reported():
    """Of sums that are all needed at the end, more than there are registers; few spill nothing."""

    def made(values: int) -> dict[str, int]:
        lines = [f"%x{k} = memref.load %p[%c{k}] : memref<4096xf32>" for k in range(values)]
        lines = [f"%c{k} = arith.constant {k} : index\n{line}" for k, line in enumerate(lines)]
        lines.append("gpu.barrier")
        lines += [f"memref.store %x{k}, %q[%c{k}] : memref<4096xf32>" for k in range(values)]
        called = "%p: memref<4096xf32>, %q: memref<4096xf32>"
        text = f"""module {{ gpu.module @kernels {{
          func.func private @called({called}) attributes {{no_inline}} {{
            {chr(10).join(lines)}
            return }}
          gpu.func @k({called}) kernel attributes {{known_block_size = array<i32: 256, 1, 1>}} {{
            func.call @called(%p, %q) : (memref<4096xf32>, memref<4096xf32>) -> ()
            gpu.return }} }} }}"""
        return amdgcn(lowered(text, "gpu-to-rocdl")).stacks

    assert made(16)["called"] == 0
    assert made(800)["called"] > 4 * (800 - 512)


@pytest.mark.parametrize("wait", ["", "rocdl.s.waitcnt 0"])
def test_releases_that_are_not_waited_for_are_refused(wait: str):
    """LLVM 22 forgets the wait where it knows of no access that is under way."""
    body = f"""gpu.barrier
        llvm.fence syncscope("agent") release
        {wait}
        gpu.barrier
        %c1 = arith.constant 1 : i32
        %old = llvm.atomicrmw add %q, %c1 syncscope("agent") monotonic : !llvm.ptr<1>, i32"""
    module = lowered(one_thread(body, "%q: !llvm.ptr<1>"), "gpu-to-rocdl{chip=gfx942}")
    if wait:
        assert "buffer_wbl2 sc1" in amdgcn(module).text.decode()
        return
    with pytest.raises(CompilerError, match="not wait for the write-back .* rocdl.s.waitcnt 0"):
        amdgcn(module)
