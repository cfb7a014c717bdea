// RUN: rc-opt %s -p 'rtask-widen-halves{sums}' | filecheck %s

#row = affine_map<(m, k) -> (m, k)>
#one = affine_map<(m) -> (m)>

// A sum, and what is computed of sums and constants alone, is f32; what reads it stores 16 bits,
// and so does everything else.
// CHECK-LABEL: func.func @variance
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x64xf16>)
// CHECK: arith.mulf %{{.*}} : f16
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4x64xf16>) outs(%{{.*}} : tensor<4xf32>)
// CHECK-NOT: truncf
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4xf32>) outs(%{{.*}} : tensor<4xf32>)
// CHECK: math.sqrt %{{.*}} : f32
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x64xf16>, tensor<4xf32>) outs(%{{.*}} : tensor<4x64xf16>)
// CHECK: arith.divf %{{.*}} : f32
// CHECK: arith.truncf
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x64xf16>)
// CHECK: arith.negf %{{.*}} : f16
func.func @variance(%x: tensor<4x64xf16>) -> tensor<4x64xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x64xf16>
  %q = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x64xf16>) outs(%e : tensor<4x64xf16>) {
  ^bb0(%a: f16, %o: f16):
    %s = arith.mulf %a, %a : f16
    linalg.yield %s : f16
  } -> tensor<4x64xf16>
  %f = tensor.empty() : tensor<4xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#row, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%q : tensor<4x64xf16>) outs(%g : tensor<4xf32>) {
  ^bb0(%a: f16, %o: f32):
    %u = arith.extf %a : f16 to f32
    %t = arith.addf %o, %u : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %h = tensor.empty() : tensor<4xf16>
  %t = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%h : tensor<4xf16>) {
  ^bb0(%a: f32, %o: f16):
    %r = arith.truncf %a : f32 to f16
    linalg.yield %r : f16
  } -> tensor<4xf16>
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%t : tensor<4xf16>) outs(%h : tensor<4xf16>) {
  ^bb0(%a: f16, %o: f16):
    %v = math.sqrt %a : f16
    linalg.yield %v : f16
  } -> tensor<4xf16>
  %y = linalg.generic {indexing_maps = [#row, affine_map<(m, k) -> (m)>, #row], iterator_types = ["parallel", "parallel"]} ins(%x, %r : tensor<4x64xf16>, tensor<4xf16>) outs(%e : tensor<4x64xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %v = arith.divf %a, %b : f16
    linalg.yield %v : f16
  } -> tensor<4x64xf16>
  %z = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x64xf16>) outs(%e : tensor<4x64xf16>) {
  ^bb0(%a: f16, %o: f16):
    %v = arith.negf %a : f16
    linalg.yield %v : f16
  } -> tensor<4x64xf16>
  return %z : tensor<4x64xf16>
}
