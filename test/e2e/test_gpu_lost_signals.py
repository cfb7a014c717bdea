"""A schedule that loses a signal ends within its limit, and says who waits for whom.

Who really waits is known: one signal of one EU counts another event up, so that the last of those
that an event needs never comes.
"""

import random
import re
from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest
from gpu_networks import NETWORKS, compiled
from turns import in_turn

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.errors import DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.loops import lines, parse
from rcompiler.runtime.thread_schedule import ThreadSchedule, combine

WITH_SIGNALS = ("rammer", "list", "merge")
LIMIT = 1e-3  # s of emulated time
artifacts = cache(lambda name: compiled(NETWORKS[name](), WITH_SIGNALS))


class Lost(NamedTuple):
    """A signal that goes astray: the EU that gives it, the word in its stream, its event."""

    network: str
    policy: str
    eu: int
    word: int
    event: int


class Wait(NamedTuple):
    """A wait that never ends: operators run before it and next, signals that it needs."""

    eu: int
    word: int
    after: str
    before: str
    count: int


def waits(schedule: ThreadSchedule, event: int) -> Iterator[Wait]:
    for eu, piece in enumerate(schedule.threads):
        names, done = ["", *piece.operators, ""], 0
        for line in lines(parse(piece.stream)):
            done += line.opcode == tables.RUN
            if line.opcode == tables.WAIT and line.operands[0] == event:
                yield Wait(eu, line.position, names[done], names[done + 1], line.operands[1])


@cache
def cases() -> list[Lost]:
    """Every signal that some wait needs, of every network and policy."""
    found = []
    for network in NETWORKS:
        for policy, artifact in artifacts(network).items():
            schedule = combine(artifact.programs, 4)
            for eu, piece in enumerate(schedule.threads):
                for line in lines(parse(piece.stream)):
                    if line.opcode != tables.SIGNAL:
                        continue
                    [event] = line.operands
                    if any(w.count == schedule.totals[event] for w in waits(schedule, event)):
                        found.append(Lost(network, policy, eu, line.position, event))
    random.Random(5).shuffle(found)
    return found


class Losing(EmulatedDriver):
    """A device whose memory holds a word of the schedule that differs from the host's."""

    def __init__(self, words: np.ndarray, place: int, value: int, **more) -> None:
        super().__init__(**more)
        self._lost = words, place, value

    def write(self, address: int, data: np.ndarray) -> None:
        words, place, value = self._lost
        if data.tobytes() == words.tobytes():
            changed = words.copy()
            changed[place] = value
            data = changed.view(np.uint8)
        super().write(address, data)


def message_of(artifact: Artifact, schedule: ThreadSchedule, lost: Lost, seed: int | None) -> str:
    """What is said when that signal is lost."""
    hostile = {} if seed is None else {"interleave": True, "seed": seed}
    place = schedule.threads[lost.eu].start + lost.word + 1
    meetings = len(schedule.events)  # a counter that this schedule does not read
    assert not any(line.opcode == tables.BARRIER for line in lines(parse(schedule.streams[0])))
    facts = {"capability": (8, 0), "multiprocessors": 4, **hostile}
    device = partial(Losing, schedule.words, place, meetings, **facts)
    model = GpuExecutable(artifact, device, wait_limit_s=LIMIT)
    with pytest.raises(DeviceError) as caught:
        model(*[np.ones(t.shape, t.dtype) for t in model.inputs])
    return str(caught.value)


SAID = re.compile(
    r"the schedule stopped: a wait took longer than 0\.001 s; EU (\d+) at word (\d+)"
    r" \(([^()]*)\) waits for signal (\d+) of event '([^']*)', which came (\d+) times"
    r" \(nobody is left to: past is ([^()]*)\)"
)


def check(lost: Lost, seed: int | None) -> None:
    """What is said first is right: who waits, behind and in front of which operators, for what; and
    that all that signal it, the lost signal's EU among them, are past it.
    """
    artifact = artifacts(lost.network)[lost.policy]
    schedule = combine(artifact.programs, 4)
    message = message_of(artifact, schedule, lost, seed)
    said = SAID.match(message)
    assert said, message
    eu, word, near, signal, event, came, past = said.groups()
    assert event == schedule.events[lost.event]
    total = schedule.totals[lost.event]
    assert (int(signal), int(came)) == (total, total - 1)
    possible = [w for w in waits(schedule, lost.event) if w.count == total]
    [wait] = [w for w in possible if (w.eu, w.word) == (int(eu), int(word))]
    after = f"after operator '{wait.after}'" if wait.after else ""
    before = f"before operator '{wait.before}'" if wait.before else ""
    assert near == ", ".join(filter(None, (after, before)))
    signallers = {
        f"EU {eu} at word {line.position}"
        for eu, piece in enumerate(schedule.threads)
        for line in lines(parse(piece.stream))
        if line.opcode == tables.SIGNAL and line.operands[0] == lost.event
    }
    assert set(past.split(", ")) == signallers
    assert f"EU {lost.eu} at word {lost.word}" in signallers


@pytest.mark.parametrize("number", in_turn(100, 11))
def test_a_lost_signal(number: int):
    check(cases()[number % len(cases())], number if number % 4 else None)
