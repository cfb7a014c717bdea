// RUN: rc-opt %s -p 'rtask-widen-halves{operators bf16}' | filecheck %s

#row = affine_map<(m, k) -> (m, k)>

// Within an rOperator nothing is rounded before it is stored: not the square, and not the sum that
// a task keeps; what the model rounds is rounded, and its rounding mode has done its work.
// CHECK-LABEL: func.func @norm
// CHECK: "rtask.operator"
// CHECK: arith.mulf %{{.*}} : f32
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4x64xf32>) outs(%{{.*}} : tensor<4xf32>)
// CHECK: "rtask.stage"(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x64xbf16>)
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT: linalg.yield
// CHECK: "rtask.yield"(%{{.*}}) : (tensor<4x64xbf16>) -> ()
// CHECK: "rtask.operator"
// CHECK: arith.truncf %{{[^ ]*}} : f32 to bf16
func.func @norm(%x: tensor<4x64xbf16>, %w: tensor<4x64xf32>) -> (tensor<4x64xbf16>, tensor<4x64xf32>) {
  %n = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x64xbf16>
    %q = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x64xbf16>) outs(%e : tensor<4x64xbf16>) {
    ^bb0(%a: bf16, %o: bf16):
      %s = arith.mulf %a, %a : bf16
      linalg.yield %s : bf16
    } -> tensor<4x64xbf16>
    %f = tensor.empty() : tensor<4xf32>
    %g = linalg.fill ins(%zero : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
    %s = linalg.generic {indexing_maps = [#row, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%q : tensor<4x64xbf16>) outs(%g : tensor<4xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %u = arith.extf %a : bf16 to f32
      %t = arith.addf %o, %u : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %h = tensor.empty() : tensor<4xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%h : tensor<4xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %t = arith.truncf %a : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<4xbf16>
    %k = "rtask.stage"(%r) : (tensor<4xbf16>) -> tensor<4xbf16>
    %y = linalg.generic {indexing_maps = [#row, affine_map<(m, k) -> (m)>, #row], iterator_types = ["parallel", "parallel"]} ins(%x, %k : tensor<4x64xbf16>, tensor<4xbf16>) outs(%e : tensor<4x64xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: bf16):
      %t = arith.divf %a, %b : bf16
      linalg.yield %t : bf16
    } -> tensor<4x64xbf16>
    "rtask.yield"(%y) : (tensor<4x64xbf16>) -> ()
  }) {kind = "reduction", sym_name = "norm"} : () -> tensor<4x64xbf16>
  %c = "rtask.operator"() ({
    %e = tensor.empty() : tensor<4x64xbf16>
    %r = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x64xf32>) outs(%e : tensor<4x64xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %t = arith.truncf %a to_nearest_even : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<4x64xbf16>
    %f = tensor.empty() : tensor<4x64xf32>
    %y = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<4x64xbf16>) outs(%f : tensor<4x64xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %t = arith.extf %a : bf16 to f32
      linalg.yield %t : f32
    } -> tensor<4x64xf32>
    "rtask.yield"(%y) : (tensor<4x64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "cast"} : () -> tensor<4x64xf32>
  return %n, %c : tensor<4x64xbf16>, tensor<4x64xf32>
}

// A product reads what it multiplies in 16 bits, as matrix units do.
// CHECK-LABEL: func.func @product
// CHECK: arith.mulf %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<16x64xf16>, tensor<64x32xf16>)
func.func @product(%x: tensor<16x64xf16>, %w: tensor<64x32xf16>) -> tensor<16x32xf32> {
  %y = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<16x64xf16>
    %q = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x64xf16>) outs(%e : tensor<16x64xf16>) {
    ^bb0(%a: f16, %o: f16):
      %s = arith.mulf %a, %a : f16
      linalg.yield %s : f16
    } -> tensor<16x64xf16>
    %d = tensor.empty() : tensor<16x32xf32>
    %f = linalg.fill ins(%zero : f32) outs(%d : tensor<16x32xf32>) -> tensor<16x32xf32>
    %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %w : tensor<16x64xf16>, tensor<64x32xf16>) outs(%f : tensor<16x32xf32>) {
    ^bb0(%a: f16, %b: f16, %acc: f32):
      %u = arith.extf %a : f16 to f32
      %v = arith.extf %b : f16 to f32
      %m = arith.mulf %u, %v : f32
      %s = arith.addf %acc, %m : f32
      linalg.yield %s : f32
    } -> tensor<16x32xf32>
    "rtask.yield"(%p) : (tensor<16x32xf32>) -> ()
  }) {kind = "contraction", sym_name = "product"} : () -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}
