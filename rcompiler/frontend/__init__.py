"""ONNX models to S1: ``linalg`` on static tensors, weights beside the module."""
