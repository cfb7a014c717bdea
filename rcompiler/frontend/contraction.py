"""Builder methods for sums of products and windows: matmul, convolution, pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .body import Body
from .core import accumulator, broadcast_shapes
from .layout import LayoutOps
from .scalar import Number, Scalar
from .value import Value

# Rows of a product for which the other factor is not brought into another form first, as it reads
# each element of it once or so.
_FEW_ROWS = 4


def _multiply_add(dtype: str) -> Callable[[Body, Scalar, Scalar, Scalar], Scalar]:
    """The one contraction body: ``acc + a * b`` in the accumulator's type."""

    def body(s: Body, a: Scalar, b: Scalar, acc: Scalar) -> Scalar:
        return acc + s.cast(a, dtype) * s.cast(b, dtype)

    return body


class ContractionOps(LayoutOps):
    """The contraction part of Builder."""

    def contract(
        self,
        a: tuple[Value, str],
        b: tuple[Value, str],
        out: tuple[Sequence[int], str],
        iterators: str,
        dtype: str | None = None,
        wide: bool = False,
    ) -> Value:
        """Sum of products over the ``r`` iterators; operands are (value, map) pairs.

        16-bit floats are accumulated in f32 and rounded once, as numpy and every library do. wide:
        not rounded yet, for who adds a bias.
        """
        dtype = dtype or a[0].dtype
        sum_dtype = accumulator(dtype)
        shape, write = out
        body = _multiply_add(sum_dtype)
        sums = self.fold([a, b], shape, sum_dtype, 0, iterators, body, write)
        if wide or sum_dtype == dtype:
            return sums
        return self.elementwise(lambda s, x: s.cast(x, dtype), sums, dtype=dtype)

    def matmul(self, a: Value, b: Value, dtype: str | None = None) -> Value:
        """numpy's ``matmul`` with batch broadcasting, operands of rank >= 1.

        Of few rows `b` is read as it lies: neither turned nor repeated before. The caller has
        checked the shapes.
        """
        rows = a.shape[-2] if a.rank > 1 else 1
        if b.rank < 2 or rows > _FEW_ROWS:
            return self._product(a, b, dtype)
        b, factor, by_columns = self._before_turning(b)
        if factor is not None:
            a = self.elementwise(lambda s, x, y: x * y, a, self.reshape(factor, []))
        shape = [*a.shape[:-1], b.shape[-2 if by_columns else -1]]
        if a.shape[:-2] == b.shape[:-2] and (shared := self._before_repeating(b)) is not None:
            b, sharing = shared, a.shape[-3] // shared.shape[-3]
            a = self.reshape(a, [*b.shape[:-2], sharing * rows, a.shape[-1]])
            return self.reshape(self._product(a, b, dtype, by_columns), shape)
        return self._product(a, b, dtype, by_columns)

    def _product(self, a: Value, b: Value, dtype: str | None, by_columns: bool = False) -> Value:
        """by_columns: the rows of the matrices of `b` are its columns."""
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        assert batch is not None
        n = len(batch)
        k = f"d{n + (a.rank > 1) + (b.rank > 1)}"
        rows = [f"d{n}"] if a.rank > 1 else []
        columns = [f"d{n + len(rows)}"] if b.rank > 1 else []

        def lead(value: Value) -> list[str]:
            skip = n - max(value.rank - 2, 0)
            sizes = value.shape[:-2]
            return [
                "0" if size == 1 and batch[skip + i] != 1 else f"d{skip + i}"
                for i, size in enumerate(sizes)
            ]

        width = b.shape[-2 if by_columns else -1]
        shape = [*batch, *(a.shape[-2:-1] if rows else ()), *([width] if columns else ())]
        read_a = ", ".join([*lead(a), *rows, k])
        read_b = ", ".join([*lead(b), *([*columns, k] if by_columns else [k, *columns])])
        write = ", ".join(f"d{i}" for i in range(len(shape)))
        return self.contract(
            (a, read_a), (b, read_b), (shape, write), "p" * len(shape) + "r", dtype
        )

    def _before_turning(self, value: Value) -> tuple[Value, Value | None, bool]:
        """What has the rows of a matrix for its columns, where that is what it was made of, and one
        number that all of it is multiplied by, if there is one; else the matrix itself.
        """
        found, factor = value, None
        if value.scaled is not None and value.dtype in ("float32", "float64"):
            found, factor = value.scaled
        axes = list(range(value.rank))
        swapped = [*axes[:-2], axes[-1], axes[-2]]
        turned = found.permuted is not None and list(found.permuted[1]) == swapped
        if not turned and (found.reordered is None or not found.reordered.undoes(swapped)):
            return value, None, False
        return self.transpose(found, swapped), factor, True

    def _before_repeating(self, value: Value) -> Value | None:
        """The matrices that a value has several times each, one behind the other, as heads of keys
        that heads of queries share; None of any other.
        """
        each, source = value.base, None if value.base is None else value.base.spread
        if each is None or source is None or value.rank < 3 or each.rank != value.rank + 1:
            return None
        *lead, count, times, height, width = each.shape
        once = (*lead, count, 1, height, width)
        if source.shape != once or value.shape != (*lead, count * times, height, width):
            return None
        return self.reshape(source, [*lead, count, height, width])

    def conv(
        self,
        x: Value,
        w: Value,
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[int],
        groups: int = 1,
        dtype: str | None = None,
        pad_number: Number = 0,
        wide: bool = False,
    ) -> Value:
        """Convolution of ``x`` [n, c, spatial...] with ``w`` [co, c/groups, kernel...].

        ``pads``: begins then ends of the spatial dimensions. One ``tensor.pad`` and one generic
        with iterators (n, [g,] co, spatial... | ci, kernel...). wide: see ``contract``.
        """
        rank = x.rank - 2
        x = self.pad(x, [0, 0, *pads[:rank]], [0, 0, *pads[rank:]], pad_number)
        kernel = w.shape[2:]
        sizes = window_counts(x.shape[2:], kernel, strides, dilations)
        phased = [False] * rank
        return self._windows(x, w, sizes, strides, dilations, phased, groups, dtype, wide)

    def conv_phases(
        self,
        x: Value,
        w: Value,
        sizes: Sequence[int],
        dilations: Sequence[int],
        phased: Sequence[bool],
        groups: int = 1,
        wide: bool = False,
    ) -> Value:
        """Convolutions of stride 1 that read the same windows of ``x`` [n, c, spatial...].

        w: [co, c/groups, then per spatial axis phases (only where ``phased``) and taps]. The result
        is [n, co, then per axis sizes[i] and phases]; it is the sub-pixel form of a transposed
        convolution (Shi et al., CVPR'16): a reshape interleaves the phases.
        """
        ones = [1] * len(sizes)
        return self._windows(x, w, sizes, ones, dilations, phased, groups, None, wide)

    def _windows(
        self,
        x: Value,
        w: Value,
        sizes: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        phased: Sequence[bool],
        groups: int,
        dtype: str | None,
        wide: bool,
    ) -> Value:
        """The generic of ``conv`` and ``conv_phases``; ``x`` is padded already."""
        n, co, ci = x.shape[0], w.shape[0] // groups, w.shape[1]
        kernel = list(w.shape[2:])
        # A dimension of size one per group is left out: depthwise has only g.
        keep_co, keep_ci = groups == 1 or co > 1, groups == 1 or ci > 1
        group, outer, inner = [groups] * (groups > 1), [co] * keep_co, [ci] * keep_ci
        if groups > 1:
            x = self.reshape(x, [n, *group, *inner, *x.shape[2:]])
            w = self.reshape(w, [*group, *outer, *inner, *kernel])
        shape = [n, *group, *outer]
        w_lead = ["d1"] * len(group) + [f"d{len(shape) - 1}"] * keep_co
        positions, phases, whole = [], [], [n, groups * co]
        extents = iter(kernel)
        for size, own in zip(sizes, phased, strict=True):
            positions.append(f"d{len(shape)}")
            phases.append([f"d{len(shape) + 1}"] if own else [])
            box = [size, next(extents)] if own else [size]
            next(extents)  # the taps
            shape, whole = shape + box, whole + box
        first = len(shape)  # first reduction dimension
        reduce = [f"d{first}"] * keep_ci
        taps = [f"d{first + len(reduce) + i}" for i in range(len(sizes))]
        window = map(_window, positions, strides, taps, dilations)
        w_window = [d for own, tap in zip(phases, taps, strict=True) for d in (*own, tap)]
        out = self.contract(
            (x, ", ".join(["d0", *["d1"] * len(group), *reduce, *window])),
            (w, ", ".join([*w_lead, *reduce, *w_window])),
            (shape, ", ".join(f"d{i}" for i in range(first))),
            "p" * first + "r" * (len(reduce) + len(taps)),
            dtype,
            wide,
        )
        return self.reshape(out, whole)

    def window_reduce(
        self,
        x: Value,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        low: Sequence[int],
        high: Sequence[int],
        init: Number,
        combine: Callable[[Body, Scalar, Scalar], Scalar],
    ) -> Value:
        """Pooling over the last ``len(kernel)`` dimensions of ``x``, padded with ``init``.

        ``combine(s, element, accumulator)``; ``high`` may be larger than the last window needs.
        """
        rank, lead = len(kernel), x.rank - len(kernel)
        x = self.pad(x, [0] * lead + list(low), [0] * lead + list(high), init)
        sizes = window_counts(x.shape[lead:], kernel, strides, dilations)
        shape = [*x.shape[:lead], *sizes]
        window = [
            _window(f"d{lead + i}", strides[i], f"d{x.rank + i}", dilations[i]) for i in range(rank)
        ]
        read = ", ".join([f"d{i}" for i in range(lead)] + window)
        # The window's extents are known to linalg only through an operand of that shape.
        extent = self.empty(kernel, x.dtype)
        taps = ", ".join(f"d{x.rank + i}" for i in range(rank))
        reads, iterators = [(x, read), (extent, taps)], "p" * len(shape) + "r" * rank
        body = lambda s, a, _, acc: combine(s, a, acc)  # noqa: E731
        return self.fold(reads, shape, x.dtype, init, iterators, body)


def window_counts(
    extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """How many windows there are along each axis, of extents with their padding."""
    axes = zip(extents, kernel, strides, dilations, strict=True)
    return [(n - (k - 1) * dilation - 1) // stride + 1 for n, k, stride, dilation in axes]


def _window(position: str, stride: int, tap: str, dilation: int) -> str:
    """``position * stride + tap * dilation``."""
    left = position if stride == 1 else f"{position} * {stride}"
    return f"{left} + " + (tap if dilation == 1 else f"{tap} * {dilation}")
