"""rtask-winograd: 3x3 convolutions by Winograd's minimal filtering, where that is faster.

Before (n, co, h, w | ci, p, q; channels blocked or not):
    %y = linalg.generic {maps (n, ci, h + p, w + q), (co, ci, p, q), (n, co, h, w)}
         ins(%x, %g : tensor<1x64x58x58xf32>, tensor<64x64x3x3xf32>) outs(%init)
After, with F(4x4): tiles of 4 x 4 results from 6 x 6 pixels, (i, j) in 6 x 6:
    %v = B^T d B     two generics: rows, then columns, of constant matrices    -> 6x6x1x64x14x14
    %u = G g G^T     the same on the weights, in f64: folded at compile time   -> 6x6x64x64
    %m = linalg.generic {maps (i, j, n, ci, y, x), (i, j, co, ci), (i, j, n, co, y, x)} ins(%v, %u)
    %y = A^T m A     two generics, read at (y mod 4, i) and (y floordiv 4); + %init
Each of the pairs becomes one rOperator of straight code, the last one with the epilogue of the
convolution. The image is padded with zeros to whole tiles; i and j may stand further inwards
(roller/product_layout.py).

The choice is that of roller/roots.py; roots=winograd2 and the like take that root wherever it can
be. It is noted as `rtask.root`, for reports. Applies to: f32, and bytes in 16 bits, where the sums
are exact (winograd/whole_numbers.py); constant weights, two windows of 3 with strides and dilations
of 1, innermost dims of channels (as rtask-block-channels leaves them).
Where the image has an infinity or NaN, results of the whole tile may be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects import rtask
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.convolution import Windows
from rcompiler.linalg.values import bytes_of, ops_of
from rcompiler.options import Roots
from rcompiler.passes import OptionalPass
from rcompiler.passes.constants.fold import MOST_BYTES
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.tensor_ir import erase_dead
from rcompiler.passes.winograd.filter_form import SlidingFilter, sliding_filter
from rcompiler.passes.winograd.filter_ir import by_filtering
from rcompiler.passes.winograd.whole_numbers import extends_bytes, is_exact, starts_at_zero
from rcompiler.roller.roots import (
    DIRECT,
    ROOTS,
    TAPS,
    Convolution3x3,
    RootChooser,
    filtering_of,
    is_cold,
)

# How much larger weights become, at most.
_GROWTH = max(filtering_of(root).products for root in ROOTS if root != DIRECT) ** 2 / TAPS**2


@dataclass(frozen=True)
class RTaskWinograd(OptionalPass):
    """Compute 3x3 convolutions by Winograd's minimal filtering where that is faster.

    Attributes:
        roots: auto, as is predicted to be the fastest; the others: that one wherever it can be.
    """

    roots: Roots = "auto"

    def run(self, module: ir.Operation) -> None:
        device = device_of(module)
        for body in bodies(module):
            self._rewrite(body, device)

    def _rewrite(self, block: ir.Block, device: Device) -> None:
        slides = filter(Windows(), generics(block))
        forms = [form for form in map(sliding_filter, slides) if form is not None]
        forms = [form for form in forms if _applies(form)]
        chooser = RootChooser(device, is_cold(device, _weight_bytes(block, forms)))
        for form in forms:
            op = form.generic.op
            root, reason = self._root(form, chooser)
            if root == DIRECT:
                op.attributes[rtask.ROOT] = ir.StringAttr.get(reason)
                continue
            with ir.InsertionPoint(op), op.location:
                filterings = [_sizes(form).filtering(root)] * len(form.windows)
                made = by_filtering(form, filterings, device)
            made.products.attributes[rtask.ROOT] = ir.StringAttr.get(reason)
            op.results[0].replace_all_uses_with(made.result)
        erase_dead(block)

    def _root(self, form: SlidingFilter, chooser: RootChooser) -> tuple[str, str]:
        """The root to use, and why."""
        allowed = [r for r in ROOTS if r == DIRECT or not form.whole or is_exact(form, r)]
        if self.roots in allowed:
            return self.roots, f"{self.roots}, as demanded"
        choice = chooser.choose(_sizes(form), allowed if self.roots == "auto" else (DIRECT,))
        return choice.root, choice.reason


def _applies(form: SlidingFilter) -> bool:
    if len(form.windows) != 2 or any(w.size != TAPS for w in form.windows):
        return False
    image, weights = form.dims(form.image), form.dims(form.weights)
    blocked = image[-1] in form.channels and weights[-1] not in form.channels
    value = form.generic.inputs[form.weights]
    # in f64; weights that cannot be folded would be transformed in every run
    if form.whole and not (starts_at_zero(form) and extends_bytes(form)):
        return False
    return blocked and is_constant(value) and 2 * _GROWTH * bytes_of(value) <= MOST_BYTES


def _sizes(form: SlidingFilter) -> Convolution3x3:
    """What the cost of a convolution depends on."""
    image, weights, result = (set(form.dims(k)) for k in (form.image, form.weights, 2))

    def extent(dims: set[int]) -> int:
        return math.prod(form.generic.sizes[d] for d in dims)

    pixels = {w.pixel for w in form.windows}
    height, width = (extent({w.pixel}) for w in form.windows)
    return Convolution3x3(
        images=extent((image & result) - weights - pixels),
        groups=extent(image & result & weights),
        channels=extent(set(form.channels)),
        filters=extent((weights & result) - image),
        height=height,
        width=width,
        whole=form.whole,
    )


def _weight_bytes(block: ir.Block, forms: Sequence[SlidingFilter]) -> int:
    """Bytes of all constants of a function, those of `forms` as large as a root makes them."""
    values = (op.results[0] for op in ops_of(block) if op.name == "arith.constant")
    total = sum(bytes_of(v) for v in values if isinstance(v.type, ir.RankedTensorType))
    grown = sum(bytes_of(form.generic.inputs[form.weights]) for form in forms)
    return int(total + (_GROWTH - 1) * grown)
