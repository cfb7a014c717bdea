"""What of the operands of a product is copied asynchronously, and how it lies in shared memory."""

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.operand import (
    Operand,
    Side,
    even_pitch,
    is_by_steps,
    odd_pitch,
    unfold,
)
from rcompiler.kernelgen.simt.runs import run_width
from rcompiler.kernelgen.simt.source import Reading, peeled, split_run
from rcompiler.kernelgen.simt.thread_grid import Extent, ThreadGrid, thread_grid
from rcompiler.kernelgen.simt.workspace import Workspace
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import form_of
from rcompiler.linalg.values import element_of, shape_of

KINDS = 'iterator_types = ["parallel", "parallel"]'
PRODUCT = """
func.func @k(%x: {x}, %w: {w}, %e: {y}) -> {y} {{
  %zero = arith.constant {fill} : f32
  {before}
  %a = linalg.generic {{
    indexing_maps = [
      affine_map<(m, n, k) -> ({at})>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>
    ], iterator_types = ["parallel", "parallel", "reduction"]
  }} ins(%v, %w : {v}, {w}) outs(%e : {y}) {{
  ^bb0(%l: {element}, %r: {element}, %acc: {element}):
    %p = arith.mulf %l, %r : {element}
    %s = arith.addf %acc, %p : {element}
    linalg.yield %s : {element}
  }} -> {y}
  return %a : {y}
}}
"""


class Case:
    """A product of 64 x 64. Its first factor %v [m, k], or as `at` says, is made of %x by `before`;
    x, v: their shapes.
    """

    def __init__(self, x, v, before="", at="m, k", k=128, element="f32", fill="0.0") -> None:
        shapes = {"x": x, "v": v, "w": f"{k}x64", "y": "64x64"}
        types = {name: f"tensor<{shape}x{element}>" for name, shape in shapes.items()}
        text = PRODUCT.format(before=before, at=at, element=element, fill=fill, **types)
        self.module = ir.Module.parse(text if before else text.replace("%v", "%x"))
        block = self.module.body.operations[0].regions[0].blocks[0]
        self.buffers = {
            argument: Buffer(f"%{k}", shape_of(argument), element_of(argument), True)
            for k, argument in enumerate(block.arguments)
        }
        *_, product, _ = block.operations
        self.root = Generic(product.operation)
        symbols = ["<0>", "<1>"]
        self.form = form_of(self.root, [Linear.of(s) for s in symbols], symbols, None)

    def width(self, tile=64, steps=32, start=None, element=None, memory=True) -> int:
        element = element or element_of(self.root.operands[0])
        by_steps = is_by_steps(self.root, 0)
        side = Side(0, element, (0,), (tile,), tile, by_steps, by_steps)
        reading = Reading(self.form, (Linear.of("%g", tile) if start is None else start, Linear()))
        counts = [size // side.item for size in (16, 8, 4) if size >= side.item]

        def accepted(buffer, count):
            return memory and buffer.element == element

        return run_width(reading, side, steps, self.buffers, {"%g": 4}, counts, accepted)


@pytest.fixture(autouse=True)
def context():
    with dialects.load(ir.Context()), ir.Location.unknown():
        yield


def test_lines_of_steps_are_copied_16_bytes_at_a_time():
    """Rows of 128 elements: every step that is a multiple of 4 is at a multiple of 16 bytes."""
    case = Case("64x128", "64x128")
    assert is_by_steps(case.root, 0) and not is_by_steps(case.root, 1)
    assert case.width() == 4


@pytest.mark.parametrize(("k", "width"), [(126, 2), (127, 1), (125, 1)])
def test_rows_that_begin_anywhere_are_copied_in_shorter_pieces(k, width):
    assert Case(f"64x{k}", f"64x{k}", k=k).width() == width


@pytest.mark.parametrize(("k", "width"), [(128, 8), (132, 4), (130, 2), (129, 0)])
def test_halves(k, width):
    """There are no copies of 2 bytes."""
    assert Case(f"64x{k}", f"64x{k}", k=k, element="f16").width() == width


def test_parts_of_few_steps():
    assert Case("64x128", "64x128", element="f16").width(steps=4) == 4


def test_lines_of_positions():
    """The tile begins at a multiple of its 64, 6 or 7 positions."""
    case = Case("128x64", "128x64", at="k, m")
    assert not is_by_steps(case.root, 0)
    assert [case.width(tile) for tile in (64, 6, 7)] == [4, 2, 1]
    assert case.width(8, start=Linear.of("%g", 8) + 2) == 2


def test_what_is_computed_is_not_copied():
    negated = f"""%v = linalg.generic {{
    indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], {KINDS}
  }} ins(%x : tensor<64x128xf32>) outs(%x : tensor<64x128xf32>) {{
  ^bb0(%l: f32, %o: f32):
    %s = arith.negf %l : f32
    linalg.yield %s : f32
  }} -> tensor<64x128xf32>"""
    assert Case("64x128", "64x128", negated).width() == 0
    assert Case("64x128", "64x128").width(element="f16") == 0  # rounded on the way
    assert Case("64x128", "64x128").width(memory=False) == 0  # a stage in shared memory


def test_elements_in_another_order_are_copied_as_they_lie():
    """Turned: neighbours among the steps are 64 elements apart."""
    turned = f"""%t = tensor.empty() : tensor<64x128xf32>
  %v = linalg.generic {{
    indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>], {KINDS}
  }} ins(%x : tensor<128x64xf32>) outs(%t : tensor<64x128xf32>) {{
  ^bb0(%l: f32, %o: f32):
    linalg.yield %l : f32
  }} -> tensor<64x128xf32>"""
    assert Case("128x64", "64x128", turned).width() == 1


@pytest.mark.parametrize(
    ("shape", "groups", "width"), [("64x4x32", "[[0], [1, 2]]", 4), ("64x64x2", "[[0], [1, 2]]", 2)]
)
def test_views(shape, groups, width):
    view = f"%v = tensor.collapse_shape %x {groups} : tensor<{shape}xf32> into tensor<64x128xf32>"
    assert Case(shape, "64x128", view).width() == width


@pytest.mark.parametrize(("first", "width"), [(0, 4), (8, 4), (2, 2), (3, 1)])
def test_slices(first, width):
    view = (
        f"%v = tensor.extract_slice %x[0, {first}] [64, 128] [1, 1] : "
        "tensor<64x160xf32> to tensor<64x128xf32>"
    )
    assert Case("64x160", "64x128", view).width() == width


PAD = """%v = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  }} : tensor<{x}xf32> to tensor<64x128xf32>"""


@pytest.mark.parametrize(
    ("x", "low", "high", "width"),
    [
        ("62x128", "1, 0", "1, 0", 4),  # whole rows are there or not
        ("64x120", "0, 4", "0, 4", 4),  # whole pieces are
        ("64x126", "0, 1", "0, 1", 1),
        ("64x124", "0, 2", "0, 2", 2),
    ],
)
def test_padding_with_zeros_is_copied_whole_or_not_at_all(x, low, high, width):
    assert Case(x, "64x128", PAD.format(low=low, high=high, x=x)).width() == width


@pytest.mark.parametrize("fill", ["1.0", "-0.0"])
def test_padding_with_anything_else_is_computed(fill):
    pad = PAD.format(low="1, 0", high="1, 0", x="62x128")
    assert Case("62x128", "64x128", pad, fill=fill).width() == 0


# -- coordinates


def test_runs_are_divided_whole():
    """16 q + 4 r + lane by 8, four lanes: 2 q + r / 2, and 4 (r % 2) + lane."""
    value = Linear(0, (("q", 16), ("r", 4), (LANE, 1)))

    def split(runs, divisor):
        assert divisor == 2
        known, rest = peeled(runs, divisor)
        assert rest == Linear.of("r")
        return known + Linear.of("half"), Linear.of("odd")

    quotient, remainder = split_run(value, 8, 4, split)
    assert quotient == Linear(0, (("half", 1), ("q", 2)))
    assert remainder == Linear(0, (("odd", 4), (LANE, 1)))


def test_unfolding_leaves_out_dims_of_one():
    divided = []

    def split(value, divisor):
        divided.append(divisor)
        return Linear.of("q"), Linear.of("r")

    assert unfold(Linear.of("n"), (1, 5, 1, 3, 1), split) == [
        Linear(), Linear.of("q"), Linear(), Linear.of("r"), Linear(),
    ]  # fmt: skip
    assert divided == [3]


# -- layout


@pytest.mark.parametrize(
    ("elements", "item", "odd", "even"),
    [(32, 4, 36, 32), (20, 4, 20, 20), (64, 2, 72, 64), (7, 4, 12, 8)],
)
def test_pitches(elements, item, odd, even):
    assert (odd_pitch(elements, item), even_pitch(elements, item)) == (odd, even)
    # the pieces of eight neighbouring lines are in banks of their own
    assert len({line * odd * item // 16 % 8 for line in range(8)}) == 8


def test_buffers_by_hand():
    """64 positions of 32 steps: lines of 36 elements, 2304 of them, a multiple of 64 bytes."""
    operand = Operand(0, "f32", (0,), (64,), 64, True, True, 32, 36, 4, True, 3, 128)
    assert operand.size == 2304 and operand.end == 128 + 3 * 2304 * 4
    step, position = Linear.of("s"), Linear.of("p")
    assert operand.place(step, position) == Linear(0, (("p", 36), ("s", 1)))
    turned = Operand(0, "f32", (0,), (64,), 64, False, False, 32, 64, 4, True, 3, 128)
    assert turned.size == 2048
    assert turned.place(step, position) == Linear(0, (("p", 1), ("s", 64)))


class Widths:
    """Stands for an evaluator: the first factor is copied, the second one is computed."""

    def copy_width(self, reading, side, steps):
        return 4 if side.number == 0 else 0

    def load_width(self, reading, side, steps):
        return 2


@pytest.mark.parametrize(
    ("room", "steps", "slots"),
    [
        (1 << 20, 32, (4, 2)),  # of what is computed a thread keeps but one part in registers
        (3 * 9216 + 2 * 8192, 32, (3, 2)),
        (3 * 9216 + 2 * 8192 - 1, 32, (2, 2)),
        (2 * 9216 + 2 * 8192 - 1, 32, None),
        (1 << 20, 64, (2, 2)),  # no more than there are parts
        (1 << 20, 128, (1, 1)),
    ],
)
def test_as_many_buffers_as_fit_and_parts_fill(room, steps, slots):
    """64 positions: lines of 36 elements, and of 64 for each step: 9216 and 8192 bytes of 32."""
    case = Case("64x128", "64x128")
    sides = [Side(k, "f32", (k,), (64,), 64, k == 0, k == 0) for k in (0, 1)]
    pitches = [odd_pitch(steps, 4), 64]
    reading = Reading(case.form, (Linear(), Linear()))
    workspace = Workspace(0, room, asynchronous=True)
    found = workspace.operands(Widths(), reading, sides, pitches, steps)
    assert slots == (found and tuple(operand.slots for operand in found))
    if found:
        assert [operand.asynchronous for operand in found] == [True, False]
        assert [operand.width for operand in found] == [4, 2]
        assert found[1].offset == found[0].end <= found[1].end <= room


def test_nothing_is_copied_where_nothing_can_be():
    case = Case("64x128", "64x128")
    sides = [Side(k, "f32", (k,), (64,), 64, k == 0, k == 0) for k in (0, 1)]
    workspace = Workspace(0, 1 << 20, asynchronous=False)
    reading = Reading(case.form, (Linear(), Linear()))
    found = workspace.operands(Widths(), reading, sides, [36, 64], 32)
    assert [(o.asynchronous, o.width, o.slots) for o in found] == [(False, 2, 2)] * 2


# -- threads


def test_a_large_tile_is_8_by_8_for_each_thread():
    sides = Extent(128, False, 4), Extent(128, False, 4)
    grid = thread_grid(ThreadBlock(256), 1, sides)
    assert grid.sums == 64 and grid.runs == (4, 4)
    assert grid.tiles == (1, 2, 2) and grid.shares == (1, 16, 16)
    # 64 multiply-adds by four schedulers and four reads, of no more than a line each
    assert grid.cost(ThreadBlock(256), sides)[0] == (64 + 4) / 4
    assert grid.cost(ThreadBlock(256, schedulers=1), sides)[0] == 64 + 4
    assert max(lanes * 16 for lanes in grid.lanes) == 128


def test_rows_whose_steps_are_neighbours_lie_apart():
    grid = thread_grid(ThreadBlock(256), 1, (Extent(128, True, 4), Extent(128, False, 4)))
    assert grid.runs == (1, 4) and grid.sums == 64


@pytest.mark.parametrize(("batches", "rows", "columns"), [(1, 7, 256), (3, 16, 128), (2, 49, 64)])
def test_every_element_has_a_thread(batches, rows, columns):
    sides = Extent(rows, True, 4), Extent(columns, False, 4)
    grid = thread_grid(ThreadBlock(256), batches, sides)
    covered = [s * t for s, t in zip(grid.shares, grid.tiles, strict=True)]
    assert covered[0] >= batches
    assert covered[1] * grid.runs[0] >= rows and covered[2] * grid.runs[1] >= columns
    assert grid.shares[0] * grid.shares[1] * grid.shares[2] == 256
    assert grid.sums * 256 <= 1.25 * batches * rows * columns


def test_halves_are_read_as_many_as_four():
    grid = thread_grid(ThreadBlock(32), 1, (Extent(64, False, 2), Extent(64, False, 2)))
    assert isinstance(grid, ThreadGrid) and max(grid.runs) == 4
