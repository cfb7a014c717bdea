// RUN: rc-opt %s -p 'rtask-round-factors{to=f16},cse' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'rtask-round-factors{to=bf16},cse' --split-input-file | filecheck %s --check-prefix=BF
// RUN: rc-opt %s -p 'rtask-round-factors{to=bf16 weights},cse' --split-input-file | filecheck %s --check-prefix=WEIGHTS

// Both factors are rounded once, the image in front of its border, and the sum stays in f32.
// CHECK-LABEL: func.func @image(
// CHECK:         %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x16x8x8xf32>)
// CHECK:           arith.truncf {{.*}} : f32 to f16
// CHECK:         %[[P:.*]] = tensor.pad %[[X]] low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK:           tensor.yield %{{.*}} : f16
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<8x16x3x3xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %[[W]] : tensor<1x16x10x10xf16>, tensor<8x16x3x3xf16>) outs(%{{.*}} : tensor<1x8x8x8xf32>)
// CHECK-NEXT:    ^bb0(%[[A:.*]]: f16, %[[B:.*]]: f16, %[[S:.*]]: f32):
// CHECK-DAG:       %[[A2:.*]] = arith.extf %[[A]] : f16 to f32
// CHECK-DAG:       %[[B2:.*]] = arith.extf %[[B]] : f16 to f32
// CHECK:           %[[M:.*]] = arith.mulf %[[A2]], %[[B2]] : f32
// CHECK:           arith.addf %[[S]], %[[M]] : f32
// BF-LABEL:    func.func @image(
// BF:            linalg.generic {{.*}} : tensor<1x16x10x10xbf16>, tensor<8x16x3x3xbf16>)
func.func @image(%x: tensor<1x16x8x8xf32>, %w: tensor<8x16x3x3xf32>) -> tensor<1x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x16x8x8xf32> to tensor<1x16x10x10xf32>
  %e = tensor.empty() : tensor<1x8x8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, c, p, q) -> (n, c, h + p, w + q)>, affine_map<(n, o, h, w, c, p, q) -> (o, c, p, q)>, affine_map<(n, o, h, w, c, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<1x16x10x10xf32>, tensor<8x16x3x3xf32>) outs(%f : tensor<1x8x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8x8x8xf32>
  return %y : tensor<1x8x8x8xf32>
}

// -----

// What only moves a factor moves it rounded. A factor of two products is rounded once.
// CHECK-LABEL: func.func @turned(
// CHECK:         %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<64x32xf32>)
// CHECK:           arith.truncf
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<64x32xf16>) outs(%{{.*}} : tensor<32x64xf16>)
// CHECK:         linalg.generic {{.*}} ins(%[[X]], %[[T]] : tensor<64x32xf16>, tensor<32x64xf16>)
func.func @turned(%x: tensor<64x32xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<32x64xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x32xf32>) outs(%t : tensor<32x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<32x64xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %u : tensor<64x32xf32>, tensor<32x64xf32>) outs(%f : tensor<64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// A product of a row, whose factors no tile reads twice, and a sum of few steps stay as they are.
// CHECK-LABEL: func.func @row(
// CHECK-NOT:     f16
func.func @row(%x: tensor<1x64xf32>, %w: tensor<64x32xf32>, %a: tensor<16x4xf32>, %b: tensor<4x16xf32>) -> (tensor<1x32xf32>, tensor<16x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32xf32>) -> tensor<1x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x64xf32>, tensor<64x32xf32>) outs(%f : tensor<1x32xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  %g = tensor.empty() : tensor<16x16xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<16x16xf32>) -> tensor<16x16xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<16x4xf32>, tensor<4x16xf32>) outs(%h : tensor<16x16xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<16x16xf32>
  return %y, %z : tensor<1x32xf32>, tensor<16x16xf32>
}

// -----

// Of weights: also with one row, but not two factors that run time brings, nor weights of one column,
// nor those that a result dim picks together with what they are multiplied by.
// WEIGHTS-LABEL: func.func @weights(
// WEIGHTS:         %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<1x64xf32>) outs(%{{.*}} : tensor<1x64xbf16>)
// WEIGHTS:         linalg.generic {{.*}} outs(%{{.*}} : tensor<64x16xbf16>)
// WEIGHTS:         linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<1x64xbf16>, tensor<64x16xbf16>)
// WEIGHTS:         linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<1x64xf32>, tensor<64x16xf32>)
// WEIGHTS-LABEL: func.func @others(
// WEIGHTS-NOT:     bf16
// WEIGHTS:         return
// CHECK-LABEL: func.func @weights(
// CHECK-NOT:     f16
// BF-LABEL:    func.func @weights(
func.func @weights(%x: tensor<1x64xf32>, %v: tensor<64x16xf32>) -> (tensor<1x16xf32>, tensor<1x16xf32>) {
  %w = arith.constant dense<0.5> : tensor<64x16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16xf32>) -> tensor<1x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x64xf32>, tensor<64x16xf32>) outs(%f : tensor<1x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x16xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %v : tensor<1x64xf32>, tensor<64x16xf32>) outs(%f : tensor<1x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x16xf32>
  return %y, %z : tensor<1x16xf32>, tensor<1x16xf32>
}
func.func @others(%x: tensor<8x64xf32>, %i: tensor<16x8x64xf32>) -> (tensor<8x1xf32>, tensor<16x8xf32>) {
  %w = arith.constant dense<0.5> : tensor<64x1xf32>
  %g = arith.constant dense<0.5> : tensor<16x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x1xf32>) -> tensor<8x1xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x64xf32>, tensor<64x1xf32>) outs(%f : tensor<8x1xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<8x1xf32>
  %e2 = tensor.empty() : tensor<16x8xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<16x8xf32>) -> tensor<16x8xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(c, m, k) -> (c, m, k)>, affine_map<(c, m, k) -> (c, k)>, affine_map<(c, m, k) -> (c, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%i, %g : tensor<16x8x64xf32>, tensor<16x64xf32>) outs(%f2 : tensor<16x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  return %y, %z : tensor<8x1xf32>, tensor<16x8xf32>
}
