// RUN: rc-opt %s -p rtask-sink-reshapes --split-input-file | filecheck %s

#x = affine_map<(g, c, w, k) -> (g, w, k)>
#w = affine_map<(g, c, w, k) -> (g, c, k)>
#y = affine_map<(g, c, w, k) -> (g, c, w)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#channel = affine_map<(d0, d1) -> (d0)>

// Bias and pad work on groups and channels apart; the bias is seen in that shape.
// CHECK-LABEL: func.func @grouped
// CHECK:       %[[Y:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK:       %[[V:.*]] = tensor.expand_shape %arg2 {{\[\[}}0, 1]] output_shape [2, 4]
// CHECK:       %[[Z:.*]] = linalg.generic {{.*}} ins(%[[Y]], %[[V]] : tensor<2x4x8xf32>, tensor<2x4xf32>)
// CHECK:       %[[P:.*]] = tensor.pad %[[Z]] low[0, 0, 1] high[0, 0, 2]
// CHECK:       %[[C:.*]] = tensor.collapse_shape %[[P]] {{\[\[}}0, 1], [2]]
// CHECK-NEXT:  return %[[C]]
func.func @grouped(%x: tensor<2x8x3xf32>, %w: tensor<2x4x3xf32>, %b: tensor<8xf32>) -> tensor<8x11xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x8x3xf32>, tensor<2x4x3xf32>) outs(%f : tensor<2x4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x4x8xf32>
  %c = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x4x8xf32> into tensor<8x8xf32>
  %n = tensor.empty() : tensor<8x8xf32>
  %z = linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %b : tensor<8x8xf32>, tensor<8xf32>) outs(%n : tensor<8x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %p = tensor.pad %z low[0, 1] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<8x8xf32> to tensor<8x11xf32>
  return %p : tensor<8x11xf32>
}

// -----

#x = affine_map<(g, c, w, k) -> (g, w, k)>
#w = affine_map<(g, c, w, k) -> (g, c, k)>
#y = affine_map<(g, c, w, k) -> (g, c, w)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>

// A transposition and a pad of the collapsed dim read the collapsed tensor.
// CHECK-LABEL: func.func @other_readers
// CHECK:       %[[C:.*]] = tensor.collapse_shape
// CHECK:       linalg.generic {{.*}} ins(%[[C]] : tensor<8x8xf32>)
// CHECK:       tensor.pad %[[C]] low[1, 0]
func.func @other_readers(%x: tensor<2x8x3xf32>, %w: tensor<2x4x3xf32>) -> (tensor<8x8xf32>, tensor<9x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x8x3xf32>, tensor<2x4x3xf32>) outs(%f : tensor<2x4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x4x8xf32>
  %c = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x4x8xf32> into tensor<8x8xf32>
  %n = tensor.empty() : tensor<8x8xf32>
  %z = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x8xf32>) outs(%n : tensor<8x8xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %p = tensor.pad %c low[1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<8x8xf32> to tensor<9x8xf32>
  return %z, %p : tensor<8x8xf32>, tensor<9x8xf32>
}
