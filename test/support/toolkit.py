"""Tests that need programs of the CUDA toolkit, which the extra `test` brings as wheels."""

import pytest

from rcompiler.codegen.cuda_tools import find_tool

needs_ptxas = pytest.mark.skipif(
    find_tool("ptxas") is None, reason="no ptxas: pip install nvidia-cuda-nvcc"
)
needs_sass = pytest.mark.skipif(
    find_tool("ptxas") is None or find_tool("nvdisasm") is None,
    reason="no ptxas or nvdisasm: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm",
)
