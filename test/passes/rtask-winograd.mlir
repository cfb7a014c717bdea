// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-winograd{roots=winograd4}' | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-winograd{roots=winograd2}' | filecheck %s --check-prefix=TWO
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-winograd{roots=direct}' | filecheck %s --check-prefix=DIRECT
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-winograd' | filecheck %s --check-prefix=AUTO

#image = affine_map<(n, o, y, x, ol, i, p, q, il) -> (n, i, y + p, x + q, il)>
#filter = affine_map<(n, o, y, x, ol, i, p, q, il) -> (o, i, p, q, il, ol)>
#result = affine_map<(n, o, y, x, ol, i, p, q, il) -> (n, o, y, x, ol)>

// Two generics on tiles of 6 x 6 pixels, one product of the 36 pairs, two generics back to pixels;
// the weights in f64. The pad in front is made again: 7 pixels are 2 tiles of 4.
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3 * 4 + d6, d4, d5)>
// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d2, d3, d4, d5 * 4 + d7, d6)>
// CHECK-DAG: #[[PLACE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3 mod 4, d6)>
// CHECK-DAG: #[[TILE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d6, d0, d1, d2, d3 floordiv 4, d4, d5)>
// CHECK-LABEL: func.func @convolution
// CHECK: %[[P:.*]] = tensor.pad %arg0 low[0, 0, 1, 1, 0] high[0, 0, 2, 2, 0]
// CHECK: to tensor<1x2x10x10x16xf32>
// CHECK: %[[BT:.*]] = arith.constant dense<{{.*}}> : tensor<6x6xf32>
// CHECK: %[[T:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[ROWS]], {{.*}} ins(%[[BT]], %[[P]] : {{.*}} outs(%{{.*}} : tensor<6x1x2x2x10x16xf32>)
// CHECK: %[[V:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[COLUMNS]], {{.*}} ins(%{{.*}}, %[[T]] : {{.*}} outs(%{{.*}} : tensor<6x6x1x2x2x2x16xf32>)
// CHECK: arith.extf
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6x3x2x3x16x16xf64>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6x6x3x2x16x16xf64>)
// CHECK: %[[U:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<6x6x3x2x16x16xf32>)
// CHECK: arith.truncf
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[V]], %[[U]] : {{.*}} outs(%{{.*}} : tensor<6x6x1x3x2x2x16xf32>) attrs = {rtask.root = "winograd4, as demanded"}
// CHECK: %[[S:.*]] = linalg.generic {indexing_maps = [#[[PLACE]], #[[TILE]], {{.*}} ins(%{{.*}}, %[[M]] : {{.*}} outs(%{{.*}} : tensor<6x1x3x7x2x16xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[S]] : {{.*}} outs(%arg1 : tensor<1x3x7x7x16xf32>)
// CHECK: return %[[Y]]
// TWO-LABEL: func.func @convolution
// TWO: outs(%{{.*}} : tensor<4x4x1x2x4x4x16xf32>)
// TWO: attrs = {rtask.root = "winograd2, as demanded"}
// DIRECT-LABEL: func.func @convolution
// DIRECT: tensor.pad %arg0 low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0]
// DIRECT: linalg.generic {{.*}} attrs = {rtask.root = "direct, as demanded"}
// AUTO-LABEL: func.func @convolution
// AUTO: rtask.root = "direct of: direct {{.*}} us, winograd2 {{.*}} us, winograd4 {{.*}} us"
func.func @convolution(%a: tensor<1x2x7x7x16xf32>, %init: tensor<1x3x7x7x16xf32>) -> tensor<1x3x7x7x16xf32> {
  %zero = arith.constant 0.0 : f32
  %x = tensor.pad %a low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
    tensor.yield %zero : f32
  } : tensor<1x2x7x7x16xf32> to tensor<1x2x9x9x16xf32>
  %w = arith.constant dense_resource<w> : tensor<3x2x3x3x16x16xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x2x9x9x16xf32>, tensor<3x2x3x3x16x16xf32>) outs(%init : tensor<1x3x7x7x16xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x3x7x7x16xf32>
  return %y : tensor<1x3x7x7x16xf32>
}

// Many pixels and channels: the largest tiles win.
// AUTO-LABEL: func.func @large
// AUTO: rtask.root = "winograd4 of: direct {{.*}} us, winograd2 {{.*}} us, winograd4 {{.*}} us"
func.func @large(%x: tensor<1x8x30x30x16xf32>, %init: tensor<1x8x28x28x16xf32>) -> tensor<1x8x28x28x16xf32> {
  %w = arith.constant dense_resource<u> : tensor<8x8x3x3x16x16xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x8x30x30x16xf32>, tensor<8x8x3x3x16x16xf32>) outs(%init : tensor<1x8x28x28x16xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8x28x28x16xf32>
  return %y : tensor<1x8x28x28x16xf32>
}

// Weights that are no constants, a stride of 2, channels in front of the pixels, and a 1x1
// convolution stay as they are.
// CHECK-LABEL: func.func @weights_of_a_caller
// CHECK-NOT: rtask.root
// CHECK: return
func.func @weights_of_a_caller(%x: tensor<1x1x6x6x16xf32>, %w: tensor<1x1x3x3x16x16xf32>, %init: tensor<1x1x4x4x16xf32>) -> tensor<1x1x4x4x16xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x1x6x6x16xf32>, tensor<1x1x3x3x16x16xf32>) outs(%init : tensor<1x1x4x4x16xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x1x4x4x16xf32>
  return %y : tensor<1x1x4x4x16xf32>
}

// CHECK-LABEL: func.func @stride
// CHECK-NOT: rtask.root
// CHECK: return
func.func @stride(%x: tensor<1x1x9x9x16xf32>, %init: tensor<1x1x4x4x16xf32>) -> tensor<1x1x4x4x16xf32> {
  %w = arith.constant dense_resource<w> : tensor<1x1x3x3x16x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, ol, i, p, q, il) -> (n, i, y * 2 + p, x * 2 + q, il)>, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x1x9x9x16xf32>, tensor<1x1x3x3x16x16xf32>) outs(%init : tensor<1x1x4x4x16xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x1x4x4x16xf32>
  return %y : tensor<1x1x4x4x16xf32>
}

// CHECK-LABEL: func.func @plain_layout
// CHECK-NOT: rtask.root
// CHECK: return
func.func @plain_layout(%x: tensor<1x16x6x6xf32>, %init: tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32> {
  %w = arith.constant dense_resource<w> : tensor<16x16x3x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, i, p, q) -> (n, i, y + p, x + q)>, affine_map<(n, o, y, x, i, p, q) -> (o, i, p, q)>, affine_map<(n, o, y, x, i, p, q) -> (n, o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x6x6xf32>, tensor<16x16x3x3xf32>) outs(%init : tensor<1x16x4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x16x4x4xf32>
  return %y : tensor<1x16x4x4xf32>
}

// CHECK-LABEL: func.func @one_tap
// CHECK-NOT: rtask.root
// CHECK: return
func.func @one_tap(%x: tensor<1x1x4x4x16xf32>, %init: tensor<1x1x4x4x16xf32>) -> tensor<1x1x4x4x16xf32> {
  %w = arith.constant dense_resource<v> : tensor<1x1x1x1x16x16xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x1x4x4x16xf32>, tensor<1x1x1x1x16x16xf32>) outs(%init : tensor<1x1x4x4x16xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x1x4x4x16xf32>
  return %y : tensor<1x1x4x4x16xf32>
}

// The transformed weights would be larger than what is folded.
// CHECK-LABEL: func.func @too_large
// CHECK-NOT: rtask.root
// CHECK: return
func.func @too_large(%x: tensor<1x128x6x6x16xf32>, %init: tensor<1x128x4x4x16xf32>) -> tensor<1x128x4x4x16xf32> {
  %w = arith.constant dense_resource<t> : tensor<128x128x3x3x16x16xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x128x6x6x16xf32>, tensor<128x128x3x3x16x16xf32>) outs(%init : tensor<1x128x4x4x16xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x128x4x4x16xf32>
  return %y : tensor<1x128x4x4x16xf32>
}

#id5 = affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>
#id6 = affine_map<(a, b, c, d, e, f) -> (a, b, c, d, e, f)>

// Bytes in 16 bits: matrices of whole numbers, sums of 32 bits, of which 576 = 9 * 64 is divided at the end.
// CHECK-LABEL: func.func @bytes
// CHECK: arith.constant dense<{{.*}}[4, 0, -5, 0, 1, 0]{{.*}}> : tensor<6x6xi16>
// CHECK: arith.sitofp %{{.*}} : i16 to f32
// CHECK: %[[U:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<6x6x1x1x16x16xi16>)
// CHECK: arith.fptosi %{{.*}} : f32 to i16
// CHECK: linalg.generic {{.*}} %[[U]] : {{.*}}xi32>) attrs = {rtask.root = "winograd4, as demanded"}
// CHECK: arith.constant dense<{{.*}}[6, -4, -4, 1, 1, 0]{{.*}}> : tensor<4x6xi32>
// CHECK: %[[INVERSE:.*]] = arith.constant 954437177 : i32
// CHECK: arith.muli %{{.*}}, %[[INVERSE]] : i32
// CHECK: %[[SHIFT:.*]] = arith.constant 6 : i32
// CHECK: arith.shrsi %{{.*}}, %[[SHIFT]] : i32
func.func @bytes(%a: tensor<1x1x6x6x16xi8>) -> tensor<1x1x4x4x16xi32> {
  %c = arith.constant dense_resource<b> : tensor<1x1x3x3x16x16xi8>
  %ae = tensor.empty() : tensor<1x1x6x6x16xi16>
  %x = linalg.generic {indexing_maps = [#id5, #id5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<1x1x6x6x16xi8>) outs(%ae : tensor<1x1x6x6x16xi16>) {
  ^bb0(%l: i8, %o: i16):
    %e = arith.extui %l : i8 to i16
    linalg.yield %e : i16
  } -> tensor<1x1x6x6x16xi16>
  %ce = tensor.empty() : tensor<1x1x3x3x16x16xi16>
  %w = linalg.generic {indexing_maps = [#id6, #id6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<1x1x3x3x16x16xi8>) outs(%ce : tensor<1x1x3x3x16x16xi16>) {
  ^bb0(%l: i8, %o: i16):
    %e = arith.extsi %l : i8 to i16
    linalg.yield %e : i16
  } -> tensor<1x1x3x3x16x16xi16>
  %zero = arith.constant 0 : i32
  %ie = tensor.empty() : tensor<1x1x4x4x16xi32>
  %init = linalg.fill ins(%zero : i32) outs(%ie : tensor<1x1x4x4x16xi32>) -> tensor<1x1x4x4x16xi32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x1x6x6x16xi16>, tensor<1x1x3x3x16x16xi16>) outs(%init : tensor<1x1x4x4x16xi32>) {
  ^bb0(%l: i16, %r: i16, %acc: i32):
    %u = arith.extsi %l : i16 to i32
    %v = arith.extsi %r : i16 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x1x4x4x16xi32>
  return %y : tensor<1x1x4x4x16xi32>
}

// Of weights without a sign the transformed ones may leave 16 bits.
// CHECK-LABEL: func.func @weights_of_no_sign
// CHECK-NOT: rtask.root
// CHECK: return
func.func @weights_of_no_sign(%a: tensor<1x1x6x6x16xi8>) -> tensor<1x1x4x4x16xi32> {
  %c = arith.constant dense_resource<b> : tensor<1x1x3x3x16x16xi8>
  %ae = tensor.empty() : tensor<1x1x6x6x16xi16>
  %x = linalg.generic {indexing_maps = [#id5, #id5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<1x1x6x6x16xi8>) outs(%ae : tensor<1x1x6x6x16xi16>) {
  ^bb0(%l: i8, %o: i16):
    %e = arith.extui %l : i8 to i16
    linalg.yield %e : i16
  } -> tensor<1x1x6x6x16xi16>
  %ce = tensor.empty() : tensor<1x1x3x3x16x16xi16>
  %w = linalg.generic {indexing_maps = [#id6, #id6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<1x1x3x3x16x16xi8>) outs(%ce : tensor<1x1x3x3x16x16xi16>) {
  ^bb0(%l: i8, %o: i16):
    %e = arith.extui %l : i8 to i16
    linalg.yield %e : i16
  } -> tensor<1x1x3x3x16x16xi16>
  %zero = arith.constant 0 : i32
  %ie = tensor.empty() : tensor<1x1x4x4x16xi32>
  %init = linalg.fill ins(%zero : i32) outs(%ie : tensor<1x1x4x4x16xi32>) -> tensor<1x1x4x4x16xi32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x1x6x6x16xi16>, tensor<1x1x3x3x16x16xi16>) outs(%init : tensor<1x1x4x4x16xi32>) {
  ^bb0(%l: i16, %r: i16, %acc: i32):
    %u = arith.extsi %l : i16 to i32
    %v = arith.extsi %r : i16 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x1x4x4x16xi32>
  return %y : tensor<1x1x4x4x16xi32>
}
