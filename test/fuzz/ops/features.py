"""Features of tables and texts, optimizers, and random numbers."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from fuzz.catalog import generator
from fuzz.maker import FLOATS, Maker
from rcompiler.frontend import dtypes

ML, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"


@generator("Binarizer", domain=ML)
def binarizer(g: Maker, op: str) -> None:
    types = g.types(op, "T", ML)
    g.node(op, [g.value(types)], domain=ML, threshold=g.pick([None, 0.5, -1.0]))


@generator("LabelEncoder", domain=ML)
def label(g: Maker, op: str) -> None:
    tensors = g.has("keys_tensor")
    types = [t for t in g.types(op, "T1", ML) if t in ("int64", "float32") or tensors]
    kind = g.dtype(g.among(types, ("int64",)))
    array = g.numbers.integers(-20, 21, g.shape(0, 3))
    x = g.fixed(array, kind) if g.chance(0.4) else g._input(array, kind)
    count = g.int(1, 6)
    keys = [int(k) for k in g.numbers.permutation(41)[:count] - 20]
    if kind not in ("int64", "float32"):
        found: dict[str, object] = _tensors(keys, kind)
    elif kind == "float32":
        found = {"keys_floats": [float(k) for k in keys], "values_int64s": list(range(count)),
                 "default_int64": -7}  # fmt: skip
    elif g.chance(0.5):
        floats = [float(v) for v in g.numbers.integers(-9, 9, count)]
        found = {"keys_int64s": keys, "values_floats": floats, "default_float": 0.5}
    elif g.chance(0.5):
        found = {"keys_int64s": keys, "values_int64s": list(range(count)), "default_int64": -7}
    else:
        found = _tensors(keys, kind)
    g.node(op, [x], domain=ML, **found)


def _tensors(keys: list[int], kind: str) -> dict[str, object]:
    """A map from a type to itself, in tensors."""
    dtype = dtypes.numpy_dtype(kind)
    found = {"keys": np.array(keys), "values": np.arange(len(keys)), "default": np.array([-3])}
    return {f"{n}_tensor": numpy_helper.from_array(a.astype(dtype)) for n, a in found.items()}


@generator("TfIdfVectorizer")
def tf_idf(g: Maker, op: str) -> None:
    x = g.value(["int64", "int32"], rank=(1, 2), low=0, high=20, empty=False, fresh=0.8)
    words, pairs = g.int(1, 4), g.int(1, 3)
    single = [int(v) for v in g.numbers.permutation(20)[:words]]
    double = [int(v) for v in g.numbers.integers(0, 20, 2 * pairs)]
    if len({tuple(double[i : i + 2]) for i in range(0, 2 * pairs, 2)}) < pairs:
        double = double[:2]
    total = words + len(double) // 2
    g.node(op, [x], mode=g.pick(["TF", "IDF", "TFIDF"]), min_gram_length=1,
           max_gram_length=g.int(1, 2), max_skip_count=g.int(0, 2), ngram_counts=[0, words],
           ngram_indexes=[int(i) for i in g.numbers.permutation(total)],
           pool_int64s=single + double,
           weights=[g.random.uniform(0.5, 2) for _ in range(total)])  # fmt: skip


_STATES = {"Adagrad": 1, "Adam": 2, "Momentum": 1}


@generator(*_STATES, domain=TRAINING)
def optimizer(g: Maker, op: str) -> None:
    count, dtype = g.int(1, 2), g.dtype(g.among(g.types(op, "T1", TRAINING), ("float32",)))
    tensors = [g.value([dtype], (0, 3)) for _ in range(count)]
    operands = [*tensors, *(g.like(x) for x in tensors)]
    for _ in range(_STATES[op]):
        operands += [g.like(x, low=0, high=4, fresh=0.8) for x in tensors]
    rate = g.value([dtype], shape=(), low=0, high=1)
    time = g.fixed(np.array(g.int(0, 3)))
    found: dict[str, object] = {"norm_coefficient": g.pick([0.0, 0.1])}
    if op == "Momentum":
        found |= {"alpha": 0.9, "beta": 0.7, "mode": g.pick(["standard", "nesterov"])}
    elif op == "Adagrad":
        found |= {"decay_factor": 0.1, "epsilon": 1e-3}
    else:
        found |= {
            "alpha": g.pick([0.9, 0.8]),
            "beta": 0.99,
            "epsilon": 1e-3,
            "norm_coefficient_post": 0.1,
        }
    g.node(op, [rate, time, *operands], count * (1 + _STATES[op]), domain=TRAINING, **found)


@generator("RandomNormal", "RandomUniform")
def drawn(g: Maker, op: str) -> None:
    to = g.dtype(g.types(op))
    g.node(op, [], shape=list(g.shape(1, 3)), dtype=dtypes.to_onnx(to), seed=g.pick([None, 1.0]),
           **_spread(g, op))  # fmt: skip


def _spread(g: Maker, op: str) -> dict[str, float]:
    """Where random numbers are, and how far apart."""
    names = ("mean", "scale") if "Normal" in op else ("low", "high")
    return dict(zip(names, (-0.5, 2.0), strict=True)) if g.chance(0.4) else {}


@generator("RandomNormalLike", "RandomUniformLike")
def drawn_like(g: Maker, op: str) -> None:
    x = g.value(g.among(g.types(op, "T1"), FLOATS))
    to = None if x.dtype in FLOATS and g.chance(0.6) else g.pick(g.types(op, "T2"))
    g.node(op, [x], seed=g.pick([None, 2.0]), dtype=None if to is None else dtypes.to_onnx(to),
           **_spread(g, op))  # fmt: skip


@generator("Multinomial")
def multinomial(g: Maker, op: str) -> None:
    x = g.value(g.among(g.types(op, "T1"), ("float32",)), rank=2, empty=False)
    g.node(op, [x], sample_size=g.int(1, 4), dtype=g.pick([None, 6, 7]), seed=g.pick([None, 3.0]))


@generator("Bernoulli")
def bernoulli(g: Maker, op: str) -> None:
    x = g.value(g.types(op, "T1"), low=0, high=1)
    g.node(op, [x], dtype=g.pick([None, 1, 6]), seed=g.pick([None, 4.0]))
