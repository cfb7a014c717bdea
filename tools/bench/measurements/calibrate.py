"""Calibrate what the simulator expects of schedules, by the times of networks on this machine.

    python tools/bench calibrate                  keep the record for compile_onnx
    python tools/bench calibrate -o machine.json  write it elsewhere: for --device
    python tools/bench calibrate --check=resnet50,bert_base --json=expected.json

The record is that of this machine, with `recall` added: how much of the last cache a schedule has
for itself, and the rates of what it has to fetch from memory. No tile and no schedule depends on
it. Networks run on one EU, timed by the clock of its thread, which others disturb least, and on all
EUs of the machine. What counts is the 5th percentile: a run that others were not in the way of.
Those of --check run beside them and show what the figures are worth for networks they are not
fitted to.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from measurements._shared import print_goals, reached
from rcompiler.tools._command import Command
from rcompiler.tools._console import items, table, timing_options
from rcompiler.tools._record import keep, unpin_openblas

if TYPE_CHECKING:
    from measurements._calibrate import Row
    from rcompiler.device.measured import Recall

# Large weights and small ones, wide images and few pixels, one step after the other.
_NETWORKS = "alexnet,inception_v1,lstm2,mlp,mobilenet_v2,squeezenet1_1,tiny_llama,unet"


def _run(options: argparse.Namespace) -> int:
    openblas = unpin_openblas()
    from measurements._calibrate import GOALS, measure, rows
    from measurements._recall_fit import fit_recall
    from rcompiler.device.record import save_device
    from rcompiler.device.store import store_record
    from rcompiler.driver.host import given_device, measured_device, target_device
    from rcompiler.errors import DeviceError
    from rcompiler.options import default_cache

    folder, base = default_cache(), target_device("cpu")
    if folder is None and not options.output:
        raise DeviceError(
            "there is no cache folder (RC_CACHE_DIR is empty); give a file with -o FILE"
        )
    device = given_device("cpu", base, options.device) or measured_device(base, folder)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    networks = [*dict.fromkeys((*options.networks, *options.check))]
    samples = measure(networks, device, options.rounds, options.seconds)
    fitted = [sample for (name, _), sample in samples.items() if name in options.networks]
    recall = fit_recall(fitted, device, date)
    found = replace(device, recall=recall)
    figures = rows(samples, found, options.networks)
    goals = reached(GOALS, figures)
    _print(figures, recall)
    print_goals(goals)
    keep(
        options,
        openblas_coretype=openblas,
        recall=vars(recall),
        networks=[vars(row) | {"surprise": row.surprise} for row in figures],
        goals=goals,
    )
    if options.output:
        save_device(found, options.output)
    else:
        assert folder is not None
        store_record(found, folder)
    return 0


def _print(figures: Sequence[Row], recall: Recall) -> None:
    cells = []
    for row in figures:
        times = (row.measured_us, row.before_us, row.after_us)
        ratios = (row.measured_us / row.before_us, row.surprise)
        role = "fitted" if row.fitted else "checked"
        cells.append(
            (
                row.network,
                role,
                row.eus,
                *(f"{us:.1f}" for us in times),
                *(f"{r:.2f}" for r in ratios),
            )
        )
    columns = ("network", "", "EUs", "measured us", "before us", "after us", "/before", "/after")
    table(columns, cells)
    print(
        f"recall: {recall.kept_bytes >> 10} KiB of the last cache, from memory {recall.rate:g} "
        f"GB/s for an EU and {recall.shared_rate:g} for all; arithmetic {recall.speed:g} times as "
        f"fast as estimated, caches {recall.cache_speed:g} times; root mean square of the "
        f"logarithms of /after: {recall.error}"
    )


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--networks", type=items, default=items(_NETWORKS), metavar="LIST",
        help=f"to fit to; default: {_NETWORKS}",
    )  # fmt: skip
    parser.add_argument(
        "--check", type=items, default=[], metavar="LIST",
        help="networks that are measured and not fitted to",
    )  # fmt: skip
    parser.add_argument(
        "--device", metavar="FILE", help="record to add to; default: this machine's"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the record there, not into the cache folder"
    )
    timing_options(parser, "network", 15, 1.0)


main = Command(__name__, __doc__, _options, _run, writes=("output", "json"))
