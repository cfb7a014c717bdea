"""The patterns that move slices up, by the op that they move through."""

from __future__ import annotations

from rcompiler.passes.tiles.fuse import Pattern
from rcompiler.passes.tiles.tile_generic import (
    tile_constant,
    tile_empty,
    tile_fill,
    tile_generic,
)
from rcompiler.passes.tiles.tile_pads import tile_concat, tile_pad
from rcompiler.passes.tiles.tile_views import tile_collapse, tile_expand, tile_slice

PATTERNS: dict[str, Pattern] = {
    "arith.constant": tile_constant,
    "linalg.fill": tile_fill,
    "linalg.generic": tile_generic,
    "tensor.collapse_shape": tile_collapse,
    "tensor.concat": tile_concat,
    "tensor.empty": tile_empty,
    "tensor.expand_shape": tile_expand,
    "tensor.extract_slice": tile_slice,
    "tensor.pad": tile_pad,
}
