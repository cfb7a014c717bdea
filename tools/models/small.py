"""Small networks: a perceptron, chains of tiny operators, two parallel branches."""

from collections.abc import Sequence

from onnx import ModelProto

from .graph import ModelGraph

MODELS = ("mlp", "tiny_chain", "tiny_matmul_chain", "two_branch")

# Element-wise operators and the range of their second operand. Together they keep values near 1 and
# different ones different, so that a hundred of them still depend on the input.
_ELEMENTWISE: tuple[tuple[str, float, float], ...] = (
    ("Mul", 0.9, 1.2), ("Add", 1.0, 1.6), ("Relu", 0, 0), ("Sub", 1.0, 1.6), ("Abs", 0, 0),
    ("Sub", 0.6, 1.0), ("Mul", 1.2, 1.6), ("Max", -1.4, -1.0), ("Neg", 0, 0), ("Min", 1.0, 1.4),
)  # fmt: skip
_BETWEEN = ("Relu", "Add", "Sigmoid", "Mul", "Tanh", "Sub", "Elu", "Abs")


def mlp(
    seed: int = 0, batch: int = 32, layers: Sequence[int] = (784, 1024, 1024, 10)
) -> ModelProto:
    """Gemm and Relu alternating: input (batch, layers[0]), logits (batch, layers[-1])."""
    g = ModelGraph("mlp", seed)
    x = g.input("input", (batch, layers[0]))
    for index, width in enumerate(layers[1:], 1):
        x = g.gemm(x, width, gain=2.0 if index > 1 else 1.0, name=f"fc{index}")
        if index < len(layers) - 1:
            x = g.op("Relu", x)
    return g.model(output=(x, (batch, layers[-1])))


def tiny_chain(seed: int = 0, ops: int = 100, width: int = 64) -> ModelProto:
    """``ops`` element-wise operators in a row on (1, width), constants different everywhere.

    What is measured is the price of an operator: there is next to nothing to compute.
    """
    g = ModelGraph("tiny_chain", seed)
    x = g.input("input", (1, width))
    for index in range(ops):
        kind, low, high = _ELEMENTWISE[index % len(_ELEMENTWISE)]
        with g.scope(f"op{index}"):
            if low == high:
                x = g.op(kind, x)
            else:
                x = g.op(kind, x, g.weight("operand", g.uniform((1, width), low, high)))
    return g.model(output=(x, (1, width)))


def tiny_matmul_chain(seed: int = 0, ops: int = 100, width: int = 64) -> ModelProto:
    """``ops`` tiny operators in a row on (1, width): MatMul and a changing element-wise operator.

    A matrix product reads all of the vector, so no two products fuse into one loop: what is
    measured is the cost of going from one operator to the next.
    """
    g = ModelGraph("tiny_matmul_chain", seed)
    x = g.input("input", (1, width))
    for index in range(ops):
        with g.scope(f"op{index}"):
            kind = "MatMul" if index % 2 == 0 else _BETWEEN[index // 2 % len(_BETWEEN)]
            if kind == "MatMul":
                x = g.matmul(x, width, bias=False, gain=1.5)
            elif kind in ("Add", "Sub"):
                x = g.op(kind, x, g.weight("operand", g.normal((1, width), 0.2)))
            elif kind == "Mul":
                x = g.op(kind, x, g.weight("operand", g.uniform((1, width), 0.8, 1.2)))
            else:
                x = g.op(kind, x)
    return g.model(output=(x, (1, width)))


def two_branch(seed: int = 0, rows: int = 4, width: int = 8) -> ModelProto:
    """relu(x A) + tanh(x B): two independent branches that meet; input (rows, width)."""
    g = ModelGraph("two_branch", seed)
    x = g.input("input", (rows, width))
    left = g.op("Relu", g.matmul(x, width, bias=False, name="left"))
    right = g.op("Tanh", g.matmul(x, width, bias=False, name="right"))
    return g.model(output=(g.op("Add", left, right), (rows, width)))
