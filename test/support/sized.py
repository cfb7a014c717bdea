"""Models with sizes at run time beside the same models of each exact shape, run in S1.

Behind what is there the arguments hold poison: NaN, or large integers. No result may depend on it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import parser

sys.path.insert(0, str(Path(__file__).parent))

from naive_linalg import Runner

from rcompiler.frontend import import_onnx
from rcompiler.support.extent import Extent
from rcompiler.support.random_inputs import dtype_of
from rcompiler.support.random_keys import without_key

RUN = Runner()
POISON = 123_456_789  # no index of anything here


def parsed(inputs, body, outputs, opset=21, functions=""):
    """A model of inputs and outputs as in the text form, such as `float[seq, 4] x`."""
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return parser.parse_model(text + functions)


def feeds_of(inputs, counts, rng, ranges=None):
    """Random arrays of the sizes that these counts make."""
    feeds = {}
    for spec in inputs:
        shape = shape_at(spec, counts)
        low, high = (ranges or {}).get(spec.name, (0, 2))
        dtype = dtype_of(spec.dtype)
        if dtype.kind in "iu":
            feeds[spec.name] = rng.integers(low, high, shape).astype(dtype)
        elif dtype.kind == "b":
            feeds[spec.name] = rng.random(shape) < 0.5
        else:
            feeds[spec.name] = rng.standard_normal(shape).astype(dtype)
    return feeds


def shape_at(spec, counts: Mapping[str, int]):
    pairs = zip(spec.extents, spec.shape, strict=True)
    return tuple(e.at(counts) if isinstance(e, Extent) else d for e, d in pairs)


def poisoned(spec, array):
    """The array at its bounds, with poison behind it."""
    whole = np.empty(spec.shape, array.dtype)
    whole[...] = np.nan if array.dtype.kind == "f" else np.asarray(POISON).astype(array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


def sized_answers(imported, feeds, counts):
    """What a model with sizes at run time answers, and what it says of indices."""
    arrays = [poisoned(spec, feeds[spec.name]) for spec in imported.inputs]
    arrays += [np.array(counts[symbol.name], np.int64) for symbol in imported.sizes]
    results = RUN.run(imported.module_text, imported.constants, arrays)
    outputs = results[: len(imported.outputs)]
    found = results[len(outputs) : len(outputs) + len(imported.counts)]
    told = {**counts, **{s.name: int(n) for s, n in zip(imported.counts, found, strict=True)}}
    cut = [
        result[tuple(map(slice, shape_at(spec, told)))]
        for spec, result in zip(imported.outputs, outputs, strict=True)
    ]
    return cut, results[len(outputs) + len(found) :]


def exact_answers(model, shapes, feeds):
    """What the model of this very shape answers."""
    return sized_answers(import_onnx(model, shapes), feeds, {})[0]


def assert_as_exact(model, ranges, cases, seed=0, indices=None, tolerance=1e-5):
    """Fails unless one program of all sizes answers as those of each size.

    ranges: as `shapes` of import_onnx; cases: numbers for the ranges. indices: of integer inputs.
    """
    rng = np.random.default_rng(seed)
    bound = import_onnx(model, ranges)
    assert bound.sizes
    for counts in cases:
        feeds = feeds_of(bound.inputs, counts, rng, indices)
        shapes = {spec.name: feeds[spec.name].shape for spec in without_key(bound.inputs)}
        expected = exact_answers(model, shapes, feeds)
        found, wrong = sized_answers(bound, feeds, counts)
        assert not any(map(int, wrong)), (counts, wrong)
        for spec, x, y in zip(bound.outputs, found, expected, strict=True):
            assert x.shape == y.shape, (spec.name, counts, x.shape, y.shape)
            np.testing.assert_allclose(
                x.astype(np.float64), y.astype(np.float64), tolerance, tolerance,
                err_msg=f"{spec.name} at {counts}",
            )  # fmt: skip
