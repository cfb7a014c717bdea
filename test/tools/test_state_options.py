"""--state of the command lines: what is kept between calls, and several calls that are compared."""

import onnx
import pytest
from onnx import parser

import rcompiler
from rcompiler.tools import rc_compile, rc_run, rc_viz

SUM = """
<ir_version: 8, opset_import: ["": 17]>
g (float[4] x, float[4] h) => (float[4] hn, float[4] y) {
  hn = Add(x, h)
  y = Mul(hn, x)
}
"""


@pytest.fixture
def proto(tmp_path):
    """A model whose second input is its first output of the call before; in the folder."""
    model = parser.parse_model(SUM)
    onnx.save(model, tmp_path / "sum.onnx")
    return model


def test_calls_in_a_row_are_compared(tool, proto):
    code, out, err = tool(rc_run.main, "sum.onnx", "--state=h:hn", "--verify")
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("call")] == [
        f"call {n} of 3:" for n in (1, 2, 3)
    ]
    assert out.count("hn: largest error") == out.count("y: largest error") == 3
    assert tool(rc_compile.main, "sum.onnx", "--state=h=hn", "-o", "m.rcx")[0] == 0
    assert list(rcompiler.load("m.rcx").state) == ["h"]
    assert tool(rc_run.main, "m.rcx", "--verify", "--onnx=sum.onnx")[1] == out
    assert "state of each session" in tool(rc_run.main, "m.rcx", "--needs")[1]


def test_a_call_that_goes_wrong_is_told(tool, proto):
    """The model that is compared with keeps the half."""
    proto.graph.node[0].op_type = "Sub"
    onnx.save(proto, "other.onnx")
    tool(rc_compile.main, "sum.onnx", "--state=h:hn", "-o", "m.rcx")
    code, out, err = tool(rc_run.main, "m.rcx", "--verify", "--onnx=other.onnx")
    assert code == 1 and "output 'hn' differs from" in err
    assert "call 1 of 3:\nhn: largest error 0," in out  # of zeros both are the same


def test_options_that_are_none(tool, proto):
    for option, words in (
        ("--state=h", "--state=h: expected IN:OUT"),
        ("--state=z:hn", "state 'z': the model has no such input"),
    ):
        code, _, err = tool(rc_compile.main, "sum.onnx", option, "-o", "m.rcx")
        assert code == 1 and words in err
    code, _, err = tool(rc_run.main, "sum.onnx", "--state=h:hn", "--debug=nodes")
    assert code == 1 and "leave --state out" in err
    tool(rc_compile.main, "sum.onnx", "-o", "m.rcx")
    code, _, err = tool(rc_run.main, "m.rcx", "--state=h:hn")
    assert code == 1 and "--state no longer applies" in err
    code, _, err = tool(rc_viz.main, "sum.onnx", "--state=h:hn", "--svg=m.svg")
    assert code == 1 and "--state needs a whole compilation" in err
