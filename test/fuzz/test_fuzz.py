"""The fuzzer itself: it covers what is supported, sees what is wrong, and makes findings small."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, parser

sys.path.insert(0, str(Path(__file__).parents[1]))

import rcompiler  # noqa: E402
from fuzz import catalog, evaluate, graphs, judge, reduce, runner, sweep  # noqa: E402
from fuzz.maker import Maker, Reject  # noqa: E402
from rcompiler.emulator.faults import EmulationFault  # noqa: E402
from rcompiler.frontend import dtypes  # noqa: E402

CPU = ("cpu",)


def test_every_supported_operator_has_a_generator():
    # a block of the documents registers one of this domain, where the same process runs it first
    supported = {key for key in catalog.supported() if key[1] != "com.example"}
    assert set(catalog.generators()) == supported


def made_by(key: tuple[str, str], tries: int = 40) -> Maker:
    """A graph that begins with the operator."""
    known = catalog.generators()[key]
    opset = next((o for o in (22, 24, 26, 28) if o in known.opsets), max(known.opsets))
    for seed in range(tries):
        maker = Maker(seed, opset)
        if graphs.add(maker, key):
            return maker
    raise AssertionError(f"{key} finds no place")


@pytest.mark.parametrize("key", catalog.generators(), ids=lambda key: key[0])
def test_the_generator_writes_its_operator(key):
    """Into a model that the checker accepts, which is evaluated again to the same numbers."""

    maker = made_by(key)
    assert key in {(n.op_type, n.domain) for n in maker.nodes}
    model = maker.model()
    onnx.checker.check_model(model)
    values = evaluate.evaluate(model, maker.inputs)
    for name, value in maker.values.items():
        if name in values and isinstance(value.array, np.ndarray) and not value.drawn:
            np.testing.assert_array_equal(values[name], value.array)


@pytest.mark.parametrize("made", ["_input", "fixed"])
def test_numbers_of_leaves_are_wide(made):
    """As results are: a node that compares the types of two operands would find two."""
    maker = Maker(0, 22)
    value = getattr(maker, made)(np.array([0.1], np.float32), "float16")
    assert value.array.dtype == np.float64 and value.array == np.float64(np.float16(0.1))


def test_a_branch_that_reads_an_input_makes_no_constant():
    """The condition alone does not say what comes out."""
    from onnx import parser

    maker = Maker(0, 22)
    chosen = maker.fixed(np.array(True), "bool")
    for constant in (False, True):
        x = maker.leaf("float32", (2,), constant=constant)
        text = f"b () => (float[2] v) {{ v = Neg({x.name}) }}"
        branches = {f"{which}_branch": parser.parse_graph(text) for which in ("then", "else")}
        (y,) = maker.node("If", [chosen], **branches)
        assert y.constant == constant


def test_a_node_that_inference_refuses_finds_no_place():
    """And no type is guessed for its results."""
    maker = Maker(0, 22)
    a, b = (maker.leaf("float32", shape, constant=False) for shape in ((2, 3), (4, 3)))
    with pytest.raises(Reject):
        maker.node("Max", [a, b])
    assert not maker.nodes


@pytest.mark.parametrize(
    "op",
    ["Optional", "OptionalGetElement", "OptionalHasElement", "SequenceEmpty", "SequenceMap"],
)
def test_sequences_and_optionals_hold_what_the_standard_allows(op):
    """It has none of bfloat16."""
    write = catalog.generators()[op, ""].write
    for seed in range(60):
        maker = Maker(seed, 22)
        write(maker, op)
        assert "bfloat16" not in {v.dtype for v in maker.values.values()}


def case_with(op: str, targets=CPU) -> graphs.Case:
    """The first case whose graph has the operator."""
    for seed in range(2000):
        try:
            case = graphs.case_of(seed, targets)
        except Reject:
            continue
        if any(n.op_type == op for n in case.model.graph.node):
            return replace(case, options={"target": "cpu"})
    raise AssertionError(op)


def test_a_case_is_made_of_its_seed():
    first, second = graphs.case_of(3), graphs.case_of(3)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert first.options == second.options
    assert {n: a.tobytes() for n, a in first.feeds.items()} == {
        n: a.tobytes() for n, a in second.feeds.items()
    }


class Faulty:
    """A compiler that is wrong about one operator: what its results are multiplied with."""

    def __init__(self, op: str, factor: float) -> None:
        self.op, self.factor = op, factor

    def __call__(self, model, **options):
        nodes, extra = [], []
        for node in model.graph.node:
            copy = type(node)()
            copy.CopyFrom(node)
            if node.op_type == self.op:
                right = copy.output[0]
                copy.output[0] = f"{right}_right"
                nodes.append(copy)
                extra.append(f"{right}_factor")
                nodes.append(helper.make_node("Mul", [copy.output[0], extra[-1]], [right]))
            else:
                nodes.append(copy)
        changed = type(model)()
        changed.CopyFrom(model)
        del changed.graph.node[:]
        changed.graph.node.extend(nodes)
        factor = np.float32(self.factor)
        changed.graph.initializer.extend(
            helper.make_tensor(name, 1, [], [factor]) for name in extra
        )
        return rcompiler.compile_onnx(changed, **options)


def wrong_case() -> graphs.Case:
    """A case whose Sigmoid is of f32 and reaches a result."""
    for seed in range(3000):
        try:
            case = graphs.case_of(seed, CPU)
        except Reject:
            continue
        kinds = evaluate.value_types(case.model)
        nodes = [n for n in case.model.graph.node if n.op_type == "Sigmoid"]
        results = {v.name for v in case.model.graph.output}
        if nodes and len(case.model.graph.node) > 4:
            name = nodes[0].output[0]
            sizes = [d.dim_value for v in case.model.graph.output if v.name == name
                     for d in v.type.tensor_type.shape.dim]  # fmt: skip
            if name in results and kinds[name] == "float32" and np.prod(sizes) > 3:
                return replace(case, options={"target": "cpu", "eus": 2, "policy": "list"})
    raise AssertionError


def test_a_seeded_fault_is_seen_and_made_small():
    case, faulty = wrong_case(), Faulty("Sigmoid", 1 + 1e-4)
    assert judge.judge(case).status == "ok"
    found = judge.judge(case, compile=faulty)
    assert (found.status, found.key) == ("wrong", "Sigmoid")
    small, outcome = reduce.reduced(case, lambda c: judge.judge(c, compile=faulty))
    assert outcome.status == "wrong" and outcome.key == "Sigmoid"
    assert [n.op_type for n in small.model.graph.node] == ["Sigmoid"]
    assert small.options == {"target": "cpu"}
    assert sum(a.size for a in small.feeds.values()) < sum(a.size for a in case.feeds.values())


@pytest.mark.parametrize(("off", "most"), [(0.0, 1), (0.1, judge.RUNS + judge.MORE_RUNS)])
def test_only_what_may_be_wrong_is_looked_at_in_many_runs(monkeypatch, off, most):
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[5] x) => (float[5] y) { a = Exp(x)  b = Add(a, x)  y = Sin(b) }""")
    case = graphs.Case(model, {"x": np.linspace(-1, 1, 5, dtype=np.float32)})
    (right,) = rcompiler.compile_onnx(model)(**case.feeds)
    seeds, noisy = [], judge._noisy
    monkeypatch.setattr(judge, "_noisy", lambda *a: seeds.append(a[2]) or noisy(*a))
    found = judge.compared(case, {"y": right + np.float32(off)}, lambda stage: None)
    assert found.status == ("wrong" if off else "ok")
    assert len(seeds) <= most and seeds == [*range(len(seeds))] and (not off or len(seeds) == most)


def test_rounding_is_no_fault():
    """A few units in the last place are within what f32 may round."""
    assert judge.judge(wrong_case(), compile=Faulty("Sigmoid", 1 + 2**-23)).status == "ok"


@pytest.mark.parametrize(
    "spoil, word",
    [
        (lambda y: y[..., :-1], "shape"),
        (lambda y: y.astype(np.float64), "type"),
        (lambda y: np.where(np.arange(y.size).reshape(y.shape) == 1, np.nan, y), "nan"),
        (lambda y: -y, "elements"),
    ],
)
def test_wrong_shapes_types_and_numbers_are_seen(spoil, word):
    case = wrong_case()
    names = [v.name for v in case.model.graph.output]
    right = dict(zip(names, rcompiler.compile_onnx(case.model)(**case.feeds), strict=True))
    assert judge.compared(case, right, lambda stage: None).status == "ok"
    (node,) = [n for n in case.model.graph.node if n.op_type == "Sigmoid"][:1]
    right[node.output[0]] = spoil(right[node.output[0]])
    found = judge.compared(case, right, lambda stage: None)
    assert found.status == "wrong" and word in found.reason


@pytest.mark.parametrize(
    "error, status",
    [
        (ValueError("inside"), "internal"),
        (rcompiler.errors.UnsupportedOp("no such type"), "refused"),
        (rcompiler.errors.CompilerError("this is a defect of the compiler"), "untyped"),
        (rcompiler.errors.ShapeError("does not fit"), "refused"),
        (EmulationFault.__new__(EmulationFault, "a race"), "wrong"),
    ],
)
def test_errors_are_told_apart(error, status):
    def fails(model, **options):
        raise error

    assert judge.judge(case_with("Relu"), compile=fails).status == status


def test_a_count_that_fits_by_chance_is_no_finding():
    """Two elements of this operand are not zero; of others there are not."""
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (int64[2, 3] x, int64[2, 3] w) => (int64[2, 3] y) { at = NonZero(x) y = MatMul(at, w) }"""
    x = np.int64([[0, 1, 0], [0, 0, 4]])
    case = graphs.Case(parser.parse_model(text), {"x": x, "w": x})
    found = judge.judge(case)
    assert found.status == "no graph" and "are contracted" in found.reason


def test_crashes_and_hangs_are_outcomes(monkeypatch, tmp_path, capsys):
    """Of a worker that dies, and of one that does not answer; all others are judged."""
    import os
    import time

    def kind(seed, targets, report):
        report("compile")
        if seed == 1:
            os.abort()
        if seed == 2:
            time.sleep(60)
        return judge.Outcome("ok")

    monkeypatch.setitem(runner.kinds.KINDS, "graph", kind)
    code = runner.main(["--cases=4", "--kinds=graph", "--timeout=2", "--workers=1"])
    out = capsys.readouterr().out
    assert code == 1 and "2 ok" in out and "CRASH compile: SIGABRT" in out and "HANG compile" in out


@pytest.mark.parametrize("given, code", [("--commit-seeds", 0), ("--first=42", 1)])
def test_defects_of_the_fuzzer_are_warnings_where_a_commit_gives_the_seeds(
    monkeypatch, capsys, given, code
):
    """Those of the compiler are none, nor those that the compiler has a part in."""

    def fails(seed, targets, report):
        report("judge")
        raise ValueError("no such operator")

    def fails_inside(seed, targets, report):
        report("judge")
        rcompiler.compile_onnx(7)

    monkeypatch.setattr(runner, "commit", lambda folder: "0000002a" + "f" * 32)
    run = [given, "--kinds=graph", "--cases=2", "--workers=1"]
    monkeypatch.setitem(runner.kinds.KINDS, "graph", fails)
    assert runner.main(run) == code
    out = capsys.readouterr().out
    assert ("warning: HARNESS ValueError at test_fuzz.py:fails (2 times)" in out) == (code == 0)
    assert "  python test/fuzz --kinds=graph --seed=42\n" in out
    monkeypatch.setitem(runner.kinds.KINDS, "graph", fails_inside)
    assert runner.main(run) == 1
    out = capsys.readouterr().out
    assert "INTERNAL" in out and "warning" not in out


@pytest.mark.parametrize("found", ["0000002a" + "f" * 32, "0000002a" + "f" * 32 + "-dirty"])
def test_a_commit_has_seeds_of_its_own(monkeypatch, capsys, found):
    monkeypatch.setitem(runner.kinds.KINDS, "graph", lambda *_: judge.Outcome("ok"))
    monkeypatch.setattr(runner, "commit", lambda folder: found)
    assert runner.main(["--commit-seeds", "--kinds=graph", "--cases=1", "--workers=1"]) == 0
    assert "seeds from 42 on" in capsys.readouterr().out


def test_without_a_commit_there_are_no_seeds_of_it(monkeypatch, capsys):
    monkeypatch.setattr(runner, "commit", lambda folder: None)
    assert runner.main(["--commit-seeds", "--kinds=graph", "--cases=1"]) == 1
    assert "--first=N" in capsys.readouterr().err


def test_a_short_run_finds_nothing(capsys):
    given = ["--kinds=graph", "--cases=12", "--first=40", "--targets=cpu", "--workers=1"]
    assert runner.main(given) == 0
    assert "of 12" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["passes", "schedules"])
def test_mutants_are_judged(kind):
    """Of a graph whose schedule has several instructions to change."""
    found = runner.kinds.KINDS[kind](5, CPU, lambda stage: None)
    assert found.status == "ok"


def test_passes_are_left_out_and_exchanged():
    from fuzz import mutate_passes

    with mutate_passes.shuffled(3) as told:
        rcompiler.compile_onnx(wrong_case().model, cache=False)
    assert any(each.startswith("without ") for each in told)
    assert any(" before " in each for each in told)


def test_a_schedule_that_computes_something_else_is_seen(monkeypatch):
    """Accepted, and of another program: here always of one that is wrong about its numbers."""
    from fuzz import mutate_schedules

    class Other:
        def __call__(self, **feeds):
            return [np.float32(1)]

    monkeypatch.setattr(mutate_schedules, "schedule_artifact", lambda *given, **options: None)
    monkeypatch.setattr(mutate_schedules, "model_of", lambda artifact: Other())
    found = mutate_schedules.schedules(5, CPU, lambda stage: None)
    assert found.status == "wrong" and "accepted" in found.reason


def test_changes_of_a_schedule_are_small():
    """Lines that stay are those that were there; what was done is told."""
    import random

    from fuzz import mutate_schedules

    model = rcompiler.compile_onnx(wrong_case().model, eus=2, cache=False)
    for form in mutate_schedules.FORMS:
        text, done = model.stage(form), set()
        for seed in range(40):
            what, mutant = mutate_schedules.mutated(text, random.Random(seed))
            assert what and abs(len(mutant.split("\n")) - len(text.split("\n"))) <= 2
            different = set(mutant.split("\n")) ^ set(text.split("\n"))
            assert len(different) <= 4
            done |= {each.partition(":")[0] for each in what.split("; ")}
        assert {"swap", "drop", "repeat", "number"} <= done


@pytest.mark.parametrize("change", ["_swap", "_drop", "_repeat"])
def test_instructions_of_several_lines_are_changed_whole(change):
    """The short text goes on in a line that is indented more; a line of one and a line of another
    would be an instruction that nobody wrote, which may as well be right."""
    import random

    from fuzz import mutate_schedules

    first = ["    run a: k[0](in0)", "        -> a"]
    second = ["    wait 1"]
    third = ["    run b: k[0](a)", "        -> b"]
    allowed = {
        "_swap": [[third, second, first], [second, first, third], [first, third, second]],
        "_drop": [[second, third], [first, third], [first, second]],
        "_repeat": [
            [first, first, second, third],
            [first, second, second, third],
            [first, second, third, third],
        ],
    }
    begin, end = ["  eu 0 {"], ["  }"]
    expected = {"\n".join(begin + sum(parts, []) + end) for parts in allowed[change]}
    found = set()
    for seed in range(60):
        lines = [*begin, *first, *second, *third, *end]
        getattr(mutate_schedules, change)(lines, random.Random(seed))
        found.add("\n".join(lines))
    assert found == expected


def test_changes_of_a_schedule_leave_the_signature_alone():
    """Which tensor of the caller a buffer is, another of its size being as legal."""
    import random

    from fuzz import mutate_schedules

    lines = [
        f'"vdevice.buffer"() {{bytes = 16 : i64, index = {index} : i64, kind = "{kind}", '
        f'offset = 0 : i64, sym_name = "b{index}", type = tensor<4xf32>}} : () -> ()'
        for kind in ("input", "output")
        for index in range(2)
    ]
    kept, changed = re.compile(r"(?:index|offset) = \d+"), 0
    for seed in range(100):
        mutant = mutate_schedules.mutated("\n".join(lines), random.Random(seed))[1].split("\n")
        assert [kept.findall(line) for line in mutant] == [kept.findall(line) for line in lines]
        changed += mutant != lines
    assert changed


@pytest.mark.parametrize(
    "line, part",
    [
        ("  temp op.view: 160xf16 at 640 in op", "at 640 in op"),
        (
            '"vdevice.buffer"() {alias_of = @op, bytes = 320 : i64, kind = "temp", offset = 640 : '
            'i64, sym_name = "op.view", type = tensor<160xf16>} : () -> ()',
            "offset = 640 :",
        ),
    ],
)
def test_changes_of_a_schedule_leave_the_parts_of_buffers_alone(line, part):
    """Who reads another part of a buffer computes something else, and rightly so."""
    from fuzz import mutate_schedules

    own = line.replace(part, part.replace(" in op", "")).replace("alias_of = @op, ", "")
    place = own.index("640")
    assert place in [number.start() for number in mutate_schedules._numbers(own)]
    assert line.index("640") not in [n.start() for n in mutate_schedules._numbers(line)]


def test_changes_of_a_schedule_leave_the_names_of_buffers_alone():
    """With another buffer of that size a task computes something else, and rightly so."""
    import random

    from fuzz import mutate_schedules

    line = (
        '"vdevice.run"() {buffers = [@Sub_0.0.view, @Sub_0.1.view], count = 1 : i64, first = 0 : '
        'i64, kernel = @k_1, operator = "Loop_3"} : () -> ()'
    )
    changed = set()
    for seed in range(60):
        lines = [line]
        mutate_schedules._number(lines, random.Random(seed))
        assert "buffers = [@Sub_0.0.view, @Sub_0.1.view]" in lines[0]
        changed.add(lines[0])
    assert len(changed) > 5


def test_files_with_other_bytes_are_refused_or_read():
    assert runner.kinds.KINDS["models"](5, CPU, lambda stage: None).status == "ok"


def test_other_fields_leave_messages():
    """With right lengths, most of them models still: the importer sees more than the parser."""
    import random

    from fuzz import mutate_models

    data = wrong_case().model.SerializeToString()
    assert mutate_models._parsed(data) and mutate_models._parsed(b"\xff") is None
    assert b"".join(f.encoded() for f in mutate_models._parsed(data)) == data
    made, read = {data}, 0
    for seed in range(100):
        mutant = mutate_models.with_other_fields(data, random.Random(seed))
        assert mutate_models._parsed(mutant) is not None
        made.add(mutant)
        try:
            read += bool(onnx.load_from_string(mutant).graph.node)
        except Exception:  # protobuf's own: a field of another kind, or text that is none
            continue
    assert len(made) > 80 and read > 60


def test_a_run_says_what_it_tried(capsys):
    """Graphs by target, and byte mutations by kind of file."""
    given = ["--kinds=graph,models", "--cases=8", "--first=40", "--workers=1"]
    assert runner.main(given) == 0
    out = capsys.readouterr().out
    counted = [int(n) for n in re.findall(r"(\d+) on (?:cpu|cuda)", out)]
    assert "graphs judged: " in out and 0 < sum(counted) <= 4
    (mutants,) = re.findall(r"byte mutations: (\d+) of models", out)
    assert int(mutants) % 100 == 0 and int(mutants) > 0


def test_errors_of_the_importer_are_seen(monkeypatch):
    from fuzz import mutate_models

    def fails(data):
        raise KeyError("inside")

    monkeypatch.setattr(mutate_models, "import_onnx", fails)
    assert mutate_models.models(5, CPU, lambda stage: None).status == "internal"


def test_the_sweep_reaches_operators_with_each_type():
    assert {("Add", ""), ("LSTM", ""), ("QLinearConv", "")} <= {key for key, _ in sweep.pairs()}
    for dtype in ("float32", "float16", "bfloat16", "float64", "int8", "uint64"):
        case = sweep.case_of(("Add", ""), dtype, "cpu")
        assert "Add" in {n.op_type for n in case.model.graph.node}
        assert dtype in {dtypes.name_of(array) for array in case.feeds.values()}


def test_the_sweep_takes_turns_at_targets():
    """In each turn all operators and types, in as many turns as there are targets all cases."""
    count = len(sweep.TARGETS)
    turns = [sweep.turn(seed) for seed in range(7, 7 + count)]
    pairs = len(sweep.pairs())
    assert all({n // count for n in turn} == set(range(pairs)) for turn in turns)
    assert all(len(turn) == pairs for turn in turns)
    assert {n for turn in turns for n in turn} == set(range(sweep.size()))
    first = sweep.turn(7)
    assert {n % count for n in first[:count]} == set(range(count))  # none has to wait for all pairs


def test_seeds_of_other_kinds_are_cases_of_the_sweep():
    """They may be any number, as those of a run with new seeds are."""
    outcomes = [sweep.sweep(n, ("none",), lambda stage: None) for n in (0, sweep.size(), 2**32 - 1)]
    assert {o.status for o in outcomes} == {"no graph"}


def test_the_sweep_takes_each_target_once():
    cases = range(4 * len(sweep.TARGETS))
    assert sweep.TARGETS[-1] == "cuda:emulated" and len(set(sweep.TARGETS)) == len(sweep.TARGETS)
    outcomes = [sweep.sweep(n, ("none",), lambda stage: None) for n in cases]
    assert {o.status for o in outcomes} == {"no graph"}
    assert sweep.sweep(0, ("cpu",), lambda stage: None).status == "ok"
