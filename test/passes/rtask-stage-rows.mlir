// RUN: rc-opt %s -p 'rtask-stage-rows' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-defer-normalisation,rtask-stage-rows,roller-tile' --split-input-file | filecheck %s --check-prefix=TILED

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>

// The maximum of a row and the sum of its weights are kept; the product's results are not.
// CHECK-LABEL: func.func @softmax
// CHECK:         %[[S:.*]] = "rtask.stage"
// CHECK:         %[[M:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK:         %[[N:.*]] = "rtask.stage"(%[[M]]) : (tensor<32xf32>) -> tensor<32xf32>
// CHECK:         %[[E:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[N]] :
// CHECK:         %[[L:.*]] = linalg.generic {{.*}} ins(%[[E]] : tensor<32x128xf32>)
// CHECK:         %[[K:.*]] = "rtask.stage"(%[[L]]) : (tensor<32xf32>) -> tensor<32xf32>
// CHECK:         linalg.generic {{.*}} ins(%[[E]], %[[K]] :
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins({{.*}}, %arg1 :
// CHECK:         "rtask.yield"(%[[Y]])

// A stage of one number per row is cut as the rows are; the product's vectors run along its results.
// TILED:       "rtask.kernel"
// TILED:         "rtask.stage"(%{{.*}}) {axes = array<i64: 0, -1>, lanes = 16
// TILED:         "rtask.stage"(%{{.*}}) {axes = array<i64: 0>,
// TILED:         "rtask.stage"(%{{.*}}) {axes = array<i64: 0, -1>, lanes = 16
// TILED:         "rtask.stage"(%{{.*}}) {axes = array<i64: 0>,
// TILED:         kind = "contraction", lanes = 16 {{.*}}vector_dim = 1
// TILED-LABEL: func.func @softmax
func.func @softmax(%x: tensor<32x128xf32>, %v: tensor<128x64xf32>) -> tensor<32x64xf32> {
  %r = "rtask.operator"() ({
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %re = tensor.empty() : tensor<32xf32>
    %xe = tensor.empty() : tensor<32x128xf32>
    %oe = tensor.empty() : tensor<32x64xf32>
    %mf = linalg.fill ins(%low : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %lf = linalg.fill ins(%zero : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<32x64xf32>) -> tensor<32x64xf32>
    %x0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x128xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = arith.addf %a, %a : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %s = "rtask.stage"(%x0) : (tensor<32x128xf32>) -> tensor<32x128xf32>
    %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<32x128xf32>) outs(%mf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.maxnumf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %e = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %m : tensor<32x128xf32>, tensor<32xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.subf %a, %c : f32
      %q = math.exp %d : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<32x128xf32>) outs(%lf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.addf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %l : tensor<32x128xf32>, tensor<32xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %one = arith.constant 1.0 : f32
      %f = arith.divf %one, %c : f32
      %q = arith.mulf %a, %f : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %w = "rtask.stage"(%p) : (tensor<32x128xf32>) -> tensor<32x128xf32>
    %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %v : tensor<32x128xf32>, tensor<128x64xf32>) outs(%of : tensor<32x64xf32>) {
    ^bb0(%a: f32, %c: f32, %acc: f32):
      %u = arith.mulf %a, %c : f32
      %q = arith.addf %acc, %u : f32
      linalg.yield %q : f32
    } -> tensor<32x64xf32>
    "rtask.yield"(%y) : (tensor<32x64xf32>) -> ()
  }) {kind = "contraction", sym_name = "op"} : () -> tensor<32x64xf32>
  return %r : tensor<32x64xf32>
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>

// Without a stage a row is computed for itself.
// CHECK-LABEL: func.func @alone
// CHECK-NOT:     rtask.stage
// CHECK:         return
func.func @alone(%x: tensor<32x128xf32>, %v: tensor<128x64xf32>) -> tensor<32x64xf32> {
  %r = "rtask.operator"() ({
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %re = tensor.empty() : tensor<32xf32>
    %xe = tensor.empty() : tensor<32x128xf32>
    %oe = tensor.empty() : tensor<32x64xf32>
    %mf = linalg.fill ins(%low : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %lf = linalg.fill ins(%zero : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<32x64xf32>) -> tensor<32x64xf32>
    %x0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x128xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = arith.addf %a, %a : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x0 : tensor<32x128xf32>) outs(%mf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.maxnumf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %e = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x0, %m : tensor<32x128xf32>, tensor<32xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.subf %a, %c : f32
      %q = math.exp %d : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<32x128xf32>) outs(%lf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.addf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %l : tensor<32x128xf32>, tensor<32xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %one = arith.constant 1.0 : f32
      %f = arith.divf %one, %c : f32
      %q = arith.mulf %a, %f : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p, %v : tensor<32x128xf32>, tensor<128x64xf32>) outs(%of : tensor<32x64xf32>) {
    ^bb0(%a: f32, %c: f32, %acc: f32):
      %u = arith.mulf %a, %c : f32
      %q = arith.addf %acc, %u : f32
      linalg.yield %q : f32
    } -> tensor<32x64xf32>
    "rtask.yield"(%y) : (tensor<32x64xf32>) -> ()
  }) {kind = "contraction", sym_name = "op"} : () -> tensor<32x64xf32>
  return %r : tensor<32x64xf32>
}
