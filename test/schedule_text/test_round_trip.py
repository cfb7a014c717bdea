"""The schedule form of a module is the whole module: MLIR prints what is read again as before."""

import json
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import LOOPS, SMALL
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.host import target_device
from rcompiler.errors import InvalidModel
from rcompiler.frontend import import_onnx
from rcompiler.options import CompileOptions
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.schedule_text import is_schedule_form, mlir_form, schedule_form
from rcompiler.schedule_text.folding import WIDTH
from rcompiler.tools import models


@contextmanager
def parsed(text):
    with dialects.load(ir.Context()), ir.Location.unknown():
        yield ir.Module.parse(text)


def usual(text):
    """A module as MLIR prints it."""
    with parsed(text) as module:
        return module.operation.get_asm()


def check(text):
    """Of a module as MLIR prints it: there and back. Returns the schedule form."""
    short = schedule_form(text)
    assert is_schedule_form(short) and not is_schedule_form(text)
    assert usual(mlir_form(short).text) == text
    return short


# -- built-in networks
def stages(proto, target, eus=2, **options):
    """S3 and S4 of a model."""
    imported, chosen = import_onnx(proto), CompileOptions(target, eus=eus, **options)
    lowering = Compilation(chosen, target_device(target), None).lowering(chosen)
    with dialects.load(ModelContext(imported.constants)) as context, ir.Location.unknown():
        module = imported.parse(context)
        runner([*lowering.to_rtask(), *lowering.to_rkernel()], context)(module)
        yield module.operation.get_asm()
        runner(lowering.to_vdevice(), context)(module)
        yield module.operation.get_asm()


@pytest.mark.parametrize("target", ["cpu:v3", "cuda:h200"])
@pytest.mark.parametrize("network", SMALL)
def test_of_every_built_in_network(network, target):
    for text in stages(models.build(network, **SMALL[network]), target):
        short = check(text)
        assert max(map(len, short.splitlines())) <= WIDTH
        assert not short.startswith("schedule 1 in order")
    assert '"vdevice.' not in short and '"rtask.kernel"' not in short


@pytest.mark.parametrize("target", ["cpu:v3", "cuda:h200"])
@pytest.mark.parametrize("network", LOOPS)
def test_of_networks_with_loops(network, target):
    _, text = stages(models.build(network, **LOOPS[network]), target)
    short = check(text)
    assert short.count("repeat i < ") == text.count('"vdevice.repeat"') > 0


def test_of_queues():
    proto = models.build("resnet50", **SMALL["resnet50"])
    _, text = stages(proto, "cpu:v3", policy="dynamic")
    assert "  queue 0" in check(text)


# -- small schedules of any form
KERNEL = """
"rtask.kernel"() ({
^bb0(%a: tensor<64xf32>):
  "rtask.yield"(%a) : (tensor<64xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 64>, tile = array<i64: 1>,
    register_tile = array<i64: 1>, vector_dim = 0 : i64, lanes = 1 : i64, tasks = 64 : i64,
    on_chip_bytes = 8 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = SOURCE,
    reads = [[array<i64: 0, 1, 0, 1>]], writes = [[array<i64: 0, 1, 0, 1>]]} : () -> ()
"""
COUNT = 3  # iterations of each repeat
LONG = "of all that was tried, none was better. " * 6


def quoted(name):
    """A string of MLIR."""
    plain = "abcdefghijklmnopqrstuvwxyz0123456789_.$ /{}+-"
    each = (c if c in plain else "".join(f"\\{b:02X}" for b in c.encode()) for c in name)
    return '"' + "".join(each) + '"'


NAMES = st.text('ab_.0$ /"\\{}+-\né', min_size=1, max_size=12)
FIXED = NAMES.filter(lambda name: not {*"{}"} & {*name})  # in repeats others move
MORE = st.sampled_from(
    [
        "",
        ", note",
        ", x = 3 : i64, y = -2.5e+00 : f64, z = 0x7FF0000000000000 : f64",
        ', "a b" = [1 : i8, 2 : i64, -3 : i64], u = {v = true, w = "1 : i64 // no"}',
        f', reason = "{LONG}", m = affine_map<(i) -> (i - 1)>, t = tensor<?x4xi64>',
        ', empty = {}, none = [], s = @"a b"::@c, d = dense<[1, 2]> : tensor<2xi64>',
    ]
)
VALUES = st.sampled_from(
    ["dense<0.0>", "dense_resource<w_1>", "dense_resource<SAME>", f'dense<"0x{"0123abcd" * 64}">']
)


@st.composite
def programs(draw):
    """A valid program in generic form: buffers and events of any name, loops, lists or queues."""
    unit = draw(st.sampled_from(["eu", "queue"]))
    names = draw(st.lists(NAMES, min_size=3, max_size=6, unique=True))
    names = [f"n{number}{name}" for number, name in enumerate(names)]
    event, source, *targets = names
    depth = draw(st.integers(0, 2)) if unit == "eu" else 0
    lines = [
        f'"vdevice.buffer"() {{sym_name = {quoted(source)}, kind = "constant", offset = 0 : i64, '
        f"bytes = 256 : i64, type = tensor<64xf32>, value = "
        f"{draw(VALUES).replace('SAME', quoted(source))} : tensor<64xf32>{draw(MORE)}}} : () -> ()",
        f'"vdevice.event"() {{sym_name = {quoted(event)}{draw(MORE)}}} : () -> ()',
    ]
    for target in targets:
        size = draw(st.sampled_from([256, 300]))
        alias = draw(st.sampled_from(["", f", alias_of = @{quoted(source)}"]))
        lines.append(
            f'"vdevice.buffer"() {{sym_name = {quoted(target)}, kind = "temp", offset = 64 : i64, '
            f"bytes = {size} : i64, type = tensor<64xf32>{alias}{draw(MORE)}}} : () -> ()"
        )

    def repeated(inner):
        for _ in range(depth):
            inner = f'"vdevice.repeat"() ({{\n{inner}\n}}) {{count = {COUNT} : i64}} : () -> ()'
        return inner

    letters = "".join(f"+{COUNT**number}{letter}" for number, letter in enumerate("ij"[:depth]))
    family = f"f.{{1{letters}}}.x" if depth else "f"

    def steps(name):
        found = draw(st.lists(st.integers(0, 2), min_size=depth, max_size=depth))
        return f", {name}_steps = array<i64: {', '.join(map(str, found))}>" if depth else ""

    lines.append(repeated(f'"vdevice.event"() {{sym_name = "{family}"}} : () -> ()'))

    def run(inside):
        first, count = draw(st.integers(0, 4)), draw(st.integers(1, 4))
        stride, by_unit = draw(st.integers(1, 3)), draw(st.integers(0, 3))
        target = draw(st.sampled_from(targets))
        return (
            f'"vdevice.run"() {{operator = {quoted(draw(FIXED))}, '
            f"kernel = @k, first = {first} : i64, count = {count} : i64, stride = {stride} : i64, "
            f"eu_step = {by_unit} : i64, buffers = [@{quoted(source)}, @{quoted(target)}]"
            f"{steps('first') if inside else ''}{draw(MORE)}}} : () -> ()"
        )

    def step(inside=False):
        kind = draw(st.sampled_from(["run", "wait", "signal"]))
        if kind == "run":
            return run(inside)
        of = f'"{family}"' if inside else quoted(event)
        count = f", count = 2 : i64{steps('count') if inside else ''}" if kind == "wait" else ""
        return f'"vdevice.{kind}"() {{event = @{of}{count}}} : () -> ()'

    plain = not any({*"{}"} & {*name} for name in names)  # in repeats those would move
    for first, last in ((0, 0), (1, 3)):
        body = [step() for _ in range(draw(st.integers(0, 3)))]
        if plain and depth:
            body.append(repeated("\n".join(step(True) for _ in range(draw(st.integers(1, 3))))))
        if unit == "eu":
            body.append('"vdevice.barrier"() : () -> ()')
        inside = "\n".join(body) or "^bb0:"
        lines.append(
            f'"vdevice.{unit}"() ({{\n{inside}\n}}) '
            f"{{first = {first} : i64, last = {last} : i64{draw(MORE)}}} : () -> ()"
        )
    parts = [
        f'"vdevice.device"() {{sym_name = "d", eus = 4 : i64{draw(MORE)}}} : () -> ()',
        '"vdevice.program"() ({\n' + "\n".join(lines) + "\n}) {sym_name = \"p\", device = @d, "
        f"arena = 4096 : i64, constants = 256 : i64{draw(MORE)}}} : () -> ()",
        KERNEL.replace("SOURCE", json.dumps(draw(st.sampled_from(["roller", LONG])))),
        "func.func @main() attributes {rtask.inputs = [], rtask.outputs = [{dtype = \"uint8\", "
        f'name = {quoted(draw(NAMES))}, type = tensor<4xi8>}}]}} {{\n'
        '"vdevice.launch"() {program = @p} : () -> ()\nreturn\n}',
    ]  # fmt: skip
    return "\n".join(draw(st.permutations(parts)))


@settings(max_examples=60)
@given(programs())
def test_of_any_small_schedule(text):
    short = check(usual(text))
    assert max(map(len, short.splitlines())) <= WIDTH


# -- what else a module may hold
@pytest.mark.parametrize(
    "text",
    [
        "module {\n}",
        'module @"a b" attributes {a.x = 1 : i64} {\n}',
        "func.func @f(%x: f32) -> f32 { return %x : f32 }\nfunc.func private @g()",
        "gpu.module @m { gpu.func @k() kernel { gpu.return } }",
        'func.func @main() { "vdevice.launch"() {program = @p} : () -> () return }\n'
        '"vdevice.device"() {sym_name = "d", eus = 1 : i64} : () -> ()\n'
        '"vdevice.program"() ({ "vdevice.eu"() ({^bb0:}) {first = 0 : i64, last = 0 : i64} '
        ": () -> () }) "
        '{sym_name = "p", device = @d, arena = 0 : i64, constants = 0 : i64} : () -> ()',
    ],
)
def test_of_other_modules(text):
    check(usual(text))


def test_what_the_form_has_no_words_for_stays_as_mlir_has_it():
    """A type with an encoding: the whole program is printed as before."""
    text = usual(
        '"vdevice.device"() {sym_name = "d", eus = 1 : i64} : () -> ()\n"vdevice.program"() ({\n'
        '"vdevice.buffer"() {sym_name = "x", kind = "temp", offset = 0 : i64, bytes = 64 : i64, '
        "type = tensor<4xf32, 7 : i8>} : () -> ()\n"
        '"vdevice.eu"() ({^bb0:}) {first = 0 : i64, last = 0 : i64} : () -> () }) '
        '{sym_name = "p", device = @d, arena = 64 : i64, constants = 0 : i64} : () -> ()'
    )
    assert '\n"vdevice.program"() ({\n' in check(text)


def test_text_that_is_no_module():
    for text in ("", "schedule 1", "func.func @f()", "module {"):
        with pytest.raises(InvalidModel, match="print it with rc-opt"):
            schedule_form(text)
