"""What `shapes` asks for, as the programs that a model gets."""

import onnx
import pytest
from onnx import TensorProto, helper

from rcompiler.errors import ShapeError
from rcompiler.frontend.size_sets import FOLLOWS, series, sizes_of, with_defaults


def model(**inputs):
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    return onnx.ModelProto(graph=onnx.GraphProto(input=values))


MODEL = model(x=["batch", 3, "seq"], mask=["batch", "seq"], scale=[1])


@pytest.mark.parametrize("shapes", [None, {}, {"batch": 1, "seq": 4}, {"x": (1, 3, 4)}])
def test_one_size_is_no_family(shapes):
    assert sizes_of(MODEL, shapes) is None


def test_programs_are_all_combinations():
    found = sizes_of(MODEL, {"batch": (4, 1), "seq": range(1, 4)})
    assert found.symbols == ("batch", "seq")
    assert found.axes == {"x": (0, None, 1), "mask": (0, 1), "scale": (None,)}
    # of two dimensions every second bucket of a range
    assert found.buckets == (
        *(((1, 1), (1, 1)), ((1, 1), (1, 3))),
        *(((4, 4), (1, 1)), ((4, 4), (1, 3))),
    )
    assert found.bindings[1] == {"batch": 1, "seq": range(1, 4)}


def test_sizes_of_an_axis():
    found = sizes_of(MODEL, {"x": ((1, 2), 3, 8), "mask": (1, 8), "scale": (1,)})
    assert found.symbols == ("batch",) and found.axes["mask"] == (0, None)
    assert found.bindings[1] == {"batch": 2, "x": (2, 3, 8), "mask": (1, 8), "scale": (1,)}
    unnamed = sizes_of(model(x=[None, 4]), {"x": ((1, 5), 4)})
    assert unnamed.symbols == ("x[0]",) and unnamed.axes == {"x": (0, None)}
    assert [dict(b) for b in unnamed.bindings] == [{"x": (1, 4)}, {"x": (5, 4)}]


@pytest.mark.parametrize(
    ("low", "high", "tops"),
    [
        (1, 128, (4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)),
        (1, 8, (1, 2, 3, 4, 6, 8)),
        (100, 300, (112, 128, 160, 192, 224, 256, 300)),
        (7, 7, (7,)),
        (0, 1, (1,)),
    ],
)
def test_buckets_of_a_range(low, high, tops):
    assert series(low, high) == tops


def test_buckets_that_were_given():
    found = sizes_of(MODEL, {"batch": 1, "seq": range(2, 65)}, {"seq": (64, 16)})
    assert found.buckets == (((2, 16),), ((2, 64),))


def test_what_is_not_said_of_a_dimension():
    shapes, tops = with_defaults(MODEL, {"batch": 2}, None)
    assert shapes == {"batch": 2, "seq": range(1, 129)} and tops is None
    shapes, tops = with_defaults(MODEL, None, {"seq": (128,)})
    assert shapes == {"batch": range(1, 9), "seq": range(1, 129)}
    assert tops == {"batch": (1, 8), "seq": (128,)}
    whole = {"x": (1, 3, 4), "mask": (1, 4)}
    assert with_defaults(MODEL, whole, None) == (whole, None)
    assert with_defaults(model(x=[2, None]), None, None) == (None, None)
    assert with_defaults(MODEL, {"mask": (1, 4)}, None, {"x": None}) == ({"mask": (1, 4)}, None)


def test_a_size_that_is_made_of_others():
    cache = model(keys=[1, "past", 8], mask=[1, "past + seq"], ids=["seq"])
    found = sizes_of(cache, {"past": range(0, 9), "seq": 1}, {"past": (8,)})
    assert found.axes == {"keys": (None, 0, None), "mask": (None, (0, 1, 1)), "ids": (None,)}
    found = sizes_of(cache, {"past": range(0, 9), "seq": range(1, 9)}, {"past": (8,), "seq": (8,)})
    assert found.axes["mask"] == (None, FOLLOWS)
    shapes, _ = with_defaults(model(mask=["past + seq"]), None, None)
    assert shapes == {"past": range(1, 9), "seq": range(1, 9)}


def test_a_size_that_is_a_multiple_of_another():
    images = model(x=["b", 3, "32*h", "2*w + 1"], y=["b", "h//2"])
    found = sizes_of(images, {"b": 1, "h": range(1, 5), "w": range(1, 5)}, {"h": (4,), "w": (4,)})
    assert found.axes == {"x": (None, None, (0, 32, 0), (1, 2, 1)), "y": (None, FOLLOWS)}
    shapes, tops = with_defaults(images, {"b": 1}, None)
    assert shapes == {"b": 1, "h": range(1, 5), "w": range(1, 65)}
    assert tops == {"h": (1, 4), "w": (16, 64)}
    given = {"b": 1, "32*h": range(32, 129), "2*w + 1": 3, "h//2": 2}
    assert with_defaults(images, given, None) == (given, None)


@pytest.mark.parametrize(
    ("shapes", "tops", "said"),
    [
        ({"batch": ()}, None, r"shapes\['batch'\]=\(\): give sizes"),
        ({"batch": (1, -2)}, None, "give sizes"),
        ({"batch": (True, 2)}, None, "give sizes"),
        ({"batch": range(3, 3)}, None, "a range of sizes has a least one"),
        ({"batch": range(-1, 3)}, None, "a range of sizes has a least one"),
        ({"bach": (1, 2)}, None, "no input or dimension 'bach'"),
        ({"batch": tuple(range(1, 66))}, None, "asks for 65 programs; at most 64"),
        ({"batch": range(1, 9)}, {"batch": (4,)}, "give sizes from 1 to 8, the last one 8"),
        ({"batch": range(2, 9)}, {"batch": (1, 8)}, "give sizes from 2 to 8"),
        ({"batch": (1, 8)}, {"batch": (8,)}, "have a program each"),
        ({"batch": 1}, {"batch": (8,)}, "shapes has no range"),
        ({"x": ((1, 2), 3, 4), "batch": (1, 3)}, None, "different sizes of 'batch'"),
    ],
)
def test_refusals(shapes, tops, said):
    with pytest.raises(ShapeError, match=said):
        sizes_of(MODEL, shapes, tops)
