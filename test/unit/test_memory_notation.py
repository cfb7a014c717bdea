"""The notation of accesses of memory: each form, and what it stands for."""

import pytest

from rcompiler.support.memory_notation import Memory

CPU = Memory("!llvm.ptr")
GPU = Memory("!llvm.ptr<1>", 'syncscope("device") ', " {alignment = 8 : i64}")


@pytest.mark.parametrize(
    ("short", "written"),
    [
        ("%x := *%p", "%x = llvm.load %p : !llvm.ptr -> i64"),
        ("%x := *%p : !llvm.ptr", "%x = llvm.load %p : !llvm.ptr -> !llvm.ptr"),
        ("*%p := %x", "llvm.store %x, %p : i64, !llvm.ptr"),
        (
            "*%p := release %x#1",
            "llvm.store %x#1, %p atomic release {alignment = 8 : i64} : i64, !llvm.ptr",
        ),
        ("%q = & %p[3]", "%q = llvm.getelementptr %p[3] : (!llvm.ptr) -> !llvm.ptr, i64"),
        ("%q = & %p[%i]", "%q = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64"),
    ],
)
def test_an_access_without_an_index_is_one_line(short, written):
    assert CPU.expanded(f"  {short}\n") == f"  {written}\n"


@pytest.mark.parametrize(
    ("order", "name"),
    [("relaxed", "monotonic"), ("acquire", "acquire"), ("ordered", "seq_cst")],
)
def test_an_index_takes_a_line_of_its_own(order, name):
    address, load, end = CPU.expanded(f"%x := {order} %p[2]\n").split("\n")
    pointer = address.partition(" ")[0]
    assert address.endswith("= llvm.getelementptr %p[2] : (!llvm.ptr) -> !llvm.ptr, i64")
    how = f"atomic {name} {{alignment = 8 : i64}}"
    assert load == f"%x = llvm.load {pointer} {how} : !llvm.ptr -> i64" and end == ""


def test_atomic_accesses_have_the_scope_and_others_the_attributes():
    atomic = GPU.expanded("%x := acquire *%p\n")
    assert (
        'atomic syncscope("device") acquire {alignment = 8 : i64} : !llvm.ptr<1> -> i64' in atomic
    )
    assert GPU.expanded("*%p := %x\n") == (
        "llvm.store %x, %p {alignment = 8 : i64} : i64, !llvm.ptr<1>\n"
    )


def test_addresses_of_one_text_have_names_of_their_own():
    lines = CPU.expanded("%x := %p[1]\n%y := %p[2]\n%p[1] := %y\n%p[2] := %x\n").splitlines()
    assert len({line.partition(" ")[0] for line in lines if "getelementptr" in line}) == 4
