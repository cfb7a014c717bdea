"""ONNX models to S1: ``linalg`` on static tensors, weights beside the module."""

from .onnx_graph import Imported, TensorSpec, import_onnx

__all__ = ["Imported", "TensorSpec", "import_onnx"]
