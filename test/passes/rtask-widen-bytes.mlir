// RUN: rc-opt %s -p 'rtask-widen-bytes' | filecheck %s

#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (k, n)>
#results = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, k) -> (m, k)>

// What computes the activations makes them 16 bits wide; another reader takes those, in a sum that is no product too.
// CHECK-LABEL: func.func @computed
// CHECK: %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<64x32xi16>)
// CHECK: arith.extsi %{{.*}} : i8 to i16
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<16x64xf32>) outs(%{{.*}} : tensor<16x64xi16>)
// CHECK: %[[B:.*]] = arith.fptoui %{{.*}} : f32 to i8
// CHECK: arith.extui %[[B]] : i8 to i16
// CHECK: linalg.generic {{.*}} ins(%[[Q]], %[[W]] : tensor<16x64xi16>, tensor<64x32xi16>)
// CHECK: arith.extsi %{{.*}} : i16 to i32
// CHECK: arith.extsi %{{.*}} : i16 to i32
// CHECK: linalg.generic {{.*}} ins(%[[Q]] : tensor<16x64xi16>) outs(%{{.*}} : tensor<16x64xf32>)
// CHECK: %[[LOW:.*]] = arith.trunci %{{.*}} : i16 to i8
// CHECK: arith.uitofp %[[LOW]] : i8 to f32
func.func @computed(%x: tensor<16x64xf32>) -> (tensor<16x32xi32>, tensor<16x64xf32>) {
  %w = arith.constant dense_resource<w> : tensor<64x32xi8>
  %zero = arith.constant 0 : i32
  %qe = tensor.empty() : tensor<16x64xi8>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x64xf32>) outs(%qe : tensor<16x64xi8>) {
  ^bb0(%a: f32, %o: i8):
    %b = arith.fptoui %a : f32 to i8
    linalg.yield %b : i8
  } -> tensor<16x64xi8>
  %e = tensor.empty() : tensor<16x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<16x32xi32>) -> tensor<16x32xi32>
  %y = linalg.generic {indexing_maps = [#rows, #columns, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %w : tensor<16x64xi8>, tensor<64x32xi8>) outs(%f : tensor<16x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x32xi32>
  %de = tensor.empty() : tensor<16x64xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<16x64xi8>) outs(%de : tensor<16x64xf32>) {
  ^bb0(%a: i8, %o: f32):
    %b = arith.uitofp %a : i8 to f32
    linalg.yield %b : f32
  } -> tensor<16x64xf32>
  return %y, %d : tensor<16x32xi32>, tensor<16x64xf32>
}

// An image is widened in front of its border, which is 130, no negative number.
// CHECK-LABEL: func.func @padded
// CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x4x6x6xi8>) outs(%{{.*}} : tensor<1x4x6x6xi16>)
// CHECK: %[[EDGE:.*]] = arith.constant 130 : i16
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK: tensor.yield %[[EDGE]] : i16
// CHECK: linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<1x4x8x8xi16>, tensor<8x4x3x3xi16>)
func.func @padded(%x: tensor<1x4x6x6xi8>) -> tensor<1x8x6x6xi32> {
  %w = arith.constant dense_resource<g> : tensor<8x4x3x3xi8>
  %edge = arith.constant -126 : i8
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %edge : i8
  } : tensor<1x4x6x6xi8> to tensor<1x4x8x8xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x8x6x6xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<1x8x6x6xi32>) -> tensor<1x8x6x6xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, o, h, v, c, i, j) -> (n, c, h + i, v + j)>, affine_map<(n, o, h, v, c, i, j) -> (o, c, i, j)>, affine_map<(n, o, h, v, c, i, j) -> (n, o, h, v)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<1x4x8x8xi8>, tensor<8x4x3x3xi8>) outs(%f : tensor<1x8x6x6xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %s = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %s : i32
    %t = arith.addi %acc, %m : i32
    linalg.yield %t : i32
  } -> tensor<1x8x6x6xi32>
  return %y : tensor<1x8x6x6xi32>
}

// The weights of a product with one row are read once: they stay as they are, as the row does.
// CHECK-LABEL: func.func @one_row
// CHECK-NOT: i16
func.func @one_row(%x: tensor<1x64xi8>) -> tensor<1x32xi32> {
  %w = arith.constant dense_resource<w> : tensor<64x32xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<1x32xi32>) -> tensor<1x32xi32>
  %y = linalg.generic {indexing_maps = [#rows, #columns, #results], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x64xi8>, tensor<64x32xi8>) outs(%f : tensor<1x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x32xi32>
  return %y : tensor<1x32xi32>
}
