"""From LLVM-dialect MLIR to machine code in one flat image. The only user of llvmlite."""
