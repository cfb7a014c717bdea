"""Measured records of this machine in a folder: measured once, then found again.

One file for each machine and feature level, named by a digest of what identifies them, so that
machines that share a home folder do not share records. A file that is damaged, of another machine
or of another version of the micro-benchmarks counts as absent.
"""

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rcompiler.device.cpu import host_name
from rcompiler.device.measure import VERSION
from rcompiler.device.model import Device
from rcompiler.device.record import from_json, to_json
from rcompiler.errors import DeviceError
from rcompiler.support.private_folder import PrivateFolder

_PATIENCE_S = 5.0  # for a process that measures right now


def fingerprint(device: Device, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What identifies this machine, as one line; `device` is the host as it was detected.

    Not the affinity mask: the figures of one EU do not depend on it.
    """
    caches = " ".join(
        f"{level.name}={level.capacity}/{level.ways}/{level.line}" for level in device.memory[:-1]
    )
    features = " ".join(sorted(device.features))
    cores = os.cpu_count()
    return f"{host_name(cpuinfo)}; {cores} CPUs; {device.level_name}: {features}; {caches}"


def record_path(device: Device, folder: Path) -> Path:
    """The file of the record of this machine."""
    facts = f"{VERSION} {fingerprint(device)}"
    return folder / f"device-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.json"


def find_record(device: Device, folder: Path) -> Device | None:
    """The stored record of this machine with as many EUs as `device`; None without a valid one.

    Raises CacheError for a folder that others may write to.
    """
    path = record_path(device, folder)
    if not folder.is_dir():
        return None
    try:
        with PrivateFolder(folder) as own:
            found = from_json(own.read(path.name).decode(), str(path))
    except (DeviceError, OSError, UnicodeDecodeError):
        return None
    noted = found.measurement
    valid = (
        noted is not None
        and (noted.machine, noted.version) == (fingerprint(device), VERSION)
        and (found.kind, found.level_name, found.features)
        == (device.kind, device.level_name, device.features)
    )
    return replace(found, eus=device.eus) if valid else None


def store_record(device: Device, folder: Path) -> Path:
    """Write the record of this machine, by renaming. Raises OSError, CacheError."""
    path = record_path(device, folder)
    with PrivateFolder(folder) as own:
        own.write(path.name, to_json(device).encode())
    return path


def recorded(device: Device, folder: Path, measure: Callable[[Device], Device]) -> Device:
    """The measured record of this machine: the stored one, else measured now and stored.

    `device` itself where nothing can be stored: figures that change from build to build would be
    worse than defaults. Of several processes one measures and the others wait for it.
    """
    found = find_record(device, folder)
    if found is not None:
        return found
    try:
        with _alone(folder):
            found = find_record(device, folder)
            if found is None:
                _try_to_write(folder)
                found = measure(device)
                store_record(found, folder)
    except OSError:
        return device
    return found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; go on without it where locks do not work or never come free."""
    PrivateFolder(folder).close()
    handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # some network file systems
                break
        yield
    finally:
        os.close(handle)


def _try_to_write(folder: Path) -> None:
    """Raises OSError when a record could not be stored."""
    with tempfile.TemporaryFile(dir=folder):
        pass
