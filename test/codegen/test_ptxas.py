"""codegen/ptxas.py and sass.py: kernels assembled for real, and reports and errors as they come."""

import stat
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from gpu_code import kernel  # noqa: E402
from toolkit import needs_ptxas, needs_sass  # noqa: E402

from rcompiler.codegen import cuda_tools  # noqa: E402
from rcompiler.codegen.cuda_tools import find_tool, needed_tool  # noqa: E402
from rcompiler.codegen.ptx import PtxModule, ptx  # noqa: E402
from rcompiler.codegen.ptxas import Cubin, FunctionReport, assemble, parse_report  # noqa: E402
from rcompiler.codegen.sass import opcodes  # noqa: E402
from rcompiler.errors import AssemblyError, ToolError  # noqa: E402

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
TWO_KERNELS = (
    HEAD
    + """
.func (.param .b32 r) called(.param .b32 a)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; bar.sync 3, 64; st.param.b32 [r], %r1; ret; }
.visible .entry first(.param .u64 p) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>; .shared .align 4 .b8 s[128];
  ld.param.b64 %rd1, [p]; mov.b32 %r1, %tid.x; st.shared.b32 [s], %r1; bar.sync 0;
  ld.shared.b32 %r1, [s];
  { .param .b32 q; .param .b32 w; st.param.b32 [q], %r1; call.uni (w), called, (q);
    ld.param.b32 %r2, [w]; }
  st.global.b32 [%rd1], %r2; ret; }
.visible .entry second(.param .u64 p) { ret; }
"""
)


def assembled(name: str, chip: str) -> Cubin:
    return assemble(ptx(kernel(name, f"gpu-to-nvvm{{chip={chip}}}")))


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["sgemm", "hgemm", "persistent"])
def test_kernels_are_assembled_without_spills(name: str, chip: str):
    cubin = assembled(name, chip)
    assert cubin == assembled(name, chip)
    assert cubin.code[:4] == b"\x7fELF" and cubin.chip == chip and cubin.notes == ()
    for report in cubin.functions:
        assert (report.stack_bytes, report.spill_stores, report.spill_loads) == (0, 0, 0)
    report = next(report for report in cubin.functions if report.kernel)
    bytes_shared = {"sgemm": 2 * (64 * 20 + 16 * 64) * 4, "hgemm": (64 + 32) * 40 * 2}
    assert report.shared_bytes == bytes_shared.get(name, 32)
    assert 16 <= report.registers <= 64
    assert report.barriers == (2 if name == "persistent" else 1)


@needs_ptxas
def test_registers_are_regulated():
    cubin = assembled("hopper", "sm_90a")
    assert cubin.kernel("hopper").registers == 232
    assert not any("setmaxnreg" in note for note in cubin.notes)
    unbound = ptx(kernel("hopper", "gpu-to-nvvm{chip=sm_90a}"))
    text = unbound.text.replace(b".minnctapersm 1\n", b"")
    notes = assemble(PtxModule("sm_90a", text)).notes
    assert any("setmaxnreg" in note for note in notes)


@needs_sass
def test_instructions_of_a_product_in_f32():
    for chip in ("sm_80", "sm_90a"):
        [(name, found)] = opcodes(assembled("sgemm", chip).code).items()
        assert name == "sgemm"
        assert found["FFMA"] >= 16 and found["LDS.128"] >= 1 and found["STG.E.128"] == 4
        assert found["LDGSTS.E.BYPASS.128"] == 4
        assert not {"LDL", "STL", "LDG.E"} & found.keys()


@needs_sass
def test_instructions_of_tensor_cores():
    found = opcodes(assembled("hgemm", "sm_80").code)["hgemm"]
    assert found["HMMA.16816.F32"] and found["LDSM.16.M88.4"] and found["LDSM.16.MT88.4"]
    found = opcodes(assembled("hopper", "sm_90a").code)["hopper"]
    assert found["HGMMA.64x128x16.F32"] and found["UTMALDG.2D"]
    assert any(name.startswith("USETMAXREG") for name in found)


@needs_sass
def test_instructions_of_a_persistent_kernel():
    """A jump by the kind of task; functions that are called stand for themselves."""
    found = opcodes(assembled("persistent", "sm_90a").code)
    assert set(found) == {"program", "sum"}
    program = found["program"]
    assert program["BRX"] == 1 and program["MEMBAR.ALL.GPU"] == 1
    assert program["REDG.E.ADD.STRONG.GPU"] == 1 and program["LDG.E.STRONG.GPU"]
    assert not any("CONSTANT" in name for name in program)
    assert any(name.startswith("SHFL") for name in found["sum"])


@needs_ptxas
def test_what_a_report_says():
    cubin = assemble(PtxModule("sm_80", TWO_KERNELS.encode()))
    first, second = cubin.kernel("first"), cubin.kernel("second")
    assert (first.shared_bytes, first.barriers, first.kernel) == (128, 4, True)
    assert (second.shared_bytes, second.barriers) == (0, 0)
    [called] = [report for report in cubin.functions if not report.kernel]
    assert called == FunctionReport("called", kernel=False)
    assert cubin.assembler[0].isdigit()
    with pytest.raises(KeyError):
        cubin.kernel("called")


@needs_ptxas
def test_an_error_names_message_and_line():
    text = HEAD + ".visible .entry k() {\n.reg .b32 %r<3>;\nfoo.b32 %r1, %r2;\nret; }\n"
    with pytest.raises(AssemblyError, match="sm_80 in line 6 of the PTX: Not a name.*'foo'") as e:
        assemble(PtxModule("sm_80", text.encode()))
    assert e.value.line == 6
    with pytest.raises(AssemblyError, match="'sm_12' is not defined") as e:
        assemble(PtxModule("sm_12", HEAD.encode()))
    assert e.value.line is None


REPORT = """\
ptxas info    : 12 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    40 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 255 registers, used 16 barriers, 36864 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 83.123 ms
ptxas info    : Function properties for f
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'l' for 'sm_90a'
ptxas info    : Function properties for l
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""


def test_reports_are_read():
    assert list(parse_report(REPORT)) == [
        FunctionReport("k", True, 255, 40, 24, 28, 36864, 16),
        FunctionReport("f", False, 0, 8),
        FunctionReport("l", True, 8),
    ]
    assert list(parse_report("")) == []


def test_without_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(cuda_tools._WHEELS, "ptxas", "no-such-wheel")
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    assert find_tool("ptxas") is None
    with pytest.raises(ToolError, match="not found on PATH.*pip install"):
        needed_tool("ptxas")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nsleep 60\n")
    assert find_tool("ptxas") is None  # it cannot be executed
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert find_tool("ptxas") == program
    monkeypatch.setenv("PATH", "/usr/bin:/bin:" + str(tmp_path))
    with pytest.raises(ToolError, match="not done after 1 s"):
        cuda_tools.run_tool([str(program)], 1.0)
    program.write_text("#!/no/such/shell\n")
    with pytest.raises(ToolError, match="cannot be run"):
        cuda_tools.run_tool([str(program)], 1.0)


@needs_sass
def test_what_is_no_code_is_refused():
    with pytest.raises(ToolError, match="does not read the code"):
        opcodes(b"not a cubin")
