// RUN: rc-opt %s -p fold-constants | filecheck %s
// RUN: cp %s %t.mlir
// RUN: %{python} -c "import numpy as np; np.savez(r'%t.npz', w=np.arange(96, dtype=np.float32))"
// RUN: rc-opt %t.mlir -p fold-constants -o %t.out.mlir
// RUN: filecheck %s --check-prefix=THERE < %t.out.mlir
// RUN: %{python} -c "import numpy as np; [w] = np.load(r'%t.out.npz').values(); print(w.view(np.float32)[:3])" | filecheck %s --check-prefix=BYTES

#id = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>

// Small constants are in the text.
// CHECK-LABEL: func.func @small
// CHECK-NEXT:    %[[c:.*]] = arith.constant dense<{{\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]>
// CHECK-NEXT:    return %[[c]]
func.func @small() -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %p = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%l: f32, %o: f32):
    linalg.yield %l : f32
  } -> tensor<2x2xf32>
  return %p : tensor<2x2xf32>
}

// The others are in the file beside it; without their arrays they stay as they are.
// CHECK-LABEL: func.func @large
// CHECK:         arith.constant dense_resource<w>
// CHECK:         linalg.generic
// THERE-LABEL: func.func @large
// THERE-NEXT:    %[[c:.*]] = arith.constant dense_resource<w_{{[0-9a-f]+}}> : tensor<12x8xf32>
// THERE-NEXT:    return %[[c]]
// BYTES:       [ 0. 12. 24.]
func.func @large() -> tensor<12x8xf32> {
  %w = arith.constant dense_resource<w> : tensor<8x12xf32>
  %e = tensor.empty() : tensor<12x8xf32>
  %p = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<8x12xf32>) outs(%e : tensor<12x8xf32>) {
  ^bb0(%l: f32, %o: f32):
    linalg.yield %l : f32
  } -> tensor<12x8xf32>
  return %p : tensor<12x8xf32>
}
