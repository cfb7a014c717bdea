"""What the command line says: options, not Python; places, not MLIR's."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rcompiler.tools import rc_bench, rc_compile, rc_run, rc_tune, rc_viz
from rcompiler.tools._wording import on_the_command_line


def save(name, nodes, inputs, outputs):
    sides = [[helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *sides)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), name)


@pytest.fixture
def reshaped(tool):
    """A model that can be compiled for one shape only, which is an input."""
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    inputs = [("x", TensorProto.FLOAT, [4, 3]), ("s", TensorProto.INT64, [2])]
    save("reshaped.onnx", [node], inputs, [("y", TensorProto.FLOAT, [None, None])])
    np.save("s.npy", np.array([2, 6]))
    np.savez("all.npz", s=np.array([6, 2]))
    return tool


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("unless bounds={'y': ...} does", "unless --bounds=y=N does"),
        ("more than the 4 that bounds gives 'y'", "more than the 4 that --bounds gives 'y'"),
        ("Pass shapes={'x': (...)}", "Give --shapes=x=DIMS (1x3x224x224, say)"),
        ("Pass shapes={'x': (...)} or shapes={'n': ...}",
         "Give --shapes=x=DIMS (1x3x224x224, say) or --shapes=n=N"),
        ("or pass compile_onnx the value it depends on: values={'a': ..., 'b': ...}",
         "or give the value it depends on: --values=a=FILE.npy --values=b=FILE.npy"),
        ("Pass compile_onnx the most iterations that it may have: bounds={'again': ...}",
         "Give the most iterations that it may have: --bounds=again=N"),
        ("tune='foo': give one of off", "--tune=foo: give one of off"),
        ("compile with eus=396 or policy='wave'", "compile with --eus=396 or --policy=wave"),
        ("leave target out", "leave --target out"),
        ("run vdevice-attach-device{device='h200'}", "run vdevice-attach-device{device='h200'}"),
        ("give --eus=2 or --policy=base", "give --eus=2 or --policy=base"),
        ('not valid: Unable to parse module assembly:\nerror: "-":3:1: no op',
         "not valid: line 3, column 1: no op"),
        ('loc("fc1"("-":0:0)): no tile fits', "'fc1': no tile fits"),
        ('loc("fc1"("-":7:3)): no tile fits', "'fc1' (line 7, column 3): no tile fits"),
        ('loc("fc1"): no tile fits', "'fc1': no tile fits"),
        ("loc(unknown): no tile fits", "no tile fits"),
        ('loc("-":7:3): no tile fits', "line 7, column 3: no tile fits"),
        ('S2: loc("-":0:0): error: bad; this is a defect', "S2: error: bad; this is a defect"),
        ('"-":2:5: bad, has %1\n note: "-":2:5: see current operation: %1 = x; this is a defect',
         "line 2, column 5: bad, has %1; this is a defect"),
    ],
)  # fmt: skip
def test_messages(python, shell):
    assert on_the_command_line(python) == shell


def test_gaps_name_options(tool, reshaped):
    save("dynamic.onnx", [helper.make_node("Relu", ["x"], ["y"])],
         [("x", TensorProto.FLOAT, [None, 3])], [("y", TensorProto.FLOAT, [None, 3])])  # fmt: skip
    for model, option in (("dynamic", "--shapes=x=DIMS"), ("reshaped", "--values=s=FILE.npy")):
        checked, compiled = (
            tool(rc_compile.main, f"{model}.onnx", *more) for more in (["--check"], [])
        )
        assert checked[0] == compiled[0] == 1
        assert option in checked[1] and option in compiled[2]
        assert "={" not in checked[1] + compiled[2]


@pytest.mark.parametrize("main", [rc_run.main, rc_compile.main])
def test_a_bad_schedule_is_named_with_the_place(tool, main):
    with open("bad.mlir", "w") as file:
        file.write("\n\nmodule { foo.bar }")
    _, _, err = tool(main, "bad.mlir")
    assert "bad.mlir: the schedule is not valid: line 3, column 10: " in err
    assert '"-"' not in err and "Available dialects" not in err and err.count("\n") == 1


@pytest.mark.parametrize(("given", "shape"), [("s=s.npy", "2x6"), ("all.npz", "6x2")])
def test_values_make_inputs_constants(reshaped, given, shape):
    code, out, _ = reshaped(rc_run.main, "reshaped.onnx", f"--values={given}", "--verify")
    assert code == 0 and f"float32  {shape}" in out and "of what is allowed" in out
    code, out, _ = reshaped(rc_compile.main, "reshaped.onnx", f"--values={given}", "--check")
    assert code == 0 and "can be compiled" in out
    code, out, _ = reshaped(rc_run.main, "reshaped.onnx", f"--values={given}", "--debug=nodes")
    assert code == 0 and "right" in out


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["s.npy"], "--values=s.npy: expected NAME=FILE.npy"),
        (["s=no.npy"], "no.npy: cannot read"),
        (["q=s.npy"], "no input 'q'"),
        (["s=s.npy", "all.npz"], "'s' is given twice"),
    ],
)
def test_wrong_values_are_one_line(reshaped, values, message):
    options = [f"--values={text}" for text in values]
    code, _, err = reshaped(rc_compile.main, "reshaped.onnx", *options)
    assert code == 1 and message in err and err.count("\n") == 1


def test_without_fusion_operators_stay_apart(tool):
    counts = []
    for options in ([], ["--no-fusion"]):
        _, out, _ = tool(rc_compile.main, "two_branch", "--emit=rtask", *options)
        counts.append(out.count('"rtask.operator"'))
    assert 0 < counts[0] < counts[1]


@pytest.mark.parametrize("option", ["--values=s=s.npy", "--no-fusion"])
def test_what_is_compiled_or_only_looked_at_takes_neither(reshaped, option):
    reshaped(rc_compile.main, "two_branch", "-o", "m.rcx")
    name = option.partition("=")[0]
    code, _, err = reshaped(rc_run.main, "m.rcx", option)
    assert code == 1 and f"{name} no longer applies" in err
    code, _, err = reshaped(rc_viz.main, "two_branch", option)
    assert code == 1 and f"{name} needs a whole compilation; rc-compile two_branch {name}" in err


@pytest.mark.parametrize("tool_", [rc_compile, rc_run, rc_tune, rc_bench, rc_viz])
def test_help_says_where_the_cache_is(capsys, tool_):
    with pytest.raises(SystemExit):
        tool_.main(["--help"])
    assert "RC_CACHE_DIR" in capsys.readouterr().out


def test_gaps_name_bounds(tool):
    save("counting.onnx", [helper.make_node("ConstantOfShape", ["n"], ["y"])],
         [("n", TensorProto.INT64, [1])], [("y", TensorProto.FLOAT, [None])])  # fmt: skip
    for more in (["--check"], []):
        _, out, err = tool(rc_compile.main, "counting.onnx", *more)
        assert "unless --bounds=y=N does" in out + err and "={" not in out + err
