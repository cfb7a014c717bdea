// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2-small-caches.json},rtask-batch-products' | filecheck %s
// No EU can keep weights from one step to the next.

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#t = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// Rows that lie side by side in one tensor are taken from there in one piece.
// CHECK-LABEL: func.func @slices
// CHECK-NOT: tensor.concat
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[0, 0, 0] [3, 1, 64] [1, 1, 1] : tensor<4x1x64xf32> to tensor<3x1x64xf32>
// CHECK: %[[XS:.*]] = tensor.collapse_shape %[[X]] {{.*}} : tensor<3x1x64xf32> into tensor<3x64xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[XS]], %{{.*}} : tensor<3x64xf32>, tensor<64x64xf32>) outs({{.*}} : tensor<3x64xf32>)
// CHECK: %[[A:.*]] = tensor.extract_slice %[[Y]][0, 0] [1, 64] [1, 1]
// CHECK: %[[B:.*]] = tensor.extract_slice %[[Y]][1, 0] [1, 64] [1, 1]
// CHECK: %[[C:.*]] = tensor.extract_slice %[[Y]][2, 0] [1, 64] [1, 1]
// CHECK-NOT: linalg.generic
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @slices(%xs: tensor<4x1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>) {
  %s0 = tensor.extract_slice %xs[0, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<4x1x64xf32> to tensor<1x1x64xf32>
  %x0 = tensor.collapse_shape %s0 [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %s1 = tensor.extract_slice %xs[1, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<4x1x64xf32> to tensor<1x1x64xf32>
  %x1 = tensor.collapse_shape %s1 [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %s2 = tensor.extract_slice %xs[2, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<4x1x64xf32> to tensor<1x1x64xf32>
  %x2 = tensor.collapse_shape %s2 [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %y2 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x2, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %y0, %y1, %y2 : tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>
}

// All of a tensor is not cut at all.
// CHECK-LABEL: func.func @all_slices
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[XS:.*]] = tensor.collapse_shape %arg0 {{.*}} : tensor<2x1x64xf32> into tensor<2x64xf32>
// CHECK: linalg.generic {{.*}} ins(%[[XS]], %{{.*}} : tensor<2x64xf32>, tensor<64x64xf32>)
func.func @all_slices(%xs: tensor<2x1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %s0 = tensor.extract_slice %xs[0, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<2x1x64xf32> to tensor<1x1x64xf32>
  %x0 = tensor.collapse_shape %s0 [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %s1 = tensor.extract_slice %xs[1, 0, 0] [1, 1, 64] [1, 1, 1] : tensor<2x1x64xf32> to tensor<1x1x64xf32>
  %x1 = tensor.collapse_shape %s1 [[0, 1], [2]] : tensor<1x1x64xf32> into tensor<1x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %y0, %y1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// Rows of several tensors are joined.
// CHECK-LABEL: func.func @separate
// CHECK: %[[XS:.*]] = tensor.concat dim(0) %arg0, %arg1 : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<2x64xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[XS]], %{{.*}} : tensor<2x64xf32>, tensor<64x64xf32>) outs({{.*}} : tensor<2x64xf32>)
// CHECK: %[[A:.*]] = tensor.extract_slice %[[Y]][0, 0] [1, 64] [1, 1]
// CHECK: %[[B:.*]] = tensor.extract_slice %[[Y]][1, 0] [1, 64] [1, 1]
// CHECK-NOT: linalg.generic
// CHECK: return %[[A]], %[[B]]
func.func @separate(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %y0, %y1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// h' = x w + h u: the products of the inputs become one, those of the states stay.
// CHECK-LABEL: func.func @recurrent
// CHECK: %[[XS:.*]] = tensor.concat dim(0) %arg0, %arg1
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[XS]], %[[W:.*]] : tensor<2x64xf32>, tensor<64x64xf32>)
// CHECK: linalg.generic {{.*}} ins(%arg2, %[[U:.*]] : tensor<1x64xf32>, tensor<64x64xf32>)
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x64xf32>, tensor<1x64xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[H]], %[[U]] : tensor<1x64xf32>, tensor<64x64xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x64xf32>, tensor<1x64xf32>)
// CHECK-NOT: linalg.generic
func.func @recurrent(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>, %h: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %u = arith.constant dense_resource<u> : tensor<64x64xf32>
  %a0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %b0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %u : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %h0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a0, %b0 : tensor<1x64xf32>, tensor<1x64xf32>) outs(%e : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %a1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %b1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h0, %u : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %h1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a1, %b1 : tensor<1x64xf32>, tensor<1x64xf32>) outs(%e : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %h1 : tensor<1x64xf32>
}

// [x, h] w = x w0 + h w1, where only the x are known ahead. What joins them is gone.
// CHECK-LABEL: func.func @joined
// CHECK: %[[W:.*]] = arith.constant dense_resource<w> : tensor<128x64xf32>
// CHECK: %[[XS:.*]] = tensor.concat dim(0) %arg0, %arg1
// CHECK: %[[W0:.*]] = tensor.extract_slice %[[W]][0, 0] [64, 64] [1, 1]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[XS]], %[[W0]] : tensor<2x64xf32>, tensor<64x64xf32>)
// CHECK: %[[A:.*]] = tensor.extract_slice %[[Y]][0, 0] [1, 64] [1, 1]
// CHECK: %[[B:.*]] = tensor.extract_slice %[[Y]][1, 0] [1, 64] [1, 1]
// CHECK: %[[W1:.*]] = tensor.extract_slice %[[W]][64, 0] [64, 64] [1, 1]
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%arg2, %[[W1]] : tensor<1x64xf32>, tensor<64x64xf32>)
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[C]] : tensor<1x64xf32>, tensor<1x64xf32>)
// CHECK: arith.addf
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[H]], %{{.*}} : tensor<1x64xf32>, tensor<64x64xf32>)
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[D]] :
// CHECK-NOT: tensor.concat
// CHECK: return %[[Z]]
func.func @joined(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>, %h: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<128x64xf32>
  %j0 = tensor.concat dim(1) %x0, %h : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x128xf32>
  %h0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j0, %w : tensor<1x128xf32>, tensor<128x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %j1 = tensor.concat dim(1) %x1, %h0 : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x128xf32>
  %h1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j1, %w : tensor<1x128xf32>, tensor<128x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %h1 : tensor<1x64xf32>
}

// Weights of [columns, depth] are cut along their last axis; what others read stays joined.
// CHECK-LABEL: func.func @joined_by_rows
// CHECK: tensor.extract_slice %[[W:.*]][0, 0] [64, 64] [1, 1] : tensor<64x128xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x64xf32>, tensor<64x64xf32>)
// CHECK: tensor.extract_slice %[[W]][0, 64] [64, 64] [1, 1] : tensor<64x128xf32>
// CHECK: %[[J:.*]] = tensor.concat dim(1)
// CHECK: return %{{.*}}, %[[J]]
func.func @joined_by_rows(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>, %h: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x128xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x128xf32>
  %j0 = tensor.concat dim(1) %x0, %h : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x128xf32>
  %h0 = linalg.generic {indexing_maps = [#x, #t, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j0, %w : tensor<1x128xf32>, tensor<64x128xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %j1 = tensor.concat dim(1) %x1, %h0 : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x128xf32>
  %h1 = linalg.generic {indexing_maps = [#x, #t, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j1, %w : tensor<1x128xf32>, tensor<64x128xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %h1, %j1 : tensor<1x64xf32>, tensor<1x128xf32>
}

// What can be batched as it is, is not cut.
// CHECK-LABEL: func.func @joined_inputs
// CHECK: %[[A:.*]] = tensor.concat dim(1) %arg0, %arg2
// CHECK: %[[B:.*]] = tensor.concat dim(1) %arg1, %arg3
// CHECK: %[[XS:.*]] = tensor.concat dim(0) %[[A]], %[[B]]
// CHECK: linalg.generic {{.*}} ins(%[[XS]], %{{.*}} : tensor<2x128xf32>, tensor<128x64xf32>)
// CHECK-NOT: linalg.generic
func.func @joined_inputs(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>, %z0: tensor<1x64xf32>, %z1: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<128x64xf32>
  %j0 = tensor.concat dim(1) %x0, %z0 : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x128xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j0, %w : tensor<1x128xf32>, tensor<128x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %j1 = tensor.concat dim(1) %x1, %z1 : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x128xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j1, %w : tensor<1x128xf32>, tensor<128x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %y0, %y1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// Products that wait for one another stay.
// CHECK-LABEL: func.func @chain
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%arg0, %{{.*}} : tensor<1x64xf32>
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[A]], %{{.*}} : tensor<1x64xf32>
// CHECK: return %[[B]]
func.func @chain(%h: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %h0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %h1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %h1 : tensor<1x64xf32>
}

// Two rounds of the same weights: those of one round are one. What reads the first comes behind it.
// CHECK-LABEL: func.func @two_rounds
// CHECK: %[[X:.*]] = tensor.concat dim(0) %arg0, %arg1
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<2x64xf32>, tensor<64x64xf32>)
// CHECK: %[[A:.*]] = tensor.extract_slice %[[Y]][0, 0]
// CHECK: %[[B:.*]] = tensor.extract_slice %[[Y]][1, 0]
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[A]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[B]], %[[B]] :
// CHECK: %[[XX:.*]] = tensor.concat dim(0) %[[R]], %[[S]]
// CHECK: linalg.generic {{.*}} ins(%[[XX]], %{{.*}} : tensor<2x64xf32>, tensor<64x64xf32>)
// CHECK-NOT: linalg.generic
func.func @two_rounds(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %a0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %r0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a0, %a0 : tensor<1x64xf32>, tensor<1x64xf32>) outs(%e : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.maximumf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %b0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%r0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %a1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %r1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a1, %a1 : tensor<1x64xf32>, tensor<1x64xf32>) outs(%e : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.maximumf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %b1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%r1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %b0, %b1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// The first product waits for the rows of the second, and what reads it moves behind the batch.
// CHECK-LABEL: func.func @moved
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[X:.*]] = tensor.concat dim(0) %arg0, %[[Q]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<2x64xf32>, tensor<64x64xf32>)
// CHECK: %[[A:.*]] = tensor.extract_slice %[[Y]][0, 0]
// CHECK: %[[B:.*]] = tensor.extract_slice %[[Y]][1, 0]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[A]], %arg1 :
// CHECK: return %[[S]], %[[B]]
func.func @moved(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %a = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %x1 : tensor<1x64xf32>, tensor<1x64xf32>) outs(%e : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %q = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x0, %x1 : tensor<1x64xf32>, tensor<1x64xf32>) outs(%e : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.mulf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %b = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %p, %b : tensor<1x64xf32>, tensor<1x64xf32>
}

// Rows enough to use the weights many times: no gain.
// CHECK-LABEL: func.func @many_rows
// CHECK-NOT: tensor.concat
// CHECK: linalg.generic {{.*}} ins(%arg0, %{{.*}} : tensor<128x64xf32>
// CHECK: linalg.generic {{.*}} ins(%arg1, %{{.*}} : tensor<128x64xf32>
func.func @many_rows(%x0: tensor<128x64xf32>, %x1: tensor<128x64xf32>) -> (tensor<128x64xf32>, tensor<128x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x64xf32>) -> tensor<128x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<128x64xf32>, tensor<64x64xf32>) outs(%f : tensor<128x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<128x64xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<128x64xf32>, tensor<64x64xf32>) outs(%f : tensor<128x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<128x64xf32>
  return %y0, %y1 : tensor<128x64xf32>, tensor<128x64xf32>
}

// Other weights, other products.
// CHECK-LABEL: func.func @other_weights
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: linalg.generic
func.func @other_weights(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %v = arith.constant dense_resource<v> : tensor<64x64xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %v : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %y0, %y1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// Weights that are computed are none.
// CHECK-LABEL: func.func @computed_weights
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: linalg.generic
func.func @computed_weights(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>, %w: tensor<64x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %y0, %y1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// Nor are sums that start from what is computed.
// CHECK-LABEL: func.func @computed_start
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: linalg.generic
func.func @computed_start(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>, %start: tensor<f32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %zero = tensor.extract %start[] : tensor<f32>
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %y0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x0, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %y1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %w : tensor<1x64xf32>, tensor<64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %y0, %y1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// A part without elements is left out: no slice can start at the end of the weights.
// CHECK-LABEL: func.func @empty_part
// CHECK: tensor.extract_slice %[[W:.*]][0, 0] [64, 64] [1, 1] : tensor<128x64xf32>
// CHECK: tensor.extract_slice %[[W]][64, 0] [64, 64] [1, 1] : tensor<128x64xf32>
// CHECK-NOT: tensor.extract_slice %[[W]][128
func.func @empty_part(%x0: tensor<1x64xf32>, %x1: tensor<1x64xf32>, %h: tensor<1x64xf32>, %z: tensor<1x0xf32>) -> tensor<1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %w = arith.constant dense_resource<w> : tensor<128x64xf32>
  %j0 = tensor.concat dim(1) %x0, %h, %z : (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x0xf32>) -> tensor<1x128xf32>
  %h0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j0, %w : tensor<1x128xf32>, tensor<128x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %j1 = tensor.concat dim(1) %x1, %h0, %z : (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x0xf32>) -> tensor<1x128xf32>
  %h1 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%j1, %w : tensor<1x128xf32>, tensor<128x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %h1 : tensor<1x64xf32>
}
