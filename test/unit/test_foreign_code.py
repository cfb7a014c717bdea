"""What is written in C++ by others and is given bytes or text: each place is listed, with why it
may be.

A stranger's bytes end a process now and then, whoever reads them. So they are read by a worker, by
the process of a command or of a request, or, of protobuf, by a parser that is fuzzed. A new place
fails here until somebody says which of these it is. That the user's process survives them is tested
in `test/frontend/test_onnx_worker.py`.
"""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "rcompiler"

WORKER = "runs in a worker, which may end"
APART = "runs in the process of a request or of a command, which may end"
OURS = "reads what this process, or a worker of it, has written"
NAMES = "looks up a name in a table of the package"
UPB = "protobuf's upb: fuzzed by its makers, bounded in depth, and 2 GB of bytes at most"
PYTHON = "is written in Python; what of it is not is refused a stranger's nodes"
CODE = "loads a library of the system or of a package, by a name of ours"

# Of the onnx package what only builds messages or takes them apart, in Python.
_HARMLESS = ("helper", "numpy_helper", "onnx")
# Methods and constructors that read bytes or text, whatever they are called on.
_READERS = {
    *("ParseFromString", "FromString", "MergeFromString", "get_function_with_opset_version"),
    *("get_context_dependent_function", "get_context_dependent_function_with_opset_version"),
    *("parse_assembly", "parse_bitcode", "add_object_file", "create_mcjit_compiler"),
    *("ReferenceEvaluator", "CDLL", "PyDLL", "LoadLibrary"),
}
# Classes of MLIR whose `parse` reads text or bytecode.
_PARSED = {"Module", "Operation", "Attribute", "Type", "AffineMap", "PassManager", "Location"}

SITES = {
    "codegen/llvm_worker.py": {"parse_assembly": WORKER},
    "codegen/llvm_ir.py": {"Module.parse": OURS},
    "codegen/translation.py": {"PyDLL": CODE},
    "driver/from_schedule.py": {"Module.parse": APART},
    "driver/gpu_image.py": {"Attribute.parse": OURS, "Module.parse": OURS},
    "driver/kernel_code.py": {"Attribute.parse": OURS, "Module.parse": OURS},
    "driver/stage_texts.py": {"Module.parse": OURS},
    "frontend/contrib/domains.py": {"onnx.defs.get_schema": NAMES},
    "frontend/contrib/quantised.py": {"onnx.parser.parse_function": OURS},
    "frontend/cut.py": {"onnx.defs.has": NAMES},
    "frontend/dynamic_lstm.py": {
        "onnx.parser.parse_function": OURS,
        "onnx.parser.parse_graph": OURS,
    },
    "frontend/evaluate.py": {"ReferenceEvaluator": PYTHON, "onnx.reference.ops.load_op": NAMES},
    "frontend/functions.py": {
        "ParseFromString": UPB,
        "get_function_with_opset_version": NAMES,
        "onnx.defs.get_schema": NAMES,
    },
    "frontend/inferred_types.py": {"FromString": UPB},
    "frontend/load.py": {"ParseFromString": UPB},
    "frontend/nodes.py": {"onnx.defs.onnx_opset_version": NAMES},
    "frontend/onnx_graph.py": {"Module.parse": OURS},
    "frontend/registry.py": {"onnx.defs.get_schema": NAMES},
    "frontend/validity.py": {"onnx.defs.onnx_opset_version": NAMES},
    "kernelgen/lower.py": {"PassManager.parse": OURS},
    "linalg/conditions.py": {"Type.parse": OURS},
    "onnx_backend.py": {"onnx.defs.onnx_opset_version": NAMES},
    "passes/constants/fold.py": {"Attribute.parse": OURS},
    "passes/gpu/fixups.py": {"Attribute.parse": OURS, "Type.parse": OURS},
    "passes/gpu/lowering.py": {"Attribute.parse": OURS, "PassManager.parse": OURS},
    "passes/gpu/math_ops.py": {"Module.parse": OURS},
    "passes/gpu/scalars.py": {"Attribute.parse": OURS},
    "passes/ir/tensor_ir.py": {"Attribute.parse": OURS},
    "passes/tiles/box.py": {"Attribute.parse": OURS},
    "passes/tiles/thread_nest.py": {"Attribute.parse": OURS},
    "passes/roller_tidy_tasks.py": {"PassManager.parse": OURS},
    "passes/roller_tile.py": {"Type.parse": OURS},
    "passes/rtask_lift_scales.py": {"Attribute.parse": OURS},
    "passes/schedule/program_lines.py": {"Type.parse": OURS},
    "passes/vdevice_to_cpu.py": {"Module.parse": OURS},
    "passes/vdevice_to_gpu.py": {"Module.parse": OURS},
    "profiler/code.py": {"Module.parse": OURS},
    "profiler/gpu_bench_text.py": {"Module.parse": OURS},
    "profiler/profile.py": {"Module.parse": OURS},
    "runtime/image.py": {"CDLL": CODE},
    "support/libc.py": {"CDLL": CODE},
    "support/onnx_worker.py": {
        "FromString": WORKER,
        "get_context_dependent_function_with_opset_version": WORKER,
        "onnx.checker.check_model": WORKER,
        "onnx.defs.get_schema": WORKER,
        "onnx.shape_inference.infer_node_outputs": WORKER,
        "onnx.shape_inference.infer_shapes": WORKER,
    },
}


def foreign_calls(source: str) -> set[str]:
    """The calls in the text of a file that are given bytes, text or names to read."""
    tree = ast.parse(source)
    found = set()
    names = _of_onnx(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        first, _, rest = called.partition(".")
        *owners, last = called.split(".")
        if last in _READERS:
            found.add(last)
        elif last == "parse" and owners and owners[-1] in _PARSED:
            found.add(f"{owners[-1]}.parse")
        elif first in names:
            whole = f"{names[first]}.{rest}".strip(".")
            module, *inside = whole.split(".")[1:]
            # not constructors of messages, nor what a class is made of
            if module not in _HARMLESS and module.islower() and "backend" not in module:
                found.add(".".join(["onnx", module, *inside]))
    return found


def _of_onnx(tree: ast.Module) -> dict[str, str]:
    """What names of a file stand for in the onnx package."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "onnx":
                    names[alias.asname or "onnx"] = alias.name if alias.asname else "onnx"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            if (node.module or "").partition(".")[0] == "onnx":
                names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def test_each_place_is_listed():
    found = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        if path.is_relative_to(ROOT / "tools"):  # commands: each is a process of its own
            continue
        if calls := foreign_calls(path.read_text()):
            found[path.relative_to(ROOT).as_posix()] = calls
    assert dict(found) == {file: set(calls) for file, calls in SITES.items()}


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("import onnx\nonnx.checker.check_model(m)", {"onnx.checker.check_model"}),
        ("import onnx.inliner as i\ni.inline_local_functions(m)",
         {"onnx.inliner.inline_local_functions"}),
        ("from onnx import version_converter as v\nv.convert_version(m, 17)",
         {"onnx.version_converter.convert_version"}),
        ("from onnx.compose import merge_models\nmerge_models(a, b)",
         {"onnx.compose.merge_models"}),
        ("import onnx\nonnx.load(p)", {"onnx.load"}),
        ("ir.Module.parse(t)", {"Module.parse"}),
        ("llvm.parse_bitcode(b)", {"parse_bitcode"}),
        ("from onnx import helper, ModelProto\nModelProto()\nhelper.make_node('Relu')", set()),
    ],
)  # fmt: skip
def test_a_place_is_seen(source: str, calls: set[str]):
    assert foreign_calls(source) == calls
