"""Decoders with caches, token by token, beside onnxruntime and beside the memory's bandwidth.

    python tools/bench decoders                        # gpt2_decoder and llama_decoder, 256 tokens
    python tools/bench decoders --models=llama_decoder --tokens=64 --json=decoders.json

A prompt is read by a program of its own, then each engine generates tokens, always the one with the
greatest logit, and both have to generate the same ones. onnxruntime has the form that it is fastest
with: com.microsoft's operators, GroupQueryAttention on buffers that past and present share, I/O
binding. The engines take turns, token by token, and in front of each a product with one row reads
an array larger than the caches: how fast that is, is the bandwidth, and afterwards weights come
from memory. Times are medians. Bytes of a token are those of the weights, without the rows of
tables that it does not read, and of the keys and values that there are by then.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from measurements._decoder_step import one_product
from measurements._shared import print_goals, reached
from rcompiler.errors import CompilerError
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep
from rcompiler.tools._reference import session

_MODELS = ("gpt2_decoder", "llama_decoder")
_PAST, _PRESENT = "past_key_values.", "present."
_TABLES = ("Gather", "GroupQueryAttention")  # which read rows of what they are given
_COLUMNS = (
    "model",
    "MB",
    "bandwidth GB/s",
    "ms",
    "of the bandwidth",
    "onnxruntime ms",
    "over ours",
)


@dataclass(frozen=True)
class Figure:
    """Of one model: bytes of a token in the mean, medians of ns and of bytes a ns.

    apart: the least distance of the two greatest logits of a token; error: the largest difference
    of a logit between the engines.
    """

    model: str
    tokens: list[int]
    bytes: float
    bandwidth: float
    ns: float
    onnxruntime_ns: float
    apart: float
    error: float

    @property
    def share(self) -> float:
        """Of the bandwidth: what reading takes by what a token takes."""
        return self.bytes / self.bandwidth / self.ns

    @property
    def over_ours(self) -> float:
        return self.onnxruntime_ns / self.ns


@dataclass(frozen=True)
class _Goal:
    """Of the model with the least `name`."""

    text: str
    name: str
    least: float

    def __str__(self) -> str:
        return self.text

    def value(self, figures: Sequence[Figure]) -> float | None:
        return min((float(getattr(f, self.name)) for f in figures), default=None)


GOALS = (
    _Goal("a token takes at most 1.15 times as long as reading its bytes", "share", 1 / 1.15),
    _Goal("onnxruntime takes at least 1.2 times as long", "over_ours", 1.2),
)


class Decoder(Protocol):
    """A decoder that has read some tokens."""

    def __call__(self, ids: np.ndarray, first: int) -> np.ndarray:
        """The logits behind the last one of these tokens, which is given places from `first` on;
        overwritten by the next call.
        """


def _fed(ids: np.ndarray, first: int) -> dict[str, np.ndarray]:
    return {"input_ids": ids, "position_ids": np.arange(first, first + ids.size)[None]}


class Ours:
    """Programs for a prompt and for a token, which share the caches."""

    def __init__(self, prompt: ModelProto, step: ModelProto, options: argparse.Namespace) -> None:
        import rcompiler

        state = {f"{_PAST}*": f"{_PRESENT}*"}
        made: list[Any] = [
            rcompiler.compile_onnx(m, state=state, target=options.target, eus=options.threads)
            for m in (prompt, step)
        ]
        self._prompt, self._model = made
        self._model.share_state(self._prompt)
        self._step = self._model.bind()

    def __call__(self, ids: np.ndarray, first: int) -> np.ndarray:
        if ids.size > 1:
            return np.asarray(self._prompt(_fed(ids, first))[0][0, -1])
        for place, fed in zip(self._step.inputs, _fed(ids, first).values(), strict=True):
            place[:] = fed
        self._step()
        return np.asarray(self._step.outputs[0][0, -1])


class OnnxRuntime:
    """Sessions for a prompt and for a token, bound to the same buffers of keys and values."""

    def __init__(self, prompt: ModelProto, step: ModelProto, options: argparse.Namespace) -> None:
        import onnxruntime

        self._made = onnxruntime.OrtValue.ortvalue_from_numpy
        self._caches: dict[str, Any] = {}
        self._prompt = self._bound(prompt, options.threads)
        self._step = self._bound(step, options.threads)

    def _bound(self, model: ModelProto, threads: int) -> Any:
        """(session, its binding, the inputs that are given, the logits)."""
        loaded = session(model, threads)
        binding = loaded.io_binding()
        given: dict[str, Any] = {}
        for each in loaded.get_inputs():
            cache = each.name.startswith(_PAST)
            held = self._caches if cache else given
            if each.name not in held:
                dtype = np.float32 if cache else np.int64
                held[each.name] = self._made(np.zeros(each.shape, dtype))
            binding.bind_ortvalue_input(each.name, held[each.name])
            if cache:
                result = each.name.replace(_PAST, _PRESENT)
                binding.bind_ortvalue_output(result, held[each.name])
        (shape,) = (each.shape for each in loaded.get_outputs() if each.name == "logits")
        logits = self._made(np.zeros(shape, np.float32))
        binding.bind_ortvalue_output("logits", logits)
        return loaded, binding, given, logits

    def __call__(self, ids: np.ndarray, first: int) -> np.ndarray:
        loaded, binding, given, logits = self._prompt if ids.size > 1 else self._step
        for name, fed in _fed(ids, first).items():
            given[name].update_inplace(fed)
        loaded.run_with_iobinding(binding)
        return np.asarray(logits.numpy()[0, -1])


def token_bytes(model: ModelProto) -> tuple[int, int]:
    """What a token reads: of the weights, and for each key that there is."""
    readers: dict[str, set[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    weights = 0
    for name, array in arrays.items():
        rows = readers.get(name, set()) <= set(_TABLES)
        weights += array[:1].nbytes if rows else array.nbytes
    row = 0
    for value in model.graph.input:
        if value.name.startswith(_PAST):
            kind = value.type.tensor_type
            batch, heads, _, size = (d.dim_value for d in kind.shape.dim)
            row += batch * heads * size * helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
    return weights, row


def _streaming(options: argparse.Namespace) -> tuple[Any, int]:
    """A product with one row, and its bytes."""
    import rcompiler

    depth, columns = 1024, options.megabytes << 8
    model: Any = rcompiler.compile_onnx(
        one_product(depth, columns), target=options.target, eus=options.threads
    )
    return model.bind(random_inputs(model.inputs, 0)), depth * columns * 4


def _timed(call: Any, *arguments: Any) -> tuple[Any, int]:
    start = time.perf_counter_ns()
    made = call(*arguments)
    return made, time.perf_counter_ns() - start


def _generated(
    engines: Sequence[Decoder], reading: Any, prompt: np.ndarray, count: int
) -> Iterator[tuple[list[np.ndarray], list[int], int]]:
    """Of each token the logits by both engines and the ns that they and `reading` took.

    Raises CompilerError where the engines do not generate the same token.
    """
    logits = [engine(prompt, 0) for engine in engines]
    order = list(range(len(engines)))
    for place in range(prompt.size, prompt.size + count):
        chosen = {int(each.argmax()) for each in logits}
        if len(chosen) > 1:
            raise CompilerError(f"token {place - prompt.size} differs: {sorted(chosen)}")
        ids, taken = np.array([[*chosen]], np.int64), [0] * len(engines)
        _, read = _timed(reading)
        for number in order:
            logits[number], taken[number] = _timed(engines[number], ids, place)
        order.reverse()
        yield logits, taken, read


def measured(name: str, reading: Any, read_bytes: int, options: argparse.Namespace) -> Figure:
    """Both engines by turns. Raises CompilerError where they generate different tokens."""
    sizes = {"room": options.room, **({"layers": options.layers} if options.layers else {})}
    prompt, step = (models.build(name, steps=n, **sizes) for n in (options.prompt, 1))
    vocabulary = step.graph.output[0].type.tensor_type.shape.dim[-1].dim_value
    doing(f"{name}: load")
    engines: list[Decoder] = [Ours(prompt, step, options), OnnxRuntime(prompt, step, options)]
    doing(f"{name}: generate")
    ids = np.random.default_rng(0).integers(0, vocabulary, (1, options.prompt))
    tokens, times, rates = [], [], []
    apart, error = float("inf"), 0.0
    for logits, taken, read in _generated(engines, reading, ids, options.tokens):
        second, first = np.partition(logits[0], -2)[-2:]
        apart = min(apart, float(first - second))
        error = max(error, float(np.abs(logits[0] - logits[1]).max()))
        tokens.append(int(logits[0].argmax()))
        times.append(taken)
        rates.append(read_bytes / read)
    weights, row = token_bytes(step)
    keys = options.prompt + (1 + options.tokens) / 2  # of a token in the mean, its own among them
    ours, others = np.median(times, axis=0)
    return Figure(
        name, tokens, weights + row * keys, float(np.median(rates)),
        float(ours), float(others), apart, error,
    )  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: an engine cannot run a model, or they generate different tokens."""
    if options.prompt + options.tokens > options.room:
        raise CompilerError(
            f"{options.prompt} + {options.tokens} tokens do not fit --room={options.room}"
        )
    reading, read_bytes = _streaming(options)
    figures = [measured(n, reading, read_bytes, options) for n in options.models.split(",")]
    table(_COLUMNS, [_row(figure) for figure in figures])
    for f in figures:
        print(
            f"{f.model}: the same {len(f.tokens)} tokens, {len(set(f.tokens))} different ones; two "
            f"logits are {f.apart:.2g} apart at least, and differ by {f.error:.1g} at most"
        )
    goals = reached(GOALS, figures)
    print_goals(goals)
    ratios = [{"share": f.share, "over_ours": f.over_ours} for f in figures]
    each = [vars(f) | ratio for f, ratio in zip(figures, ratios, strict=True)]
    keep(options, figures=each, goals=goals)
    return 0


def _row(f: Figure) -> list[str]:
    return [
        *(f.model, f"{f.bytes / 1e6:.1f}", f"{f.bandwidth:.1f}", f"{f.ns / 1e6:.2f}"),
        *(f"{f.share:.2f}", f"{f.onnxruntime_ns / 1e6:.2f}", f"{f.over_ours:.2f}"),
    ]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", default=",".join(_MODELS), metavar="LIST", help="default: both")
    parser.add_argument("--tokens", type=positive, default=256, metavar="N", help="default: 256")
    parser.add_argument(
        "--prompt", type=positive, default=16, metavar="N", help="tokens of it; default: 16"
    )
    parser.add_argument(
        "--room", type=positive, default=1024, metavar="N",
        help="keys that the caches have room for; default: 1024",
    )  # fmt: skip
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="default: 1")
    parser.add_argument("--target", default="cpu", metavar="NAME", help="as for rc-compile")
    parser.add_argument("--layers", type=positive, metavar="N", help="default: all")
    parser.add_argument(
        "--megabytes", type=positive, default=256, metavar="N",
        help="of the array that is read in front of each token; default: 256",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command("decoders", __doc__, _options, _run)
