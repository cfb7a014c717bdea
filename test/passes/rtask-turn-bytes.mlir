// RUN: rc-opt %s -p rtask-turn-bytes --split-input-file | filecheck %s

// Panels of 32 columns: the 64 steps of a column come to lie side by side, and the map reads them there. Both products
// that read the panels share one copy.
// CHECK-DAG:   #[[P:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 32, d1 mod 32, d2)>
// CHECK-LABEL: func.func @panels
// CHECK:       %[[T:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<3x64x32xi8>) outs(%{{.*}} : tensor<3x32x64xi8>)
// CHECK-NOT:   outs(%{{.*}} : tensor<3x32x64xi8>)
// CHECK:       linalg.generic {indexing_maps = [#{{.*}}, #[[P]], #{{.*}}], {{.*}} ins(%arg0, %[[T]] : tensor<16x64xi8>, tensor<3x32x64xi8>)
// CHECK:       linalg.generic {indexing_maps = [#{{.*}}, #[[P]], #{{.*}}], {{.*}} ins(%arg1, %[[T]] : tensor<16x64xi8>, tensor<3x32x64xi8>)
#rows = affine_map<(m, n, k) -> (m, k)>
#panel = affine_map<(m, n, k) -> (n floordiv 32, k, n mod 32)>
#results = affine_map<(m, n, k) -> (m, n)>
func.func @panels(%x: tensor<16x64xi8>, %z: tensor<16x64xi8>) -> (tensor<16x96xi32>, tensor<16x96xi32>) {
  %w = arith.constant dense_resource<w> : tensor<3x64x32xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<16x96xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<16x96xi32>) -> tensor<16x96xi32>
  %y = linalg.generic {indexing_maps = [#rows, #panel, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x64xi8>, tensor<3x64x32xi8>) outs(%f : tensor<16x96xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x96xi32>
  %g = linalg.generic {indexing_maps = [#rows, #panel, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%z, %w : tensor<16x64xi8>, tensor<3x64x32xi8>) outs(%f : tensor<16x96xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extsi %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x96xi32>
  return %y, %g : tensor<16x96xi32>, tensor<16x96xi32>
}

// -----

// A convolution of blocked channels: columns in front, then the blocks of channels, both taps, and the channels of a
// block, as the loops of the sum are.
// CHECK-DAG:   #[[W:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d3, d4, d5, d6, d7)>
// CHECK-LABEL: func.func @blocked
// CHECK:       %[[T:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2x2x3x3x32x32xi8>) outs(%{{.*}} : tensor<2x32x2x3x3x32xi8>)
// CHECK:       linalg.generic {indexing_maps = [#{{.*}}, #[[W]], #{{.*}}], {{.*}} ins(%arg0, %[[T]] : tensor<2x6x6x32xi8>, tensor<2x32x2x3x3x32xi8>)
#image = affine_map<(o, h, w, l, c, p, q, i) -> (c, h + p, w + q, i)>
#weights = affine_map<(o, h, w, l, c, p, q, i) -> (o, c, p, q, i, l)>
#out = affine_map<(o, h, w, l, c, p, q, i) -> (o, h, w, l)>
func.func @blocked(%x: tensor<2x6x6x32xi8>) -> tensor<2x4x4x32xi32> {
  %w = arith.constant dense_resource<w> : tensor<2x2x3x3x32x32xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<2x4x4x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<2x4x4x32xi32>) -> tensor<2x4x4x32xi32>
  %y = linalg.generic {indexing_maps = [#image, #weights, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<2x6x6x32xi8>, tensor<2x2x3x3x32x32xi8>) outs(%f : tensor<2x4x4x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<2x4x4x32xi32>
  return %y : tensor<2x4x4x32xi32>
}

// -----

// Nothing is turned of what is computed, of what lies so, of one row, and of 16 bits.
#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (k, n)>
#lines = affine_map<(m, n, k) -> (n, k)>
#results = affine_map<(m, n, k) -> (m, n)>
// CHECK-LABEL: func.func @left_alone
// CHECK:       ins(%arg0, %arg1 : tensor<16x64xi8>, tensor<64x32xi8>)
// CHECK:       ins(%arg0, %cst : tensor<16x64xi8>, tensor<32x64xi8>)
// CHECK:       ins(%arg2, %cst_0 : tensor<1x64xi8>, tensor<64x32xi8>)
// CHECK:       ins(%arg3, %cst_1 : tensor<16x64xi16>, tensor<64x32xi16>)
func.func @left_alone(%x: tensor<16x64xi8>, %w: tensor<64x32xi8>, %one: tensor<1x64xi8>, %wide: tensor<16x64xi16>) -> (tensor<16x32xi32>, tensor<16x32xi32>, tensor<1x32xi32>, tensor<16x32xi32>) {
  %l = arith.constant dense_resource<l> : tensor<32x64xi8>
  %c = arith.constant dense_resource<c> : tensor<64x32xi8>
  %d = arith.constant dense_resource<d> : tensor<64x32xi16>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<16x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<16x32xi32>) -> tensor<16x32xi32>
  %e1 = tensor.empty() : tensor<1x32xi32>
  %f1 = linalg.fill ins(%zero : i32) outs(%e1 : tensor<1x32xi32>) -> tensor<1x32xi32>
  %p = linalg.generic {indexing_maps = [#rows, #columns, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x64xi8>, tensor<64x32xi8>) outs(%f : tensor<16x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x32xi32>
  %q = linalg.generic {indexing_maps = [#rows, #lines, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %l : tensor<16x64xi8>, tensor<32x64xi8>) outs(%f : tensor<16x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x32xi32>
  %r = linalg.generic {indexing_maps = [#rows, #columns, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%one, %c : tensor<1x64xi8>, tensor<64x32xi8>) outs(%f1 : tensor<1x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x32xi32>
  %t = linalg.generic {indexing_maps = [#rows, #columns, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%wide, %d : tensor<16x64xi16>, tensor<64x32xi16>) outs(%f : tensor<16x32xi32>) {
  ^bb0(%a: i16, %b: i16, %acc: i32):
    %u = arith.extsi %a : i16 to i32
    %v = arith.extsi %b : i16 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x32xi32>
  return %p, %q, %r, %t : tensor<16x32xi32>, tensor<16x32xi32>, tensor<1x32xi32>, tensor<16x32xi32>
}

