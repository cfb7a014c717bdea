// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rc-connect-operators' | filecheck %s

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>

// A softmax joins the product that reads it, is divided behind it, and its rows become stages.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: "rtask.operator"
// CHECK:         arith.maxnumf
// CHECK:         "rtask.stage"(%{{.*}}) : (tensor<1024xf32>)
// CHECK:         math.exp
// CHECK:         "rtask.stage"(%{{.*}}) : (tensor<1024x512xf32>)
// CHECK:         "rtask.stage"(%{{.*}}) : (tensor<1024xf32>)
// CHECK:         ins(%{{.*}}, %arg1 :
// CHECK:         arith.divf
// CHECK-NOT:     "rtask.operator"
func.func @main(%x: tensor<1024x512xf32>, %v: tensor<512x64xf32>) -> tensor<1024x64xf32> {
  %w = "rtask.operator"() ({
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %re = tensor.empty() : tensor<1024xf32>
    %xe = tensor.empty() : tensor<1024x512xf32>
    %mf = linalg.fill ins(%low : f32) outs(%re : tensor<1024xf32>) -> tensor<1024xf32>
    %lf = linalg.fill ins(%zero : f32) outs(%re : tensor<1024xf32>) -> tensor<1024xf32>
    %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024x512xf32>) outs(%mf : tensor<1024xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.maxnumf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<1024xf32>
    %e = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<1024x512xf32>, tensor<1024xf32>) outs(%xe : tensor<1024x512xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.subf %a, %c : f32
      %q = math.exp %d : f32
      linalg.yield %q : f32
    } -> tensor<1024x512xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<1024x512xf32>) outs(%lf : tensor<1024xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.addf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<1024xf32>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %l : tensor<1024x512xf32>, tensor<1024xf32>) outs(%xe : tensor<1024x512xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %one = arith.constant 1.0 : f32
      %f = arith.divf %one, %c : f32
      %q = arith.mulf %a, %f : f32
      linalg.yield %q : f32
    } -> tensor<1024x512xf32>
    "rtask.yield"(%p) : (tensor<1024x512xf32>) -> ()
  }) {kind = "reduction", sym_name = "softmax"} : () -> tensor<1024x512xf32>
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %oe = tensor.empty() : tensor<1024x64xf32>
    %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<1024x64xf32>) -> tensor<1024x64xf32>
    %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %v : tensor<1024x512xf32>, tensor<512x64xf32>) outs(%of : tensor<1024x64xf32>) {
    ^bb0(%a: f32, %c: f32, %acc: f32):
      %u = arith.mulf %a, %c : f32
      %q = arith.addf %acc, %u : f32
      linalg.yield %q : f32
    } -> tensor<1024x64xf32>
    "rtask.yield"(%y) : (tensor<1024x64xf32>) -> ()
  }) {kind = "contraction", sym_name = "values"} : () -> tensor<1024x64xf32>
  return %r : tensor<1024x64xf32>
}
