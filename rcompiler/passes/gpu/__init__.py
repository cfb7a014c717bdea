"""gpu.module -> the llvm dialect of one kind of GPU: what the passes gpu-to-... share."""
