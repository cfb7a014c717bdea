// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},rtask-merge-siblings' | filecheck %s

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#t = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (n)>

// Two narrow products and their biases become one of each; the sum reads the parts.
// CHECK-LABEL: func.func @siblings
// CHECK: %[[W:.*]] = tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<64x4xf32>, tensor<64x6xf32>)
// CHECK: %[[B:.*]] = tensor.concat dim(0) %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<6xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%arg0, %[[W]] : {{.*}} outs(%{{.*}} : tensor<4x10xf32>)
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[Y]], %[[B]] :
// CHECK: tensor.extract_slice %[[Z]][0, 0] [4, 4] [1, 1]
// CHECK: tensor.extract_slice %[[Z]][0, 4] [4, 6] [1, 1]
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
func.func @siblings(%x: tensor<4x64xf32>, %p: tensor<4x4xf32>, %q: tensor<4x6xf32>) -> (tensor<4x4xf32>, tensor<4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x4xf32>
  %b1 = arith.constant dense_resource<b1> : tensor<4xf32>
  %a_e = tensor.empty() : tensor<4x4xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x4xf32>) outs(%a_f : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %c_e = tensor.empty() : tensor<4x4xf32>
  %c = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b1 : tensor<4x4xf32>, tensor<4xf32>) outs(%c_e : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<64x6xf32>
  %b2 = arith.constant dense_resource<b2> : tensor<6xf32>
  %d_e = tensor.empty() : tensor<4x6xf32>
  %d_f = linalg.fill ins(%zero : f32) outs(%d_e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %d = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x6xf32>) outs(%d_f : tensor<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x6xf32>
  %g_e = tensor.empty() : tensor<4x6xf32>
  %g = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%d, %b2 : tensor<4x6xf32>, tensor<6xf32>) outs(%g_e : tensor<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x6xf32>
  %h_e = tensor.empty() : tensor<4x4xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %p : tensor<4x4xf32>, tensor<4x4xf32>) outs(%h_e : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %i_e = tensor.empty() : tensor<4x6xf32>
  %i = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%g, %q : tensor<4x6xf32>, tensor<4x6xf32>) outs(%i_e : tensor<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x6xf32>
  return %h, %i : tensor<4x4xf32>, tensor<4x6xf32>
}

// The products of two tensors are added before the cut.
// CHECK-LABEL: func.func @gates
// CHECK-COUNT-2: outs({{.*}} : tensor<1x8xf32>) {
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins({{.*}} : tensor<1x8xf32>, tensor<1x8xf32>)
// CHECK: tensor.extract_slice %[[S]][0, 0] [1, 4]
// CHECK: tensor.extract_slice %[[S]][0, 4] [1, 4]
// CHECK: linalg.generic
// CHECK-NOT: linalg.generic
func.func @gates(%x: tensor<1x64xf32>, %h: tensor<1x64xf32>) -> tensor<1x4xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense<1.0> : tensor<64x4xf32>
  %w2 = arith.constant dense<2.0> : tensor<64x4xf32>
  %u1 = arith.constant dense<3.0> : tensor<64x4xf32>
  %u2 = arith.constant dense<4.0> : tensor<64x4xf32>
  %x1_e = tensor.empty() : tensor<1x4xf32>
  %x1_f = linalg.fill ins(%zero : f32) outs(%x1_e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %x1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<1x64xf32>, tensor<64x4xf32>) outs(%x1_f : tensor<1x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  %h1_e = tensor.empty() : tensor<1x4xf32>
  %h1_f = linalg.fill ins(%zero : f32) outs(%h1_e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %h1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %u1 : tensor<1x64xf32>, tensor<64x4xf32>) outs(%h1_f : tensor<1x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  %s1_e = tensor.empty() : tensor<1x4xf32>
  %s1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x1, %h1 : tensor<1x4xf32>, tensor<1x4xf32>) outs(%s1_e : tensor<1x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  %x2_e = tensor.empty() : tensor<1x4xf32>
  %x2_f = linalg.fill ins(%zero : f32) outs(%x2_e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %x2 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<1x64xf32>, tensor<64x4xf32>) outs(%x2_f : tensor<1x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  %h2_e = tensor.empty() : tensor<1x4xf32>
  %h2_f = linalg.fill ins(%zero : f32) outs(%h2_e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %h2 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %u2 : tensor<1x64xf32>, tensor<64x4xf32>) outs(%h2_f : tensor<1x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  %s2_e = tensor.empty() : tensor<1x4xf32>
  %s2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x2, %h2 : tensor<1x4xf32>, tensor<1x4xf32>) outs(%s2_e : tensor<1x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  %y_e = tensor.empty() : tensor<1x4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%s1, %s2 : tensor<1x4xf32>, tensor<1x4xf32>) outs(%y_e : tensor<1x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}

// Epilogues that differ read the parts.
// CHECK-LABEL: func.func @different_epilogues
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<4x16xf32>)
// CHECK: %[[A:.*]] = tensor.extract_slice %[[Y]][0, 0]
// CHECK: %[[B:.*]] = tensor.extract_slice %[[Y]][0, 8]
// CHECK: linalg.generic {{.*}} ins(%[[A]], %arg1
// CHECK: linalg.generic {{.*}} ins(%[[B]], %arg1
func.func @different_epilogues(%x: tensor<4x64xf32>, %p: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<64x8xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %c_e = tensor.empty() : tensor<4x8xf32>
  %c = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %p : tensor<4x8xf32>, tensor<4x8xf32>) outs(%c_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %d_e = tensor.empty() : tensor<4x8xf32>
  %d = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%b, %p : tensor<4x8xf32>, tensor<4x8xf32>) outs(%d_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %e_e = tensor.empty() : tensor<4x8xf32>
  %e = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %d : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %e : tensor<4x8xf32>
}

// What the cases below differ from in one point.
// CHECK-LABEL: func.func @meeting
// CHECK-COUNT-2: tensor.extract_slice
func.func @meeting(%x: tensor<4x64xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<64x8xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y_e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Siblings read one tensor whole: another depth is another tensor.
// CHECK-LABEL: func.func @other_depth
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @other_depth(%x: tensor<4x64xf32>, %z: tensor<4x32xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<32x8xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%z, %w2 : tensor<4x32xf32>, tensor<32x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y_e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Weights that are no constants stay where they are.
// CHECK-LABEL: func.func @weights_of_the_caller
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @weights_of_the_caller(%x: tensor<4x64xf32>, %w1: tensor<64x8xf32>, %w2: tensor<64x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y_e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// One by columns, one by rows.
// CHECK-LABEL: func.func @stored_otherwise
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @stored_otherwise(%x: tensor<4x64xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<8x64xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #t, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<8x64xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y_e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Both are built in place in the concatenation.
// CHECK-LABEL: func.func @concatenated
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @concatenated(%x: tensor<4x64xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<64x8xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// A reshape of a part would be a copy.
// CHECK-LABEL: func.func @reshaped
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @reshaped(%x: tensor<4x64xf32>) -> tensor<8x2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<64x8xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y_e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %v = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %u = tensor.expand_shape %y [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %c = tensor.concat dim(0) %u, %v : (tensor<4x2x4xf32>, tensor<4x2x4xf32>) -> tensor<8x2x4xf32>
  return %c : tensor<8x2x4xf32>
}

// Each fills the registers alone.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @wide(%x: tensor<4x64xf32>) -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x32xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<64x32xf32>
  %a_e = tensor.empty() : tensor<4x32xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x32xf32>) -> tensor<4x32xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x32xf32>) outs(%a_f : tensor<4x32xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x32xf32>
  %b_e = tensor.empty() : tensor<4x32xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x32xf32>) -> tensor<4x32xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x32xf32>) outs(%b_f : tensor<4x32xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x32xf32>
  %y_e = tensor.empty() : tensor<4x32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x32xf32>, tensor<4x32xf32>) outs(%y_e : tensor<4x32xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// The same product twice is for cse.
// CHECK-LABEL: func.func @same_weights
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @same_weights(%x: tensor<4x64xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y_e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Weights of another type.
// CHECK-LABEL: func.func @other_types
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @other_types(%x: tensor<4x64xf16>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w1 = arith.constant dense_resource<w1> : tensor<64x8xf16>
  %w2 = arith.constant dense_resource<w2> : tensor<64x8xf32>
  %a_e = tensor.empty() : tensor<4x8xf32>
  %a_f = linalg.fill ins(%zero : f32) outs(%a_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf16>, tensor<64x8xf16>) outs(%a_f : tensor<4x8xf32>) {
  ^bb0(%l: f16, %r: f16, %o: f32):
    %lw = arith.extf %l : f16 to f32
    %rw = arith.extf %r : f16 to f32
    %m = arith.mulf %lw, %rw : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %b_e = tensor.empty() : tensor<4x8xf32>
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf16>, tensor<64x8xf32>) outs(%b_f : tensor<4x8xf32>) {
  ^bb0(%l: f16, %r: f32, %o: f32):
    %lw = arith.extf %l : f16 to f32
    %m = arith.mulf %lw, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %y_e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y_e : tensor<4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Sums that start from what is computed stay.
// CHECK-LABEL: func.func @computed_start
// CHECK-NOT: tensor.concat
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
func.func @computed_start(%x: tensor<4x64xf32>, %start: tensor<f32>) -> tensor<4x4xf32> {
  %number = tensor.extract %start[] : tensor<f32>
  %w1 = arith.constant dense<1.0> : tensor<64x4xf32>
  %w2 = arith.constant dense<2.0> : tensor<64x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%number : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w1 : tensor<4x64xf32>, tensor<64x4xf32>) outs(%f : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w2 : tensor<4x64xf32>, tensor<64x4xf32>) outs(%f : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
