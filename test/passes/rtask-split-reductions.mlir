// RUN: rc-opt %s -p 'vdevice-attach-device{device=epyc-9555},rtask-split-reductions,cse' --split-input-file | filecheck %s

// One result of four million elements: both dims become one, which is cut; the parts start from what a maximum leaves
// alone, their maximum from what the whole one started from.
// CHECK-DAG:   #[[A:map.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[P:map.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @everything(
// CHECK:         %[[FLAT:.*]] = tensor.collapse_shape %arg0 {{\[}}[0, 1]] : tensor<4096x1024xf32> into tensor<4194304xf32>
// CHECK:         %[[X:.*]] = tensor.expand_shape %[[FLAT]] {{.*}} into tensor<[[N:[0-9]+]]x[[K:[0-9]+]]xf32>
// CHECK:         %[[LOW:.*]] = arith.constant 0xFF800000 : f32
// CHECK:         %[[STARTS:.*]] = linalg.fill ins(%[[LOW]] : f32) {{.*}} -> tensor<[[N]]xf32>
// CHECK:         %[[PARTS:.*]] = linalg.generic {indexing_maps = [#[[A]], #[[P]]], iterator_types = ["parallel", "reduction"]} ins(%[[X]] : tensor<[[N]]x[[K]]xf32>) outs(%[[STARTS]] : tensor<[[N]]xf32>)
// CHECK:           arith.maximumf
// CHECK:         linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[PARTS]] : tensor<[[N]]xf32>) outs(%arg1 : tensor<f32>)
// CHECK:           arith.maximumf
func.func @everything(%x: tensor<4096x1024xf32>, %start: tensor<f32>) -> tensor<f32> {
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<4096x1024xf32>) outs(%start : tensor<f32>) {
  ^bb0(%v: f32, %acc: f32):
    %t = arith.maximumf %acc, %v : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// The first place of a maximum: the body asks for its index, which is that of the whole dim in every part. Integers
// start from the largest one.
// CHECK-LABEL: func.func @first_place(
// CHECK:         %[[X:.*]] = tensor.expand_shape %arg0 {{.*}} into tensor<[[N:[0-9]+]]x[[K:[0-9]+]]x8xf32>
// CHECK:         arith.constant 2147483647 : i32
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel"]} ins(%[[X]], %arg1 : tensor<[[N]]x[[K]]x8xf32>, tensor<8xf32>)
// CHECK:           %[[INNER:.*]] = linalg.index 1 : index
// CHECK:           %[[SIZE:.*]] = arith.constant {{[0-9]+}} : index
// CHECK:           %[[PART:.*]] = linalg.index 0 : index
// CHECK:           %[[START:.*]] = arith.muli %[[PART]], %[[SIZE]] : index
// CHECK:           %[[HERE:.*]] = arith.addi %[[START]], %[[INNER]] : index
// CHECK:           arith.index_cast %[[HERE]]
func.func @first_place(%x: tensor<1048576x8xf32>, %top: tensor<8xf32>) -> tensor<8xi32> {
  %none = arith.constant 1048576 : i32
  %e = tensor.empty() : tensor<8xi32>
  %f = linalg.fill ins(%none : i32) outs(%e : tensor<8xi32>) -> tensor<8xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (b)>], iterator_types = ["reduction", "parallel"]} ins(%x, %top : tensor<1048576x8xf32>, tensor<8xf32>) outs(%f : tensor<8xi32>) {
  ^bb0(%v: f32, %m: f32, %at: i32):
    %i = linalg.index 0 : index
    %here = arith.index_cast %i : index to i32
    %same = arith.cmpf oeq, %v, %m : f32
    %found = arith.select %same, %here, %none : i32
    %t = arith.minsi %at, %found : i32
    linalg.yield %t : i32
  } -> tensor<8xi32>
  return %y : tensor<8xi32>
}

// -----

// Left alone: a short sum, a sum in f16, which each part would round, rows enough for all EUs, and a product.
// CHECK-LABEL: func.func @left_alone(
// CHECK-NOT:     tensor.expand_shape
// CHECK-NOT:     tensor.collapse_shape
func.func @left_alone(%s: tensor<64x32xf32>, %h: tensor<1048576xf16>, %r: tensor<65536x64xf32>, %i: tensor<f32>, %j: tensor<f16>, %k: tensor<65536xf32>, %a: tensor<65536xf32>, %b: tensor<65536xf32>) -> (tensor<f32>, tensor<f16>, tensor<65536xf32>, tensor<f32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%s : tensor<64x32xf32>) outs(%i : tensor<f32>) {
  ^bb0(%v: f32, %acc: f32):
    %t = arith.addf %acc, %v : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> ()>], iterator_types = ["reduction"]} ins(%h : tensor<1048576xf16>) outs(%j : tensor<f16>) {
  ^bb0(%v: f16, %acc: f16):
    %t = arith.addf %acc, %v : f16
    linalg.yield %t : f16
  } -> tensor<f16>
  %2 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<65536x64xf32>) outs(%k : tensor<65536xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %t = arith.addf %acc, %v : f32
    linalg.yield %t : f32
  } -> tensor<65536xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> ()>], iterator_types = ["reduction"]} ins(%a, %b : tensor<65536xf32>, tensor<65536xf32>) outs(%i : tensor<f32>) {
  ^bb0(%v: f32, %w: f32, %acc: f32):
    %p = arith.mulf %v, %w : f32
    %t = arith.addf %acc, %p : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %0, %1, %2, %3 : tensor<f32>, tensor<f16>, tensor<65536xf32>, tensor<f32>
}

// -----

// Left alone: the sum of nothing, whose dims have no shape to be joined in.
// CHECK-LABEL: func.func @empty(
// CHECK-NOT:     tensor.collapse_shape
func.func @empty(%x: tensor<4x0x1x5xf32>, %i: tensor<f32>) -> tensor<f32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> ()>], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%x : tensor<4x0x1x5xf32>) outs(%i : tensor<f32>) {
  ^bb0(%v: f32, %acc: f32):
    %t = arith.addf %acc, %v : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A window over what the body picks itself: a tensor without elements tells its sizes, and no view of that is made.
// CHECK-LABEL: func.func @picked(
// CHECK-NOT:     tensor.expand_shape
// CHECK:         %[[WINDOW:.*]] = tensor.empty() : tensor<[[N:[0-9]+]]x[[K:[0-9]+]]x8xf32>
// CHECK-NOT:     tensor.expand_shape
// CHECK:         linalg.generic {{.*}} ins(%[[WINDOW]] : tensor<[[N]]x[[K]]x8xf32>)
func.func @picked(%x: tensor<1048576x8xf32>, %start: tensor<8xf32>) -> tensor<8xf32> {
  %window = tensor.empty() : tensor<1048576x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>], iterator_types = ["reduction", "parallel"]} ins(%window : tensor<1048576x8xf32>) outs(%start : tensor<8xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %p = tensor.extract %x[%i, %j] : tensor<1048576x8xf32>
    %t = arith.maximumf %acc, %p : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Dims that do not lie beside each other, as of a batch norm: vectors run along the inner one, so each step of the
// outer one is a part.
// CHECK-LABEL: func.func @apart(
// CHECK:         %[[X:.*]] = tensor.expand_shape %arg0 {{.*}} : tensor<24x3x1024xf32> into tensor<24x1x3x1024xf32>
// CHECK:         %[[PARTS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel", "reduction"]} ins(%[[X]] : tensor<24x1x3x1024xf32>)
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[PARTS]] : tensor<24x3xf32>) outs(%arg1 : tensor<3xf32>)
func.func @apart(%x: tensor<24x3x1024xf32>, %start: tensor<3xf32>) -> tensor<3xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (b)>], iterator_types = ["reduction", "parallel", "reduction"]} ins(%x : tensor<24x3x1024xf32>) outs(%start : tensor<3xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %t = arith.addf %acc, %v : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

// Its elements are computed: it is fused with that, and stays whole.
// CHECK-LABEL: func.func @computed(
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]}
// CHECK:         linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "reduction"]}
// CHECK-NOT:     linalg.generic
func.func @computed(%x: tensor<24x3x1024xf32>, %y: tensor<24x3x1024xf32>, %start: tensor<3xf32>) -> tensor<3xf32> {
  %e = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<24x3x1024xf32>) outs(%y : tensor<24x3x1024xf32>) {
  ^bb0(%v: f32, %old: f32):
    %t = math.absf %v : f32
    linalg.yield %t : f32
  } -> tensor<24x3x1024xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (b)>], iterator_types = ["reduction", "parallel", "reduction"]} ins(%e : tensor<24x3x1024xf32>) outs(%start : tensor<3xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %t = arith.addf %acc, %v : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %s : tensor<3xf32>
}
