"""Stages: tiles of values that a task keeps in its workspace before it goes on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import FEATURES, Kernel, Tile, type_of
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.cpu import CpuFeatures
from rcompiler.kernelgen.stages import stages_of, workspace_bytes

few = settings(max_examples=8)
PRODUCT = (
    "indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, "
    'affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]'
)


def product(name: str, left: str, right: str, m: int, n: int, k: int) -> str:
    """%name[m, n] = %left[m, k] * %right[k, n]"""
    a, b, out = (type_of(shape) for shape in ((m, k), (k, n), (m, n)))
    return f"""
      %zero_{name} = arith.constant 0.0 : f32
      %e_{name} = tensor.empty() : {out}
      %f_{name} = linalg.fill ins(%zero_{name} : f32) outs(%e_{name} : {out}) -> {out}
      %{name} = linalg.generic {{{PRODUCT}}} ins(%{left}, %{right} : {a}, {b})
        outs(%f_{name} : {out}) {{
      ^bb0(%x: f32, %y: f32, %acc: f32):
        %mul = arith.mulf %x, %y : f32
        %sum = arith.addf %acc, %mul : f32
        linalg.yield %sum : f32
      }} -> {out}"""


def stage(name: str, value: str, tile: Tile) -> str:
    """%name: the rows of %value that a task needs, in register tiles of `tile`."""

    def array(values) -> str:
        return f"array<i64: {', '.join(map(str, values))}>"

    type_ = type_of(tile.shape)
    return (
        f'\n%{name} = "rtask.stage"(%{value}) {{axes = array<i64: 0, -1>, '
        f"register_tile = {array(tile.register_tile)}, order = {array(tile.order)}, "
        f"vector_dim = {tile.vector_dim} : i64, lanes = {tile.lanes} : i64}} "
        f": ({type_}) -> {type_}"
    )


def chain(m: int, k: int, inner: int, n: int, tile: Tile | None) -> str:
    """%r = (%a0 * %a1) * %a2, with or without a stage in between."""
    text = product("s", "a0", "a1", m, inner, k)
    if tile is None:
        return text + product("r", "s", "a2", m, n, inner)
    return text + stage("kept", "s", tile) + product("r", "kept", "a2", m, n, inner)


def operands(m: int, k: int, inner: int, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = ((m, k), (k, inner), (inner, n))
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


@pytest.mark.parametrize("features", FEATURES, ids=str)
@given(data=st.data())
@few
def test_a_stage_changes_no_bit(features: CpuFeatures, data: st.DataObject):
    m, k, inner, n = (data.draw(st.integers(1, 40)) for _ in range(4))
    arrays = operands(m, k, inner, n)
    lanes = features.lanes
    rows = data.draw(st.integers(1, m))
    result = Tile((m, n), [rows, n], [min(3, rows), lanes], [0, 1], 1, lanes)
    kept = Tile((m, inner), (), [data.draw(st.integers(1, 5)), 2 * lanes], [1, 0], 1, lanes)
    shape = [((m, n), "float32")]
    staged = Kernel(chain(m, k, inner, n, kept), ["%r"], arrays, shape, result, features)
    plain = Kernel(chain(m, k, inner, n, None), ["%r"], arrays, shape, Tile((m, n)), features)
    assert np.array_equal(staged.run()[0], plain.run()[0])
    first, second, third = (x.astype(np.float64) for x in arrays)
    np.testing.assert_allclose(staged.run()[0], first @ second @ third, rtol=1e-3, atol=1e-3)


def test_tasks_do_not_need_the_tiles_of_others():
    """In any order, and one alone: nothing in the workspace survives a task."""
    m, k, inner, n = 12, 5, 33, 16
    arrays = operands(m, k, inner, n)
    kept = Tile((m, inner), (), [2, 16], [1, 0], 1, 16)
    result = Tile((m, n), [5, n], [1, 16], [0, 1], 1, 16)
    shape = [((m, n), "float32")]
    kernel = Kernel(chain(m, k, inner, n, kept), ["%r"], arrays, shape, result, FEATURES[0])
    assert np.array_equal(kernel.run()[0], kernel.run([2, 0, 1])[0])
    [alone] = kernel.run([1])
    assert np.array_equal(alone[5:10], kernel.run()[0][5:10])


def test_a_reduction_inside_of_a_stage_has_no_parts():
    m, k, inner, n = 9, 24, 20, 16
    arrays = operands(m, k, inner, n)
    kept = Tile((m, inner), (), [3, 16], [1, 0], 1, 16)
    text = chain(m, k, inner, n, kept).replace(
        "axes = array<i64: 0, -1>", "axes = array<i64: 0, -1>, reduction_tile = array<i64: 1, 7>"
    )
    shape, tile = [((m, n), "float32")], Tile((m, n), [4, n], [1, 16], [0, 1], 1, 16)
    with pytest.raises(CompilerError, match="has a reduction_tile.*run rc-tile-kernels"):
        Kernel(text, ["%r"], arrays, shape, tile, FEATURES[0])


def kernel_text(
    body: str, rows: int, shapes: Sequence[tuple[int, ...]] = ((8, 4), (4, 16), (16, 16))
) -> str:
    result = (shapes[0][0], 16)
    attributes = Tile(result, [rows, 16], [2, 1]).attributes(shapes, 1)
    arguments = ", ".join(f"%a{k}: {type_of(s)}" for k, s in enumerate(shapes))
    return (
        f'"rtask.kernel"() ({{\n^bb0({arguments}):\n{body}\n"rtask.yield"(%r) : '
        f'({type_of(result)}) -> ()\n}}) {{sym_name = "k", kind = "contraction", {attributes}}} '
        ": () -> ()"
    )


def elementwise(name: str, source: str, rows: str, m: int, n: int, order: str = "m, n") -> str:
    """%name[m, n] = %source[order] - %rows[m]"""
    maps = ", ".join(f"affine_map<(m, n) -> ({r})>" for r in (order, "m", "m, n"))
    return f"""
      %e_{name} = tensor.empty() : {type_of((m, n))}
      %{name} = linalg.generic {{indexing_maps = [{maps}],
        iterator_types = ["parallel", "parallel"]}}
        ins(%{source}, %{rows} : {type_of((m, n))}, {type_of((m,))})
        outs(%e_{name} : {type_of((m, n))}) {{
      ^bb0(%x: f32, %y: f32, %o: f32):
        %d = arith.subf %x, %y : f32
        linalg.yield %d : f32
      }} -> {type_of((m, n))}"""


def row_sums(name: str, source: str, m: int, n: int) -> str:
    """%name[m] = sum of %source[m, n] over n"""
    out = type_of((m,))
    return f"""
      %zero_{name} = arith.constant 0.0 : f32
      %e_{name} = tensor.empty() : {out}
      %f_{name} = linalg.fill ins(%zero_{name} : f32) outs(%e_{name} : {out}) -> {out}
      %{name} = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>,
        affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]}}
        ins(%{source} : {type_of((m, n))}) outs(%f_{name} : {out}) {{
      ^bb0(%x: f32, %acc: f32):
        %t = arith.addf %acc, %x : f32
        linalg.yield %t : f32
      }} -> {out}"""


def of_rows(name: str, value: str, m: int) -> str:
    """%name: the elements of %value[m] that a task needs."""
    return stage(name, value, Tile((m,), (), [1])).replace("0, -1", "0")


def centred(m: int, inner: int, n: int, *, stages: bool, order: str = "m, n") -> str:
    """%r = (s - sums of the rows of s) * %a2, s = %a0 * %a1"""
    tile = Tile((m, inner), (), [1, 16], [0, 1], 1, 16)
    text = product("s", "a0", "a1", m, inner, 16)
    if not stages:
        text += row_sums("t", "s", m, inner) + elementwise("d", "s", "t", m, inner, order)
        return text + product("r", "d", "a2", m, n, inner)
    text += stage("s1", "s", tile) + row_sums("t", "s1", m, inner) + of_rows("t1", "t", m)
    text += elementwise("d", "s1", "t1", m, inner, order) + stage("d1", "d", tile)
    return text + product("r", "d1", "a2", m, n, inner)


@pytest.mark.parametrize("inner", [40, 256])
def test_a_stage_is_written_over_the_one_it_is_computed_from(inner: int):
    """And rows of a multiple of 1 KiB (256 elements) do not lie on the same sets of a cache."""
    m, n, arrays = 12, 16, operands(12, 16, inner, 16)
    tile, shape = Tile((m, n), [5, n], [1, 16], [0, 1], 1, 16), [((m, n), "float32")]
    staged = Kernel(centred(m, inner, n, stages=True), ["%r"], arrays, shape, tile, FEATURES[0])
    plain = Kernel(centred(m, inner, n, stages=False), ["%r"], arrays, shape, tile, FEATURES[0])
    assert np.array_equal(staged.run()[0], plain.run()[0])
    with dialects.load(ir.Context()), ir.Location.unknown():
        body = centred(8, inner, 16, stages=True)
        module = ir.Module.parse(kernel_text(body, 4, [(8, 16), (16, inner), (inner, 16)]))
        found = stages_of(module.body.operations[0].operation, (4, 16))
        row = inner + 16 * (inner == 256)
        assert [s.shape for s in found] == [(4, row), (4,), (4, row)]
        assert [s.offset for s in found] == [0, 4 * row * 4, 0]


def test_a_stage_that_reads_other_elements_of_another_has_its_own_place():
    with dialects.load(ir.Context()), ir.Location.unknown():
        body = centred(16, 16, 16, stages=True, order="n, m").replace(
            "axes = array<i64: 0, -1>", "axes = array<i64: -1, -1>"
        )
        module = ir.Module.parse(kernel_text(body, 16, [(16, 16)] * 3))
        kernel = module.body.operations[0].operation
        assert [s.offset for s in stages_of(kernel, (16, 16))] == [0, 1024, 1088]


def test_a_tile_that_nobody_reads_any_more_gives_its_place_to_the_next():
    """s (rows x 16) is kept until t is computed, t until u, u until the result: two places."""
    tile = Tile((8, 16), (), [1, 16], [0, 1], 1, 16)
    body = product("s", "a0", "a1", 8, 16, 4) + stage("s1", "s", tile)
    for value, before in (("t", "s1"), ("u", "t1")):
        body += product(value, before, "a2", 8, 16, 16) + stage(value + "1", value, tile)
    body += product("r", "u1", "a2", 8, 16, 16)
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(kernel_text(body, 3))
        kernel = module.body.operations[0].operation
        assert [s.offset for s in stages_of(kernel, (3, 16))] == [0, 192, 0]
        assert [s.tiling.tile for s in stages_of(kernel, (3, 16))] == [(3, 16)] * 3
        assert workspace_bytes(kernel, (3, 16)) == 384
        # a task of all rows keeps all rows
        assert workspace_bytes(kernel, (8, 16)) == 2 * 8 * 16 * 4


def test_a_tile_stays_while_results_read_it():
    tile = Tile((8, 16), (), [1, 16], [0, 1], 1, 16)
    body = product("s", "a0", "a1", 8, 16, 4) + stage("s1", "s", tile)
    body += product("t", "s1", "a2", 8, 16, 16) + stage("t1", "t", tile)
    shape = type_of((8, 16))
    body += f"""
      %e = tensor.empty() : {shape}
      %r = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>,
        affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
        iterator_types = ["parallel", "parallel"]}} ins(%s1, %t1 : {shape}, {shape})
        outs(%e : {shape}) {{
      ^bb0(%x: f32, %y: f32, %o: f32):
        %z = arith.addf %x, %y : f32
        linalg.yield %z : f32
      }} -> {shape}"""
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(kernel_text(body, 4))
        kernel = module.body.operations[0].operation
        assert [s.offset for s in stages_of(kernel, (4, 16))] == [0, 256]
        assert workspace_bytes(kernel, (4, 16)) == 512


def test_a_changed_row_tile_changes_no_bit_of_three_stages():
    arrays = [np.random.default_rng(k).standard_normal(s, dtype=np.float32)
              for k, s in enumerate(((8, 4), (4, 16), (16, 16)))]  # fmt: skip
    tile = Tile((8, 16), (), [2, 16], [0, 1], 1, 16)
    body = product("s", "a0", "a1", 8, 16, 4) + stage("s1", "s", tile)
    body += product("t", "s1", "a2", 8, 16, 16) + stage("t1", "t", replace(tile))
    body += product("r", "t1", "a2", 8, 16, 16)
    results = [
        Kernel(body, ["%r"], arrays, [((8, 16), "float32")], rows, FEATURES[0]).run()[0]
        for rows in (Tile((8, 16)), Tile((8, 16), [3, 16], [2, 16], [1, 0], 1, 16))
    ]
    assert np.array_equal(*results)


def heads_chain(heads: int, m: int, n: int, *, kept: str | None) -> str:
    """%r[h] = (%a0[h] * %a1[h]) * %a2[h], all of n columns; kept: attributes of the stage"""
    maps = ", ".join(
        f"affine_map<(h, m, n, k) -> ({r})>" for r in ("h, m, k", "h, k, n", "h, m, n")
    )
    kinds = ", ".join(f'"{k}"' for k in ("parallel", "parallel", "parallel", "reduction"))
    out, right = type_of((heads, m, n)), type_of((heads, n, n))

    def one(name: str, left: str, other: str) -> str:
        return f"""
      %zero_{name} = arith.constant 0.0 : f32
      %e_{name} = tensor.empty() : {out}
      %f_{name} = linalg.fill ins(%zero_{name} : f32) outs(%e_{name} : {out}) -> {out}
      %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
        ins(%{left}, %{other} : {out}, {right}) outs(%f_{name} : {out}) {{
      ^bb0(%x: f32, %y: f32, %acc: f32):
        %mul = arith.mulf %x, %y : f32
        %sum = arith.addf %acc, %mul : f32
        linalg.yield %sum : f32
      }} -> {out}"""

    if kept is None:
        return one("s", "a0", "a1") + one("r", "s", "a2")
    keep = f'\n%k = "rtask.stage"(%s) {{{kept}}} : ({out}) -> {out}'
    return one("s", "a0", "a1") + keep + one("r", "k", "a2")


HEADS = "vector_dim = 2 : i64, lanes = 16 : i64, register_tile = array<i64: 1, 2, 16>"


@pytest.mark.parametrize(
    ("order", "kept"), [("0, 2, 1", 4 * 16), ("2, 0, 1", 3 * 4 * 16)], ids=["walked", "together"]
)
def test_a_task_goes_through_all_stages_of_a_head_before_the_next(order: str, kept: int):
    """If both loop over heads outermost: then only rows of one head are kept. 5 heads, 3 a task."""
    heads, m, n = 5, 10, 16
    shapes = ((heads, m, n), (heads, n, n), (heads, n, n))
    arrays = [np.random.default_rng(k).standard_normal(s, dtype=np.float32)
              for k, s in enumerate(shapes)]  # fmt: skip
    attributes = f"axes = array<i64: 0, 1, -1>, order = array<i64: {order}>, {HEADS}"
    tile = Tile((heads, m, n), [3, 4, n], [1, 2, 16], [0, 1, 2], 2, 16)
    shape = [((heads, m, n), "float32")]
    staged, plain = (
        Kernel(heads_chain(heads, m, n, kept=text), ["%r"], arrays, shape, tile, FEATURES[0])
        for text in (attributes, None)
    )
    assert np.array_equal(staged.run()[0], plain.run()[0])
    assert np.array_equal(staged.run([3, 1, 0, 2, 5, 4])[0], plain.run()[0])
    body = heads_chain(heads, m, n, kept=attributes)
    arguments = ", ".join(f"%a{k}: {type_of(s)}" for k, s in enumerate(shapes))
    text = (
        f'"rtask.kernel"() ({{\n^bb0({arguments}):\n{body}\n"rtask.yield"(%r) : '
        f'({type_of(shapes[0])}) -> ()\n}}) {{sym_name = "k", kind = "contraction", '
        f"{tile.attributes(shapes, 1)}}} : () -> ()"
    )
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        assert workspace_bytes(module.body.operations[0].operation, (3, 4, n)) == kept * 4
