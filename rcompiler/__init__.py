"""A deep-learning compiler on MLIR: rTask tiling, rTask scheduling, one static program."""
