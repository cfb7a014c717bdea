"""One product whose tasks have edited bodies: what each edit computes, and how long it takes.

    python test/support/edited_tiles.py --size=512

The schedule stays as the compiler made it, and so do the attributes of the rKernel: only the body
of its tasks is another one, and the code is generated from that. One execution unit runs it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper
from task_body import of_whole_operators
from torch_mlir import ir

import rcompiler
from rcompiler import dialects
from rcompiler.dialects import rtask
from rcompiler.dialects.attributes import to_attribute
from rcompiler.linalg.values import integers
from rcompiler.passes._pipeline_text import runner

Edit = Callable[[ir.Operation], None]


def register_tile(rows: int, vectors: int) -> Edit:
    """Register tiles of other sizes."""

    def edit(kernel: ir.Operation) -> None:
        columns = vectors * ir.IntegerAttr(kernel.attributes["lanes"]).value
        kernel.attributes["register_tile"] = to_attribute((rows, columns))

    return edit


def swap_loops(kernel: ir.Operation) -> None:
    """The inner of the two loops over register tiles becomes the outer one."""
    kernel.attributes["order"] = to_attribute(integers(kernel, "order")[::-1])


def reduction_outside(steps: int) -> Edit:
    """A loop over parts of the reduction around the loops over register tiles, not inside them."""

    def edit(kernel: ir.Operation) -> None:
        kernel.attributes["reduction_tile"] = to_attribute((0, steps))

    return edit


def split_epilogue(kernel: ir.Operation) -> None:
    """A task makes the sums of its whole tile before what follows them starts."""
    [product] = [o.operation for o in kernel.regions[0].blocks[0].operations if _reduces(o)]
    value = product.results[0]
    with ir.InsertionPoint(product), product.location:
        stage = rtask.StageOp(value=value, output=value.type).operation
    stage.move_after(product)
    value.replace_all_uses_except(stage.results[0], stage)
    for name in ("lanes", "order", "register_tile", "vector_dim"):
        stage.attributes[name] = kernel.attributes[name]
    stage.attributes["axes"] = to_attribute((0, 1))


def _reduces(op: Any) -> bool:
    kinds = op.operation.attributes
    return "iterator_types" in kinds and "reduction" in str(kinds["iterator_types"])


def both(*edits: Edit) -> Edit:
    """One edit after the other."""

    def edit(kernel: ir.Operation) -> None:
        for one in edits:
            one(kernel)

    return edit


EDITS: dict[str, Edit] = {
    "tiles of 1 x 1 vector": register_tile(1, 1),
    "tiles of 1 x 1 vector, loops swapped": both(register_tile(1, 1), swap_loops),
    "tiles of 4 x 2 vectors": register_tile(4, 2),
    "tiles of 4 x 2 vectors, loops swapped": both(register_tile(4, 2), swap_loops),
    "reduction outside, parts of 32": reduction_outside(32),
    "epilogue split off": split_epilogue,
}


@dataclass(frozen=True)
class Product:
    """x * w + bias of `size` x `size` elements as the compiler makes it, and its inputs."""

    model: rcompiler.Model
    inputs: tuple[np.ndarray, ...]
    target: str
    cache: Any = False

    @staticmethod
    def of(size: int, target: str = "cpu", device: str = "default", cache: Any = False) -> Product:
        rng = np.random.default_rng(0)
        shapes = ((size, size), (size, size), (size,))
        inputs = tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
        model = rcompiler.compile_onnx(
            _network(size), target=target, device=device, eus=1, cache=cache
        )
        return Product(model, inputs, target, cache)

    def tiled(self, edit: Edit) -> str:
        """The schedule with bodies of tasks, that of the product edited."""
        with dialects.load(ir.Context()) as context, ir.Location.unknown():
            module = ir.Module.parse(of_whole_operators(self.model, 1))
            [kernel] = [o.operation for o in module.body.operations if _is_product(o)]
            registers = kernel.attributes["register_tile"]
            edit(kernel)
            runner("rc-tile-kernels", context)(module)
            kernel.attributes["register_tile"] = registers
            return str(module)

    def edited(self, edit: Edit) -> rcompiler.Model:
        """What is compiled from the text of that."""
        return rcompiler.compile_schedule(
            self.tiled(edit), self.model.constants(), target=self.target, cache=self.cache
        )

    def reference(self) -> np.ndarray:
        x, w, bias = (array.astype(np.float64) for array in self.inputs)
        return x @ w + bias

    def tolerance(self) -> np.ndarray:
        """How far sums in f32 may be from that: eps * K of the sum of magnitudes."""
        x, w, bias = (np.abs(array.astype(np.float64)) for array in self.inputs)
        return (x @ w + bias) * np.finfo(np.float32).eps * len(w)


def _is_product(op: Any) -> bool:
    return isinstance(op, rtask.KernelOp) and op.kind.value == "contraction"


def _network(size: int) -> ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [size, size]), ("w", [size, size]), ("bias", [size]))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "bias"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size, size])]
    graph = helper.make_graph(nodes, "product", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@dataclass(frozen=True)
class Figure:
    """Of one edit: the time of a call, and the largest distance from the reference, in units of the
    tolerance.
    """

    name: str
    least_us: float
    median_us: float
    distance: float


def measured(product: Product, rounds: int) -> Iterator[Figure]:
    """All models take turns, so that they meet the same machine."""
    models = {"as compiled": product.model}
    models |= {name: product.edited(edit) for name, edit in EDITS.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            start = time.perf_counter()
            model(*product.inputs)
            times[name].append((time.perf_counter() - start) * 1e6)
    reference, tolerance = product.reference(), product.tolerance()
    for name, model in models.items():
        distance = np.max(np.abs(model(*product.inputs)[0] - reference) / tolerance)
        yield Figure(name, min(times[name]), statistics.median(times[name]), float(distance))


def main() -> int:
    """Exit code: 0, or 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description="Times of one product with edited bodies of tasks")
    parser.add_argument("--size", type=int, default=512, help="rows, columns and steps")
    parser.add_argument("--rounds", type=int, default=30, help="calls of each")
    options = parser.parse_args()
    wrong = 0
    print(f"{'body':38} {'least us':>9} {'median':>9} {'of tolerance':>13}")
    for figure in measured(Product.of(options.size), options.rounds):
        wrong += figure.distance > 1
        print(
            f"{figure.name:38} {figure.least_us:9.1f} {figure.median_us:9.1f} "
            f"{figure.distance:13.3f}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
