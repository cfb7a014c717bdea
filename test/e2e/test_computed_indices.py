"""Indices that a model computes: what leads out of a tensor is refused, and named after a call."""

import re

import numpy as np
import pytest
import recrafted
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.errors import ArtifactError, InvalidModel, RangeError, ShapeError
from rcompiler.frontend import import_onnx
from rcompiler.tools import rc_opt

TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)
TARGETS = [("cpu", 1), ("cpu", 2), ("cuda:emulated", 2)]


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes, ids, dtype=np.int64, outputs=("y",), opset=18, **weights):
    """ids -> outputs."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", kind, ids)],
        [helper.make_tensor_value_info(y, TensorProto.UNDEFINED, None) for y in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def checks(proto):
    """The readers that the IR has a check of."""
    text = import_onnx(proto).module_text
    results = text.partition("-> (")[2].partition("{\n")[0]
    return re.findall(r'rtask\.indices = \{[^}]*reader = "([^"]*)"', results)


PLUS = node("Add", "ids one", "at")
LAST = {"one": np.array(1)}


def reading(op, reads="table at", **attributes):
    return [PLUS, node(op, reads, "y", name="look", **attributes)]


def gathered_nd(x, at):
    return x[tuple(np.moveaxis(at, -1, 0))]


def scattered(x, at):
    out = x.copy()
    for i, j in np.ndindex(at.shape):
        out[at[i, j], j] = 7
    return out


def scattered_nd(x, at):
    out = x.copy()
    for i in np.ndindex(at.shape[:-1]):
        out[tuple(at[i])] = 7
    return out


# name: nodes, shape of the indices, extent of each of the last axis or of all, what is right
CASES = {
    "Gather": (reading("Gather"), (2, 3), 5, lambda at: TABLE[at]),
    "Gather of columns": (reading("Gather", axis=1), (3,), 4, lambda at: TABLE[:, at]),
    "GatherElements": (
        reading("GatherElements"), (2, 4), 5, lambda at: np.take_along_axis(TABLE, at, 0),
    ),
    "GatherND": (reading("GatherND"), (3, 1), 5, lambda at: gathered_nd(TABLE, at)),
    "GatherND of elements": (
        reading("GatherND"), (3, 2), (5, 4), lambda at: gathered_nd(TABLE, at),
    ),
    "ScatterElements": (
        reading("ScatterElements", "table at sevens"), (2, 4), 5, lambda at: scattered(TABLE, at),
    ),
    "ScatterND": (
        reading("ScatterND", "table at row"), (1, 1), 5, lambda at: scattered_nd(TABLE, at),
    ),
    "ScatterND of elements": (
        reading("ScatterND", "table at row"), (4, 2), (5, 4), lambda at: scattered_nd(TABLE, at),
    ),
}  # fmt: skip


def compiled(name, target="cpu", eus=1):
    nodes, shape, extents, right = CASES[name]
    updates = {"sevens": np.full((2, 4), 7, np.float32)} if "Elements" in name else {}
    if name.startswith("Scatter") and "ND" in name:
        updates = {"row": np.full((4,) if "of" in name else (1, 4), 7, np.float32)}
    proto = model(nodes, shape, table=TABLE, **LAST, **updates)
    made = rcompiler.compile_onnx(proto, target=target, eus=eus, cache=False)
    extents = np.broadcast_to(extents, shape) if np.ndim(extents) else np.full(shape, extents)
    return made, shape, extents, right


def wrongs(extents):
    """(position, index) of what leads out, at the first and the last place."""
    for where in ((0,) * extents.ndim, tuple(n - 1 for n in extents.shape)):
        extent = int(extents[where])
        for wrong in (extent, -extent - 1, 1 << 40, -(1 << 40), np.iinfo(np.int64).max):
            yield where, wrong


@pytest.mark.parametrize(("target", "eus"), TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_a_call_is_refused_with_the_node_and_the_index(name, target, eus):
    made, shape, extents, right = compiled(name, target, eus)
    at = np.arange(np.prod(shape)).reshape(shape) % extents
    np.testing.assert_array_equal(made(at - 1)[0], right(at))
    if not name.startswith("Scatter"):
        np.testing.assert_array_equal(made(at - extents - 1)[0], right(at))
    every = list(wrongs(extents))
    for where, wrong in every if target == "cpu" else every[::4]:
        bad, extent = at.copy(), extents[where]
        bad[where] = wrong
        reads = f"'look' was given the index {wrong}, .* reads from {-extent} to {extent - 1}$"
        with pytest.raises(RangeError, match=reads):
            made(bad - 1)
    np.testing.assert_array_equal(made(at - 1)[0], right(at))
    assert [output.name for output in made.outputs] == ["y"]


@pytest.mark.parametrize(("target", "eus"), TARGETS)
def test_a_binding_refuses_it_too(target, eus):
    made, shape, _, right = compiled("Gather", target, eus)
    binding, good = made.bind(), np.arange(6).reshape(shape) % 5
    assert len(binding.outputs) == 1

    def run(at):
        if target == "cpu":
            binding.inputs[0][...] = at - 1
        else:
            binding.inputs[0].write(at - 1)
        binding()
        return np.asarray(binding.outputs[0] if target == "cpu" else binding.outputs[0].numpy())

    np.testing.assert_array_equal(run(good), right(good))
    for wrong in (5, -6):
        bad = good.copy()
        bad[1, 2] = wrong
        with pytest.raises(RangeError, match=f"'look' was given the index {wrong},"):
            run(bad)
    np.testing.assert_array_equal(run(good), right(good))


def test_outputs_left_on_the_device_are_refused_too():
    made, shape, _, right = compiled("Gather", "cuda:emulated", 2)
    good = np.arange(6).reshape(shape) % 5
    np.testing.assert_array_equal(made.on_device(good - 1)[0].numpy(), right(good))
    with pytest.raises(RangeError, match="'look' was given the index 6,"):
        made.on_device(good + 1)


@pytest.mark.parametrize("size", [1, 256, 257])
def test_few_and_many_indices_in_inputs(size):
    """Python finds the extremes of few, numpy those of many (`runtime.arguments`)."""
    nodes = [node("Gather", "table ids", "y", name="look")]
    made = rcompiler.compile_onnx(model(nodes, (size,), table=TABLE))
    binding = made.bind()
    for place in {0, size // 2, size - 1}:
        for index, is_right in ((-5, True), (4, True), (-6, False), (5, False)):
            ids = np.zeros(size, np.int64)
            ids[place] = index
            binding.inputs[0][...] = ids
            for call in (binding, lambda ids=ids: made(ids)):
                if is_right:
                    call()
                else:
                    with pytest.raises(RangeError, match=f"'ids' has the index {index};"):
                        call()


def test_indices_in_inputs_that_lie_on_the_device():
    proto = model([node("Gather", "table ids", "y", name="look")], (3,), table=TABLE)
    made = rcompiler.compile_onnx(proto, target="cuda:emulated", cache=False)
    good, bad = np.array([4, -5, 0]), np.array([0, 5, 0])
    binding = made.bind()
    binding.inputs[0].write(good)
    binding()
    np.testing.assert_array_equal(binding.outputs[0].numpy(), TABLE[good])
    np.testing.assert_array_equal(made(binding.inputs[0])[0], TABLE[good])
    binding.inputs[0].write(bad)
    again = made.bind([binding.inputs[0]])  # what lies there counts when it is called
    for call in (binding, again, lambda: made(binding.inputs[0])):
        with pytest.raises(RangeError, match="input 'ids' has the index 5"):
            call()


def test_regions_of_images_and_places_in_caches():
    """RoiAlign, MaxRoiPool and TensorScatter, whose positions do not count from the end."""
    x, rois = np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4), np.float32([[0, 0, 3, 3]])
    images = [node("RoiAlign", "x rois at", "y", name="look", output_height=2, output_width=2)]
    cache = [node("TensorScatter", "x news at", "y", name="look", axis=2)]
    column = [
        node("Cast", "at", "f", to=TensorProto.FLOAT),
        node("Reshape", "f square", "g"),
        node("Concat", "g rois", "h", axis=1),
        node("MaxRoiPool", "x h", "y", name="look", pooled_shape=[2, 2]),
    ]
    weights = {"x": x, "rois": rois, "square": np.array([1, 1]), "news": x[:, :, :2] * 0, **LAST}
    for nodes, count, last in ((images, 1, 1), (column, 1, 1), (cache, 2, 2)):
        proto = model([PLUS, *nodes], (count,), opset=24 if nodes is cache else 18, **weights)
        made = rcompiler.compile_onnx(proto, eus=1, cache=False)
        made(np.full(count, last - 1)), made(np.full(count, -1))
        for wrong in (-1, last + 1):
            reads = f"'look' was given the index {wrong}, .* from 0 to {last}$"
            with pytest.raises(RangeError, match=reads):
                made(np.full(count, wrong - 1))
        if nodes is not column:
            fixed = {"at": np.full(count, last + 1), **weights}
            proto = model(nodes, (count,), opset=24 if nodes is cache else 18, **fixed)
            with pytest.raises(ShapeError, match=f"the index {last + 1} is outside of 0 to {last}"):
                rcompiler.compile_onnx(proto, eus=1, cache=False)


def test_the_node_that_is_named_is_the_one_that_is_wrong():
    nodes = [
        PLUS,
        node("Gather", "table at", "a", name="wide"),
        node("Neg", "ids", "back"),
        node("Gather", "short back", "b", name="narrow"),
        node("Add", "a b", "y"),
    ]
    proto = model(nodes, (2,), table=TABLE, short=TABLE[:3], **LAST)
    assert checks(proto) == ["Gather 'wide'", "Gather 'narrow'"]
    made = rcompiler.compile_onnx(proto, eus=2, cache=False)
    ids = np.array([2, -2])
    np.testing.assert_array_equal(made(ids)[0], TABLE[ids + 1] + TABLE[:3][-ids])
    with pytest.raises(RangeError, match="'narrow' was given the index 5, .* from -3 to 2"):
        made(np.array([1, -5]))
    with pytest.raises(RangeError, match="'wide' was given the index 6,"):  # and 'narrow' -5
        made(np.array([1, 5]))


def test_of_several_nodes_that_read_one_tensor_the_narrowest_counts():
    nodes = [
        PLUS,
        node("Gather", "table at", "a", name="wide"),
        node("Gather", "short at", "b", name="narrow"),
        node("Gather", "other at", "c", name="as_wide"),
        node("Sum", "a b c", "y"),
    ]
    assert checks(model(nodes, (2,), table=TABLE, short=TABLE[:3], other=-TABLE, **LAST)) == [
        "Gather 'narrow'"
    ]


def test_int32_indices_and_those_of_a_cast_input():
    cast = node("Cast", "ids", "at", to=TensorProto.INT64)
    look = node("Gather", "table at", "y", name="look")
    made = rcompiler.compile_onnx(model([cast, look], (3,), np.int32, table=TABLE), cache=False)
    ids = np.array([4, -5, 0], np.int32)
    np.testing.assert_array_equal(made(ids)[0], TABLE[ids])
    for wrong in (5, -6, -(1 << 31)):
        with pytest.raises(RangeError, match=f"'look' was given the index {wrong},"):
            made(np.array([0, 1, wrong], np.int32))
    nodes = [node("Add", "ids one", "at"), look]
    one = np.array(1, np.int32)
    made = rcompiler.compile_onnx(model(nodes, (3,), np.int32, table=TABLE, one=one), cache=False)
    with pytest.raises(RangeError, match="'look' was given the index -6,"):
        made(np.array([0, 1, -7], np.int32))


BOUNDED = {
    "ArgMax": [node("ArgMax", "table2", "at", axis=0, keepdims=0)],
    "TopK": [node("TopK", "table2 k", "values at", axis=0)],
    "Mod": [node("Mod", "ids five", "at")],
    "Clip": [node("Clip", "ids low four", "at")],
    "Min and Max": [node("Max", "ids low", "up"), node("Min", "up four", "at")],
    "Where": [
        node("Mod", "ids five", "a"),
        node("Less", "ids low", "c"),
        node("Where", "c low a", "at"),
    ],
    "moved": [
        node("Mod", "ids five", "a"),
        node("Transpose", "a", "b"),
        node("Concat", "b b", "c", axis=0),
        node("Slice", "c starts ends", "d"),
        node("Gather", "d two", "e", axis=0),
        node("Reshape", "e flat", "f"),
        node("Tile", "f twice", "at"),
    ],
    "bool": [
        node("Less", "ids low", "c"),
        node("Cast", "c", "at", to=TensorProto.INT64),
    ],
    "arithmetic": [
        node("Mod", "ids five", "a"),
        node("Sub", "a five", "at"),
    ],
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_indices_cost_nothing(name):
    nodes = [
        *BOUNDED[name],
        node("Gather", "table at", "g", name="look"),
        node("ReduceSum", "g", "y", keepdims=0),
    ]
    if name in ("ArgMax", "TopK"):
        nodes[:0] = [
            node("Cast", "ids", "f", to=TensorProto.FLOAT),
            node("Concat", "f f", "table2", axis=0),
        ]
    constants = {
        "low": np.array(0), "four": np.array(4), "five": np.array(5), "k": np.array([2]),
        "starts": np.array([1, 0]), "ends": np.array([4, 2]), "two": np.array([0, 1]),
        "flat": np.array([4]), "twice": np.array([2]),
    }  # fmt: skip
    proto = model(nodes, (2, 3), table=TABLE, **constants)
    assert checks(proto) == []
    made = rcompiler.compile_onnx(proto, eus=1, cache=False)
    assert not made.artifact.checks and np.isfinite(made(np.full((2, 3), 1000))[0])


def test_what_does_not_run_is_not_looked_at():
    """A node that no output needs, and the branch that is not taken."""
    body = helper.make_graph(
        [node("Gather", "table at", "r", name="in_branch")], "then", [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
    )  # fmt: skip
    other = helper.make_graph(
        [node("Gather", "table zero", "s", name="in_other")], "else", [],
        [helper.make_tensor_value_info("s", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [
        PLUS,
        node("Gather", "table at", "nobody", name="dead", axis=1),
        node("If", "no", "y", name="choice", then_branch=body, else_branch=other),
    ]
    constants = {"table": TABLE, "zero": np.array([0]), **LAST}
    assert checks(model(nodes, (2,), no=np.array(False), **constants)) == []
    taken = model(nodes, (2,), no=np.array(True), **constants)
    assert checks(taken) == ["Gather 'choice/in_branch'"]
    with pytest.raises(RangeError, match="'choice/in_branch' was given the index 9,"):
        rcompiler.compile_onnx(taken, eus=1, cache=False)(np.array([8, 0]))


def test_each_step_of_a_loop_is_looked_at():
    """Body: at = state + item, state = at, row = table[at]."""
    body = helper.make_graph(
        [node("Add", "state item", "at"), node("Gather", "table at", "row", name="look")],
        "body",
        [helper.make_tensor_value_info(n, TensorProto.INT64, []) for n in ("state", "item")],
        [
            helper.make_tensor_value_info("at", TensorProto.INT64, []),
            helper.make_tensor_value_info("row", TensorProto.FLOAT, [4]),
        ],
    )
    nodes = [node("Scan", "zero ids", "last y", name="scan", body=body, num_scan_inputs=1)]
    made = rcompiler.compile_onnx(
        model(nodes, (6,), table=TABLE, zero=np.array(0)), eus=2, cache=False
    )
    ids = np.array([1, 1, 2, -3, 1, 0])
    np.testing.assert_array_equal(made(ids)[0], TABLE[np.cumsum(ids)])
    with pytest.raises(RangeError, match="'scan/3/look' was given the index 5,"):
        made(np.array([1, 1, 2, 1, -1, 0]))


@pytest.fixture(scope="module")
def made():
    return compiled("Gather")[0]


def looked_at(model):
    np.testing.assert_array_equal(model(np.ones((2, 3), np.int64))[0], TABLE[np.full((2, 3), 2)])
    with pytest.raises(RangeError, match="'look' was given the index 8,"):
        model(np.full((2, 3), 7))


def test_saved_and_loaded(made, tmp_path):
    made.save(tmp_path / "m.rcx")
    looked_at(rcompiler.load(tmp_path / "m.rcx"))


def test_compiled_from_the_text_of_the_schedule(made):
    looked_at(rcompiler.compile_schedule(made.stage("vdevice"), made.constants(), cache=False))


def test_ranges_of_inputs_are_in_the_text_too():
    made = rcompiler.compile_onnx(
        model([node("Gather", "table ids", "y", name="look")], (2, 3), table=TABLE),
        eus=1, cache=False,
    )  # fmt: skip
    again = rcompiler.compile_schedule(made.stage("vdevice"), made.constants(), cache=False)
    assert again.artifact.ranges == made.artifact.ranges != ()
    with pytest.raises(RangeError, match="input 'ids' has the index 7"):
        again(np.full((2, 3), 7))


def test_by_the_names_of_the_passes(tmp_path):
    """rc-opt takes the text of the front end to a schedule with the same checks."""
    imported = import_onnx(model(reading("Gather"), (2, 3), table=TABLE, **LAST))
    (tmp_path / "s1.mlir").write_text(imported.module_text)
    pipeline = (
        "vdevice-attach-device{device=cpu},rc-linalg-to-rtask,roller-tile,rammer-schedule{eus=2}"
    )
    command = [str(tmp_path / "s1.mlir"), "-p", pipeline, "-o", str(tmp_path / "s4.mlir")]
    assert rc_opt.main(command) == 0
    looked_at(rcompiler.compile_schedule((tmp_path / "s4.mlir").read_text(), {}, cache=False))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first = -5 : i64", 'first = "-5"'),
        ("first = -5 : i64, ", ""),
        ('reader = "Gather \'look\'"', "reader = 3 : i64"),
        ('reader = "Gather \'look\'"', 'reader = "Gather", says = 3 : i64'),
        ('reader = "Gather \'look\'"', 'reader = "Gather", says = "{}", bound = 3 : i64'),
        ("indices = {first = -5 : i64, last = 4 : i64, reader = \"Gather 'look'\"}", "indices = 1"),
        ('dtype = "int64", indices', 'dtype = "uint64", indices'),
        ('{dtype = "float32", name', '{dtype = "float32", indices = {first = 0 : i64, '
         'last = 1 : i64, reader = "x"}, name'),
    ],
)  # fmt: skip
def test_an_edited_text_that_makes_no_sense_is_refused(made, old, new):
    text = made.stage("vdevice")
    assert old in text
    with pytest.raises(InvalidModel, match="undo the last change of the text"):
        rcompiler.compile_schedule(text.replace(old, new), made.constants(), cache=False)


CHECK = [-5, 4, "Gather 'look'"]


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("checks"),  # the streams write to memory that nobody has
        lambda h: h.update(checks=[]),
        lambda h: h.update(checks=[CHECK, CHECK]),  # which nothing writes
        lambda h: h.update(checks=[CHECK] * 100_000),
        lambda h: h.update(checks=3),
        lambda h: h.update(checks=[[-5, 4]]),
        lambda h: h.update(checks=[[-5, 4, "x", 1]]),
        lambda h: h.update(checks=[[-5, 4, "x", "{}", 1]]),
        lambda h: h.update(checks=[[-5, 4, "x", "{}", "y", "z"]]),
        lambda h: h.update(checks=[[-5.0, 4, "x"]]),
        lambda h: h.update(checks=[[-5, True, "x"]]),
        lambda h: h.update(checks=[[-5, 4, 7]]),
        lambda h: h.update(checks=[[1, 4, "x"]]),
        lambda h: h.update(checks=[[-5, -4, "x"]]),
        lambda h: h.update(checks=[[-(1 << 61), 4, "x"]]),
        lambda h: h.update(checks=[[-5, 10**400, "x"]]),
    ],
)
def test_crafted_checks_are_refused(made, tmp_path, change):
    path = tmp_path / "m.rcx"
    made.save(path)
    recrafted.rewrite(path, change)
    with pytest.raises((ArtifactError, rcompiler.errors.ScheduleError), match=r"m\.rcx: "):
        rcompiler.load(path)
