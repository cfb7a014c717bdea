"""codegen/link.py: placement, relocations, externals, and what is refused."""

import ctypes
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from rcompiler.codegen.cpu import Target, compile_object
from rcompiler.codegen.link import link
from rcompiler.codegen.relocatable import parse
from rcompiler.errors import ArtifactError, CompilerError
from rcompiler.runtime.image import PAGE, Image, LoadedImage

TARGET = Target.named("x86-64")
MATH = """module {
  llvm.func @expf(f32) -> f32
  llvm.func @scale(f32) -> f32
  llvm.func @k(%o: !llvm.ptr) {
    %a = llvm.load %o : !llvm.ptr -> f32
    %e = llvm.call @expf(%a) : (f32) -> f32
    %s = llvm.call @scale(%e) : (f32) -> f32
    llvm.store %s, %o : f32, !llvm.ptr
    llvm.return } }"""
SCALE = """module {
  llvm.mlir.global constant @table(dense<[1.5, 2.5, 3.5]> : tensor<3xf32>) : !llvm.array<3 x f32>
  llvm.mlir.global @counter(7 : i64) : i64
  llvm.func @scale(%a: f32) -> f32 {
    %t = llvm.mlir.addressof @table : !llvm.ptr
    %p = llvm.getelementptr %t[2] : (!llvm.ptr) -> !llvm.ptr, f32
    %f = llvm.load %p : !llvm.ptr -> f32
    %r = llvm.fmul %a, %f : f32
    llvm.return %r : f32 }
  llvm.func @count() -> i64 {
    %c = llvm.mlir.addressof @counter : !llvm.ptr
    %v = llvm.load %c : !llvm.ptr -> i64
    %1 = llvm.mlir.constant(1 : i64) : i64
    %w = llvm.add %v, %1 : i64
    llvm.store %w, %c : i64, !llvm.ptr
    llvm.return %w : i64 } }"""


def objects() -> list[bytes]:
    return [compile_object(text, TARGET) for text in (MATH, SCALE)]


def test_calls_tables_and_data_across_objects_run():
    loaded = LoadedImage(link(objects()))
    x = np.array([0.5], np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.function("k"))(x.ctypes.data)
    assert x[0] == pytest.approx(np.exp(0.5) * 3.5, rel=1e-6)
    count = ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.function("count"))
    assert [count(), count()] == [8, 9]


def counting(name: str) -> bytes:
    """A function that counts its calls in memory that begins as zeros."""
    text = f"""module {{
      llvm.mlir.global @{name}_calls(0 : i64) : i64
      llvm.func @{name}() -> i64 {{
        %c = llvm.mlir.addressof @{name}_calls : !llvm.ptr
        %v = llvm.load %c : !llvm.ptr -> i64
        %1 = llvm.mlir.constant(1 : i64) : i64
        %w = llvm.add %v, %1 : i64
        llvm.store %w, %c : i64, !llvm.ptr
        llvm.return %w : i64 }} }}"""
    return compile_object(text, TARGET)


def test_zeros_of_several_objects_lie_apart():
    image = link([counting("one"), counting("two")])
    assert image.memory >= len(image.content) + 16
    loaded = LoadedImage(image)
    one, two = (ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.function(name)) for name in ("one", "two"))
    assert [one(), one(), two(), one(), two()] == [1, 2, 1, 3, 2]


def test_addresses_that_begin_a_page_are_in_what_the_loader_fills():
    """The table of functions ends with a page, and that of addresses begins with the next one."""

    def linked(padding: int) -> Image:
        pad = f"""
  llvm.mlir.global constant @pad(dense<1> : tensor<{padding}xi8>) {{alignment = 8 : i64}}
    : !llvm.array<{padding} x i8>"""
        padded = SCALE.replace("module {", f"module {{{pad}")
        return link([compile_object(text, TARGET) for text in (MATH, padded)])

    def end(image: Image) -> int:
        return image.slots + 8 * len(image.externals)

    image = linked(8 + -end(linked(8)) % PAGE)
    assert end(image) % PAGE == 0
    places = [place for place, _ in image.relatives]
    assert places and max(places) + 8 <= image.text + image.rodata


def test_linking_twice_gives_equal_images():
    assert link(objects()) == link(objects())


def test_no_page_is_writable_and_executable():
    loaded = LoadedImage(link(objects()))
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if start <= loaded.base < end:
                assert line.split()[1].startswith("r-x")


def test_a_name_defined_twice_is_refused():
    with pytest.raises(CompilerError, match="'scale' is defined by object 1 and by object 2"):
        link([*objects(), compile_object(SCALE, TARGET)][:3])


def test_an_unknown_function_is_refused_by_name():
    text = MATH.replace("@expf", "@system")
    with pytest.raises(CompilerError, match="uses 'system'.*no object defines"):
        link([compile_object(text, TARGET)])


def test_what_is_no_object_is_refused():
    for content in (b"", b"abc", b"\x7fELF" + bytes(60), objects()[0][:200]):
        with pytest.raises(CompilerError, match="object 0 cannot be used"):
            link([content])


def test_an_object_with_absolute_addresses_is_refused():
    text = """@g = dso_local global [9 x i32] zeroinitializer
    define i32 @f(i64 %i) { %p = getelementptr i32, ptr @g, i64 %i
      %v = load i32, ptr %p ret i32 %v }"""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="static", codemodel="small"
    )
    with pytest.raises(CompilerError, match="32-bit absolute"):
        link([machine.emit_object(llvm.parse_assembly(text))])


def test_a_distance_that_a_relocation_cannot_hold_is_refused(monkeypatch):
    first, *others = (parse(number, content) for number, content in enumerate(objects()))
    far = {
        index: replace(
            section,
            relocations=tuple(each._replace(addend=1 << 40) for each in section.relocations),
        )
        for index, section in first.sections.items()
    }
    given = [replace(first, sections=far), *others]
    monkeypatch.setattr("rcompiler.codegen.link.parse", lambda number, content: given[number])
    with pytest.raises(CompilerError, match="object 0 .* type 4 cannot hold the distance"):
        link([b"", b""])


def test_a_missing_function_of_the_image_is_named():
    with pytest.raises(ArtifactError, match="no function 'nothing'"):
        LoadedImage(link(objects())).function("nothing")
