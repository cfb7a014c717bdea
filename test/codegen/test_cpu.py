"""codegen/cpu.py: targets, worker processes, the object cache and its failures."""

import re
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from rcompiler.codegen import emit, llvm_worker
from rcompiler.codegen.cpu import (
    CacheWarning,
    ObjectCache,
    Target,
    _host_target,
    compile_object,
    compile_objects,
)
from rcompiler.codegen.relocatable import parse
from rcompiler.errors import ArtifactError, CompilerError, DeviceError
from rcompiler.runtime.cpu_needs import require_flags

SOURCE = """module {{ llvm.func @{name}(%o: !llvm.ptr, %f: i64, %n: i64, %s: i64) {{
  %p = llvm.load %o : !llvm.ptr -> !llvm.ptr
  %v = llvm.load %p : !llvm.ptr -> vector<16xf32>
  %r = llvm.fadd %v, %v : vector<16xf32>
  llvm.store %r, %p : vector<16xf32>, !llvm.ptr
  llvm.return }} }}"""


def text_bytes(code: bytes) -> int:
    return sum(section.size for section in parse(0, code).sections.values())


MODULE = SOURCE.format(name="k")


@pytest.fixture
def compiled_by_llvm(monkeypatch):
    """The modules that LLVM is asked to compile, in this process or another, by function."""
    found = []

    def noting(ask, job):
        found.append(re.search(r"define void @(\w+)", job.text)[1])
        return ask(job)

    for module, name in ((llvm_worker, "emit"), (emit, "_ask")):
        monkeypatch.setattr(module, name, partial(noting, getattr(module, name)))
    return found


@pytest.mark.parametrize("name", ["host", "x86-64", "x86-64-v3", "x86-64-v4"])
def test_each_target_compiles_and_repeats_itself(name: str, nothing_made):
    target = Target.named(name)
    first = compile_object(MODULE, target)
    nothing_made()
    assert first == compile_object(MODULE, target)
    assert first[:4] == b"\x7fELF"


def test_vector_levels_differ_and_name_what_they_need():
    codes = {compile_object(MODULE, Target.named(n)) for n in ("x86-64", "x86-64-v3", "x86-64-v4")}
    assert len(codes) == 3
    assert "avx512f" in Target.named("x86-64-v4").required
    assert "fma" in Target.named("x86-64-v3").required
    assert "avx" not in Target.named("x86-64").required


def test_what_the_host_target_needs_this_machine_has():
    flags = next(li for li in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in li)
    assert set(Target.named("host").required) <= set(flags.split())


def test_the_host_target_needs_all_that_its_code_may_use_and_nothing_else():
    """Features that are of no use to us are taken from LLVM, too."""
    names = "64bit sse2 avx2 avx512vnni sha vaes gfni crc32 avx512vp2intersect".split()
    target = _host_target("znver5", {**dict.fromkeys(names, True), "fma": False})
    assert target.required == ("avx2", "avx512_vnni", "sse2")
    assert target.features == (
        "+64bit,+avx2,+avx512vnni,-avx512vp2intersect,-crc32,+fast-dpwssd,-fma,-gfni,-sha,+sse2,-vaes"
    )


def test_code_for_the_host_has_no_instruction_that_it_does_not_ask_for():
    """Shifts of bytes are one instruction where LLVM may use GFNI; the CPU has it by its name."""
    text = """module { llvm.func @f(%p: !llvm.ptr) {
      %s = llvm.mlir.constant(dense<3> : vector<16xi8>) : vector<16xi8>
      %v = llvm.load %p : !llvm.ptr -> vector<16xi8>
      %w = llvm.lshr %v, %s : vector<16xi8>
      llvm.store %w, %p : vector<16xi8>, !llvm.ptr
      llvm.return } }"""
    affine = re.compile(rb"\xc4..\xce", re.DOTALL)  # vgf2p8affineqb
    found = dict.fromkeys(("64bit", "sse2", "avx", "avx2", "gfni"), True)
    features = _host_target("alderlake", found).features
    free, bound = (
        compile_objects([text], Target("host", "alderlake", given, ()), jobs=1)[0]
        for given in ("", features)
    )
    assert affine.search(free)
    assert not affine.search(bound)


def test_a_capped_host_is_a_level(monkeypatch):
    flags = next(li for li in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in li)
    if not {"avx2", "fma"} <= set(flags.split()):
        pytest.skip("this machine has no more than the cap")
    monkeypatch.setenv("RC_HOST_LEVEL", "v3")
    level, host = Target.named("x86-64-v3"), Target.named("host")
    assert replace(level, name="host") == host
    monkeypatch.setenv("RC_HOST_LEVEL", "x86-64")
    with pytest.raises(ArtifactError, match="lacks .*avx2"):
        require_flags("host", host.required)


def test_unknown_target():
    with pytest.raises(DeviceError, match="no code generation target 'z80'; there are: host"):
        Target.named("z80")


def test_worker_processes_give_the_same_objects_in_order(nothing_made):
    modules = [SOURCE.format(name=f"k{i}") for i in range(5)]
    target = Target.named("x86-64-v3")
    found = compile_objects(modules, target, jobs=2)
    nothing_made()
    assert found == compile_objects(modules, target, jobs=0)


def test_optimize_vectorises_a_scalar_loop():
    loop = """module { llvm.func @k(%p: !llvm.ptr, %n: i64) {
      %c0 = llvm.mlir.constant(0 : i64) : i64
      %c1 = llvm.mlir.constant(1 : i64) : i64
      llvm.br ^l(%c0 : i64)
    ^l(%i: i64):
      %a = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v = llvm.load %a : !llvm.ptr -> f32
      %w = llvm.fadd %v, %v : f32
      llvm.store %w, %a : f32, !llvm.ptr
      %j = llvm.add %i, %c1 : i64
      %m = llvm.icmp "ult" %j, %n : i64
      llvm.cond_br %m, ^l(%j : i64), ^d
    ^d:
      llvm.return } }"""
    target = Target.named("x86-64-v3")
    plain, fast = (compile_object(loop, target, optimize=flag) for flag in (False, True))
    assert text_bytes(fast) > 2 * text_bytes(plain)  # a vector body, its tail, a scalar tail


def test_cache_hit_damage_and_rebuild(tmp_path: Path):
    cache, target = ObjectCache(tmp_path / "c"), Target.named("x86-64")
    code = compile_object(MODULE, target, cache=cache)
    (entry,) = (tmp_path / "c").iterdir()
    assert cache.get(entry.stem) == code
    entry.write_bytes(entry.read_bytes()[:-1])
    with pytest.warns(CacheWarning, match="damaged"):
        assert compile_object(MODULE, target, cache=cache) == code
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_object(MODULE, target, cache=cache) == code


@pytest.mark.parametrize("jobs", [0, 1])
def test_llvm_is_asked_for_the_same_object_once(compiled_by_llvm, jobs):
    modules, target = [MODULE, SOURCE.format(name="other")], Target.named("x86-64")
    first = compile_objects(modules, target, jobs=jobs)
    assert compile_objects(modules[::-1], target, jobs=jobs) == first[::-1]
    assert compiled_by_llvm == ["k", "other"]
    compile_object(MODULE, Target.named("x86-64-v3"))
    compile_object(MODULE, target, optimize=True)
    assert compiled_by_llvm == ["k", "other", "k", "k"]


def test_an_object_that_was_made_before_fills_a_folder_that_lacks_it(compiled_by_llvm, tmp_path):
    target = Target.named("x86-64")
    code = compile_object(MODULE, target)
    for name in ("a", "b"):
        cache = ObjectCache(tmp_path / name)
        assert compile_object(MODULE, target, cache=cache) == code
        (entry,) = (tmp_path / name).iterdir()
        assert cache.get(entry.stem) == code
    assert compiled_by_llvm == ["k"]


def test_a_cache_that_cannot_be_used_is_only_a_warning(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(CacheWarning, match="cannot be"):
        code = compile_object(MODULE, Target.named("x86-64"), cache=ObjectCache(blocked / "c"))
    assert code == compile_object(MODULE, Target.named("x86-64"))


def test_a_full_disk_is_only_a_warning():
    with pytest.warns(CacheWarning, match="cannot be written"):
        ObjectCache(Path("/proc")).put("k", b"code")


def test_a_crash_of_llvm_ends_the_worker_only():
    """An intrinsic of another processor: LLVM's code generator ends its process."""
    foreign = """module { llvm.func @f() -> i32 {
      %t = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"() : () -> i32
      llvm.return %t : i32 } }"""
    with pytest.raises(CompilerError, match="LLVM ended with status -6.*Cannot select"):
        compile_objects([foreign, MODULE], Target.named("x86-64"))
    assert compile_objects([MODULE], Target.named("x86-64"))  # the next one gets another worker


_FORK = """
import os, sys
from rcompiler.codegen.cpu import Target, compile_objects
before = compile_objects([sys.argv[1]], Target.named("x86-64"))
child = os.fork()
if not child:
    os._exit(compile_objects([sys.argv[1]], Target.named("x86-64")) != before)
assert os.waitpid(child, 0)[1] == 0
assert compile_objects([sys.argv[1]], Target.named("x86-64")) == before
"""


def test_a_forked_child_has_workers_of_its_own_and_all_are_cleaned_up():
    command = [sys.executable, "-W", "error", "-c", _FORK, MODULE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_tile_registers_that_linux_does_not_give_are_said(monkeypatch):
    flags = frozenset({"amx_tile", "amx_int8"})
    monkeypatch.setattr("rcompiler.runtime.cpu_needs.host_flags", lambda: flags)
    asked = []
    monkeypatch.setattr(
        "rcompiler.runtime.cpu_needs.request_tiles",
        lambda: asked.append(True) or "Operation not permitted",
    )
    require_flags("host", [])
    assert not asked
    with pytest.raises(DeviceError, match=r"tile registers.*Operation not permitted.*cpu:v4"):
        require_flags("host", sorted(flags))
