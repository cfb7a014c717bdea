"""ONNX's standard backend cases, generated once and kept under build/ per operator."""

import glob
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
FOLDER = Path(__file__).parents[2] / "build/backend_cases" / onnx.__version__


@dataclass
class Case:
    """sets: [(inputs, expected outputs), ...]; op: the operator the case is about."""

    name: str
    op: str
    model: onnx.ModelProto
    sets: list
    rtol: float
    atol: float


def _protos(folder: str, kind: str, infos) -> list:
    out = []
    for i, info in enumerate(infos):
        loaded: list = []
        Runner._load_proto(None, f"{folder}/{kind}_{i}.pb", loaded, info.type)
        out.append(loaded[0] if loaded else None)
    return out


def _real(case):
    model = onnx.load(LIGHT / f"light_{case.model_name}.onnx")
    weights = {t.name for t in model.graph.initializer}
    inputs = [
        Runner.generate_dummy_data(v, seed=0, name=case.name)
        for v in model.graph.input
        if v.name not in weights
    ]
    count = len(model.graph.output)
    paths = [LIGHT / f"light_{case.model_name}_output_{i}.pb" for i in range(count)]
    return model, [(inputs, [numpy_helper.to_array(onnx.load_tensor(p)) for p in paths])]


def _data_of(case):
    """(model, [(inputs, outputs), ...]) of a case."""
    if case.kind == "real":
        return _real(case)
    if case.model is not None:
        return case.model, [
            ([_normal(x) for x in a], [_normal(y) for y in b]) for a, b in case.data_sets
        ]
    model = onnx.load(case.model_dir + "/model.onnx")
    sets = []
    for folder in sorted(glob.glob(case.model_dir + "/test_data_set*")):
        count = len(glob.glob(folder + "/input_*.pb"))
        inputs = _protos(folder, "input", list(model.graph.input)[:count])
        sets.append((inputs, _protos(folder, "output", model.graph.output)))
    return model, sets


def _normal(x):

    return _normalize_tensor(x)


def _op_of(model) -> str:
    """The operator a case is about: of its last node that is not a constant."""
    nodes = [n for n in model.graph.node if n.op_type != "Constant"] or model.graph.node
    if not nodes:
        return "none"
    return (f"{nodes[-1].domain}." if nodes[-1].domain else "") + nodes[-1].op_type


def cached(kind: str) -> Path:
    """Folder <operator>/<case>.pkl of a kind of cases; generated on first use."""
    folder = FOLDER / kind
    if not (folder / "complete").exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = load_model_tests(kind=kind)
        for case in loaded:
            model, sets = _data_of(case)
            op = "light" if kind == "real" else _op_of(model)
            path = folder / op / f"{case.name}.pkl"
            path.parent.mkdir(parents=True, exist_ok=True)
            data = (case.name, op, model.SerializeToString(), sets, case.rtol, case.atol)
            path.write_bytes(pickle.dumps(data))
        (folder / "complete").touch()
    return folder


def load_case(path: Path) -> Case:
    name, op, model, sets, rtol, atol = pickle.loads(path.read_bytes())
    return Case(name, op, onnx.ModelProto.FromString(model), sets, rtol, atol)
