"""ONNX models to S1: ``linalg`` on static tensors, weights beside the module."""

from .onnx_graph import Imported, TensorSpec, check, import_onnx

__all__ = ["Imported", "TensorSpec", "check", "import_onnx"]
