// RUN: rc-opt %s -p rtask-expand-products --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'rtask-expand-products{bytes-only=true}' --split-input-file | filecheck %s --check-prefix=BYTES

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#turned = affine_map<(d0, d1, d2) -> (d1, d0, d2)>

// Two heads of four: the product has a loop for each, and all behind it; the second factor and the bias are seen in that
// shape.
// CHECK-DAG:   #[[A:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
// CHECK-DAG:   #[[B:.*]] = affine_map<(d0, d1, d2, d3) -> (d3, d1, d2)>
// CHECK-DAG:   #[[C:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @heads
// CHECK-DAG:   %[[W:.*]] = tensor.expand_shape %arg1 {{\[\[}}0], [1, 2]] output_shape [16, 2, 4]
// CHECK-DAG:   %[[F:.*]] = linalg.fill {{.*}} -> tensor<5x2x4xf32>
// CHECK:       %[[P:.*]] = linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], {{.*}} ins(%arg0, %[[W]] : tensor<5x16xf16>, tensor<16x2x4xf16>) outs(%[[F]] : tensor<5x2x4xf32>)
// CHECK:       %[[V:.*]] = tensor.expand_shape %arg2 {{\[\[}}0, 1]] output_shape [2, 4]
// CHECK:       %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[V]] : tensor<5x2x4xf32>, tensor<2x4xf32>)
// CHECK:       %[[T:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<5x2x4xf32>) outs(%{{.*}} : tensor<2x5x4xf32>)
// CHECK:       return %[[T]]
// BYTES-LABEL: func.func @heads
// BYTES:       tensor.expand_shape {{.*}} : tensor<5x8xf32> into tensor<5x2x4xf32>
func.func @heads(%x: tensor<5x16xf16>, %w: tensor<16x8xf16>, %b: tensor<8xf32>) -> tensor<2x5x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x8xf32>) -> tensor<5x8xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x16xf16>, tensor<16x8xf16>) outs(%f : tensor<5x8xf32>) {
  ^bb0(%l: f16, %r: f16, %o: f32):
    %lw = arith.extf %l : f16 to f32
    %rw = arith.extf %r : f16 to f32
    %m = arith.mulf %lw, %rw : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<5x8xf32>
  %s = linalg.generic {indexing_maps = [#id, #n, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<5x8xf32>, tensor<8xf32>) outs(%e : tensor<5x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %t = arith.addf %l, %r : f32
    linalg.yield %t : f32
  } -> tensor<5x8xf32>
  %v = tensor.expand_shape %s [[0], [1, 2]] output_shape [5, 2, 4] : tensor<5x8xf32> into tensor<5x2x4xf32>
  %z = tensor.empty() : tensor<2x5x4xf32>
  %t = linalg.generic {indexing_maps = [#turned, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<5x2x4xf32>) outs(%z : tensor<2x5x4xf32>) {
  ^bb0(%l: f32, %o: f32):
    linalg.yield %l : f32
  } -> tensor<2x5x4xf32>
  return %t : tensor<2x5x4xf32>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n floordiv 4, k, n mod 4)>
#c = affine_map<(m, n, k) -> (m, n)>
#wrong = affine_map<(m, n, k) -> (n floordiv 2, k, n mod 2)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#turned = affine_map<(d0, d1, d2) -> (d1, d0, d2)>

// A factor that is packed in blocks of four has a block and a place in it as loops; one of others is left.
// CHECK-DAG:   #[[B:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>
// CHECK-DAG:   #[[PAIRS:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 2, d2, d1 mod 2)>
// CHECK-LABEL: func.func @blocks
// CHECK:       linalg.generic {indexing_maps = [{{#.*}}, #[[B]], {{#.*}}], {{.*}} ins(%arg0, %arg1 :
// CHECK:       %[[Q:.*]] = linalg.generic {indexing_maps = [{{#.*}}, #[[PAIRS]], {{#.*}}], {{.*}} ins(%arg0, %arg2 :
// CHECK:       tensor.expand_shape %[[Q]]
func.func @blocks(%x: tensor<5x16xf32>, %w: tensor<2x16x4xf32>, %u: tensor<4x16x2xf32>) -> (tensor<2x5x4xf32>, tensor<2x5x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x8xf32>) -> tensor<5x8xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x16xf32>, tensor<2x16x4xf32>) outs(%f : tensor<5x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<5x8xf32>
  %q = linalg.generic {indexing_maps = [#a, #wrong, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %u : tensor<5x16xf32>, tensor<4x16x2xf32>) outs(%f : tensor<5x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<5x8xf32>
  %z = tensor.empty() : tensor<2x5x4xf32>
  %v = tensor.expand_shape %p [[0], [1, 2]] output_shape [5, 2, 4] : tensor<5x8xf32> into tensor<5x2x4xf32>
  %t = linalg.generic {indexing_maps = [#turned, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<5x2x4xf32>) outs(%z : tensor<2x5x4xf32>) {
  ^bb0(%l: f32, %o: f32):
    linalg.yield %l : f32
  } -> tensor<2x5x4xf32>
  %y = tensor.expand_shape %q [[0], [1, 2]] output_shape [5, 2, 4] : tensor<5x8xf32> into tensor<5x2x4xf32>
  %r = linalg.generic {indexing_maps = [#turned, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<5x2x4xf32>) outs(%z : tensor<2x5x4xf32>) {
  ^bb0(%l: f32, %o: f32):
    linalg.yield %l : f32
  } -> tensor<2x5x4xf32>
  return %t, %r : tensor<2x5x4xf32>, tensor<2x5x4xf32>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// What is split and stays in its place is a view of the result, as is what somebody else reads whole.
// CHECK-LABEL: func.func @in_place
// CHECK:       %[[P:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<5x16xf32>, tensor<16x8xf32>)
// CHECK:       %[[V:.*]] = tensor.expand_shape %[[P]]
// CHECK:       return %[[V]]
func.func @in_place(%x: tensor<5x16xf32>, %w: tensor<16x8xf32>) -> tensor<5x2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x8xf32>) -> tensor<5x8xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x16xf32>, tensor<16x8xf32>) outs(%f : tensor<5x8xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<5x8xf32>
  %v = tensor.expand_shape %p [[0], [1, 2]] output_shape [5, 2, 4] : tensor<5x8xf32> into tensor<5x2x4xf32>
  return %v : tensor<5x2x4xf32>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// A dim of one element in front of an epilogue.
// CHECK-LABEL: func.func @batch_of_one
// CHECK-DAG:   %[[X:.*]] = tensor.expand_shape %arg0 {{\[\[}}0, 1], [2]] output_shape [1, 5, 16]
// CHECK:       %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %arg1 : tensor<1x5x16xf32>, tensor<16x8xf32>)
// CHECK:       linalg.generic {{.*}} ins(%[[P]], %arg2 : tensor<1x5x8xf32>, tensor<1x5x8xf32>)
func.func @batch_of_one(%x: tensor<5x16xf32>, %w: tensor<16x8xf32>, %r: tensor<1x5x8xf32>) -> tensor<1x5x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x8xf32>) -> tensor<5x8xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x16xf32>, tensor<16x8xf32>) outs(%f : tensor<5x8xf32>) {
  ^bb0(%l: f32, %s: f32, %o: f32):
    %m = arith.mulf %l, %s : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<5x8xf32>
  %v = tensor.expand_shape %p [[0, 1], [2]] output_shape [1, 5, 8] : tensor<5x8xf32> into tensor<1x5x8xf32>
  %z = tensor.empty() : tensor<1x5x8xf32>
  %y = linalg.generic {indexing_maps = [#id3, #id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v, %r : tensor<1x5x8xf32>, tensor<1x5x8xf32>) outs(%z : tensor<1x5x8xf32>) {
  ^bb0(%l: f32, %s: f32, %o: f32):
    %t = arith.addf %l, %s : f32
    linalg.yield %t : f32
  } -> tensor<1x5x8xf32>
  return %y : tensor<1x5x8xf32>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#turned = affine_map<(d0, d1, d2) -> (d1, d0, d2)>

// Two heads of bytes; a reader whose result nobody reads does not count.
// CHECK-LABEL: func.func @byte_heads
// CHECK:       ins(%arg0, %{{.*}} : tensor<5x16xi8>, tensor<16x2x4xi8>) outs(%{{.*}} : tensor<5x2x4xi32>)
// BYTES-LABEL: func.func @byte_heads
// BYTES:       ins(%arg0, %{{.*}} : tensor<5x16xi8>, tensor<16x2x4xi8>) outs(%{{.*}} : tensor<5x2x4xi32>)
func.func @byte_heads(%x: tensor<5x16xi8>, %w: tensor<16x8xi8>) -> tensor<2x5x4xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x8xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<5x8xi32>) -> tensor<5x8xi32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x16xi8>, tensor<16x8xi8>) outs(%f : tensor<5x8xi32>) {
  ^bb0(%l: i8, %r: i8, %o: i32):
    %lw = arith.extui %l : i8 to i32
    %rw = arith.extsi %r : i8 to i32
    %m = arith.muli %lw, %rw : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<5x8xi32>
  %dead = tensor.expand_shape %p [[0], [1, 2]] output_shape [5, 4, 2] : tensor<5x8xi32> into tensor<5x4x2xi32>
  %v = tensor.expand_shape %p [[0], [1, 2]] output_shape [5, 2, 4] : tensor<5x8xi32> into tensor<5x2x4xi32>
  %te = tensor.empty() : tensor<2x5x4xi32>
  %t = linalg.generic {indexing_maps = [#turned, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<5x2x4xi32>) outs(%te : tensor<2x5x4xi32>) {
  ^bb0(%l: i32, %o: i32):
    linalg.yield %l : i32
  } -> tensor<2x5x4xi32>
  return %t : tensor<2x5x4xi32>
}
