"""How many CPUs this process may keep busy: its affinity, and what its control groups allow.

A container that is given one CPU of 64 usually sees all 64 in its affinity mask; its share is the
quota of a control group. Threads above the quota stop, all of them, for the rest of each period.

Files and their meaning: Linux, `Documentation/admin-guide/cgroup-v2.rst` (cpu.max,
cpuset.cpus.effective), `cgroup-v1/cpusets.rst`, `scheduler/sched-bwc.rst` (cpu.cfs_quota_us),
proc(5) for `mountinfo`.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

_ESCAPED = re.compile(r"\\([0-7]{3})")
_CPUSETS = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy of control groups.

    controllers: of version 1; None for the one hierarchy of version 2. root: the group that is
    seen at `place`.
    """

    controllers: frozenset[str] | None
    root: str
    place: str


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs that this process may keep busy, at least 1. root: where /proc and /sys are found."""
    return allowed(os.sched_getaffinity(0), root)


def allowed(affinity: Collection[int], root: Path) -> int:
    """Of the CPUs of an affinity mask as many as the groups of this process allow, at least 1.

    Each group from that of the process up to the top of what is mounted counts: the sets of CPUs
    are intersected, and of the quotas, in CPUs rounded up, the least holds. Files that are missing
    or make no sense limit nothing.
    """
    cpus, most = set(affinity), len(affinity)
    for folder in _folders(root):
        # A set that shares nothing with the mask numbers other CPUs: no mask could be outside it.
        cpus = (cpus & _cpuset(folder)) or cpus
        most = min(most, _quota(folder, most))
    return max(1, min(most, len(cpus)))


@lru_cache(maxsize=4)  # of the same text: it is read again and again, and changes hardly ever
def parse_mounts(mountinfo: str) -> tuple[Mount, ...]:
    """The hierarchies of control groups among the lines of /proc/self/mountinfo."""
    found = []
    for line in mountinfo.splitlines():
        fields, _, kind = line.partition(" - ")
        before, after = fields.split(), kind.split()
        if len(before) < 5 or not after or after[0] not in ("cgroup", "cgroup2"):
            continue
        controllers = None if after[0] == "cgroup2" else frozenset(after[-1].split(","))
        found.append(Mount(controllers, _plain(before[3]), _plain(before[4])))
    return tuple(found)


def parse_groups(cgroup: str) -> list[tuple[frozenset[str] | None, str]]:
    """(controllers as in `Mount`, path) of each line of /proc/self/cgroup."""
    found = []
    for line in cgroup.splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if path.startswith("/"):
            unified = number == "0" and not controllers
            found.append((None if unified else frozenset(controllers.split(",")), path))
    return found


def parse_cpus(text: str) -> set[int]:
    """The CPUs of a kernel list such as "0-3,8"; empty when it is none."""
    cpus: set[int] = set()
    try:
        for part in filter(None, text.strip().split(",")):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1))
    except ValueError:
        return set()
    return cpus


def _folders(root: Path) -> Iterator[str]:
    """The folder of each group that holds this process, from the inner to the outer ones.

    As texts: they are asked for several times by each compilation, and joining paths takes longer
    than to read the files.
    """
    top = str(root).rstrip("/")
    mounts = parse_mounts(_read(f"{top}/proc/self/mountinfo"))
    for controllers, path in parse_groups(_read(f"{top}/proc/self/cgroup")):
        for mount in mounts:
            if _same(controllers, mount.controllers):
                place = f"{top}/{mount.place.strip('/')}"
                inner = _below(path, mount.root).parts
                for depth in range(len(inner), -1, -1):
                    yield "/".join([place, *inner[:depth]])


def _same(group: frozenset[str] | None, mount: frozenset[str] | None) -> bool:
    if group is None or mount is None:
        return group is mount
    return bool(group & mount & {"cpu", "cpuset"})


def _below(path: str, top: str) -> PurePosixPath:
    """A group's path below the group that is mounted.

    Empty where it is not below: a container sees its own group at the mount point, whatever the
    path outside is, and a path with ".." leads out of the namespace.
    """
    inside = PurePosixPath(path)
    if ".." in inside.parts or not inside.is_relative_to(top):
        return PurePosixPath()
    return inside.relative_to(top)


def _cpuset(folder: str) -> set[int]:
    found = (parse_cpus(_read(f"{folder}/{name}")) for name in _CPUSETS)
    return next(filter(None, found), set())


def _quota(folder: str, most: int) -> int:
    """CPUs, rounded up; `most` where there is no limit."""
    words = _read(f"{folder}/cpu.max").split() or [
        *_read(f"{folder}/cpu.cfs_quota_us").split(),
        *_read(f"{folder}/cpu.cfs_period_us").split(),
    ]
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", or no such file
        return most
    return -(-quota // period) if quota > 0 and period > 0 else most


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)
