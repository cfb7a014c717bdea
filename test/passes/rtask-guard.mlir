// RUN: rc-opt %s --split-input-file -p 'rtask-form{apart=true},rtask-guard' | filecheck %s
// RUN: rc-opt %s --split-input-file -p 'rtask-form,rtask-guard' | filecheck %s --check-prefix=TOGETHER

// The product matters where %c is true, the sum where it is not.
// CHECK-LABEL: func.func @main
// CHECK:      %[[A:.*]] = "rtask.operator"() ({
// CHECK-NEXT:   "rtask.guard"(%arg0) {holds = true} : (tensor<i1>) -> ()
// CHECK:        arith.mulf
// CHECK:      }) {kind = "contraction"
// CHECK:      %[[B:.*]] = "rtask.operator"() ({
// CHECK-NEXT:   "rtask.guard"(%arg0) {holds = false} : (tensor<i1>) -> ()
// CHECK:        math.exp
// CHECK:      })
// CHECK:      "rtask.operator"() ({
// CHECK-NOT:    "rtask.guard"
// CHECK:        arith.select
// TOGETHER-LABEL: func.func @main
// TOGETHER-NOT:   holds = true
#id = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0, d1) -> ()>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @main(%c: tensor<i1>, %x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<256x256xf32>) -> tensor<256x256xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<256x256xf32>, tensor<256x256xf32>) outs(%f : tensor<256x256xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<256x256xf32>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<256x256xf32>) outs(%e : tensor<256x256xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.exp %l : f32
    linalg.yield %s : f32
  } -> tensor<256x256xf32>
  %y = linalg.generic {indexing_maps = [#one, #id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %p, %q : tensor<i1>, tensor<256x256xf32>, tensor<256x256xf32>) outs(%e : tensor<256x256xf32>) {
  ^bb0(%t: i1, %l: f32, %r: f32, %o: f32):
    %s = arith.select %t, %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<256x256xf32>
  return %y : tensor<256x256xf32>
}

// -----

// There is little to do under the condition, and %both is used always, too.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   rtask.guard
#id = affine_map<(d0) -> (d0)>
#one = affine_map<(d0) -> ()>
func.func @main(%c: tensor<i1>, %x: tensor<65536xf32>) -> (tensor<65536xf32>, tensor<65536xf32>, tensor<16xf32>) {
  %e = tensor.empty() : tensor<65536xf32>
  %both = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.exp %l : f32
    linalg.yield %s : f32
  } -> tensor<65536xf32>
  %part = tensor.extract_slice %x[0] [16] [1] : tensor<65536xf32> to tensor<16xf32>
  %few = tensor.empty() : tensor<16xf32>
  %small = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%part : tensor<16xf32>) outs(%few : tensor<16xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.sqrt %l : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  %chosen = linalg.generic {indexing_maps = [#one, #id, #id, #id], iterator_types = ["parallel"]} ins(%c, %small, %part : tensor<i1>, tensor<16xf32>, tensor<16xf32>) outs(%few : tensor<16xf32>) {
  ^bb0(%t: i1, %l: f32, %r: f32, %o: f32):
    %s = arith.select %t, %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  %put = tensor.insert_slice %chosen into %x[0] [16] [1] : tensor<16xf32> into tensor<65536xf32>
  %y = linalg.generic {indexing_maps = [#one, #id, #id, #id], iterator_types = ["parallel"]} ins(%c, %both, %x : tensor<i1>, tensor<65536xf32>, tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%t: i1, %l: f32, %r: f32, %o: f32):
    %s = arith.select %t, %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<65536xf32>
  return %both, %y, %chosen : tensor<65536xf32>, tensor<65536xf32>, tensor<16xf32>
}
