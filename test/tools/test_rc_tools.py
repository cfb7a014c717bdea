"""rc-compile, rc-run and rc-bench from end to end on tiny models."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import rcompiler
from rcompiler.passes.roller_tile import RollerTile
from rcompiler.tools import models, rc_bench, rc_compile, rc_run


@pytest.fixture
def unheard(tmp_path):
    """A model with an operator and types that cannot be compiled."""
    text = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("StringNormalizer", ["x"], ["y"], "first")]
    strings = (onnx.TensorProto.STRING, [2])
    graph = onnx.helper.make_graph(nodes, "g", [text("x", *strings)], [text("y", *strings)])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "unheard.onnx")
    return "unheard.onnx"


def test_compile_then_run_and_verify(tool):
    assert tool(rc_compile.main, "two_branch", "-o", "m.rcx")[0] == 0
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 8), dtype=np.float32)
    np.save("x.npy", x)
    code, out, err = tool(
        rc_run.main, "m.rcx", "x.npy", "--save=y.npz", "--verify", "--onnx=two_branch"
    )
    assert (code, err) == (0, "") and "of what is allowed, against" in out
    (expected,) = rcompiler.load("m.rcx")(x)
    assert np.load("y.npz")["output"].tobytes() == expected.tobytes()


def test_random_numbers_are_run_and_not_verified(tool, tmp_path):
    noisy = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) '
        "{ n = RandomNormalLike(x) y = Add(x, n) }"
    )
    onnx.save(noisy, tmp_path / "noisy.onnx")
    assert tool(rc_run.main, "noisy.onnx")[0] == 0
    code, _, err = tool(rc_run.main, "noisy.onnx", "--verify")
    assert code == 1 and "ONNX does not say which random numbers are right" in err


@pytest.mark.parametrize("precision", ["bf16", "f16", "w8", "w4"])
def test_a_precision_is_verified_and_what_it_gives_up_is_told(tool, precision):
    option = f"--precision={precision}"
    code, out, err = tool(rc_run.main, "tiny_matmul_chain", "--verify", option)
    assert (code, err) == (0, "")
    [line] = [line for line in out.splitlines() if "of f32" in line]
    assert re.match(r"\w+: error \d+\.\d\d% of f32, the largest of a row", line)
    tool(rc_compile.main, "tiny_matmul_chain", option, "-o", "m.rcx")
    assert line in tool(rc_run.main, "m.rcx", "--verify", "--onnx=tiny_matmul_chain")[1]
    assert tool(rc_run.main, "tiny_matmul_chain", "--debug=nodes", option)[0] == 0


def test_the_network_that_a_model_was_made_of_is_compared_with(tool):
    code, out, _ = tool(rc_run.main, "tiny_matmul_chain", "--verify", "--f32=tiny_matmul_chain")
    assert code == 0 and ": error 0.00% of f32" in out
    code, _, err = tool(rc_run.main, "tiny_matmul_chain", "--verify", "--f32=two_branch")
    assert code == 1 and "name the network that the model was made of" in err
    code, _, err = tool(rc_run.main, "tiny_matmul_chain", "--f32=tiny_matmul_chain")
    assert code == 1 and "--f32: what --verify compares with" in err
    tool(rc_compile.main, "tiny_matmul_chain", "-o", "m.rcx")
    code, _, err = tool(rc_run.main, "tiny_matmul_chain", "--verify", "--f32=m.rcx")
    assert code == 1 and "name it with --f32=FILE" in err


def test_inputs_may_follow_options(tool):
    x = np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32)
    np.save("x.npy", x)
    code, out, err = tool(rc_run.main, "two_branch", "--verify", "x.npy", "--save", "y.npy")
    assert (code, err) == (0, "") and "of what is allowed" in out
    assert tool(rc_run.main, "--save=z.npy", "two_branch", "x.npy")[0] == 0
    with open("y.npy", "rb") as y, open("z.npy", "rb") as z:
        assert y.read() == z.read()


def test_equal_input_gives_equal_files(tool):
    for name in ("a.rcx", "b.rcx"):
        tool(rc_compile.main, "two_branch", "--eus=2", "-o", name)
    with open("a.rcx", "rb") as a, open("b.rcx", "rb") as b:
        assert a.read() == b.read()


@pytest.mark.parametrize(
    "stage, text",
    [("linalg", "linalg.generic"), ("rtask", "rtask.operator"), ("rkernel", "rtask.kernel"),
     ("vdevice", "vdevice.program"), ("llvm", "llvm.func")],
)  # fmt: skip
def test_emit(tool, stage, text):
    code, out, _ = tool(rc_compile.main, "two_branch", f"--emit={stage}")
    assert code == 0 and text in out


def test_an_emitted_schedule_compiles(tool):
    tool(rc_compile.main, "two_branch", "--emit=vdevice", "-o", "s.mlir")
    code, out, _ = tool(rc_run.main, "s.mlir", "--verify", "--onnx=two_branch")
    assert code == 0 and "of what is allowed" in out
    for option in ("policy=base", "kernels=fast"):
        code, _, err = tool(rc_compile.main, "s.mlir", f"--{option}")
        assert code == 1 and f"--{option.partition('=')[0]} no longer applies" in err


def test_timing_names_the_steps(tool):
    _, _, err = tool(rc_compile.main, "two_branch", "-o", "m.rcx", "--timing")
    steps = [line.split()[0] for line in err.splitlines()]
    assert {"import", "roller-tile", "rammer-schedule", "total"} <= set(steps)


def test_timing_counts_calls_and_what_was_known(tool):
    _, _, err = tool(rc_compile.main, "tiny_matmul_chain", "-o", "m.rcx", "--timing")
    rows = {line.split()[0]: line.split() for line in err.splitlines()}
    assert rows["step"] == ["step", "ms", "share", "calls", "known"]
    assert rows["rammer-schedule"][3:] == ["1"]  # remembers nothing
    calls, known, of, asked = rows["roller-tile"][3:]
    assert (calls, of) == ("1", "of") and 0 < int(known) < int(asked)


def test_report(tool):
    code, out, _ = tool(rc_compile.main, "two_branch", "-o", "m.rcx", "--report")
    assert code == 0 and "schedule:" in out


def test_explanations_in_words_and_as_data(tool, tmp_path):
    code, out, _ = tool(rc_compile.main, "mlp", "-o", "m.rcx", "--explain", "--json=r.json")
    assert code == 0 and "chosen by roller" in out and "second: " in out
    operators = json.loads((tmp_path / "r.json").read_text())["operators"]
    assert all(op["explanation"]["limit"] for op in operators)


def test_check_lists_gaps(tool, unheard):
    assert tool(rc_compile.main, "two_branch", "--check", "--eus=1")[:2] == (
        0, "two_branch: all 5 nodes can be compiled\n",
    )  # fmt: skip
    code, out, err = tool(rc_compile.main, unheard, "--check")
    header, first, second, last = out.splitlines()
    assert (code, err) == (1, "") and header.split()[:3] == ["where", "op", "types"]
    for line, words in [
        (first, ("input x ", " StringNormalizer ", " string[2] ", "is not translated", "outside")),
        (second, ("node first ", "the operator is not translated", "outside")),
        (last, ("unheard: cannot be compiled, 2 parts are refused",)),
    ]:
        assert all(word in line for word in words), line


def test_check_counts_one_gap_as_one(tool):
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Unheard", ["x"], ["y"], "first", domain="far.away")]
    sides = [[value(name, onnx.TensorProto.FLOAT, [2])] for name in "xy"]
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("far.away", 1)]
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", *sides), opset_imports=opsets),
        "one.onnx",
    )
    code, out, _ = tool(rc_compile.main, "one.onnx", "--check")
    assert code == 1 and out.endswith("one: cannot be compiled, 1 part of it is refused\n")


def test_check_names_what_runs_on_one_eu(tool):
    code, out, _ = tool(rc_compile.main, "two_branch", "--check", "--eus=2")
    verdict, count, header, *rows = out.splitlines()
    assert code == 0 and verdict.endswith("can be compiled") and "on one EU only" in count
    assert header.split() == ["operator", "kind", "reason"]
    assert rows and all("worth placing" in row or "together" in row for row in rows)


def test_check_says_what_compiling_says(tool, monkeypatch):
    """Also where all nodes are translated, and something fails after that."""

    def fail(self, module):
        raise IndexError("seeded")

    monkeypatch.setattr(RollerTile, "run", fail)
    code, out, err = tool(rc_compile.main, "two_branch", "--check")
    assert (code, err) == (1, "") and out.count("\n") == 1
    assert "two_branch: all nodes are translated, but it cannot be compiled: roller-tile: " in out
    assert tool(rc_compile.main, "two_branch")[0] == 1
    monkeypatch.undo()
    for option in ("--eus=100000", "--precision=tf32", "--target=cuda:k9"):
        checked, compiled = (
            tool(rc_compile.main, "two_branch", option, *c) for c in (["--check"], [])
        )
        assert checked[0] == compiled[0] == 1, option
        assert compiled[2].split("error: ")[1].strip() in checked[1]
    assert tool(rc_compile.main, "two_branch", "--check", "--target=cuda:sm_80")[0] == 0


def test_weights_that_another_text_names_are_kept(tool):
    """Those of a text lie in the .npz of its stem, which texts of two stages would share."""
    model = models.build("mlp", batch=64, layers=(64, 128, 32))
    Path("m.onnx").write_bytes(model.SerializeToString())
    assert tool(rc_compile.main, "m.onnx", "--emit=schedule", "-o", "m.schedule")[0] == 0
    kept = Path("m.npz").read_bytes()
    code, _, err = tool(rc_compile.main, "m.onnx", "--emit=linalg", "-o", "m.mlir")
    assert code == 1 and "has weights that m.schedule names; give m.mlir another name" in err
    assert Path("m.npz").read_bytes() == kept and not Path("m.mlir").exists()
    assert tool(rc_compile.main, "m.schedule", "-o", "m.rcx")[0] == 0
    assert tool(rc_compile.main, "m.onnx", "--emit=schedule", "-o", "m.schedule")[0] == 0  # again


@pytest.mark.parametrize("name", ["m.onnx", "m.rcx"])
def test_the_input_is_not_written_over(tool, name):
    Path("m.onnx").write_bytes(models.build("two_branch").SerializeToString())
    assert tool(rc_compile.main, "m.onnx")[0] == 0
    before = Path(name).read_bytes()
    code, _, err = tool(rc_compile.main, name, "-o", f"./{name}")
    assert code == 1 and f"{name}: is the input; give another name with -o" in err
    assert Path(name).read_bytes() == before


@pytest.mark.parametrize(
    "main, arguments, message",
    [
        (rc_compile.main, ["nowhere.onnx"], "no such file, nor a built-in model"),
        (rc_compile.main, ["two_branch", "--emit=bits"], "bits"),
        (rc_compile.main, ["two_branch", "--policy=best"], "best"),
        (rc_compile.main, ["two_branch", "--target=toaster"], "toaster"),
        (rc_compile.main, ["two_branch", "--shapes=input=1x2x3"], "rank"),
        (rc_compile.main, ["two_branch", "-o", "no/folder/m.rcx"], "no/folder"),
        (rc_run.main, ["nowhere.rcx"], "nowhere.rcx"),
        (rc_run.main, ["bad.rcx"], "bad.rcx"),
        (rc_run.main, ["bad.onnx"], "bad.onnx"),
        (rc_run.main, ["bad.mlir"], "bad.mlir"),
        (rc_run.main, ["two_branch", "wrong.npy"], "input"),
        (rc_run.main, ["two_branch", "--range=z=0:1"], "no input 'z'"),
    ],
)
def test_errors_are_one_line(tool, main, arguments, message):
    for suffix in ("rcx", "onnx", "mlir"):
        with open(f"bad.{suffix}", "wb") as file:
            file.write(b"\xffnot at all")
    np.save("wrong.npy", np.zeros((3, 3), np.float32))
    code, _, err = tool(main, *arguments)
    assert code == 1 and message in err
    assert err.count("\n") == 1 and ": error: " in err


def test_a_wrong_result_is_found(tool):
    other = models.build("two_branch", seed=1)
    onnx.save(other, "other.onnx")
    code, _, err = tool(rc_run.main, "two_branch", "--verify", "--onnx=other.onnx")
    assert code == 1 and "output 'output' differs from" in err


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("float[8,4] z) => (float[8,4] y) { y = Tanh(z)", "has no input 'x'|has an input 'z'"),
        ("float[8,4] x, float[2] w) => (float[8,4] y) { y = Tanh(x)", "has an input 'w' which"),
        (
            "float[4,8] x) => (float[4,8] y) { y = Tanh(x)",
            r"the shape \[4, 8\], and was given \[8, 4",
        ),
        ("int64[8,4] x) => (int64[8,4] y) { y = Neg(x)", "is int64, and was given float32"),
        ("float[8,4] x) => (float[8,4] y, float[8,4] r) { y = Tanh(x) r = Exp(x)", "outputs y, r,"),
        ("float[8,4] x) => (float[8,4] q) { q = Tanh(x)", "the outputs q, and the compiled mod"),
    ],
)
def test_another_network_is_not_compared(tool, other, words):
    graph = '<ir_version: 10, opset_import: ["": 21]> g ({} }}'
    for name, text in (("m", "float[n,4] x) => (float[n,4] y) { y = Tanh(x)"), ("other", other)):
        onnx.save(onnx.parser.parse_model(graph.format(text)), f"{name}.onnx")
    assert tool(rc_compile.main, "m.onnx", "--shapes=n=8", "-o", "m.rcx")[0] == 0
    assert tool(rc_run.main, "m.rcx", "--verify", "--onnx=m.onnx")[0] == 0
    code, _, err = tool(rc_run.main, "m.rcx", "--verify", "--onnx=other.onnx")
    assert code == 1 and err.count("\n") == 1
    assert re.search(f"--onnx names another network than was compiled: .*({words})", err), err


def test_bench_writes_a_record(tool):
    code, out, err = tool(
        rc_bench.main,
        "--models=two_branch,nowhere", "--threads=1,2", "--seconds=0.05", "--rounds=2",
        "--json=r.json",
    )  # fmt: skip
    assert code == 1 and err.count("nowhere: no such file") == 2
    assert "ratio" in out
    with open("r.json") as file:
        record = json.load(file)
    assert record["openblas_coretype"].startswith("unset")
    assert {"device", "date", "versions", "commit"} <= set(record)
    good = [case for case in record["results"] if not case["error"]]
    assert [case["threads"] for case in good] == [1, 2]
    for case in good:
        ours = case["latency_ms"]["rcompiler"]
        assert 0 < ours["min"] <= ours["p50"] <= ours["p90"] <= ours["p99"]
        assert case["ratio"] > 0


def test_bench_refuses_before_measuring(tool):
    code, out, err = tool(rc_bench.main, "--models=two_branch", "--json=no/folder/r.json")
    assert (code, out) == (1, "") and err.count("\n") == 1


def test_gpu_targets(tool):
    """Compiling, and what can be said without a GPU."""
    assert tool(rc_compile.main, "two_branch", "--target=cuda:h200", "-o", "g.rcx")[0] == 0
    code, out, _ = tool(rc_run.main, "g.rcx", "--needs")
    assert code == 0 and "sm_90a, no other" in out
    assert "at the same time   1 of 256 threads" in out  # one EU does it all
    more = ("--target=cuda:h200", "--no-machine-code", "-o", "many.rcx")
    assert tool(rc_compile.main, "mlp", *more)[0] == 0
    code, out, _ = tool(rc_run.main, "many.rcx", "--needs")
    assert code == 0 and "at the same time   132 of 256 threads" in out
    for stage, text in (("gpu", "gpu.module"), ("ptx", ".visible .entry veu")):
        code, out, _ = tool(rc_compile.main, "two_branch", "--target=cuda:h200", f"--emit={stage}")
        assert code == 0 and text in out
    options = ("--target=cuda:h200", "--timing", "--no-machine-code", "-o", "g.rcx")
    code, _, err = tool(rc_compile.main, "two_branch", *options)
    assert code == 0 and "gpu-to-nvvm" in err and "ptxas" not in err
    code, out, _ = tool(rc_run.main, "g.rcx", "--needs")
    assert code == 0 and "PTX, which the driver compiles" in out
    code, _, err = tool(rc_bench.main, "--models=g.rcx", "--threads=132")
    assert code == 1 and "is compiled for cuda:h200; rc-bench compares engines of CPUs" in err
    code, _, err = tool(rc_run.main, "g.rcx", "--profile=p.json")
    assert code == 1 and "GPUs leave no times of their rTasks" in err


def test_targets_of_amd_are_compiled_only(tool):
    assert tool(rc_compile.main, "two_branch", "--target=rocm:gfx942", "-o", "g.rcx")[0] == 0
    code, out, _ = tool(rc_run.main, "g.rcx", "--needs")
    assert code == 0 and "gfx942, no other" in out and "assembly and machine code" in out
    code, _, err = tool(rc_run.main, "g.rcx")
    assert code == 1 and "compiled for gfx942; this build runs NVIDIA GPUs and CPUs only" in err
    code, out, _ = tool(rc_compile.main, "g.rcx", "--emit=amdgcn")
    assert code == 0 and ".amdhsa_kernel veu" in out


def test_the_emulated_gpu(tool):
    code, out, _ = tool(rc_run.main, "two_branch", "--target=cuda:emulated", "--verify")
    assert code == 0 and "of what is allowed, against" in out


def test_what_a_cpu_needs(tool):
    code, out, _ = tool(rc_run.main, "two_branch", "--needs", "--eus=1")
    assert code == 0 and "threads" in out and "inputs and outputs beside" in out


def test_a_range_of_sizes_is_compiled_run_and_verified(tool):
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 21]> '
            "g (float[n, 4] x) => (float[n, 4] y) { y = Softmax<axis=0>(x) }"
        ),
        "m.onnx",
    )
    code, _, err = tool(rc_compile.main, "m.onnx", "--shapes=n=2..5", "-o", "m.rcx")
    assert code == 0, err
    shapes = set()
    for seed in range(6):
        code, out, _ = tool(rc_run.main, "m.rcx", "--verify", "--onnx=m.onnx", f"--seed={seed}")
        assert code == 0
        shapes.add(re.search(r"float32  (\d)x4", out)[1])
    assert shapes <= {"2", "3", "4", "5"} and len(shapes) > 1
    code, out, _ = tool(rc_run.main, "m.onnx", "--shapes=x=2..5x4", "--verify")
    assert code == 0
    code, _, err = tool(rc_compile.main, "m.onnx", "--shapes=n=5..2")
    assert code == 1 and "--shapes=n is range(5, 3); a range of sizes" in err
    code, _, err = tool(rc_compile.main, "m.onnx", "--shapes=n=5.2")
    assert code == 1 and "or a range, as 1..512" in err
    np.save("x.npy", np.ones((9, 4), np.float32))
    code, _, err = tool(rc_run.main, "m.rcx", "x.npy")
    assert code == 1 and "there is no program for n=9; the model was compiled for n: 2 to 5" in err


def test_the_runtime_takes_sizes_without_the_compiler(tool, numpy_only):
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 21]> '
            "g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"
        ),
        "m.onnx",
    )
    tool(rc_compile.main, "m.onnx", "--shapes=n=1..5", "-o", "m.rcx")
    np.save("x.npy", -np.ones((3, 4), np.float32))
    code, out, err = numpy_only("rcompiler.tools.rc_run", "m.rcx", "x.npy", "--save=y.npy")
    assert (code, err) == (0, "") and "float32  3x4" in out
    np.testing.assert_array_equal(np.load("y.npy"), np.zeros((3, 4)))
