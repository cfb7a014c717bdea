"""Lowerings of ONNX operators; every module here is found by listing the folder."""
