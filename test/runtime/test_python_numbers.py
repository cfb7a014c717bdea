"""Numbers of Python's as arguments of calls: what each type of a scalar input takes of them."""

import math

import ml_dtypes
import numpy as np
import pytest

from rcompiler.errors import RangeError, ShapeError
from rcompiler.runtime.arguments import Parameter
from rcompiler.runtime.program import IndexRange, Tensor

INF, NAN = math.inf, math.nan
HUGE = 10**5000  # which Python refuses to write
TAKEN = [
    ("float32", 0.1),
    ("float32", -INF),
    ("float32", NAN),
    ("float32", 1e-300),
    ("float32", 3),
    ("float32", -(2**100)),
    ("float64", 0.1),
    ("float64", 2**53),
    ("float16", 65504.0),
    ("float16", 2048),
    ("bfloat16", 0.1),
    ("bfloat16", 256),
    ("float8_e5m2", INF),
    ("float8_e4m3fn", 448.0),
    ("float8_e4m3fn", NAN),
    ("float4_e2m1fn", -6.0),
    ("int64", 2**63 - 1),
    ("int64", -(2**63)),
    ("int32", 7),
    ("int8", -128),
    ("uint8", 255),
    ("int4", -8),
    ("uint4", 15),
    ("bool", True),
    ("bool", False),
]
# value, what the message says of it
REFUSED = [
    ("float32", 1e39, "which is no number of the type float32"),
    ("float32", 2**24 + 1, "which is no number of the type float32"),
    ("float32", 2**128, "number of 129 bits, which is no number of the type float32"),
    ("float32", HUGE, r"number of \d+ bits, which is no number"),
    ("bfloat16", HUGE, r"number of \d+ bits, which is no number"),
    ("float64", 2**53 + 1, "which is no number of the type float64"),
    ("float16", 1e5, "which is no number of the type float16"),
    ("bfloat16", 257, "which is no number of the type bfloat16"),
    ("bfloat16", 1e39, "which is no number of the type bfloat16"),
    ("float8_e4m3fn", INF, "inf, which is no number of the type float8_e4m3fn"),
    ("float8_e4m3fn", 449.0, "which is no number of the type float8_e4m3fn"),
    ("float4_e2m1fn", 9.0, "which is no number of the type float4_e2m1fn"),
    ("float4_e2m1fn", 9, "which is no number of the type float4_e2m1fn"),
    ("float4_e2m1fn", NAN, "nan, which is no number of the type float4_e2m1fn"),
    ("float8_e8m0fnu", -1.0, "which is no number of the type float8_e8m0fnu"),
    ("int64", 2**63, "which is no number of the type int64"),
    ("int64", HUGE, r"number of \d+ bits, which is no number of the type int64"),
    ("uint8", -1, "number -1, which is no number of the type uint8"),
    ("uint8", 256, "which is no number of the type uint8"),
    ("int4", 8, "which is no number of the type int4"),
    ("int4", HUGE, "which is no number of the type int4"),
    ("uint4", -1, "which is no number of the type uint4"),
    ("int64", 1.0, "number 1.0, the model wants int64; give a whole number"),
    ("int4", 1.0, "number 1.0, the model wants int4; give a whole number"),
    ("int64", True, "number True, the model wants int64; give a whole number"),
    ("float32", True, "number True, the model wants float32; give a float"),
    ("bool", 1, "number 1, the model wants bool; give True or False"),
    ("bool", 1.0, "number 1.0, the model wants bool; give True or False"),
]


def parameter(dtype: str, shape: tuple[int, ...] = (), **more) -> Parameter:
    return Parameter(Tensor("x", shape, dtype), "input", **more)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "value"), TAKEN)
def test_a_number_of_the_kind_is_taken(dtype, value):
    array, _ = parameter(dtype).take(value)
    assert (array.shape, array.dtype.name) == ((), dtype)
    wanted = np.float64(value).astype(array.dtype) if "float" in dtype else value
    assert str(array.item()) == str(np.array(wanted, array.dtype).item())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_a_number_that_is_none_of_the_type_is_refused(dtype, value, message):
    with pytest.raises(ShapeError, match=f"^input 'x' is the .*{message}"):
        parameter(dtype).take(value)


@pytest.mark.parametrize("value", [1.0, 1, True])
@pytest.mark.parametrize("shape", [(1,), (4, 5), (0,)])
def test_a_number_for_a_tensor_with_axes_is_refused(shape, value):
    with pytest.raises(ShapeError) as caught:
        parameter("float32", shape).take(value)
    message = str(caught.value)
    assert message.startswith(f"input 'x' is the number {value}, the model wants an array of shape")
    assert str(list(shape)) in message and "numpy.full" in message


@pytest.mark.parametrize(
    "value", [np.float64(0.1), np.array(0.1), np.int64(3), np.float16(1), ml_dtypes.bfloat16(1)]
)
def test_arrays_and_scalars_of_numpy_keep_their_type(value):
    """A numpy.float64 is a float, too."""
    with pytest.raises(ShapeError, match=f"is {value.dtype}, the model wants float32; convert it"):
        parameter("float32").take(value)


def test_a_number_is_an_index_like_any_other():
    index = parameter("int32", indices=IndexRange("x", 0, 9, "node 'gather'"))
    assert index.take(9)[0] == 9
    with pytest.raises(RangeError, match="has the index 10; node 'gather' reads from 0 to 9"):
        index.take(10)
