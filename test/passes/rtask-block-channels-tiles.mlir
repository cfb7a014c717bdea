// RUN: rc-opt %s -p 'rtask-block-channels{tile-lanes=64}' | filecheck %s
// RUN: rc-opt %s -p 'rtask-block-channels' | filecheck %s --check-prefix=VECTORS

// Bytes that tile registers multiply lie in blocks of 64 channels, where that pays.
// CHECK-LABEL: func.func @wide
// CHECK: tensor<1x2x8x8x64xi8>
// CHECK: tensor<2x2x1x1x64x64xi8>
// VECTORS-LABEL: func.func @wide
// VECTORS: tensor<1x8x8x8x16xi8>
func.func @wide(%x: tensor<1x128x8x8xi8>, %w: tensor<128x128x1x1xi8>) -> tensor<1x128x8x8xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x128x8x8xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<1x128x8x8xi32>) -> tensor<1x128x8x8xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x128x8x8xi8>, tensor<128x128x1x1xi8>) outs(%f : tensor<1x128x8x8xi32>) {
  ^bb0(%l: i8, %r: i8, %acc: i32):
    %u = arith.extui %l : i8 to i32
    %v = arith.extsi %r : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x128x8x8xi32>
  return %a : tensor<1x128x8x8xi32>
}

// Blocks of 64 would compute sixteen times as much.
// CHECK-LABEL: func.func @narrow
// CHECK: tensor<1x1x8x8x16xi8>
func.func @narrow(%x: tensor<1x16x8x8xi8>, %w: tensor<16x16x1x1xi8>) -> tensor<1x16x8x8xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x16x8x8xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<1x16x8x8xi32>) -> tensor<1x16x8x8xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x8x8xi8>, tensor<16x16x1x1xi8>) outs(%f : tensor<1x16x8x8xi32>) {
  ^bb0(%l: i8, %r: i8, %acc: i32):
    %u = arith.extui %l : i8 to i32
    %v = arith.extsi %r : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x16x8x8xi32>
  return %a : tensor<1x16x8x8xi32>
}
