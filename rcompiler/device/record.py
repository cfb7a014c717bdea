"""Device records: a Device as a JSON file, which is a valid compile target.

The file holds the fields of `Device` by name; nothing may be missing except fields with a
default, and nothing may be there that is not a field, so a typing error is found, not ignored.
"""

import json
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from rcompiler.device.bsp import BSP
from rcompiler.device.gpu import GPUS, gpu_device
from rcompiler.device.matrix_unit import MatrixUnit
from rcompiler.device.measured import MeasurementOrigin, Recall
from rcompiler.device.model import MAYBE_FREE, ComputeUnit, Costs, Device, MemoryLevel
from rcompiler.device.residency import Residency
from rcompiler.device.servers import SERVERS
from rcompiler.errors import DeviceError

FORMAT = "rcompiler-device-1"
_MEASURED = Path(__file__).parent / "records"  # files of `rc-tune --device -o`, by name
_T = TypeVar("_T")


def to_json(device: Device) -> str:
    """The record as text; equal devices give equal text."""
    return json.dumps(_plain(device), indent=1, sort_keys=True) + "\n"


def to_option(device: Device) -> str:
    """The record as one line without single quotes: `device='...'` of a pass or pipeline."""
    text = json.dumps(_plain(device), sort_keys=True, separators=(",", ":"))
    return text.replace("'", "\\u0027")  # they occur inside of JSON strings only


def figures(device: Device) -> dict[str, Any]:
    """What the record says of the machine, as plain values that `from_plain` reads: not where and
    when that was measured, nor what was fitted to the times of networks, which decide nothing.

    Numbers are of the types of their fields, as in a record that was read from its text.
    """
    # not by `to_json`: what indents is Python, and leaves a cycle that is collected much later
    found = _plain(from_json(to_option(device)))
    for name in ("measurement", "recall"):
        found.pop(name, None)
    return {name: _present(value) for name, value in found.items()}


def _present(value: Any) -> Any:
    """A value without the fields that are None, in lists."""
    if isinstance(value, dict):
        return {name: _present(each) for name, each in value.items() if each is not None}
    return [_present(each) for each in value] if isinstance(value, list | tuple) else value


def _plain(device: Device) -> dict[str, Any]:
    record = asdict(device)
    record["features"] = sorted(device.features)
    for table in ("peaks", "matrix"):
        record["compute"][table] = dict(record["compute"][table])
    for name in MAYBE_FREE:
        if not record["costs"][name]:
            del record["costs"][name]
    if not device.compute.matrix_units:
        del record["compute"]["matrix_units"]
    for name in ("measurement", "recall", "residency"):
        if record[name] is None:
            del record[name]
    if device.measurement is not None:
        if others := dict(device.measurement.others):
            record["measurement"]["others"] = others
        else:
            del record["measurement"]["others"]
    return {"format": FORMAT, **record}


def from_json(text: str, origin: str = "device record") -> Device:
    """The device a record describes; DeviceError, naming `origin`, for anything odd in it."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeviceError(f"{origin}: not JSON: {error}; write it with save_device") from None
    return from_plain(record, origin)


def from_plain(record: Any, origin: str = "device record") -> Device:
    """As `from_json`, of the plain values that the text stands for."""
    record = _object(record, origin)
    if record.pop("format", None) != FORMAT:
        raise DeviceError(f'{origin}: not a device record; it must say "format": "{FORMAT}"')
    record["compute"] = _compute(record.get("compute"), f"{origin}: compute")
    levels = _list(record.get("memory"), f"{origin}: memory")
    record["memory"] = tuple(
        _build(MemoryLevel, level, f"{origin}: memory[{i}]") for i, level in enumerate(levels)
    )
    if "costs" in record:
        record["costs"] = _build(Costs, record["costs"], f"{origin}: costs")
    record["features"] = frozenset(_strings(record.get("features", []), f"{origin}: features"))
    if "measurement" in record:
        record["measurement"] = _measurement(record["measurement"], f"{origin}: measurement")
    if "recall" in record:
        record["recall"] = _build(Recall, record["recall"], f"{origin}: recall")
    if "residency" in record:
        record["residency"] = _build(Residency, record["residency"], f"{origin}: residency")
    return _build(Device, record, origin)


def save_device(device: Device, path: str | Path) -> None:
    """Write the record of a device.

    Args:
        device: what is written.
        path: of the JSON file.

    Raises:
        DeviceError: the file cannot be written.
    """
    try:
        Path(path).write_text(to_json(device))
    except OSError as error:
        raise DeviceError(f"{path}: cannot write the device record: {error.strerror}") from None


def load_device(path: str | Path) -> Device:
    """The device that a file describes.

    Args:
        path: of a record, as `save_device` writes it.

    Raises:
        DeviceError: the file cannot be read, or is no valid record.
    """
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise DeviceError(f"{path}: cannot read the device record: {reason}") from None
    return from_json(text, str(path))


def builtin_names() -> tuple[str, ...]:
    """The names of the devices that come with the compiler, sorted."""
    measured = (path.stem for path in _MEASURED.glob("*.json"))
    return tuple(sorted({*BSP, *GPUS, *SERVERS, *measured}))


def builtin_device(name: str) -> Device:
    """A device that comes with the compiler.

    Args:
        name: one of `builtin_names`.

    Raises:
        DeviceError: there is none of this name.
    """
    for known in (SERVERS, BSP):
        if name in known:
            return known[name]
    if name not in GPUS and name in builtin_names():
        return load_device(_MEASURED / f"{name}.json")
    return gpu_device(name)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DeviceError(f"{where}: {_kind(value)} where an object belongs")
    return dict(value)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise DeviceError(f"{where}: {_kind(value)} where a list belongs")
    return value


def _strings(value: Any, where: str) -> list[str]:
    found = _list(value, where)
    if not all(isinstance(text, str) for text in found):
        raise DeviceError(f"{where} {found!r}; every one is a string")
    return found


def _measurement(value: Any, where: str) -> MeasurementOrigin:
    record = _object(value, where)
    record["figures"] = tuple(_strings(record.get("figures"), f"{where}: figures"))
    if "others" in record:
        record["others"] = tuple(sorted(_object(record["others"], f"{where}: others").items()))
    return _build(MeasurementOrigin, record, where)


def _compute(value: Any, where: str) -> ComputeUnit:
    record = _object(value, where)
    for table in ("peaks", "matrix"):
        if table in record:
            pairs = _object(record[table], f"{where}: {table}")
            record[table] = tuple(sorted(pairs.items()))
    if "matrix_units" in record:
        units = _list(record["matrix_units"], f"{where}: matrix_units")
        record["matrix_units"] = tuple(
            _build(MatrixUnit, unit, f"{where}: matrix_units[{i}]") for i, unit in enumerate(units)
        )
    return _build(ComputeUnit, record, where)


# how a plain field may be written in JSON; whole numbers are also fine where a float belongs
_PLAIN: dict[Any, tuple[type, ...]] = {int: (int,), float: (int, float), str: (str,), bool: (bool,)}
_NAMES: dict[Any, str] = {int: "an integer", float: "a number", str: "a string", bool: "true/false"}


def _build(cls: type[_T], value: Any, where: str) -> _T:
    record = _object(value, where)
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(record) - set(known))
    if unknown:
        raise DeviceError(f"{where}: no field {unknown[0]!r}; it has: {', '.join(known)}")
    for name, f in known.items():
        if name not in record:
            if f.default is MISSING and f.default_factory is MISSING:
                raise DeviceError(f"{where}: the field {name!r} is missing")
            continue
        allowed = _PLAIN.get(f.type)
        wrong_bool = isinstance(record[name], bool) and f.type is not bool
        if allowed and (wrong_bool or not isinstance(record[name], allowed)):
            raise DeviceError(f"{where}: {name} is {_kind(record[name])}, not {_NAMES[f.type]}")
    try:
        floats = {name: float(record[name]) for name in record if known[name].type is float}
        return cls(**{**record, **floats})
    except DeviceError as error:
        raise DeviceError(f"{where}: {error}") from None
    except OverflowError:
        raise DeviceError(f"{where}: a number is beyond any machine") from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", type(None): "nothing"}
    return names.get(type(value), repr(value))
