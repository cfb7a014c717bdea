// RUN: rc-opt %s -p 'rtask-block-channels' | filecheck %s
// RUN: rc-opt %s -p 'rtask-block-channels{lanes=8}' | filecheck %s --check-prefix=EIGHT
// RUN: rc-opt %s -p 'rtask-block-channels{step-bytes=64}' | filecheck %s --check-prefix=TILES

// The first layer reads NCHW; the second one reads blocks; the ReLU between them is blocked; the
// result is unpacked once and its 20 channels are cut out.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d5, d2 + d6, d3 + d7)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d5, d6, d7, d4)>
// CHECK-DAG: #[[BLOCKS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d5, d2 + d6, d3 + d7, d8)>
// CHECK-DAG: #[[FILTERS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d1, d5, d6, d7, d8, d4)>
// CHECK-LABEL: func.func @two_convolutions
// CHECK: %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x3x3x16xf32>)
// CHECK: %[[A:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[FILTER]], {{.*}} ins(%{{.*}}, %[[W]] : tensor<1x3x6x6xf32>
// CHECK: } -> tensor<1x2x4x4x16xf32>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<1x2x4x4x16xf32>)
// CHECK: tensor.pad %[[V:.*]] low[0, 0, 0, 0] high[12, 0, 0, 0]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x2x1x1x16x16xf32>)
// CHECK: %[[B:.*]] = linalg.generic {indexing_maps = [#[[BLOCKS]], #[[FILTERS]], {{.*}} ins(%[[R]], %[[P]] :
// CHECK: } -> tensor<1x2x4x4x16xf32>
// CHECK: linalg.generic {{.*}} ins(%[[B]] {{.*}} outs(%{{.*}} : tensor<1x2x16x4x4xf32>)
// CHECK: %[[C:.*]] = tensor.collapse_shape {{.*}} into tensor<1x32x4x4xf32>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[C]][0, 0, 0, 0] [1, 20, 4, 4]
// CHECK: return %[[S]]
// EIGHT-LABEL: func.func @two_convolutions
// EIGHT: tensor<4x3x3x3x8xf32>
// EIGHT: tensor<3x4x1x1x8x8xf32>
func.func @two_convolutions(%x: tensor<1x3x6x6xf32>, %w: tensor<32x3x3x3xf32>,
                            %v: tensor<20x32x1x1xf32>) -> tensor<1x20x4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x3x6x6xf32>, tensor<32x3x3x3xf32>) outs(%f : tensor<1x32x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x32x4x4xf32>
  %relu = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<1x32x4x4xf32>) outs(%e : tensor<1x32x4x4xf32>) {
  ^bb0(%l: f32, %o: f32):
    %m = arith.maximumf %l, %zero : f32
    linalg.yield %m : f32
  } -> tensor<1x32x4x4xf32>
  %e2 = tensor.empty() : tensor<1x20x4x4xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x20x4x4xf32>) -> tensor<1x20x4x4xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%relu, %v : tensor<1x32x4x4xf32>, tensor<20x32x1x1xf32>) outs(%f2 : tensor<1x20x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x20x4x4xf32>
  return %b : tensor<1x20x4x4xf32>
}

// A depthwise convolution is blocked by itself: image and weights.
// CHECK-LABEL: func.func @depthwise
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x2x6x6x16xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x3x16xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x2x6x6x16xf32>, tensor<2x3x3x16xf32>) outs(%[[O:.*]] : tensor<1x2x4x4x16xf32>)
func.func @depthwise(%x: tensor<1x32x6x6xf32>, %w: tensor<32x3x3xf32>) -> tensor<1x32x4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, c, h, w, p, q) -> (n, c, h + p, w + q)>, affine_map<(n, c, h, w, p, q) -> (c, p, q)>, affine_map<(n, c, h, w, p, q) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x32x6x6xf32>, tensor<32x3x3xf32>) outs(%f : tensor<1x32x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x32x4x4xf32>
  return %a : tensor<1x32x4x4xf32>
}

// Too few output channels, and no convolution at all: nothing changes.
// CHECK-LABEL: func.func @few_channels
// CHECK-NOT: x16xf32
// CHECK: return
func.func @few_channels(%x: tensor<1x32x6x6xf32>, %w: tensor<3x32x3x3xf32>) -> tensor<1x3x4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x32x6x6xf32>, tensor<3x32x3x3xf32>) outs(%f : tensor<1x3x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x3x4x4xf32>
  return %a : tensor<1x3x4x4xf32>
}

// Bytes: the first layer reads words of channels, three and one of zeros; the next one blocks.
// CHECK-LABEL: func.func @bytes
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x1x6x6x4xi8>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x1x3x3x4x16xi8>)
// CHECK: linalg.generic {indexing_maps = [#[[BLOCKS]], #[[FILTERS]], {{.*}} ins(%{{.*}} : tensor<1x1x6x6x4xi8>, tensor<2x1x3x3x4x16xi8>)
// CHECK: } -> tensor<1x2x4x4x16xi32>
func.func @bytes(%x: tensor<1x3x6x6xi8>, %w: tensor<32x3x3x3xi8>) -> tensor<1x32x4x4xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x32x4x4xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<1x32x4x4xi32>) -> tensor<1x32x4x4xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x3x6x6xi8>, tensor<32x3x3x3xi8>) outs(%f : tensor<1x32x4x4xi32>) {
  ^bb0(%l: i8, %r: i8, %acc: i32):
    %u = arith.extui %l : i8 to i32
    %v = arith.extsi %r : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x32x4x4xi32>
  return %a : tensor<1x32x4x4xi32>
}

// Bytes that tile registers multiply lie in blocks of 64 channels, where that pays.
// TILES-LABEL: func.func @wide
// TILES: tensor<1x2x8x8x64xi8>
// TILES: tensor<2x2x1x1x64x64xi8>
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
// TILES-LABEL: func.func @narrow
// TILES: tensor<1x1x8x8x16xi8>
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

// The largest of all channels is that of blocks and lanes.
// CHECK-LABEL: func.func @largest
// CHECK: } -> tensor<1x2x4x4x16xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "reduction", "reduction", "reduction", "reduction"]} ins(%{{.*}} : tensor<1x2x4x4x16xf32>)
// CHECK: return %[[Y]]
func.func @largest(%x: tensor<1x3x6x6xf32>, %w: tensor<32x3x3x3xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x3x6x6xf32>, tensor<32x3x3x3xf32>) outs(%f : tensor<1x32x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x32x4x4xf32>
  %least = arith.constant 0xFF800000 : f32
  %n = tensor.empty() : tensor<f32>
  %g = linalg.fill ins(%least : f32) outs(%n : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> ()>], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%a : tensor<1x32x4x4xf32>) outs(%g : tensor<f32>) {
  ^bb0(%l: f32, %acc: f32):
    %m = arith.maximumf %acc, %l : f32
    linalg.yield %m : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

// Lanes beyond the channels are left out.
// CHECK-LABEL: func.func @ragged
// CHECK: %[[REAL:.*]] = arith.constant dense<{{.*}}> : tensor<2x16xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[REAL]] : tensor<1x2x4x4x16xf32>, tensor<2x16xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[R:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK: %[[IN:.*]] = arith.cmpf ogt, %[[R]], %{{.*}} : f32
// CHECK: %[[S:.*]] = arith.select %[[IN]], %[[X]], %{{.*}} : f32
// CHECK: arith.minimumf %[[ACC]], %[[S]] : f32
func.func @ragged(%x: tensor<1x3x6x6xf32>, %w: tensor<20x3x3x3xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x20x4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x20x4x4xf32>) -> tensor<1x20x4x4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x3x6x6xf32>, tensor<20x3x3x3xf32>) outs(%f : tensor<1x20x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x20x4x4xf32>
  %least = arith.constant 0x7F800000 : f32
  %n = tensor.empty() : tensor<f32>
  %g = linalg.fill ins(%least : f32) outs(%n : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> ()>], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%a : tensor<1x20x4x4xf32>) outs(%g : tensor<f32>) {
  ^bb0(%l: f32, %acc: f32):
    %m = arith.minimumf %acc, %l : f32
    linalg.yield %m : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

// The order of a sum of floats counts.
// CHECK-LABEL: func.func @sum
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%{{.*}} : tensor<1x32x4x4xf32>)
func.func @sum(%x: tensor<1x3x6x6xf32>, %w: tensor<32x3x3x3xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32x4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, o, h, w, i, p, q) -> (n, i, h + p, w + q)>, affine_map<(n, o, h, w, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, h, w, i, p, q) -> (n, o, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x3x6x6xf32>, tensor<32x3x3x3xf32>) outs(%f : tensor<1x32x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x32x4x4xf32>
  %least = arith.constant 0.0 : f32
  %n = tensor.empty() : tensor<f32>
  %g = linalg.fill ins(%least : f32) outs(%n : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> ()>], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%a : tensor<1x32x4x4xf32>) outs(%g : tensor<f32>) {
  ^bb0(%l: f32, %acc: f32):
    %m = arith.addf %acc, %l : f32
    linalg.yield %m : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}
