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
    types = [t for t in g.types(op, "T", ML) if t in ("float32", "float64", "int64", "int32")]
    g.node(op, [g.value(types)], domain=ML, threshold=g.pick([None, 0.5, -1.0]))


@generator("LabelEncoder", domain=ML)
def label(g: Maker, op: str) -> None:
    x = g.value(["int64"], low=-20, high=20)
    count = g.int(1, 6)
    keys = [int(k) for k in g.numbers.permutation(41)[:count] - 20]
    if g.chance(0.5):
        floats = [float(v) for v in g.numbers.integers(-9, 9, count)]
        found = {"keys_int64s": keys, "values_floats": floats, "default_float": 0.5}
    elif g.chance(0.5):
        found = {"keys_int64s": keys, "values_int64s": list(range(count)), "default_int64": -7}
    else:
        found = {
            "keys_tensor": numpy_helper.from_array(np.array(keys)),
            "values_tensor": numpy_helper.from_array(np.arange(count, dtype=np.int64)),
            "default_tensor": numpy_helper.from_array(np.array([-3])),
        }
    g.node(op, [x], domain=ML, **found)


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
    count, dtype = g.int(1, 2), "float32"
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
        found |= {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-3, "norm_coefficient_post": 0.1}
    g.node(op, [rate, time, *operands], count * (1 + _STATES[op]), domain=TRAINING, **found)


@generator("RandomNormal", "RandomUniform")
def drawn(g: Maker, op: str) -> None:
    to = g.dtype([t for t in g.types(op) if t in FLOATS])
    g.node(op, [], shape=list(g.shape(1, 3)), dtype=dtypes.to_onnx(to), seed=g.pick([None, 1.0]))


@generator("RandomNormalLike", "RandomUniformLike")
def drawn_like(g: Maker, op: str) -> None:
    x = g.value([t for t in g.types(op, "T1") if t in FLOATS])
    g.node(op, [x], seed=g.pick([None, 2.0]))


@generator("Multinomial")
def multinomial(g: Maker, op: str) -> None:
    x = g.value(["float32"], rank=2, empty=False)
    g.node(op, [x], sample_size=g.int(1, 4), dtype=g.pick([None, 6, 7]))


@generator("Bernoulli")
def bernoulli(g: Maker, op: str) -> None:
    x = g.value([t for t in g.types(op, "T1") if t in FLOATS], low=0, high=1)
    g.node(op, [x], dtype=g.pick([None, 1, 6]))
