"""From LLVM-dialect MLIR to machine code in one flat image. The only users of llvmlite."""
