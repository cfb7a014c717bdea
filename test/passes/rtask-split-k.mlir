// RUN: rc-opt %s -p 'vdevice-attach-device{device=epyc-9555},rtask-split-k' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-split-k' --split-input-file | filecheck %s --check-prefix=TWO

// 64 results of 8192 steps: 8 parts of 1024 steps on 64 cores, and their sum, which the bias then follows. Two cores
// are busy with the results as they are.
// CHECK-DAG:   #[[X:map.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
// CHECK-DAG:   #[[W:map.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK-DAG:   #[[P:map.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-DAG:   #[[S:map.*]] = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
// CHECK-LABEL: func.func @long(
// CHECK:         %[[A:.*]] = tensor.expand_shape %arg0 {{.*}} into tensor<1x[[N:[0-9]+]]x[[K:[0-9]+]]xf32>
// CHECK:         %[[B:.*]] = tensor.expand_shape %arg1 {{.*}} into tensor<[[N]]x[[K]]x64xf32>
// CHECK:         %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<[[N]]x1x64xf32>
// CHECK:         %[[PARTS:.*]] = linalg.generic {indexing_maps = [#[[X]], #[[W]], #[[P]]], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[A]], %[[B]]
// CHECK-SAME:      outs(%[[ZERO]] : tensor<[[N]]x1x64xf32>)
// CHECK:           arith.mulf
// CHECK:           arith.addf
// CHECK:         %[[SUM:.*]] = linalg.generic {indexing_maps = [#[[S]], {{.*}}], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[PARTS]]
// CHECK:         linalg.generic {{.*}} ins(%[[SUM]], %arg2
// TWO-LABEL:   func.func @long(
// TWO-NOT:       tensor.expand_shape
func.func @long(%x: tensor<1x8192xf32>, %w: tensor<8192x64xf32>, %b: tensor<64xf32>) -> tensor<1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x8192xf32>, tensor<8192x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%l: f32, %s: f32, %acc: f32):
    %m = arith.mulf %l, %s : f32
    %t = arith.addf %acc, %m : f32
    linalg.yield %t : f32
  } -> tensor<1x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%y, %b : tensor<1x64xf32>, tensor<64xf32>) outs(%e : tensor<1x64xf32>) {
  ^bb0(%l: f32, %s: f32, %o: f32):
    %t = arith.addf %l, %s : f32
    linalg.yield %t : f32
  } -> tensor<1x64xf32>
  return %r : tensor<1x64xf32>
}

// -----

// Packed weights, and a sum that starts from something else than zero: the parts start from zero, their sum from that.
// CHECK-DAG:   affine_map<(d0, d1, d2, d3) -> (d2 floordiv 16, d0, d3, d2 mod 16)>
// CHECK-LABEL: func.func @packed(
// CHECK:         tensor.expand_shape %arg1 {{.*}} into tensor<4x[[N:[0-9]+]]x[[K:[0-9]+]]x16xf32>
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<[[N]]x16x64xf32>)
// CHECK:         linalg.generic {{.*}} outs(%arg2 : tensor<16x64xf32>)
func.func @packed(%x: tensor<16x4096xf32>, %w: tensor<4x4096x16xf32>, %c: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n floordiv 16, k, n mod 16)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x4096xf32>, tensor<4x4096x16xf32>) outs(%c : tensor<16x64xf32>) {
  ^bb0(%l: f32, %s: f32, %acc: f32):
    %m = arith.mulf %l, %s : f32
    %t = arith.addf %acc, %m : f32
    linalg.yield %t : f32
  } -> tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}

// -----

// A convolution over blocks of channels: the blocks are cut, the window stays whole.
// CHECK-DAG:   affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d5, d2 + d6, d3 + d7, d8)>
// CHECK-LABEL: func.func @blocks(
// CHECK:         tensor.expand_shape %arg0 {{.*}} into tensor<[[N:[0-9]+]]x[[K:[0-9]+]]x3x3x16xf32>
// CHECK:         tensor.expand_shape %arg1 {{.*}} into tensor<2x[[N]]x[[K]]x3x3x16x16xf32>
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<[[N]]x2x1x1x16xf32>)
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<2x1x1x16xf32>)
func.func @blocks(%x: tensor<256x3x3x16xf32>, %w: tensor<2x256x3x3x16x16xf32>) -> tensor<2x1x1x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x1x1x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x1x1x16xf32>) -> tensor<2x1x1x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(o, h, w, l, c, p, q, i) -> (c, h + p, w + q, i)>, affine_map<(o, h, w, l, c, p, q, i) -> (o, c, p, q, i, l)>, affine_map<(o, h, w, l, c, p, q, i) -> (o, h, w, l)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<256x3x3x16xf32>, tensor<2x256x3x3x16x16xf32>) outs(%f : tensor<2x1x1x16xf32>) {
  ^bb0(%l: f32, %s: f32, %acc: f32):
    %m = arith.mulf %l, %s : f32
    %t = arith.addf %acc, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x1x1x16xf32>
  return %y : tensor<2x1x1x16xf32>
}

// -----

// Sums in f16 would be rounded once per part, and the steps of a sum of maxima are none of a product.
// CHECK-LABEL: func.func @left_alone(
// CHECK-NOT:     tensor.expand_shape
func.func @left_alone(%x: tensor<1x8192xf16>, %w: tensor<8192x64xf16>, %v: tensor<8192x64xf32>) -> (tensor<1x64xf16>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f16
  %low = arith.constant -1.0 : f32
  %e = tensor.empty() : tensor<1x64xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<1x64xf16>) -> tensor<1x64xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x8192xf16>, tensor<8192x64xf16>) outs(%f : tensor<1x64xf16>) {
  ^bb0(%l: f16, %s: f16, %acc: f16):
    %m = arith.mulf %l, %s : f16
    %t = arith.addf %acc, %m : f16
    linalg.yield %t : f16
  } -> tensor<1x64xf16>
  %g = tensor.empty() : tensor<64xf32>
  %h = linalg.fill ins(%low : f32) outs(%g : tensor<64xf32>) -> tensor<64xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(n, k) -> (k, n)>, affine_map<(n, k) -> (n)>], iterator_types = ["parallel", "reduction"]} ins(%v : tensor<8192x64xf32>) outs(%h : tensor<64xf32>) {
  ^bb0(%s: f32, %acc: f32):
    %t = arith.maximumf %acc, %s : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  return %y, %z : tensor<1x64xf16>, tensor<64xf32>
}
