"""A layer of LSTM cells in the forms that networks write it in, of the same weights.

The gates are in TensorFlow's order: input, candidate, forget, output; the forget gate has a bias of
1. With x the input (batch, features) and (c, h) the state, (batch, hidden) each:

    i, j, f, o = x W + h U + b
    c' = c * sigmoid(f + 1) + sigmoid(i) * tanh(j)
    h' = tanh(c') * sigmoid(o)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from .graph import ModelGraph

# written: the cells of every step, one by one, as the program of a network spells them out
# normalised: the gates in one product, and the inputs of all steps in one in front of the steps
# operator: ONNX's LSTM
Form = Literal["written", "normalised", "operator"]
State = tuple[str, str]  # c and h

Cell = Callable[[int, str, State], State]  # number of the step, input, state to the next state
Gates = Callable[[str, str], list[str]]  # input and h to i, j, f, o

_GATES = 4
_FORGET = 2
_ONNX_GATES = [0, 3, 2, 1]  # ours in the order of ONNX's operator: input, output, forget, candidate


class Steps:
    """The values of a sequence, (batch, width) each: as many, or one (steps, batch, width)."""

    def __init__(self, g: ModelGraph, values: list[str] | str, count: int) -> None:
        self._g, self._values, self.count = g, values, count

    def each(self) -> list[str]:
        """A value for each step."""
        if isinstance(self._values, str):
            return [self._g.op("Gather", self._values, t, axis=0) for t in range(self.count)]
        return self._values

    def rows(self) -> str:
        """All in one, (steps * batch, width)."""
        if isinstance(self._values, str):
            return self._g.op("Reshape", self._values, [-1, self._g.width(self._values)])
        return self._g.op("Concat", *self._values, axis=0)

    def all(self) -> str:
        """All in one, (steps, batch, width)."""
        if isinstance(self._values, str):
            return self._values
        rows = self.rows()
        return self._g.op("Reshape", rows, [self.count, -1, self._g.width(rows)])


class LstmLayer:
    """The weights of one layer; its methods add the nodes that use them.

    separate: when written, a cell has a product for each gate of the input and one for each of the
    state, eight in all; else it joins input and state and has one product.
    """

    def __init__(
        self,
        g: ModelGraph,
        name: str,
        batch: int,
        features: int,
        hidden: int,
        separate: bool = False,
    ) -> None:
        self._g, self._name, self._batch, self._hidden = g, name, batch, hidden
        self._separate = separate
        # an h is well below 1: without these gains nothing of the input is left behind ten layers
        self._w = g.normal((_GATES, features, hidden), (3 / features) ** 0.5)
        self._u = g.normal((_GATES, hidden, hidden), (1.5 / hidden) ** 0.5)
        self._b = g.normal((_GATES, hidden), 0.1)
        self._forget = np.eye(_GATES, dtype=np.float32)[_FORGET][:, None]  # the bias of 1

    def run(self, x: Steps, form: Form) -> tuple[Steps, State]:
        """All steps, from a state of zeros: the outputs h and the last state."""
        if form == "operator":
            y, state = self._operator()(x.all(), None)
            return Steps(self._g, y, x.count), state
        if form == "normalised":
            x, cell = self._input_products(x), self._cell(self._state_gates())
        else:
            cell = self.cell(form)
        state, outputs = self.zeros(), []
        for t, value in enumerate(x.each()):
            state = cell(t, value, state)
            outputs.append(state[1])
        return Steps(self._g, outputs, x.count), state

    def zeros(self) -> State:
        """The state in front of the first step."""
        zero = self._weight("initial_state", np.zeros((self._batch, self._hidden), np.float32))
        return zero, zero

    def cell(self, form: Form) -> Cell:
        """One step by itself: for sequences whose inputs depend on their outputs."""
        if form == "operator":
            return self._operator_cell()
        if form == "normalised":
            return self._cell(self._joined_gates(self._b + self._forget))
        gates = self._separate_gates() if self._separate else self._joined_gates(self._b)

        def biased(x: str, h: str) -> list[str]:
            i, j, f, o = gates(x, h)
            return [i, j, self._g.op("Add", f, 1.0), o]

        return self._cell(biased)

    def _cell(self, gates: Gates) -> Cell:
        op = self._g.op

        def cell(t: int, x: str, state: State) -> State:
            with self._g.scope(f"{self._name}.step{t}"):
                i, j, f, o = gates(x, state[1])
                kept = op("Mul", state[0], op("Sigmoid", f))
                c = op("Add", kept, op("Mul", op("Sigmoid", i), op("Tanh", j)))
                return c, op("Mul", op("Tanh", c), op("Sigmoid", o))

        return cell

    # -- gates: each adds its weights and returns what makes the four of a step ---------------
    def _separate_gates(self) -> Gates:
        op, gates = self._g.op, range(_GATES)
        w, u, b = (
            [self._weight(f"{name}{k}", value[k]) for k in gates]
            for name, value in (("w", self._w), ("u", self._u), ("b", self._b))
        )
        wide = {"width": self._hidden}

        def products(x: str, h: str) -> list[str]:
            both = [(op("MatMul", x, w[k], **wide), op("MatMul", h, u[k])) for k in gates]
            return [op("Add", op("Add", *both[k]), b[k]) for k in gates]

        return products

    def _joined_gates(self, bias: np.ndarray) -> Gates:
        weight = self._weight("weight", _wide(np.concatenate([self._w, self._u], axis=1)))
        offset = self._weight("bias", bias.reshape(-1))

        def product(x: str, h: str) -> list[str]:
            both = self._g.concat([x, h])
            z = self._g.op("MatMul", both, weight, width=_GATES * self._hidden)
            return self._split(self._g.op("Add", z, offset))

        return product

    def _state_gates(self) -> Gates:
        """For inputs that went through ``_input_products``."""
        weight = self._weight("state_weight", _wide(self._u))

        def product(z: str, h: str) -> list[str]:
            own = self._g.op("MatMul", h, weight, width=_GATES * self._hidden)
            return self._split(self._g.op("Add", z, own))

        return product

    def _input_products(self, x: Steps) -> Steps:
        weight = self._weight("input_weight", _wide(self._w))
        bias = self._weight("bias", (self._b + self._forget).reshape(-1))
        with self._g.scope(self._name):
            z = self._g.op("MatMul", x.all(), weight, width=_GATES * self._hidden)
            return Steps(self._g, self._g.op("Add", z, bias), x.count)

    def _split(self, z: str) -> list[str]:
        return self._g.ops(
            "Split", z, outputs=_GATES, width=self._hidden, axis=-1, num_outputs=_GATES
        )

    # -- ONNX's operator --------------------------------------------------------------------
    def _operator(self) -> Callable[[str, State | None], tuple[str, State]]:
        """(steps, batch, features) and a state, None for zeros, to all h and the last state."""
        g, hidden = self._g, self._hidden
        w, u = (
            self._weight(name, _wide(value[_ONNX_GATES]).T[None])
            for name, value in (("w", self._w), ("r", self._u))
        )
        bias = (self._b + self._forget)[_ONNX_GATES].reshape(-1)
        b = self._weight("b", np.concatenate([bias, np.zeros_like(bias)])[None])

        def run(x: str, state: State | None) -> tuple[str, State]:
            with g.scope(self._name):
                first = [g.op("Unsqueeze", s, [0]) for s in reversed(state)] if state else []
                operands = (x, w, u, b, *(["", *first] if first else []))
                y, h, c = g.ops("LSTM", *operands, outputs=3, width=hidden, hidden_size=hidden)
                return g.op("Squeeze", y, [1]), (g.op("Squeeze", c, [0]), g.op("Squeeze", h, [0]))

        return run

    def _operator_cell(self) -> Cell:
        run = self._operator()

        def cell(t: int, x: str, state: State) -> State:
            with self._g.scope(f"step{t}"):
                return run(self._g.op("Unsqueeze", x, [0]), state)[1]

        return cell

    def _weight(self, name: str, value: np.ndarray) -> str:
        with self._g.scope(self._name):
            return self._g.weight(name, value)


def _wide(gates: np.ndarray) -> np.ndarray:
    """(4, n, hidden) as (n, 4 * hidden): the gates side by side."""
    return np.concatenate(list(gates), axis=1)
