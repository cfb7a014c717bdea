"""A small decoder with caches of static capacity, as an ONNX model."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def decoder(
    steps=1, *, layers=2, hidden=64, heads=4, room=32, vocabulary=50, seed=0, by_hand=False
):
    """ids, pos and caches `past.*` -> logits, new_pos and caches `present.*`: so many tokens at
    once, which are written to the caches from place pos on. by_hand: of one token, attention is
    written out, and keys lie in columns.
    """
    random, size = np.random.default_rng(seed), hidden // heads
    weights, nodes, caches = {}, [], []

    def weight(name, *shape):
        array = random.standard_normal(shape) / np.sqrt(shape[0])
        weights[name] = array.astype(np.float32)
        return name

    def node(op, inputs, output, **attributes):
        names = ["" if name == "-" else name for name in inputs.split()]
        nodes.append(helper.make_node(op, names, [output], name=f"{op}.{output}", **attributes))
        return output

    weights["steps"] = np.int64([steps])
    if by_hand:
        weights["places"] = np.arange(room)
        weights["scale"], weights["least"] = np.float32(size**-0.5), np.float32(-1e30)
    weights["split"] = np.int64([1, steps, heads, size])
    weights["join"] = np.int64([1, steps, hidden])
    node("Add", "pos steps", "new_pos")
    x = node("Gather", f"{weight('table', vocabulary, hidden)} ids", "x")
    for i in range(layers):
        for p in "qkv":
            node("MatMul", f"{x} {weight(f'w{p}.{i}', hidden, hidden)}", f"{p}.{i}.flat")
            node("Reshape", f"{p}.{i}.flat split", f"{p}.{i}.split")
            node("Transpose", f"{p}.{i}.split", f"{p}.{i}", perm=[0, 2, 1, 3])
        if by_hand:
            node("Transpose", f"k.{i}.split", f"k.{i}.column", perm=[0, 2, 3, 1])
            node("TensorScatter", f"past.{i}.k k.{i}.column pos", f"present.{i}.k", axis=3)
            node("TensorScatter", f"past.{i}.v v.{i} pos", f"present.{i}.v", axis=2)
            node("MatMul", f"q.{i} present.{i}.k", f"s.{i}")
            node("Mul", f"s.{i} scale", f"s.{i}.scaled")
            node("Less", "places new_pos", f"m.{i}")
            node("Where", f"m.{i} s.{i}.scaled least", f"s.{i}.masked")
            node("Softmax", f"s.{i}.masked", f"p.{i}")
            node("MatMul", f"p.{i} present.{i}.v", f"a.{i}")
        else:
            for p in "kv":
                node("TensorScatter", f"past.{i}.{p} {p}.{i} pos", f"present.{i}.{p}", axis=2)
            read = f"q.{i} present.{i}.k present.{i}.v - - - new_pos"
            node("Attention", read, f"a.{i}", is_causal=int(steps > 1))
        caches += [(f"{i}.k", [1, heads, size, room] if by_hand else [1, heads, room, size])]
        caches += [(f"{i}.v", [1, heads, room, size])]
        node("Transpose", f"a.{i}", f"a.{i}.turned", perm=[0, 2, 1, 3])
        node("Reshape", f"a.{i}.turned join", f"a.{i}.joined")
        node("MatMul", f"a.{i}.joined {weight(f'wo.{i}', hidden, hidden)}", f"o.{i}")
        x = node("Add", f"{x} o.{i}", f"x.{i}.0")
        node("MatMul", f"{x} {weight(f'wu.{i}', hidden, 2 * hidden)}", f"u.{i}")
        node("Relu", f"u.{i}", f"r.{i}")
        node("MatMul", f"r.{i} {weight(f'wd.{i}', 2 * hidden, hidden)}", f"d.{i}")
        x = node("Add", f"{x} d.{i}", f"x.{i}.1")
    node("MatMul", f"{x} {weight('head', hidden, vocabulary)}", "logits")

    def tensor(name, shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [tensor("ids", [1, steps], TensorProto.INT64), tensor("pos", [1], TensorProto.INT64)]
    outputs = [
        tensor("logits", [1, steps, vocabulary]),
        tensor("new_pos", [1], TensorProto.INT64),
    ]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [*inputs, *(tensor(f"past.{name}", shape) for name, shape in caches)],
        [*outputs, *(tensor(f"present.{name}", shape) for name, shape in caches)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
