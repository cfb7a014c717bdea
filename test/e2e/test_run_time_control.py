"""If and Loop whose conditions and trip counts are known only at run time."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.errors import RangeError, ShapeError, UnsupportedOp
from rcompiler.frontend import check, import_onnx

F, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.float32([[1, -2, 3], [4, 0, -6]])
TARGETS = [("cpu", 2), ("cuda:emulated", 2)]


def node(op, inputs, outputs, **attributes):
    """inputs: names, "" for one that is left out."""
    names = inputs.split(" ") if inputs else []
    return helper.make_node(op, names, outputs.split(), **attributes)


def info(text):
    """``"f x 2 3"`` and the like as the types of tensors."""
    kinds = {"f": F, "i": INT, "b": BOOL}
    words = [each.split() for each in text.split(",") if each]
    return [
        helper.make_tensor_value_info(name, kinds[kind], [*map(int, shape)])
        for kind, name, *shape in words
    ]


def graph(nodes, inputs, outputs, name="g"):
    return helper.make_graph(nodes, name, info(inputs), info(outputs))


def model(nodes, inputs, outputs):
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph(nodes, inputs, outputs), opset_imports=opsets, ir_version=8)


def agree(proto, feeds, target=("cpu", 1), **options):
    """The compiled model computes what the reference does, for each of some inputs."""
    made = rcompiler.compile_onnx(proto, target=target[0], eus=target[1], cache=False, **options)
    reference = ReferenceEvaluator(proto)
    for feed in feeds:
        for got, wanted in zip(made(feed), reference.run(None, feed), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    return made


def choice(then, otherwise, result="f r 2 3", inputs="b c,f x 2 3"):
    branches = {
        "then_branch": graph(then, "", result, "then"),
        "else_branch": graph(otherwise, "", result, "else"),
    }
    outputs = result.replace(" r", " y", 1)
    return model([node("If", "c", "y", name="choice", **branches)], inputs, outputs)


def conditions(**others):
    return [{"c": np.array(flag), "x": X, **others} for flag in (True, False, True)]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_branch_of_the_condition_is_taken(target):
    then = [node("Add", "x x", "a"), node("Relu", "a", "r")]
    otherwise = [node("Softmax", "x", "s"), node("Neg", "s", "r")]
    agree(choice(then, otherwise), conditions(), target)


def test_branches_may_return_constants_and_what_they_read():
    given = node("Constant", "", "r", value=helper.make_tensor("t", F, [2, 3], range(6)))
    agree(choice([given], [node("Identity", "x", "r")]), conditions())
    truth = node("Constant", "", "r", value=helper.make_tensor("t", BOOL, [], [True]))
    agree(choice([truth], [node("Not", "c", "r")], "b r"), conditions())


def test_all_of_some_results_are_chosen():
    result = "f r 2 3,i s 2"
    then = [node("Abs", "x", "r"), node("ArgMax", "x", "s", axis=1, keepdims=0)]
    otherwise = [node("Neg", "x", "r"), node("ArgMin", "x", "s", axis=1, keepdims=0)]
    branches = {
        "then_branch": graph(then, "", result), "else_branch": graph(otherwise, "", result)
    }  # fmt: skip
    nodes = [node("If", "c", "y z", **branches)]
    agree(model(nodes, "b c,f x 2 3", "f y 2 3,i z 2"), conditions())


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_branches_may_be_of_different_sizes(target):
    """As detectors choose: nothing where there are no boxes, and else those that are selected."""
    none = numpy_helper.from_array(np.zeros((0, 3), np.float32))
    some = [
        node("ReduceMax", "x last", "best", keepdims=0),
        node("Greater", "best least", "keep"),
        node("Compress", "x keep", "r", axis=0),
    ]
    twice = [node("Concat", "x x", "r", axis=0)]
    for then, otherwise in (
        ([node("Constant", "", "r", value=none)], some),
        (twice, some),
        ([node("Abs", "x", "r")], twice),
    ):
        proto = choice(then, otherwise)
        graphs = [proto.graph, *(each.g for each in proto.graph.node[0].attribute)]
        for each in graphs:
            each.output[0].type.tensor_type.shape.dim[0].Clear()
        weights = {"least": np.float32(3.5), "last": np.int64([1])}
        proto.graph.initializer.extend(numpy_helper.from_array(w, n) for n, w in weights.items())
        sums = [node("Shape", "y", "n"), node("ReduceSum", "y", "all", keepdims=0)]
        proto.graph.node.extend(sums)
        proto.graph.output.extend(info("i n 2,f all"))
        agree(proto, conditions(), target)


def test_a_branch_that_is_not_taken_raises_nothing():
    """Neither for an index that is an input, nor for one that is computed."""
    for ids in ([], [node("Add", "i i", "j")]):
        then = [*ids, node("Gather", f"x {'j' if ids else 'i'}", "r", axis=0, name="look")]
        proto = choice(then, [node("Neg", "x", "r")], inputs="b c,f x 2 3,i i 2")
        made = agree(proto, conditions(i=np.array([0, 0])))
        far = {"i": np.array([0, 5]), "x": X}
        np.testing.assert_array_equal(made({"c": np.array(False), **far})[0], -X)
        with pytest.raises(RangeError, match="'choice/look' was given the index"):
            made({"c": np.array(True), **far})


def test_whole_numbers_are_not_divided_where_that_is_not_taken():
    then, otherwise = [node("Div", "i k", "r")], [node("Add", "i k", "r")]
    proto = choice(then, otherwise, "i r 2", "b c,i i 2,i k 2")
    made = rcompiler.compile_onnx(proto, eus=1, cache=False)
    (got,) = made(np.array(False), np.array([5, 7]), np.array([0, 0]))
    np.testing.assert_array_equal(got, [5, 7])


@pytest.mark.parametrize(
    ("then", "otherwise", "words"),
    [
        (
            [node("ReduceSum", "x", "r", keepdims=0)],
            [node("Neg", "x", "r")],
            "float32.. or float32",
        ),
        ([node("Cast", "x", "r", to=INT)], [node("Neg", "x", "r")], "int64.2,3. or float32"),
        ([node("SequenceConstruct", "x", "r")], [node("Neg", "x", "r")], "sequence or float32"),
    ],
)
def test_branches_of_other_types_are_refused(then, otherwise, words):
    proto = choice(then, otherwise)
    with pytest.raises(UnsupportedOp, match=f"'choice' .If.: result 0 of its branches is {words}"):
        import_onnx(proto)
    assert check(proto)[0].needs == ("c",)
    import_onnx(proto, values={"c": np.array(False)})


def test_a_gap_in_a_branch_asks_for_the_condition():
    then = [node("Reshape", "x i", "r")]
    proto = choice(then, [node("Neg", "x", "r")], inputs="b c,f x 2 3,i i 2")
    with pytest.raises(UnsupportedOp) as refused:
        import_onnx(proto)
    assert refused.value.gap.needs == ("c", "i")


def test_a_condition_is_one_truth():
    proto = choice([node("Abs", "x", "r")], [node("Neg", "x", "r")], inputs="b c 2,f x 2 3")
    with pytest.raises(UnsupportedOp, match="its condition is bool.2., not one bool"):
        import_onnx(proto)


# -- loops ----------------------------------------------------------------------------------
GROW = [
    node("Add", "s x", "t"),
    node("ReduceMax", "t", "top", keepdims=0),
    node("Less", "top lim", "go"),
]
STEP = "i i,b going,f s 2 3"
FEEDS = {
    "x": X, "lim": np.float32(1000), "c": np.array(True), "M": np.array(4),
}  # fmt: skip


def repeated(nodes=GROW, loop="M c x", result="b go,f t 2 3", inputs="i M,b c,f x 2 3,f lim"):
    body = graph(nodes, STEP, result, "body")
    carried = "y" if result.count(",") == 1 else "y z"
    return model([node("Loop", loop, carried, name="again", body=body)], inputs, "f y 2 3")


def feeds(**changes):
    return {
        **FEEDS,
        **{name: np.array(value, FEEDS[name].dtype) for name, value in changes.items()},
    }


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_loop_runs_as_often_as_is_said(target):
    some = [
        feeds(), feeds(M=0), feeds(M=-3), feeds(M=6), feeds(M=1), feeds(c=False),
        feeds(lim=9), feeds(lim=-1), feeds(M=1 << 40, lim=20),
    ]  # fmt: skip
    agree(repeated(), some if target[0] == "cpu" else some[:3], target, bounds={"again": 6})


def test_without_a_trip_count_the_condition_ends_it():
    proto = repeated(loop=" c x", inputs="b c,f x 2 3,f lim")
    some = [{k: v for k, v in feeds(lim=n).items() if k != "M"} for n in (1, 7, 19)]
    agree(proto, some, bounds={"again": 5})


def test_the_number_of_the_iteration_stays_a_constant():
    """It is where a slice begins, which has to be known while compiling."""
    nodes = [
        node("Constant", "", "one", value_int=1),
        node("Gather", "x i", "row", axis=1),
        node("Unsqueeze", "row one_d", "column"),
        node("Add", "s column", "t"),
        node("Identity", "going", "go"),
    ]
    nodes.insert(0, node("Constant", "", "one_d", value_ints=[1]))
    proto = repeated(nodes, inputs="i M,b c,f x 2 3")
    some = [{"M": np.array(n), "c": np.array(True), "x": X} for n in range(4)]
    made = agree(proto, some, bounds={"again": 3})
    assert [each.reader for each in made.artifact.checks] == ["Loop 'again'"]


def test_a_bound_that_the_model_has_needs_no_other():
    """M = min(n, 3)."""
    three = node("Constant", "", "three", value_int=3)
    body = graph(GROW, STEP, "b go,f t 2 3", "body")
    nodes = [three, node("Min", "n three", "M"), node("Loop", "M  x", "y", body=body, name="again")]
    proto = model(nodes, "i n,f x 2 3,f lim", "f y 2 3")
    made = rcompiler.compile_onnx(proto, eus=1, cache=False)
    assert not made.artifact.checks
    for given, trips in ((-1, 0), (2, 2), (3, 3), (50, 3)):
        (got,) = made(np.array(given), X, np.float32(1000))
        np.testing.assert_array_equal(got, X * (trips + 1))
    fewer = rcompiler.compile_onnx(proto, eus=1, cache=False, bounds={"again": 2})
    with pytest.raises(RangeError, match="iteration 3,"):
        fewer(np.array(3), X, np.float32(1000))


def test_more_iterations_than_were_compiled_are_an_error(tmp_path):
    made = rcompiler.compile_onnx(repeated(), eus=1, cache=False, bounds={"again": 3})
    made(feeds(M=3))
    with pytest.raises(RangeError, match="Loop 'again' may go on to iteration 4, .* at most 3; .*"):
        made(feeds(M=4))
    made(feeds(M=4, lim=8))  # the condition ends it sooner
    made.save(tmp_path / "m.rcx")
    with pytest.raises(RangeError, match="iteration 900"):
        rcompiler.load(tmp_path / "m.rcx")(feeds(M=900))


def steps(proto, most):
    """How many functions of steps there are."""
    text = import_onnx(proto, limits={"again": most}).module_text
    return text.count("func.func private")


def test_many_iterations_are_calls_of_one_function():
    """The carried values are turned round, and the number of the iteration is added to one."""
    nodes = [
        node("Cast", "i", "number", to=F),
        node("Add", "s number", "u"),
        node("Relu", "s", "least"),
        node("ReduceMax", "u", "top", keepdims=0),
        node("Less", "top lim", "go"),
    ]
    inputs = "i i,b going,f s 2 3,f p 2 3"
    body = graph(nodes, inputs, "b go,f u 2 3,f least 2 3", "body")
    loop = node("Loop", "M c x x", "y z", body=body, name="again")
    proto = model([loop], "i M,b c,f x 2 3,f lim", "f y 2 3,f z 2 3")
    some = [feeds(), feeds(M=0), feeds(M=20), feeds(c=False), feeds(M=1 << 40, lim=30)]
    made = agree(proto, some, ("cpu", 2), bounds={"again": 20})
    assert steps(proto, 20) == 1 and steps(proto, 15) == 0
    with pytest.raises(RangeError, match="iteration 21,"):
        made(feeds(M=21))


def test_a_branch_in_a_function_of_steps():
    then, other = [node("Add", "s s", "r")], [node("Sub", "s x", "r")]
    nodes = [
        node("ReduceSum", "s", "total", keepdims=0),
        node("Less", "total lim", "low"),
        node(
            "If", "low", "t", then_branch=graph(then, "", "f r 2 3"),
            else_branch=graph(other, "", "f r 2 3"),
        ),
        node("Identity", "going", "go"),
    ]  # fmt: skip
    some = [feeds(M=m, lim=n) for m in (0, 3, 16) for n in (-5, 100)]
    agree(repeated(nodes), some, bounds={"again": 16})
    assert steps(repeated(nodes), 16) == 1


def test_steps_say_what_is_wrong_with_their_indices():
    nodes = [
        node("ReduceSum", "s", "total", keepdims=0),
        node("Cast", "total", "at", to=INT),
        node("Gather", "x at", "row", axis=0, name="look"),
        node("Add", "s row", "t"),
        node("Identity", "going", "go"),
    ]
    assert steps(repeated(nodes), 16) == 1
    made = agree(repeated(nodes), [feeds(M=n) for n in (0, 1)], bounds={"again": 16})
    assert len(made.artifact.checks) == 2
    for trips in (2, 16):  # the first that was wrong
        with pytest.raises(RangeError, match="again/step/look' was given the index 4,"):
            made(feeds(M=trips))


def test_what_is_no_function_of_steps_is_written_out():
    """A body that needs the number of its iteration."""
    sliced = [
        node("Constant", "", "axes", value_ints=[0]),
        node("Constant", "", "last", value_ints=[300]),
        node("Unsqueeze", "i axes", "first"),
        node("Slice", "x first last axes", "rest"),
        node("ReduceSum", "rest", "row", keepdims=0),
        node("Add", "s row", "t"),
        node("Identity", "going", "go"),
    ]
    assert steps(repeated(sliced), 16) == 0
    agree(repeated(sliced), [feeds(M=n) for n in (0, 1, 5)], bounds={"again": 16})


def test_a_decoder_ends_with_its_last_token():
    """It looks up the token, multiplies, takes the likeliest one and writes it down. The state
    begins with a constant, and one token ends it all.
    """
    random, most, words, width = np.random.default_rng(3), 20, 12, 8
    weights = {
        "table": random.standard_normal((words, width)).astype("f"),
        "w": random.standard_normal((width, width)).astype("f"),
        "out": random.standard_normal((width, words)).astype("f"),
        "h0": np.zeros((1, width), "f"), "eos": np.array(7), "one": np.array([1, 1]),
        "yes": np.array(True),
    }  # fmt: skip
    nodes = [
        node("Gather", "table token", "e", axis=0, name="look"),
        node("MatMul", "h w", "kept"),
        node("Add", "e kept", "sum"),
        node("Tanh", "sum", "h2"),
        node("MatMul", "h2 out", "scores"),
        node("ArgMax", "scores", "next", axis=1, keepdims=0),
        node("Reshape", "i one", "at"),
        node("Reshape", "next one", "put"),
        node("ScatterElements", "text at put", "text2", axis=1),
        node("Equal", "next eos", "is_last"),
        node("Not", "is_last", "more"),
        node("Squeeze", "more", "go"),
    ]
    given = f"i i,b going,i token 1,f h 1 {width},i text 1 {most}"
    body = graph(nodes, given, f"b go,i next 1,f h2 1 {width},i text2 1 {most}", "body")
    loop = node("Loop", "M yes first h0 empty", "last h_last y", body=body, name="again")
    proto = model([loop], f"i M,i first 1,i empty 1 {most}", f"i y 1 {most}")
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    assert steps(proto, most) == 1
    some = [
        {"M": np.array(m), "first": np.array([t]), "empty": np.full((1, most), -1)}
        for m, t in [(0, 1), (1, 2), (most, 3), (most, 7), (most, 0)]
    ]
    made = agree(proto, some, bounds={"again": most})
    with pytest.raises(RangeError, match="'again/step/look' was given the index 12"):
        made({**some[1], "first": np.array([words])})


def test_loops_and_branches_inside_of_each_other():
    """Every second iteration doubles, the others add; the inner loop ends by a condition."""
    then = graph([node("Add", "s s", "r")], "", "f r 2 3", "then")
    inner = graph(
        [
            node("Add", "p x", "q"),
            node("ReduceMax", "q", "m", keepdims=0),
            node("Less", "m lim", "more"),
        ],
        "i j,b on,f p 2 3", "b more,f q 2 3", "inner",
    )  # fmt: skip
    three = helper.make_tensor("three", INT, [], [3])
    other = graph(
        [
            node("Constant", "", "k", value=three),
            node("Loop", "k going s", "r", body=inner, name="deep"),
        ],
        "", "f r 2 3", "else",
    )  # fmt: skip
    nodes = [
        node("ReduceSum", "s", "total", keepdims=0),
        node("Less", "total lim", "low"),
        node("If", "low", "t", then_branch=then, else_branch=other),
        node("Identity", "going", "go"),
    ]
    some = [feeds(M=m, lim=n) for m in (0, 2, 3) for n in (-5, 3, 100)]
    agree(repeated(nodes), some, bounds={"again": 3})


@pytest.mark.parametrize(
    ("proto", "bounds", "words"),
    [
        (repeated(), None, "known only at run time: .*bounds={'again': ...}"),
        (repeated(), {"again": 200_000}, "up to 200000 times, and 131072 are the most"),
        (
            repeated([node("Concat", "s x", "t", axis=0), node("Identity", "going", "go")]),
            {"again": 2},
            r"carried value 0 is float32\[4,3\] or float32\[2,3\]",
        ),
    ],
)
def test_loops_that_are_refused(proto, bounds, words):
    with pytest.raises(UnsupportedOp, match=words) as refused:
        import_onnx(proto, limits=bounds)
    assert "M" in refused.value.gap.needs


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_scan_outputs_have_a_row_for_each_iteration_that_runs(target):
    """What reads them sees no others."""
    proto = repeated([*GROW, node("Abs", "t", "u")], result="b go,f t 2 3,f u 2 3")
    proto.graph.node.extend([node("ReduceMax", "z", "top", keepdims=0), node("Shape", "z", "n")])
    proto.graph.output.extend(info("f top,i n 3"))
    proto.graph.output.append(helper.make_tensor_value_info("z", F, ["again", 2, 3]))
    made = rcompiler.compile_onnx(
        proto, target=target[0], eus=target[1], cache=False, bounds={"again": 6}
    )
    for trips, feed in [(4, feeds()), (6, feeds(M=6)), (1, feeds(M=1)), (3, feeds(lim=13))]:
        last, top, extents, rows = made(feed)
        wanted = np.stack([np.abs(X * (k + 2)) for k in range(trips)])
        np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_array_equal(last, X * (trips + 1))
        assert top == wanted.max() and extents.tolist() == [trips, 2, 3]
    for none in (feeds(M=0), feeds(c=False)):
        assert made(none)[3].shape == (0, 2, 3)
    with pytest.raises(RangeError, match="Loop 'again' may go on to iteration 7"):
        made(feeds(M=7))


def test_rows_without_one_shape_are_refused_when_they_are_read():
    """Those that are not read are no obstacle."""
    nodes = [*GROW, node("NonZero", "t", "u")]
    proto = repeated(nodes, result="b go,f t 2 3,i u 2 6")
    import_onnx(proto, limits={"again": 3})
    proto.graph.output.append(helper.make_tensor_value_info("z", INT, None))
    with pytest.raises(UnsupportedOp, match="how many rows its scan output 0 has"):
        import_onnx(proto, limits={"again": 3})


def test_bounds_of_no_loop_are_refused():
    with pytest.raises(ShapeError, match="'other'"):
        import_onnx(repeated(), limits={"other": 3, "again": 3})


def unfit_branches(shape):
    """Of an input that both branches reshape, each to a shape of its own."""
    then = [node("Reshape", "x two", "a"), node("ReduceSum", "a ax", "r", keepdims=0)]
    otherwise = [node("Reshape", "x one", "b"), node("Neg", "b", "n"), node("Squeeze", "n ax", "r")]
    proto = choice(then, otherwise, "f r 4", f"b c,f x {shape}")
    for name, numbers in (("two", [2, 4]), ("one", [1, 4]), ("ax", [0])):
        proto.graph.initializer.append(numpy_helper.from_array(np.int64(numbers), name))
    return proto


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("shape", "taken"), [(8, True), (4, False)])
def test_a_branch_that_does_not_fit_is_an_error_of_the_calls_that_take_it(target, shape, taken):
    proto, x = unfit_branches(shape), np.arange(shape, dtype=np.float32)
    made = agree(proto, [{"c": np.array(taken), "x": x}], target)
    branch = "else_branch" if taken else "then_branch"
    with pytest.raises(RangeError, match=f"If 'choice' takes its {branch}.*do not fit the shape"):
        made(np.array(not taken), x)
    assert check(proto) == []


def test_branches_of_which_neither_fits_are_refused():
    with pytest.raises(ShapeError, match="6 elements do not fit"):
        import_onnx(unfit_branches(6))


def test_a_branch_that_does_not_fit_beside_a_constant():
    """What the other one returns is computed by nothing."""
    given = node("Constant", "", "r", value=helper.make_tensor("t", F, [2, 3], range(6)))
    wide = [node("Concat", "x x", "d", axis=0), node("MatMul", "d x", "r")]
    proto = choice([given], wide)
    made = agree(proto, [{"c": np.array(True), "x": X}])
    with pytest.raises(RangeError, match="takes its else_branch"):
        made(np.array(False), X)
