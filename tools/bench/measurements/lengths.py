"""Requests of different lengths: buckets beside padding, and beside engines that take any length.

    python tools/bench lengths --threads=1
    python tools/bench lengths --most=128 --requests=50 --json=lengths.json
    python tools/bench lengths --octave=8          # twice as many buckets as by default

The model is BERT-base with a batch and a length of any size. The lengths are those of the
paragraphs of this project's documents, counted in words and signs. Of each request all engines are
asked one after the other, in an order that alternates; what comes is compared before. "padded" is
the program of the greatest length, to which every request is filled up, with a mask. --octave cuts
the lengths into so many buckets for each doubling, from four tokens on: requests are padded by
less, and more programs are compiled.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from rcompiler.errors import CompilerError
from rcompiler.tools import models
from rcompiler.tools._baselines import BASELINES, Call, Feeds, installed
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep

OURS, PADDED = "rcompiler", "padded"
_TOLERANCE = 1e-3  # of last_hidden_state, whose numbers are near 1
_MARKS = 2  # in front of a text and behind it
# Of the checkout that this file is in: what is imported of rcompiler may be installed elsewhere.
_TEXTS = Path(__file__).resolve().parents[3] / "docs"


def lengths(count: int, most: int, seed: int = 0) -> list[int]:
    """Of so many paragraphs of the documents, drawn at random, in tokens; cut at `most`.

    Args:
        count: how many.
        most: the greatest length.
        seed: of the draw.

    Raises:
        CompilerError: there are no documents.
    """
    found = [
        min(len(re.findall(r"\w+|[^\w\s]", paragraph)) + _MARKS, most)
        for path in sorted(_TEXTS.glob("*.md"))
        for paragraph in re.split(r"\n\s*\n", Path(path).read_text())
        if paragraph.strip()
    ]
    if not found:
        raise CompilerError(f"there are no documents in {_TEXTS}: run this in a checkout")
    return [int(n) for n in np.random.default_rng(seed).choice(found, count)]


def tops(octave: int, most: int) -> list[int]:
    """Tops of buckets: so many for each doubling, from four tokens on.

    Args:
        octave: how many.
        most: the greatest length.
    """
    powers = (2**k for k in range(2, most.bit_length()))
    steps = (power + power * step // octave for power in powers for step in range(octave))
    return sorted({most, *(n for n in steps if n < most)})


def feeds_of(length: int, vocabulary: int, rng: np.random.Generator) -> Feeds:
    """A request of so many tokens, as a batch of one.

    Args:
        length: how many.
        vocabulary: numbers below that are drawn.
        rng: draws them.
    """
    shape = (1, length)
    return {
        "input_ids": rng.integers(0, vocabulary, shape),
        "token_type_ids": np.zeros(shape, np.int64),
        "attention_mask": np.ones(shape, np.int64),
    }


def model(most: int, vocabulary: int, layers: int | None) -> ModelProto:
    """BERT-base whose batch and length are open.

    Args:
        most: the greatest length.
        vocabulary: how many words it knows.
        layers: how many it has; None: all.
    """
    sizes = {"layers": layers} if layers else {}
    return models.build("bert_base", axes="dynamic", sequence=most, vocabulary=vocabulary, **sizes)


def in_buckets(proto: ModelProto, most: int, threads: int, octave: int | None) -> Any:
    """Compiles `model` for a request of up to `most` tokens, with programs for `tops`.

    Args:
        proto: of `model`.
        most: the greatest length.
        threads: of each program.
        octave: as for `tops`; None: as compile_onnx cuts a range.
    """
    import rcompiler

    doing("rcompiler, in buckets")
    cut = {"sequence": tops(octave, most)} if octave else None
    shapes: dict[str, Any] = {"batch": 1, "sequence": range(1, most + 1)}
    return rcompiler.compile_onnx(proto, shapes=shapes, buckets=cut, eus=threads)


def _engines(proto: ModelProto, most: int, threads: int, octave: int | None) -> dict[str, Call]:
    import rcompiler

    buckets = in_buckets(proto, most, threads, octave)
    doing(f"rcompiler, for {most} tokens")
    shapes = {"batch": 1, "sequence": most}
    whole = rcompiler.compile_onnx(proto, shapes=shapes, eus=threads)

    def padded(feeds: Feeds) -> list[np.ndarray]:
        length = feeds["input_ids"].shape[1]
        filled = {n: np.pad(x, ((0, 0), (0, most - length))) for n, x in feeds.items()}
        hidden, pooled = whole(filled)
        return [hidden[:, :length], pooled]

    others = {name: BASELINES[name].loaded(proto, threads) for name in installed()}
    return {OURS: buckets, PADDED: padded, **others}


def _requests(options: argparse.Namespace) -> Iterator[Feeds]:
    rng = np.random.default_rng(options.seed)
    for length in lengths(options.requests, options.most, options.seed):
        yield feeds_of(length, options.vocabulary, rng)


def _check(engines: Mapping[str, Call], feeds: Feeds) -> None:
    """Raises CompilerError where an engine has another answer than ours."""
    ours = engines[OURS](feeds)
    for name, call in engines.items():
        for a, b in zip(ours, call(feeds), strict=True):
            if a.shape != b.shape or np.abs(a - b).max() > _TOLERANCE:
                length = feeds["input_ids"].shape[1]
                raise CompilerError(f"{name} has other results at {length} tokens")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: an engine cannot run the model, or has other results."""
    proto = model(options.most, options.vocabulary, options.layers)
    engines = _engines(proto, options.most, options.threads, options.octave)
    requests = list(_requests(options))
    doing("comparing")
    for feeds in requests:  # which also warms all of them up, at each length
        _check(engines, feeds)
    times: dict[str, list[float]] = {name: [] for name in engines}
    order = list(engines)
    doing("measuring")
    for feeds in requests:
        for name in order:
            begin = time.perf_counter()
            engines[name](feeds)
            times[name].append((time.perf_counter() - begin) * 1e3)
        order.reverse()
    tokens = [feeds["input_ids"].shape[1] for feeds in requests]
    figures = {
        name: {
            "mean_ms": float(np.mean(each)),
            **{f"p{p}_ms": float(np.percentile(each, p)) for p in (50, 99)},
        }
        for name, each in times.items()
    }
    rows = [
        [name, *(f"{f[key]:.2f}" for key in ("mean_ms", "p50_ms", "p99_ms")),
         f"{f['mean_ms'] / figures[OURS]['mean_ms']:.2f}"]
        for name, f in figures.items()
    ]  # fmt: skip
    table(["engine", "mean ms", "p50 ms", "p99 ms", "mean over ours"], rows)
    low, middle, high = (int(np.percentile(tokens, p)) for p in (0, 50, 100))
    print(f"{len(tokens)} requests of {low} to {high} tokens, {middle} in the median")
    keep(options, engines=figures, tokens=tokens)
    return 0


def model_options(parser: argparse.ArgumentParser) -> None:
    """Adds what `model` and `in_buckets` are asked for."""
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="default: 1")
    parser.add_argument("--most", type=positive, default=512, metavar="N", help="default: 512")
    parser.add_argument("--octave", type=positive, metavar="N", help="default: by compile_onnx")
    parser.add_argument("--layers", type=positive, metavar="N", help="default: all")
    parser.add_argument("--vocabulary", type=positive, default=30522, help="default: 30522")


def _options(parser: argparse.ArgumentParser) -> None:
    model_options(parser)
    parser.add_argument("--requests", type=positive, default=200, metavar="N", help="default: 200")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command(__name__, __doc__, _options, _run)
