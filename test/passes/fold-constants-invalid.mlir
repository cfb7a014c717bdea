// RUN: cp %s %t.mlir
// RUN: %{python} -c "import numpy as np; np.savez(r'%t.npz', w=np.zeros(3, np.float32))"
// RUN: not rc-opt %t.mlir -p fold-constants 2>&1 | filecheck %s

// CHECK: constant 'w' has 12 bytes, and the module names it as tensor<8x12xf32>
func.func @large() -> tensor<8x12xf32> {
  %w = arith.constant dense_resource<w> : tensor<8x12xf32>
  return %w : tensor<8x12xf32>
}
