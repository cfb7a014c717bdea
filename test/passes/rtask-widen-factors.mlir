// RUN: rc-opt %s -p 'rtask-widen-factors' | filecheck %s
// RUN: rc-opt %s -p 'rtask-widen-factors{bf16}' | filecheck %s --check-prefix=PAIRS

// Both factors are shared by eight results or more.
// CHECK-LABEL: func.func @shared
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<16x64xf16>) outs(%{{.*}} : tensor<16x64xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<64x32xf16>) outs(%{{.*}} : tensor<64x32xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[B]] : tensor<16x64xf32>, tensor<64x32xf32>)
// CHECK-NOT: extf
// CHECK: linalg.yield
func.func @shared(%x: tensor<16x64xf16>, %w: tensor<64x32xf16>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x64xf16>, tensor<64x32xf16>) outs(%f : tensor<16x32xf32>) {
  ^bb0(%a: f16, %b: f16, %acc: f32):
    %u = arith.extf %a : f16 to f32
    %v = arith.extf %b : f16 to f32
    %m = arith.mulf %u, %v : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}

// The weights of a product with one row are read once: they stay as they are.
// CHECK-LABEL: func.func @one_row
// CHECK: %[[A:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x64xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[A]], %{{.*}} : tensor<1x64xf32>, tensor<64x32xf16>)
func.func @one_row(%x: tensor<1x64xf16>, %w: tensor<64x32xf16>) -> tensor<1x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32xf32>) -> tensor<1x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x64xf16>, tensor<64x32xf16>) outs(%f : tensor<1x32xf32>) {
  ^bb0(%a: f16, %b: f16, %acc: f32):
    %u = arith.extf %a : f16 to f32
    %v = arith.extf %b : f16 to f32
    %m = arith.mulf %u, %v : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}

// bf16 stays where an instruction takes words of two.
// CHECK-LABEL: func.func @pairs
// CHECK-NOT:   tensor<16x64xf32>
// PAIRS-LABEL: func.func @pairs
// PAIRS: linalg.generic {{.*}} : tensor<16x64xf32>, tensor<64x32xf32>)
func.func @pairs(%x: tensor<16x64xbf16>, %w: tensor<64x32xbf16>) -> tensor<16x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x64xbf16>, tensor<64x32xbf16>) outs(%f : tensor<16x32xf32>) {
  ^bb0(%a: bf16, %b: bf16, %acc: f32):
    %u = arith.extf %a : bf16 to f32
    %v = arith.extf %b : bf16 to f32
    %m = arith.mulf %u, %v : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}
