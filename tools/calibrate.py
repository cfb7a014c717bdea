"""Calibrate what the simulator expects of schedules, by the times of networks on this machine.

    python -m rcompiler.tools.calibrate                  keep the record for compile_onnx
    python -m rcompiler.tools.calibrate -o machine.json  write it elsewhere: for --device

The record is that of this machine, with `recall` added: how much of the last cache a schedule has
for itself, and the rates of what it has to fetch from memory. No tile and no schedule depends on
it. Networks run on one EU, timed by the clock of its thread, which others disturb least, and on all
EUs of the machine. What counts is the 5th percentile: a run that others were not in the way of.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rcompiler.tools._console import Parser, check_writable, guard, items, positive, seconds, table

if TYPE_CHECKING:
    from rcompiler.device.model import Device
    from rcompiler.rammer.recall_fit import Sample

# Large weights and small ones, wide images and few pixels, one step after the other.
_NETWORKS = "alexnet,inception_v1,lstm2,mlp,mobilenet_v2,squeezenet1_1,tiny_llama,unet"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 success, 1 failure, 2 wrong arguments, 130 interrupted."""
    options = _options(argv)
    return guard("calibrate", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    from rcompiler.device.record import save_device
    from rcompiler.device.store import store_record
    from rcompiler.errors import DeviceError
    from rcompiler.host import given_device, measured_device, target_device
    from rcompiler.options import default_cache
    from rcompiler.rammer.recall_fit import fit_recall

    check_writable(options.output)
    folder, base = default_cache(), target_device("cpu")
    if folder is None and not options.output:
        raise DeviceError(
            "there is no cache folder (RC_CACHE_DIR is empty); give a file with -o FILE"
        )
    device = given_device("cpu", base, options.device) or measured_device(base, folder)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    counts = dict.fromkeys((1, min(device.eus, len(os.sched_getaffinity(0)))))
    samples = {
        (name, eus): _sample(name, eus, device, options)
        for name in options.networks
        for eus in counts
    }
    recall = fit_recall([*samples.values()], device, date)
    found = replace(device, recall=recall)
    _print(samples, found)
    if options.output:
        save_device(found, options.output)
    else:
        assert folder is not None
        store_record(found, folder)
    return 0


def _sample(name: str, eus: int, device: Device, options: argparse.Namespace) -> Sample:
    """A network compiled for so many EUs, and the time of a run."""
    import rcompiler
    from rcompiler.errors import InvalidModel
    from rcompiler.proof import rebuild
    from rcompiler.rammer.expected import timed
    from rcompiler.rammer.placement import derive_graph
    from rcompiler.rammer.recall_fit import Sample
    from rcompiler.tools._data import random_inputs
    from rcompiler.tools._measure import interleaved, percentiles
    from rcompiler.tools._sources import resolve

    source = resolve(name)
    if source.proto is None:
        raise InvalidModel(f"{source.path}: is compiled already; give an ONNX model")
    model: Any = rcompiler.compile_onnx(source.proto, device=device, eus=eus)
    binding = model.bind(random_inputs(model.inputs))
    block_s = options.seconds / options.rounds
    clock = "cpu" if eus == 1 else "wall"
    times = interleaved({name: binding}, options.rounds, block_s, clock)
    model.close()
    programs, kernels = rebuild(model.artifact)
    graph = derive_graph(programs, timed(kernels, model.report().operators))
    return Sample(tuple(programs), graph, percentiles(times[name])["p5"] * 1e6)


def _print(samples: dict[tuple[str, int], Sample], device: Device) -> None:
    recall = device.recall
    assert recall is not None
    uncalibrated = replace(device, recall=None)
    rows = []
    for (name, eus), sample in samples.items():
        before, after = (sample.expected_ns(d) for d in (uncalibrated, device))
        ratios = [f"{sample.ns / ns:.2f}" for ns in (before, after)]
        rows.append((name, eus, *(f"{ns / 1e3:.1f}" for ns in (sample.ns, before, after)), *ratios))
    columns = ("network", "EUs", "measured us", "before us", "after us", "/before", "/after")
    table(columns, rows)
    print(
        f"recall: {recall.kept_bytes >> 10} KiB of the last cache, from memory {recall.rate:g} "
        f"GB/s for an EU and {recall.shared_rate:g} for all; root mean square of the logarithms of "
        f"/after: {recall.error}"
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("calibrate", "Calibrate what the simulator expects, by times of networks.")
    parser.add_argument(
        "--networks",
        type=items,
        default=items(_NETWORKS),
        metavar="LIST",
        help=f"to run; default: {_NETWORKS}",
    )
    parser.add_argument(
        "--device", metavar="FILE", help="record to add to; default: this machine's"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the record there, not into the cache folder"
    )
    parser.add_argument("--rounds", type=positive, default=15, metavar="N", help="default: 15")
    parser.add_argument(
        "--seconds", type=seconds, default=1.0, metavar="S",
        help="timed seconds per network; default: 1",
    )  # fmt: skip
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
