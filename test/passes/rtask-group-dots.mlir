// RUN: rc-opt %s -p rtask-group-dots | filecheck %s

// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG: #[[PANELS:.*]] = affine_map<(d0, d1, d2, d3) -> (d1 floordiv 16, d2, d1 mod 16, d3)>
// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d1, d3)>
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d4, d2 + d5, d6, d7)>
// CHECK-DAG: #[[FILTERS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d4, d5, d6, d3, d7)>

// Panels of columns keep their place around the groups; the signs in the body stay.
// CHECK-LABEL: func.func @bytes(
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{.*}} : tensor<6x32xi8> into tensor<6x8x4xi8>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<3x8x16x4xi8>)
// CHECK: linalg.generic {indexing_maps = [#[[ROWS]], #[[PANELS]], {{.*}} "reduction", "reduction"]} ins(%[[X]], %[[W]] :
// CHECK: arith.extui
// CHECK: arith.extsi
func.func @bytes(%x: tensor<6x32xi8>) -> tensor<6x48xi32> {
  %w = arith.constant dense_resource<w_0> : tensor<3x32x16xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<6x48xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<6x48xi32>) -> tensor<6x48xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n floordiv 16, k, n mod 16)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x32xi8>, tensor<3x32x16xi8>) outs(%f : tensor<6x48xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<6x48xi32>
  return %y : tensor<6x48xi32>
}

// 30 steps become 8 groups, padded on both sides; weights by rows are turned, so that vectors run along the columns.
// CHECK-LABEL: func.func @ragged_by_rows(
// CHECK: tensor.pad %{{.*}} low[0, 0] high[0, 2]
// CHECK: %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<8x8x4xi8>)
// CHECK: %[[P:.*]] = tensor.pad %arg0 low[0, 0] high[0, 2]
// CHECK: %[[X:.*]] = tensor.expand_shape %[[P]] {{.*}} into tensor<6x8x4xi8>
// CHECK: linalg.generic {indexing_maps = [#[[COLUMNS]], #[[ROWS]], {{.*}} ins(%[[W]], %[[X]] :
func.func @ragged_by_rows(%x: tensor<6x30xi8>) -> tensor<6x8xi32> {
  %w = arith.constant dense_resource<w_1> : tensor<8x30xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<6x8xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<6x8xi32>) -> tensor<6x8xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %x : tensor<8x30xi8>, tensor<6x30xi8>) outs(%f : tensor<6x8xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extsi %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<6x8xi32>
  return %y : tensor<6x8xi32>
}

// The channel lanes of a blocked image.
// CHECK-LABEL: func.func @convolution(
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{.*}} into tensor<1x2x6x4x4xi8>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x2x3x4x16x4xi8>)
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], #[[FILTERS]], {{.*}} ins(%[[X]], %[[W]] :
func.func @convolution(%x: tensor<1x2x6x16xi8>) -> tensor<1x2x4x16xi32> {
  %w = arith.constant dense_resource<w_2> : tensor<2x2x3x16x16xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x2x4x16xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<1x2x4x16xi32>) -> tensor<1x2x4x16xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, o, h, ol, i, p, il) -> (n, i, h + p, il)>, affine_map<(n, o, h, ol, i, p, il) -> (o, i, p, il, ol)>, affine_map<(n, o, h, ol, i, p, il) -> (n, o, h, ol)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x2x6x16xi8>, tensor<2x2x3x16x16xi8>) outs(%f : tensor<1x2x4x16xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x2x4x16xi32>
  return %y : tensor<1x2x4x16xi32>
}

// Pairs of bf16.
// CHECK-LABEL: func.func @bf16(
// CHECK: tensor.expand_shape %arg0 {{.*}} into tensor<6x16x2xbf16>
// CHECK: outs(%{{.*}} : tensor<3x16x16x2xbf16>)
func.func @bf16(%x: tensor<6x32xbf16>) -> tensor<6x48xf32> {
  %w = arith.constant dense_resource<w_3> : tensor<3x32x16xbf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x48xf32>) -> tensor<6x48xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n floordiv 16, k, n mod 16)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x32xbf16>, tensor<3x32x16xbf16>) outs(%f : tensor<6x48xf32>) {
  ^bb0(%a: bf16, %b: bf16, %acc: f32):
    %u = arith.extf %a : bf16 to f32
    %v = arith.extf %b : bf16 to f32
    %m = arith.mulf %u, %v : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<6x48xf32>
  return %y : tensor<6x48xf32>
}

// Neither a window that is innermost, nor operands that are not constant.
// CHECK-LABEL: func.func @alone(
// CHECK-NOT: tensor.expand_shape
// CHECK: return
func.func @alone(%x: tensor<6x10xi8>, %v: tensor<10x48xi8>) -> (tensor<48x8xi32>, tensor<6x48xi32>) {
  %w = arith.constant dense_resource<w_4> : tensor<48x6x3xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<48x8xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<48x8xi32>) -> tensor<48x8xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(o, h, i, p) -> (i, h + p)>, affine_map<(o, h, i, p) -> (o, i, p)>, affine_map<(o, h, i, p) -> (o, h)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<6x10xi8>, tensor<48x6x3xi8>) outs(%f : tensor<48x8xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %t = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %t : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<48x8xi32>
  %e1 = tensor.empty() : tensor<6x48xi32>
  %f1 = linalg.fill ins(%zero : i32) outs(%e1 : tensor<6x48xi32>) -> tensor<6x48xi32>
  %z = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %v : tensor<6x10xi8>, tensor<10x48xi8>) outs(%f1 : tensor<6x48xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %t = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %t : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<6x48xi32>
  return %y, %z : tensor<48x8xi32>, tensor<6x48xi32>
}
