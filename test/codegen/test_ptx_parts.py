"""codegen/ptx_parts.py and cubin.py: modules in parts are one text, and one machine code."""

import re
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from toolkit import needs_ptxas  # noqa: E402

from rcompiler.codegen import cubin  # noqa: E402
from rcompiler.codegen.cubin import assemble_parts  # noqa: E402
from rcompiler.codegen.ptx import check  # noqa: E402
from rcompiler.codegen.ptx_parts import PtxPart, PtxParts, combined, joined  # noqa: E402
from rcompiler.codegen.toolkit import needed_toolkit  # noqa: E402
from rcompiler.errors import AssemblyError, CompilerError  # noqa: E402

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
SHARED = ".extern .shared .align 1024 .b8 area[];\n"
PARAM = "\t.param .b64 {name}_param_0\n"


def function(name: str, text: str, registers: int = 4) -> str:
    head = f".visible .func {name}(\n{PARAM.format(name=name)})\n{{\n"
    return (
        f"\t// .globl\t{name}\n{head}\t.reg .b64 %rd<{registers}>;\n\t.reg .b32 %r<9>;\n"
        f"\tld.param.b64 %rd1, [{name}_param_0];\n{text}\tret;\n}}\n"
    )


def declared(name: str) -> str:
    return f".extern .func {name}\n(\n{PARAM.format(name=name)})\n;\n"


def call(name: str) -> str:
    return (
        "\t{\n\t.param .b64 param0;\n\tst.param.b64 [param0], %rd1;\n"
        f"\tcall.uni {name}, (param0);\n\t}}\n"
    )


def entry(*called: str) -> str:
    return (
        HEAD + SHARED + "".join(map(declared, called)) + "\n.visible .entry start(\n"
        "\t.param .u64 start_param_0\n)\n{\n\t.reg .b64 %rd<3>;\n"
        "\tld.param.b64 %rd1, [start_param_0];\n" + "".join(map(call, called)) + "\tret;\n}\n"
    )


def first() -> str:
    return f"//\n// made by LLVM\n//\n\n{HEAD}{SHARED}\n" + function(
        "one", "\tmov.b32 %r1, 7;\n\tst.shared.b32 [area], %r1;\n"
    )


def second() -> str:
    table = ".global .align 4 .b8 table[4] = {1, 2, 3, 4};\n"
    return HEAD + table + function("two", "\tmov.b32 %r1, 8;\n\tst.global.b32 [%rd1], %r1;\n")


def parts() -> list[PtxPart]:
    return [PtxPart.of(text) for text in (first(), second(), entry("one", "two"))]


def test_a_part_is_what_it_shares_what_it_calls_and_what_it_defines():
    one, two, start = parts()
    assert one.head == HEAD and one.shared == SHARED == start.shared and two.shared == ""
    assert not one.declared and start.declared == {n: declared(n) for n in ("one", "two")}
    assert [list(part.defined()) for part in (one, two, start)] == [
        ["one"],
        ["table", "two"],
        ["start"],
    ]
    assert "//" not in one.body


def test_joined_parts_are_one_module():
    text = joined(parts())
    check(text)  # calls lead to its own functions
    assert text.startswith(HEAD) and text.count(".version") == 1
    assert text.count(SHARED) == 1 and ".extern .func" not in text
    assert re.findall(r"^.*\.(?:func|entry) \w+", text, re.MULTILINE) == [
        ".func one",
        ".func two",
        ".visible .entry start",
    ]


def test_what_nobody_defines_stays_declared():
    _, two, start = parts()
    assert combined([two, start]).declared == {"one": declared("one")}
    assert declared("one") in joined([two, start])


def test_a_name_that_two_parts_define():
    one, _, start = parts()
    with pytest.raises(CompilerError, match="'one' is defined by two rKernels"):
        joined([one, one, start])


def test_a_text_that_llvm_did_not_write():
    with pytest.raises(CompilerError, match="without .address_size 64"):
        PtxPart.of(".version 8.0\n.target sm_80\n")


def test_parts_come_in_the_order_of_their_numbers():
    text = "define void @{name}(ptr %p) {{\n  store i32 {value}, ptr %p\n  ret void\n}}\n"
    with PtxParts("sm_80") as made:
        made.add(1, text.format(name="later", value=2))
        made.add(0, text.format(name="sooner", value=1))
        found = made.all()
    assert [list(part.defined()) for part in found] == [["sooner"], ["later"]]
    with PtxParts("sm_80") as made:
        made.add(0, "define void @broken(")
        with pytest.raises(CompilerError, match="rejects"):
            made.all()


def symbols(code: bytes) -> set[bytes]:
    return {name for name in (b"one", b"two", b"start") if b".text." + name in code}


@needs_ptxas
@pytest.mark.parametrize("lines", [1, 8000])
def test_parts_are_assembled_apart_and_linked(monkeypatch, lines: int):
    monkeypatch.setattr(cubin, "_BATCH_LINES", lines)
    made = assemble_parts("sm_80", parts(), "start")
    assert made == assemble_parts("sm_80", parts(), "start")
    assert made.code[:4] == b"\x7fELF" and symbols(made.code) == {b"one", b"two", b"start"}
    assert {report.name for report in made.functions} == {"one", "two", "start"}
    kernel = made.kernel("start")
    assert kernel.registers >= 8 and kernel.spill_stores == 0


@needs_ptxas
def test_the_kernel_has_the_registers_of_what_it_calls():
    """40 values that are alive at the same time."""
    loads = "".join(f"\tld.volatile.global.b32 %q{k}, [%rd1+{4 * k}];\n" for k in range(40))
    stores = "".join(f"\tst.volatile.global.b32 [%rd1+{4 * k}], %q{k};\n" for k in range(40))
    wide = function("one", f"\t.reg .b32 %q<40>;\n{loads}{stores}")
    made = [PtxPart.of(text) for text in (HEAD + wide, second(), entry("one", "two"))]
    assert assemble_parts("sm_80", made, "start").kernel("start").registers >= 40
    assert assemble_parts("sm_80", parts(), "start").kernel("start").registers < 40


@needs_ptxas
@pytest.mark.parametrize("lacks", ["nvlink", "a ptxas that knows"])
def test_without_a_linker_all_is_assembled_together(monkeypatch, lacks: str):
    kit = needed_toolkit("sm_80")
    kit = replace(kit, nvlink=None) if lacks == "nvlink" else replace(kit, version="12.9.86")
    made = assemble_parts("sm_80", parts(), "start", kit)
    assert symbols(made.code) == {b"start"}  # and the others as parts of it
    assert {report.name for report in made.functions} == {"one", "two", "start"}


@needs_ptxas
def test_a_linker_that_fails(tmp_path):
    broken = tmp_path / "nvlink"
    broken.write_text("#!/bin/sh\necho nvlink fatal: no luck >&2\nexit 3\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    kit = replace(needed_toolkit("sm_80"), nvlink=broken)
    with pytest.raises(AssemblyError, match="nvlink for sm_80 ended with status 3.*no luck"):
        assemble_parts("sm_80", parts(), "start", kit)


@needs_ptxas
def test_a_function_that_is_missing_is_named():
    one, _, start = parts()
    with pytest.raises(AssemblyError, match="two"):
        assemble_parts("sm_80", [one, start], "start")
