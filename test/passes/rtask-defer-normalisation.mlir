// RUN: rc-opt %s -p 'rtask-defer-normalisation' --split-input-file | filecheck %s

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>

// The weights are kept as they are; what they sum up to is multiplied by 1 / sum of the weights.
// CHECK-LABEL: func.func @softmax
// CHECK:         %[[M:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<32xf32>)
// CHECK:           arith.maxnumf
// CHECK:         %[[E:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[M]] :
// CHECK:           math.exp
// CHECK:         %[[W:.*]] = "rtask.stage"(%[[E]])
// CHECK:         %[[L:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<32x128xf32>) outs({{.*}} : tensor<32xf32>)
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%[[W]], %arg1 :
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[L]] : tensor<32x64xf32>, tensor<32xf32>)
// CHECK:           %[[F:.*]] = arith.divf %{{.*}}, %{{.*}}
// CHECK:           arith.mulf %{{.*}}, %[[F]]
// CHECK:         "rtask.yield"(%[[Y]])
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

// Divided by the sum itself.
// CHECK-LABEL: func.func @quotient
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %arg1 :
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[A]], %{{.*}} : tensor<32x64xf32>, tensor<32xf32>)
// CHECK:           arith.divf
// CHECK:         "rtask.yield"(%[[Y]])
func.func @quotient(%x: tensor<32x128xf32>, %v: tensor<128x64xf32>) -> tensor<32x64xf32> {
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
      %q = arith.divf %a, %c : f32
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

// Powers of two.
// CHECK-LABEL: func.func @powers_of_two
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %arg1 :
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[A]], %{{.*}} : tensor<32x64xf32>, tensor<32xf32>)
// CHECK:           arith.divf
// CHECK:         "rtask.yield"(%[[Y]])
func.func @powers_of_two(%x: tensor<32x128xf32>, %v: tensor<128x64xf32>) -> tensor<32x64xf32> {
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
      %log2e = arith.constant 1.44269502 : f32
      %t = arith.mulf %d, %log2e : f32
      %q = math.exp2 %t : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<32x128xf32>) outs(%lf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.addf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %l : tensor<32x128xf32>, tensor<32xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %q = arith.divf %a, %c : f32
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

// Powers of a half are at least 1, without a bound.
// CHECK-LABEL: func.func @powers_of_a_half
// CHECK:         arith.divf
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %arg1 :
// CHECK:         "rtask.yield"(%[[Y]])
func.func @powers_of_a_half(%x: tensor<32x128xf32>, %v: tensor<128x64xf32>) -> tensor<32x64xf32> {
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
      %log2e = arith.constant -1.44269502 : f32
      %t = arith.mulf %d, %log2e : f32
      %q = math.exp2 %t : f32
      linalg.yield %q : f32
    } -> tensor<32x128xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<32x128xf32>) outs(%lf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.addf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %l : tensor<32x128xf32>, tensor<32xf32>) outs(%xe : tensor<32x128xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %q = arith.divf %a, %c : f32
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

// More results than weights: that would be more divisions.
// CHECK-LABEL: func.func @few_weights
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x32xf32>, tensor<32xf32>)
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x32xf32>, tensor<32xf32>)
// CHECK:         "rtask.stage"(%[[P]])
// CHECK:         %[[Y:.*]] = linalg.generic
// CHECK:         "rtask.yield"(%[[Y]])
func.func @few_weights(%x: tensor<32x32xf32>, %v: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %r = "rtask.operator"() ({
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %re = tensor.empty() : tensor<32xf32>
    %xe = tensor.empty() : tensor<32x32xf32>
    %oe = tensor.empty() : tensor<32x64xf32>
    %mf = linalg.fill ins(%low : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %lf = linalg.fill ins(%zero : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<32x64xf32>) -> tensor<32x64xf32>
    %x0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x32xf32>) outs(%xe : tensor<32x32xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = arith.addf %a, %a : f32
      linalg.yield %q : f32
    } -> tensor<32x32xf32>
    %s = "rtask.stage"(%x0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<32x32xf32>) outs(%mf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.maxnumf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %e = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %m : tensor<32x32xf32>, tensor<32xf32>) outs(%xe : tensor<32x32xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %d = arith.subf %a, %c : f32
      %q = math.exp %d : f32
      linalg.yield %q : f32
    } -> tensor<32x32xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<32x32xf32>) outs(%lf : tensor<32xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %q = arith.addf %acc, %a : f32
      linalg.yield %q : f32
    } -> tensor<32xf32>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %l : tensor<32x32xf32>, tensor<32xf32>) outs(%xe : tensor<32x32xf32>) {
    ^bb0(%a: f32, %c: f32, %o: f32):
      %one = arith.constant 1.0 : f32
      %f = arith.divf %one, %c : f32
      %q = arith.mulf %a, %f : f32
      linalg.yield %q : f32
    } -> tensor<32x32xf32>
    %w = "rtask.stage"(%p) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %v : tensor<32x32xf32>, tensor<32x64xf32>) outs(%of : tensor<32x64xf32>) {
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

// Without exponentials of differences to the maximum, the sums may overflow.
// CHECK-LABEL: func.func @no_softmax
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x128xf32>, tensor<32xf32>)
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x128xf32>, tensor<32xf32>)
// CHECK:         "rtask.stage"(%[[P]])
// CHECK:         %[[Y:.*]] = linalg.generic
// CHECK:         "rtask.yield"(%[[Y]])
func.func @no_softmax(%x: tensor<32x128xf32>, %v: tensor<128x64xf32>) -> tensor<32x64xf32> {
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
      %q = arith.mulf %a, %c : f32
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

// The sums are rounded to f16 before they could be divided.
// CHECK-LABEL: func.func @narrow
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x128xf16>, tensor<32xf16>)
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x128xf16>, tensor<32xf16>)
// CHECK:         "rtask.stage"(%[[P]])
// CHECK:         %[[Y:.*]] = linalg.generic
// CHECK:         "rtask.yield"(%[[Y]])
func.func @narrow(%x: tensor<32x128xf16>, %v: tensor<128x64xf16>) -> tensor<32x64xf16> {
  %r = "rtask.operator"() ({
    %low = arith.constant 0xFC00 : f16
    %zero = arith.constant 0.0 : f16
    %re = tensor.empty() : tensor<32xf16>
    %xe = tensor.empty() : tensor<32x128xf16>
    %oe = tensor.empty() : tensor<32x64xf16>
    %mf = linalg.fill ins(%low : f16) outs(%re : tensor<32xf16>) -> tensor<32xf16>
    %lf = linalg.fill ins(%zero : f16) outs(%re : tensor<32xf16>) -> tensor<32xf16>
    %of = linalg.fill ins(%zero : f16) outs(%oe : tensor<32x64xf16>) -> tensor<32x64xf16>
    %x0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x128xf16>) outs(%xe : tensor<32x128xf16>) {
    ^bb0(%a: f16, %o: f16):
      %q = arith.addf %a, %a : f16
      linalg.yield %q : f16
    } -> tensor<32x128xf16>
    %s = "rtask.stage"(%x0) : (tensor<32x128xf16>) -> tensor<32x128xf16>
    %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<32x128xf16>) outs(%mf : tensor<32xf16>) {
    ^bb0(%a: f16, %acc: f16):
      %q = arith.maxnumf %acc, %a : f16
      linalg.yield %q : f16
    } -> tensor<32xf16>
    %e = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %m : tensor<32x128xf16>, tensor<32xf16>) outs(%xe : tensor<32x128xf16>) {
    ^bb0(%a: f16, %c: f16, %o: f16):
      %d = arith.subf %a, %c : f16
      %q = math.exp %d : f16
      linalg.yield %q : f16
    } -> tensor<32x128xf16>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<32x128xf16>) outs(%lf : tensor<32xf16>) {
    ^bb0(%a: f16, %acc: f16):
      %q = arith.addf %acc, %a : f16
      linalg.yield %q : f16
    } -> tensor<32xf16>
    %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%e, %l : tensor<32x128xf16>, tensor<32xf16>) outs(%xe : tensor<32x128xf16>) {
    ^bb0(%a: f16, %c: f16, %o: f16):
      %one = arith.constant 1.0 : f16
      %f = arith.divf %one, %c : f16
      %q = arith.mulf %a, %f : f16
      linalg.yield %q : f16
    } -> tensor<32x128xf16>
    %w = "rtask.stage"(%p) : (tensor<32x128xf16>) -> tensor<32x128xf16>
    %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %v : tensor<32x128xf16>, tensor<128x64xf16>) outs(%of : tensor<32x64xf16>) {
    ^bb0(%a: f16, %c: f16, %acc: f16):
      %u = arith.mulf %a, %c : f16
      %q = arith.addf %acc, %u : f16
      linalg.yield %q : f16
    } -> tensor<32x64xf16>
    "rtask.yield"(%y) : (tensor<32x64xf16>) -> ()
  }) {kind = "contraction", sym_name = "op"} : () -> tensor<32x64xf16>
  return %r : tensor<32x64xf16>
}

// -----

#left = affine_map<(m, n, k) -> (k, m)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>

// The product sums along the columns, and every row has a factor of its own.
// CHECK-LABEL: func.func @columns
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x128xf32>, tensor<32xf32>)
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x128xf32>, tensor<32xf32>)
// CHECK:         "rtask.stage"(%[[P]])
// CHECK:         %[[Y:.*]] = linalg.generic
// CHECK:         "rtask.yield"(%[[Y]])
func.func @columns(%x: tensor<32x128xf32>, %v: tensor<32x16xf32>) -> tensor<128x16xf32> {
  %r = "rtask.operator"() ({
    %low = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %re = tensor.empty() : tensor<32xf32>
    %xe = tensor.empty() : tensor<32x128xf32>
    %oe = tensor.empty() : tensor<128x16xf32>
    %mf = linalg.fill ins(%low : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %lf = linalg.fill ins(%zero : f32) outs(%re : tensor<32xf32>) -> tensor<32xf32>
    %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<128x16xf32>) -> tensor<128x16xf32>
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
    %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %v : tensor<32x128xf32>, tensor<32x16xf32>) outs(%of : tensor<128x16xf32>) {
    ^bb0(%a: f32, %c: f32, %acc: f32):
      %u = arith.mulf %a, %c : f32
      %q = arith.addf %acc, %u : f32
      linalg.yield %q : f32
    } -> tensor<128x16xf32>
    "rtask.yield"(%y) : (tensor<128x16xf32>) -> ()
  }) {kind = "contraction", sym_name = "op"} : () -> tensor<128x16xf32>
  return %r : tensor<128x16xf32>
}
