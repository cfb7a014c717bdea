"""A target of kernels is what the `Target` protocol says, and nothing else: a toy compiles them."""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Kernel, Tile, contraction, random, softmax, type_of
from test_stages import chain, operands

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from toy_target import READ, WRITTEN, ToyTarget  # noqa: E402

from rcompiler.runtime.memory import aligned_empty  # noqa: E402


class ToyKernel:
    """A kernel for the toy. diary: what it was asked for; counts: accesses of the last run."""

    def __init__(
        self,
        body: str,
        inputs: Sequence[np.ndarray],
        shape: Sequence[int],
        tile: Tile,
        kind: str = "elementwise",
    ) -> None:
        target = ToyTarget()
        self._inputs, self._shape = inputs, shape
        self._kernel = Kernel(body, ["%r"], inputs, [(shape, "float32")], tile, target, kind)
        self.diary = target.meeting.pages

    def run(self) -> np.ndarray:
        """The result of all tasks, of which the last is the first."""
        result = np.full(self._shape, np.nan, np.float32)
        self.counts = np.zeros(2, np.int64)
        workspace = aligned_empty((self._kernel.workspace + 64,), np.dtype(np.uint8))
        arrays = [*self._inputs, result]
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        types = (ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p, ctypes.c_void_p)
        tasks, ends = self._kernel.tasks, (workspace.ctypes.data, self.counts.ctypes.data)
        ctypes.CFUNCTYPE(None, *types)(self._kernel.address)(pointers, tasks - 1, tasks, -1, *ends)
        return result


@pytest.mark.parametrize("tile", [Tile((5, 7)), Tile((5, 7), [2, 3], [2, 8], [1, 0], 1, 4)])
def test_a_product_reads_two_factors_in_each_step(tile: Tile):
    """Register tiles and vectors are what cores have: here they change nothing."""
    a, b = random((5, 3)), random((3, 7), 1)
    kernel = ToyKernel(contraction(5, 7, 3), [a, b], (5, 7), tile, "contraction")
    np.testing.assert_allclose(kernel.run(), a @ b, rtol=1e-5, atol=1e-6)
    assert kernel.counts[READ] == 2 * 5 * 7 * 3
    assert kernel.counts[WRITTEN] == 5 * 7
    assert kernel.diary == []


def test_a_reduction_along_memory_has_one_lane():
    x = random((6, 10))
    kernel = ToyKernel(softmax((6, 10), 1), [x], (6, 10), Tile((6, 10), [4, 10]), "reduction")
    powers = np.exp(x.astype(np.float64))
    wanted = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(kernel.run(), wanted, rtol=1e-5)


def test_each_piece_of_a_padded_product_is_written_once():
    a, b = random((5, 3)), random((3, 7), 1)
    body = contraction(5, 7, 3).replace("%r = linalg.generic", "%p = linalg.generic")
    body += f"""
      %one = arith.constant 1.0 : f32
      %r = tensor.pad %p low[2, 1] high[0, 3] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %one : f32
      }} : {type_of((5, 7))} to {type_of((7, 11))}"""
    kernel = ToyKernel(body, [a, b], (7, 11), Tile((7, 11), [3, 4]), "contraction")
    wanted = np.pad(a @ b, [(2, 0), (1, 3)], constant_values=1)
    np.testing.assert_allclose(kernel.run(), wanted, rtol=1e-5, atol=1e-6)
    assert kernel.counts[WRITTEN] == 7 * 11


def test_who_computes_stages_meets_between_them():
    arrays = operands(9, 4, 6, 5)
    kept = Tile((9, 6), (), [1, 1], [0, 1])
    text = chain(9, 4, 6, 5, kept)
    kernel = ToyKernel(text, arrays, (9, 5), Tile((9, 5), [3, 5], [2, 1]), "contraction")
    first, second, third = arrays
    np.testing.assert_allclose(kernel.run(), first @ second @ third, rtol=1e-4, atol=1e-5)
    assert kernel.diary == ["begin", "stage", "results", "end"]
    assert kernel.counts[WRITTEN] == 9 * 6 + 9 * 5


ROWS, ALL = (
    """%r = scf.for %i = %c0 to %rows step %c1 iter_args(%t = %e) -> (tensor<4x6xf32>) {""",
    """%r, %sums = scf.for %i = %c0 to %rows step %c1 iter_args(%t = %e, %start = %zero)
      -> (tensor<4x6xf32>, f32) {""",
)


def sums(outer: str, start: str, carried: str) -> str:
    """Running sums along the rows of %a0; outer: the loop over rows; start: what those of a row
    start with; carried: what the loop over rows yields.
    """
    return f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = arith.constant 4 : index
  %columns = arith.constant 6 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  {outer}
    %u, %end = scf.for %j = %c0 to %columns step %c1 iter_args(%v = %t, %sum = {start})
        -> (tensor<4x6xf32>, f32) {{
      %x = tensor.extract %a0[%i, %j] : tensor<4x6xf32>
      %next = arith.addf %sum, %x : f32
      %w = tensor.insert %next into %v[%i, %j] : tensor<4x6xf32>
      scf.yield %w, %next : tensor<4x6xf32>, f32
    }}
    scf.yield {carried}
  }}"""


@pytest.mark.parametrize("alone", [True, False], ids=["each row", "all before"])
def test_only_loops_whose_iterations_have_slabs_are_shared_out(alone: bool):
    row, rest = "%u : tensor<4x6xf32>", "%u, %end : tensor<4x6xf32>, f32"
    body = sums(ROWS, "%zero", row) if alone else sums(ALL, "%start", rest)
    x = random((4, 6))
    kernel = ToyKernel(body, [x], (4, 6), Tile((4, 6)), "sequential")
    wanted = np.cumsum(x, 1) if alone else np.cumsum(x).reshape(4, 6)
    np.testing.assert_allclose(kernel.run(), wanted, rtol=1e-4, atol=1e-5)
    assert kernel.counts.tolist() == [24, 24]
    assert kernel.diary == ["slabs" if alone else "in order"]
