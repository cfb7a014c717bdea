"""codegen/ptx.py: a lowered gpu.module becomes PTX that calls nothing and orders as allowed."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from gpu_code import kernel, lowered, one_thread  # noqa: E402

from rcompiler.codegen.ptx import check, orderings, ptx  # noqa: E402
from rcompiler.errors import CompilerError, PipelineError  # noqa: E402

CHIPS = ("sm_80", "sm_90a")


def compiled(text: str, chip: str = "sm_80") -> str:
    return ptx(lowered(text, f"gpu-to-nvvm{{chip={chip}}}")).text.decode()


def body(text: str) -> list[str]:
    """Instructions of the last function, without operands."""
    lines = text[text.rindex(".entry") :].splitlines()
    return [line.split("\t")[1].strip() for line in lines if line.startswith("\t") and ";" in line]


def on_element(operation: str, element: str = "f32") -> str:
    """%y from %x in place."""
    memory = f"memref<64x{element}>"
    return one_thread(
        f"""%x = memref.load %p[%t] : {memory}
        {operation}
        memref.store %y, %p[%t] : {memory}""",
        f"%p: {memory}",
    )


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["sgemm", "hgemm", "persistent"])
def test_equal_modules_give_equal_text(name: str, chip: str):
    module = kernel(name, f"gpu-to-nvvm{{chip={chip}}}")
    first, second = ptx(module), ptx(module)
    assert first == second and first.chip == chip
    assert f".target {chip}\n" in first.text.decode()


def test_the_forms_of_a_persistent_kernel():
    """And no load of the arena through the cache that does not see other blocks' writes."""
    for chip, fence in (("sm_80", "fence.acq_rel.gpu"), ("sm_90a", "fence.release.gpu")):
        text = ptx(kernel("persistent", f"gpu-to-nvvm{{chip={chip}}}")).text.decode()
        forms = {form.replace(".global", "") for form in orderings(text)}
        assert forms == {"ld.acquire.gpu.b32", fence, "atom.add.u32"}
        assert ".nc" not in text
        assert re.search(r"bar(rier)?\.sync\s+1, 64;", text)


def test_what_only_hopper_has():
    text = ptx(kernel("hopper", "gpu-to-nvvm{chip=sm_90a}")).text.decode()
    assert ".extern .shared .align 1024 .b8 __dynamic_shmem__0[];" in text
    assert ".param .align 64 .b8 hopper_param_0[128]" in text
    assert ".minnctapersm 1" in text and "setmaxnreg.inc.sync.aligned.u32" in text
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16" in text
    assert "cp.async.bulk.tensor.2d.shared::cluster.global" in text


def test_registers_are_regulated_for_a_known_number_of_threads_only():
    with pytest.raises(CompilerError, match="ignored without known_block_size"):
        compiled(one_thread("nvvm.setmaxregister decrease 40"), "sm_90a")


@pytest.mark.parametrize(
    "operation, expected",
    {
        "%y = math.sqrt %x : f32": ["sqrt.rn.f32"],
        "%y = arith.divf %x, %x fastmath<afn> : f32": ["div.approx.f32"],
        "%z = arith.mulf %x, %x : f32\n%y = arith.addf %z, %x : f32": ["mul.rn.f32", "add.rn.f32"],
        "%z = arith.mulf %x, %x fastmath<contract> : f32\n"
        "%y = arith.addf %z, %x fastmath<contract> : f32": ["fma.rn.f32"],
        "%y = math.fma %x, %x, %x : f32": ["fma.rn.f32"],
        "%y = math.floor %x : f32": ["cvt.rmi.f32.f32"],
        "%y = math.roundeven %x : f32": ["cvt.rni.f32.f32"],
        "%y = math.absf %x : f32": ["abs.f32"],
        "%c = arith.constant 2.5 : f32\n%y = arith.maxnumf %x, %c : f32": ["max.f32"],
        "%c = arith.constant 2.5 : f32\n%y = arith.maximumf %x, %c : f32": ["max.NaN.f32"],
        "%y = math.exp2 %x fastmath<afn> : f32": ["ex2.approx.f32"],
        "%y = math.tanh %x fastmath<afn> : f32": ["tanh.approx.f32"],
        "%y = math.rsqrt %x fastmath<afn> : f32": ["rsqrt.approx.f32"],
        "%y = math.sqrt %x fastmath<afn> : f32": ["sqrt.approx.f32"],
    }.items(),
)
def test_exact_unless_the_operation_says_otherwise(operation: str, expected: list[str]):
    found = [i for i in body(compiled(on_element(operation))) if ".f32" in i]
    assert found == expected


FLOATS = (
    "sqrt rsqrt floor ceil trunc roundeven round absf exp exp2 expm1 log log2 log10 log1p sin cos "
    "tan asin acos atan sinh cosh tanh asinh acosh atanh erf"
).split()
BINARY = {"math.copysign", "math.powf", "arith.remf", "arith.maxnumf", "arith.minimumf"}


@pytest.mark.parametrize("flags", ["", " fastmath<afn>"])
@pytest.mark.parametrize("chip", ["sm_70", *CHIPS])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_every_function_is_code(element: str, chip: str, flags: str):
    operations = [f"math.{name} %x" for name in FLOATS]
    operations += [f"{name} %x, %z" for name in sorted(BINARY)]
    kernels = "\n".join(
        f"""gpu.func @k{k}(%p: memref<64x{element}>) kernel {{
          %t = gpu.thread_id x
          %x = vector.load %p[%t] : memref<64x{element}>, vector<2x{element}>
          %z = arith.negf %x : vector<2x{element}>
          %y = {operation}{flags} : vector<2x{element}>
          vector.store %y, %p[%t] : memref<64x{element}>, vector<2x{element}>
          gpu.return }}"""
        for k, operation in enumerate(operations)
    )
    text = compiled(f"module {{ gpu.module @kernels {{ {kernels} }} }}", chip)
    assert text.count(".entry") == len(operations)
    assert "call" not in text and "extern" not in text and ".ftz.f32" not in text


def test_f64_has_no_approximations():
    for flags in ("", " fastmath<afn>"):
        found = body(compiled(on_element(f"%y = math.rsqrt %x{flags} : f64", "f64")))
        assert [i for i in found if i.endswith("rn.f64")] == ["sqrt.rn.f64", "rcp.rn.f64"]
        found = body(compiled(on_element(f"%y = math.exp %x{flags} : f64", "f64")))
        assert any(i.startswith("fma.rn.f64") for i in found)
        assert not any("approx" in i for i in found)
        with pytest.raises(CompilerError, match="'math.cbrt' of f64 has no expansion"):
            compiled(on_element(f"%y = math.cbrt %x{flags} : f64", "f64"))


def test_integers():
    names = {"ctpop": "popc.b32", "ctlz": "clz.b32", "cttz": "popc.b32", "absi": "abs.s32"}
    for name, instruction in names.items():
        assert instruction in body(compiled(on_element(f"%y = math.{name} %x : i32", "i32")))


def test_an_error_of_llvm_ends_the_worker_only():
    call = '%y = llvm.call_intrinsic "llvm.exp.f32"(%x) : (f32) -> f32'
    with pytest.raises(CompilerError, match="LLVM ended with status .*libcall"):
        compiled(on_element(call))
    assert compiled(on_element("%y = math.sqrt %x : f32"))


def test_external_functions_are_refused():
    text = one_thread('%i = arith.constant 1 : i32\ngpu.printf "%d", %i : i32')
    with pytest.raises(CompilerError, match="function 'vprintf' is not defined"):
        compiled(text)


@pytest.mark.parametrize(
    "instruction",
    ["ld.acquire.gpu.b32", "ld.relaxed.gpu.global.b32", "fence.acq_rel.gpu", "fence.release.gpu"]
    + ["fence.acquire.gpu", "atom.add.u32", "atom.relaxed.gpu.global.add.u32", "red.add.f32"]
    + ["ld.global.b32", "fence.proxy.async", "fence.mbarrier_init.release.cluster"]
    + ["red.relaxed.gpu.global.add.u32", "mbarrier.arrive.release.cta.shared::cta.b64"],
)
def test_allowed_forms(instruction: str):
    check(f"\t{instruction} \t%r1, [%rd1];\n\t@%p1 {instruction} \t%r1, [%rd1];\n")


@pytest.mark.parametrize(
    "instruction",
    ["ld.acquire.sys.b32", "ld.acquire.cta.b32", "st.release.gpu.b32", "atom.acq_rel.gpu.add.u32"]
    + ["atom.release.gpu.add.u32", "red.release.gpu.add.u32", "fence.sc.gpu", "fence.acq_rel.cta"]
    + ["fence.sc.sys", "membar.sys", "membar.gl", "atom.relaxed.sys.add.u32"]
    + ["atom.acquire.gpu.cas.b32", "ld.volatile.global.b32", "st.volatile.global.b32"]
    + ["multimem.red.relaxed.gpu.global.add.f32"],
)
def test_other_forms_are_refused(instruction: str):
    for before in ("", "@%p3 ", "@!%p3 ", "$L__BB0_1: ", "mov.b32 %r1, %r2; ", "{ @P1 "):
        with pytest.raises(CompilerError, match=f"'{instruction}' orders memory in a form"):
            check(f"\t{before}{instruction} \t%r1, [%rd1];\n")


@pytest.mark.parametrize("form", ["ld.global.nc.b32", "ld.global.L1::no_allocate.nc.v4.b32"])
def test_loads_that_miss_what_other_blocks_write_are_refused(form: str):
    for instruction in (form, form.replace("ld.global", "ldu.global").replace(".nc", "")):
        with pytest.raises(CompilerError, match=f"'{instruction}' does not see what other blocks"):
            check(f"\t{instruction} \t%r1, [%rd1];\n")


def test_a_pointer_that_is_said_to_be_alone_is_refused():
    """LLVM reads through the cache that is not coherent what nobody else is said to write."""
    text = """module { gpu.module @kernels {
      gpu.func @k(%p: memref<64xf32>, %q: memref<64xf32>) kernel {
        %t = gpu.thread_id x
        %x = memref.load %p[%t] : memref<64xf32>
        memref.store %x, %q[%t] : memref<64xf32>
        gpu.return } } }"""
    assert "ld.global" in compiled(text) and ".nc" not in compiled(text)
    alone = re.sub(r"(%[pq]: memref<64xf32>)", r"\1 {llvm.noalias}", text)
    with pytest.raises(CompilerError, match=r"'ld.global.nc.b32'.*take llvm.noalias off"):
        compiled(alone)


CALLS = """.func (.param .b32 r) inside(.param .b32 a)
{ ret; }
.func	nothing()
{ ret; }
.visible .entry k()
{
	{ // callseq 0, 0
	@%p1 call.uni (retval0), inside, (param0);
	call.uni nothing, ();
	CALL
	}
}
"""


def test_calls_stay_inside():
    check(CALLS.replace("CALL", ""))
    for call, name in {
        "call.uni (retval0), outside, (param0);": "outside",
        "call outside, (param0);": "outside",
        "call (retval0), %rd1, (param0), prototype_0;": "%rd1",
        "@%p3 call.uni outside, ();": "outside",
    }.items():
        with pytest.raises(CompilerError, match=f"'call {name}' leads out of the module"):
            check(CALLS.replace("CALL", call))


def test_a_store_with_release_is_found():
    text = one_thread(
        """%i = arith.constant 1 : i32
        llvm.store %i, %p atomic syncscope("device") release {alignment = 4 : i64} : i32, !llvm.ptr
        """,
        "%p: !llvm.ptr",
    )
    with pytest.raises(CompilerError, match="'st.release.gpu"):
        compiled(text)


def test_what_is_no_lowered_module_is_refused():
    for text, reason in {
        one_thread(""): "no nvvm target; lower it with gpu-to-nvvm",
        lowered(one_thread(""), "gpu-to-rocdl"): "no nvvm target",
        "module {}": "one gpu.module is needed, here are 0",
        "module { gpu.module": "does not parse",
    }.items():
        with pytest.raises(PipelineError, match=reason):
            ptx(text)
    raw = one_thread("").replace("@kernels", '@kernels [#nvvm.target<chip = "sm_80">]')
    with pytest.raises(PipelineError, match="'gpu.thread_id' at .* has no translation"):
        ptx(raw)
