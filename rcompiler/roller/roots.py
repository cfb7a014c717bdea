"""Which algorithm computes a 3x3 convolution: the direct sum, or Winograd's F(2x2) or F(4x4).

Every root is a chain of rOperators; each of them gets its tile by construction, and the root with
the least EU time by the model wins. Winograd's do 2.25 or 4 times fewer products, but move their
inputs and outputs through memory in 4 or 2.25 times as many elements, and their weights are 16/9 or
4 times as large: they lose where few pixels share the weights and these come from memory.

Errors in f32, against f64 and relative to the root mean square of the result, for the convolutions
of ResNet-50 (64 channels of 56x56 pixels to 512 of 7x7; normally distributed inputs and weights):

                largest               root mean square      bound, next to the direct sum's
    direct      4.5e-6 to 1.1e-5      4.2e-7 to 1.1e-6      1
    F(2x2)      1.8e-6 to 3.9e-6      2.6e-7 to 6.8e-7      7.1
    F(4x4)      7.3e-6 to 1.7e-5      7.5e-7 to 1.9e-6      62.7

The bound is `Filtering.growth` squared: what rounding errors may grow by in the worst case. They do
not, and F(m x m) adds up a ninth as many terms. Verification allows 1e-4.

Direct convolution is the implicit form of im2col: its micro-kernel is that of a matrix product that
takes the rows of the patches straight from the image. To write the patches first only adds traffic,
and there is little to win: with 3 channels and 7x7 taps of stride 2 the direct form runs at 92 % of
the measured multiply-add peak, with 3x3 taps of stride 2 at 95 %, of stride 1 at 96 %.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rcompiler.device.model import Device
from rcompiler.roller.construct import construct
from rcompiler.roller.expr import TensorAccess, TensorExpr, floordiv, index, tensor_expr
from rcompiler.roller.index_expr import axis_index
from rcompiler.roller.linear_map import plan
from rcompiler.roller.winograd import SIZES, Filtering, Matrix, filtering, whole_filtering

DIRECT = "direct"
ROOTS = (DIRECT, *(f"winograd{size}" for size in SIZES))
TAPS = 3
LEAST_GAIN = 1.1  # predicted; the model is not more exact
_EPILOGUE = 4.0  # operations per result: bias and ReLU
_MOST_EUS = 8
_FIT = 0.75  # of the last cache is for weights, of all operators together


@dataclass(frozen=True)
class Convolution3x3:
    """Sizes of a 3x3 convolution with strides and dilations of 1 on blocked channels.

    channels, filters: of one group. height, width: of the result. whole: of integers of 16 bits,
    of which two channels are a word, with sums of 32 bits.
    """

    images: int
    groups: int
    channels: int
    filters: int
    height: int
    width: int
    whole: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of an element of images."""
        return 2 if self.whole else 4

    def factors(self, lanes: int) -> int:
        """Words in `lanes` channels: what one multiply-add takes."""
        return lanes // 2 if self.whole else lanes

    def filtering(self, root: str) -> Filtering:
        """The filtering, in each dimension, of a root other than the direct one."""
        size = int(root.removeprefix("winograd"))
        return whole_filtering(size) if self.whole else filtering(size)


@dataclass(frozen=True)
class Choice:
    """The root to use, and the predicted EU time of each in ns."""

    root: str
    ns: dict[str, float]

    @property
    def reason(self) -> str:
        """One line for a report."""
        times = ", ".join(f"{name} {ns / 1e3:.1f} us" for name, ns in self.ns.items())
        return f"{self.root} of: {times}"


@dataclass
class RootChooser:
    """Chooses roots for one device; remembers what they take.

    cold: the weights of the whole model exceed the last cache, so every operator reads its own from
    memory.
    """

    device: Device
    cold: bool
    _known: dict[tuple[Convolution3x3, str], float] = field(default_factory=dict)

    def choose(self, convolution: Convolution3x3, allowed: Collection[str] = ROOTS) -> Choice:
        """The fastest of the allowed roots; the direct one unless another is clearly faster."""
        ns = {root: self.ns(convolution, root) for root in ROOTS if root in allowed}
        best = min(ns, key=lambda root: ns[root] * (1.0 if root == DIRECT else LEAST_GAIN))
        return Choice(best, ns)

    def ns(self, convolution: Convolution3x3, root: str) -> float:
        """Predicted EU time of all rTasks of all operators of a root."""
        key = convolution, root
        if key not in self._known:
            lanes = self.device.lanes(4)
            steps = operators(convolution, root, lanes)
            self._known[key] = sum(self._step(step) for step in steps)
        return self._known[key]

    def _step(self, step: TensorExpr) -> float:
        decision = construct(step, self.device, eus=1)[0]  # the faster ones are not needed
        ns = decision.tasks * decision.estimated_ns
        if not self.cold or len(step.inputs) < 2:
            return ns
        _, weights = step.inputs
        size = weights.elements(step.sizes) * weights.itemsize
        # EU time, so the more EUs draw at once the longer each waits; as for tiles, the mean over
        # numbers of EUs, since what is chosen may not depend on their number in a schedule
        counts = range(1, min(self.device.eus, _MOST_EUS) + 1)
        loads = [size / self.device.main_memory.share(active) for active in counts]
        # as between the levels of one operator: the slowest hides the others, not perfectly
        return sum(max(ns, 0.8 * max(ns, load) + 0.2 * (ns + load)) for load in loads) / len(loads)


def is_cold(device: Device, weight_bytes: int) -> bool:
    """Whether so many bytes of weights do not stay in the last cache."""
    return not device.caches or weight_bytes > _FIT * device.last_cache.capacity


def filtering_of(root: str) -> Filtering:
    """The filtering, in each dimension, of a root other than the direct one.

    Raises KeyError for a root not in ROOTS.
    """
    return filtering(int(root.removeprefix("winograd")))


def operators(convolution: Convolution3x3, root: str, lanes: int) -> list[TensorExpr]:
    """The operators of a root, in order. Raises KeyError for a root not in ROOTS."""
    if root == DIRECT:
        return [_direct(convolution, lanes)]
    f = convolution.filtering(root)
    return [
        _inputs(convolution, f, lanes),
        _products(convolution, f, lanes),
        _outputs(convolution, f, lanes),
    ]


def _direct(c: Convolution3x3, lanes: int) -> TensorExpr:
    n, g, cob, y, x, co, cib, p, q, ci = map(axis_index, range(10))
    rows, columns = index((1, 3), (1, 7)), index((1, 4), (1, 8))
    inner, outer = _blocks(c.channels, lanes), _blocks(c.filters, lanes)
    sizes = (c.images, c.groups, outer, c.height, c.width, lanes)
    words = c.factors(lanes)
    image = (c.images, c.groups, inner, c.height + TAPS - 1, c.width + TAPS - 1, words)
    weights = (c.groups, outer, inner, TAPS, TAPS, words, lanes)
    return tensor_expr(
        [*_axes("parallel", *sizes), *_axes("reduction", inner, TAPS, TAPS, words)],
        [
            TensorAccess(image, 4, (n, g, cib, rows, columns, ci)),
            TensorAccess(weights, 4, (g, cob, cib, p, q, ci, co)),
        ],
        [TensorAccess(sizes, c.itemsize, (n, g, cob, y, x, co))],
        kind="convolution",
        epilogue_ops=_EPILOGUE,
        compute_bytes=4,
        **_multiply(c),
    )


def _inputs(c: Convolution3x3, f: Filtering, lanes: int) -> TensorExpr:
    n, g, cib, th, i, j, tw, ci = map(axis_index, range(8))
    tiles = [-(-size // f.size) for size in (c.height, c.width)]
    rows, columns = index((f.size, 3), (1, 8)), index((f.size, 6), (1, 9))
    inner, (high, wide) = _blocks(c.channels, lanes), (t * f.size + TAPS - 1 for t in tiles)
    sizes = (c.images, c.groups, inner, tiles[0], f.products, f.products, tiles[1], lanes)
    return tensor_expr(
        [*_axes("parallel", *sizes), *_axes("whole", f.products, f.products)],
        [
            TensorAccess(
                (c.images, c.groups, inner, high, wide, lanes),
                c.itemsize,
                (n, g, cib, rows, columns, ci),
            )
        ],
        [TensorAccess(sizes, c.itemsize, (n, g, cib, th, i, j, tw, ci))],
        kind="transform",
        ops=2 * _work(f.inputs),
        periods=((4, f.products), (5, f.products)),
    )


def _products(c: Convolution3x3, f: Filtering, lanes: int) -> TensorExpr:
    n, g, cob, th, i, j, tw, co, cib, ci = map(axis_index, range(10))
    inner, outer = _blocks(c.channels, lanes), _blocks(c.filters, lanes)
    tiles = [-(-size // f.size) for size in (c.height, c.width)]
    rest = (tiles[0], f.products, f.products, tiles[1], lanes)
    words = c.factors(lanes)
    image = (c.images, c.groups, inner, *rest[:-1], words)
    weights = (f.products, f.products, c.groups, outer, inner, words, lanes)
    return tensor_expr(
        [*_axes("parallel", c.images, c.groups, outer, *rest), *_axes("reduction", inner, words)],
        [
            TensorAccess(image, 4, (n, g, cib, th, i, j, tw, ci)),
            TensorAccess(weights, 4, (i, j, g, cob, cib, ci, co)),
        ],
        [TensorAccess((c.images, c.groups, outer, *rest), 4, (n, g, cob, th, i, j, tw, co))],
        kind="contraction",
        **_multiply(c),
    )


def _outputs(c: Convolution3x3, f: Filtering, lanes: int) -> TensorExpr:
    n, g, cob, y, x, co, i, j = map(axis_index, range(8))
    tiles = [-(-size // f.size) for size in (c.height, c.width)]
    rows, columns = (index((1, floordiv(at, f.size))) for at in (y, x))
    outer = _blocks(c.filters, lanes)
    products = (c.images, c.groups, outer, tiles[0], f.products, f.products, tiles[1], lanes)
    sizes = (c.images, c.groups, outer, c.height, c.width, lanes)
    return tensor_expr(
        [*_axes("parallel", *sizes), *_axes("whole", f.products, f.products)],
        [TensorAccess(products, 4, (n, g, cob, rows, i, j, columns, co))],
        [TensorAccess(sizes, c.itemsize, (n, g, cob, y, x, co))],
        kind="transform",
        ops=2 * _work(f.outputs) + _EPILOGUE,
        periods=((3, f.size), (4, f.size)),
    )


def _multiply(c: Convolution3x3) -> dict[str, Any]:
    """What a step of the reduction does."""
    return {"dot": "i16", "ops": 4.0} if c.whole else {}


def _axes(kind: str, *sizes: int) -> list[tuple[str, int, str]]:
    return [(f"{kind}{k}", size, kind) for k, size in enumerate(sizes)]


def _blocks(channels: int, lanes: int) -> int:
    return -(-channels // lanes)


def _work(matrix: Matrix) -> float:
    """Operations of one transform in one dimension per row; a multiply-add counts 2."""
    return 2.0 * plan([[float(x) for x in row] for row in matrix]).operations / len(matrix)
