"""The dialect that the ops of `vdevice` and its parts belong to."""

from torch_mlir.dialects import ext


class VDevice(ext.Dialect, name="vdevice"):
    """A static schedule of rTasks onto the execution units of one device."""
