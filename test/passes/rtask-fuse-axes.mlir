// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v4-2.json},rtask-fuse-axes' --split-input-file | filecheck %s

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0)>

// Rows of 3 elements leave the vectors empty; what is added to them differs by image only.
// CHECK-LABEL: func.func @short_rows(
// CHECK:         %[[X:.*]] = tensor.collapse_shape %arg0 {{\[}}[0], [1, 2]] : tensor<224x224x3xf32> into tensor<224x672xf32>
// CHECK:         %[[R:.*]] = "rtask.operator"() ({
// CHECK:           linalg.generic {{.*}} ins(%[[X]], %arg1 : tensor<224x672xf32>, tensor<224xf32>)
// CHECK:         }) {kind = "elementwise", sym_name = "add"} : () -> tensor<224x672xf32>
// CHECK:         tensor.expand_shape %[[R]] {{\[}}[0], [1, 2]] output_shape [224, 224, 3]
func.func @short_rows(%x: tensor<224x224x3xf32>, %b: tensor<224xf32>) -> tensor<224x224x3xf32> {
  %r = "rtask.operator"() ({
    %e = tensor.empty() : tensor<224x224x3xf32>
    %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %b : tensor<224x224x3xf32>, tensor<224xf32>) outs(%e : tensor<224x224x3xf32>) {
    ^bb0(%l: f32, %s: f32, %o: f32):
      %t = arith.addf %l, %s : f32
      linalg.yield %t : f32
    } -> tensor<224x224x3xf32>
    "rtask.yield"(%y) : (tensor<224x224x3xf32>) -> ()
  }) {kind = "elementwise", sym_name = "add"} : () -> tensor<224x224x3xf32>
  return %r : tensor<224x224x3xf32>
}

// -----

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Nothing is gained where rows are long: their tiles end with those of the products around them.
// CHECK-LABEL: func.func @long_rows(
// CHECK-NOT:     collapse_shape
// CHECK:         linalg.generic {{.*}} ins(%arg0 : tensor<2x64x3072xf32>)
// CHECK-NOT:     expand_shape
func.func @long_rows(%x: tensor<2x64x3072xf32>) -> tensor<2x64x3072xf32> {
  %r = "rtask.operator"() ({
    %e = tensor.empty() : tensor<2x64x3072xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x64x3072xf32>) outs(%e : tensor<2x64x3072xf32>) {
    ^bb0(%l: f32, %o: f32):
      %t = math.absf %l : f32
      linalg.yield %t : f32
    } -> tensor<2x64x3072xf32>
    "rtask.yield"(%y) : (tensor<2x64x3072xf32>) -> ()
  }) {kind = "elementwise", sym_name = "abs"} : () -> tensor<2x64x3072xf32>
  return %r : tensor<2x64x3072xf32>
}

// -----

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Two results of one operator, and constants of one scalar.
// CHECK-LABEL: func.func @two_results(
// CHECK:         tensor.collapse_shape %arg0 {{\[}}[0, 1, 2]] : tensor<512x7x3xf32> into tensor<10752xf32>
// CHECK:         "rtask.operator"() ({
// CHECK:           arith.constant dense<2.000000e+00> : tensor<10752xf32>
// CHECK:         }) {kind = "elementwise", sym_name = "both"} : () -> tuple<tensor<10752xf32>, tensor<10752xf32>>
// CHECK:         tensor.expand_shape %{{.*}} output_shape [512, 7, 3]
// CHECK:         tensor.expand_shape %{{.*}} output_shape [512, 7, 3]
func.func @two_results(%x: tensor<512x7x3xf32>) -> (tensor<512x7x3xf32>, tensor<512x7x3xf32>) {
  %r = "rtask.operator"() ({
    %c = arith.constant dense<2.0> : tensor<512x7x3xf32>
    %e = tensor.empty() : tensor<512x7x3xf32>
    %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<512x7x3xf32>) outs(%e : tensor<512x7x3xf32>) {
    ^bb0(%l: f32, %o: f32):
      %t = math.absf %l : f32
      linalg.yield %t : f32
    } -> tensor<512x7x3xf32>
    %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %c : tensor<512x7x3xf32>, tensor<512x7x3xf32>) outs(%e : tensor<512x7x3xf32>) {
    ^bb0(%l: f32, %k: f32, %o: f32):
      %t = arith.mulf %l, %k : f32
      linalg.yield %t : f32
    } -> tensor<512x7x3xf32>
    %both = builtin.unrealized_conversion_cast %s, %y : tensor<512x7x3xf32>, tensor<512x7x3xf32> to tuple<tensor<512x7x3xf32>, tensor<512x7x3xf32>>
    "rtask.yield"(%both) : (tuple<tensor<512x7x3xf32>, tensor<512x7x3xf32>>) -> ()
  }) {kind = "elementwise", sym_name = "both"} : () -> tuple<tensor<512x7x3xf32>, tensor<512x7x3xf32>>
  %a, %b = builtin.unrealized_conversion_cast %r : tuple<tensor<512x7x3xf32>, tensor<512x7x3xf32>> to tensor<512x7x3xf32>, tensor<512x7x3xf32>
  return %a, %b : tensor<512x7x3xf32>, tensor<512x7x3xf32>
}

// -----

#in = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#out = affine_map<(d0, d1, d2) -> (d0)>

// A sum over pixels: 64x3 becomes 192, and vectors run along it.
// CHECK-LABEL: func.func @pixels(
// CHECK:         tensor.collapse_shape %arg0 {{\[}}[0], [1, 2]] : tensor<512x64x3xf32> into tensor<512x192xf32>
// CHECK:           linalg.fill {{.*}} -> tensor<512xf32>
// CHECK:           linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK:         }) {kind = "reduction", sym_name = "sum"} : () -> tensor<512xf32>
func.func @pixels(%x: tensor<512x64x3xf32>) -> tensor<512xf32> {
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<512xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
    %s = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<512x64x3xf32>) outs(%f : tensor<512xf32>) {
    ^bb0(%l: f32, %acc: f32):
      %t = arith.addf %acc, %l : f32
      linalg.yield %t : f32
    } -> tensor<512xf32>
    "rtask.yield"(%s) : (tensor<512xf32>) -> ()
  }) {kind = "reduction", sym_name = "sum"} : () -> tensor<512xf32>
  return %r : tensor<512xf32>
}

// -----

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Dims that meet a pad stay, and so do those whose index the body asks for.
// CHECK-LABEL: func.func @kept_apart(
// CHECK-NOT:     collapse_shape
func.func @kept_apart(%x: tensor<512x5x3xf32>) -> (tensor<512x6x3xf32>, tensor<512x5x3xf32>) {
  %p = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<512x5x3xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<512x5x3xf32>) outs(%e : tensor<512x5x3xf32>) {
    ^bb0(%l: f32, %o: f32):
      %t = math.absf %l : f32
      linalg.yield %t : f32
    } -> tensor<512x5x3xf32>
    %q = tensor.pad %y low[0, 1, 0] high[0, 0, 0] {
    ^bb0(%a: index, %b: index, %c: index):
      tensor.yield %zero : f32
    } : tensor<512x5x3xf32> to tensor<512x6x3xf32>
    "rtask.yield"(%q) : (tensor<512x6x3xf32>) -> ()
  }) {kind = "elementwise", sym_name = "padded"} : () -> tensor<512x6x3xf32>
  %i = "rtask.operator"() ({
    %e = tensor.empty() : tensor<512x5x3xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<512x5x3xf32>) outs(%e : tensor<512x5x3xf32>) {
    ^bb0(%l: f32, %o: f32):
      %n = linalg.index 1 : index
      %m = arith.index_cast %n : index to i64
      %k = arith.sitofp %m : i64 to f32
      %t = arith.addf %l, %k : f32
      linalg.yield %t : f32
    } -> tensor<512x5x3xf32>
    "rtask.yield"(%y) : (tensor<512x5x3xf32>) -> ()
  }) {kind = "elementwise", sym_name = "numbered"} : () -> tensor<512x5x3xf32>
  return %p, %i : tensor<512x6x3xf32>, tensor<512x5x3xf32>
}

// -----

#image = affine_map<(g, c, y, x, k, ky, kx) -> (g, k, y + ky, x + kx)>
#filter = affine_map<(g, c, y, x, k, ky, kx) -> (g, c, k, ky, kx)>
#out = affine_map<(g, c, y, x, k, ky, kx) -> (g, c, y, x)>

// A window of one element moves with its pixel: rows of 14 pixels, three narrow vectors each, are one row of 196.
// CHECK-LABEL: func.func @small_window(
// CHECK:         %[[X:.*]] = tensor.collapse_shape %arg0 {{\[}}[0], [1], [2, 3]] : tensor<3x160x14x14xf32> into tensor<3x160x196xf32>
// CHECK:         kind = "convolution", sym_name = "grouped"} : () -> tensor<3x40x196xf32>
func.func @small_window(%x: tensor<3x160x14x14xf32>, %w: tensor<3x40x160x1x1xf32>) -> tensor<3x40x14x14xf32> {
  %r = "rtask.operator"() ({
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<3x40x14x14xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x40x14x14xf32>) -> tensor<3x40x14x14xf32>
    %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<3x160x14x14xf32>, tensor<3x40x160x1x1xf32>) outs(%f : tensor<3x40x14x14xf32>) {
    ^bb0(%l: f32, %s: f32, %acc: f32):
      %m = arith.mulf %l, %s : f32
      %t = arith.addf %acc, %m : f32
      linalg.yield %t : f32
    } -> tensor<3x40x14x14xf32>
    "rtask.yield"(%y) : (tensor<3x40x14x14xf32>) -> ()
  }) {kind = "convolution", sym_name = "grouped"} : () -> tensor<3x40x14x14xf32>
  return %r : tensor<3x40x14x14xf32>
}

// -----

#row = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Ops that walk rows one by one between ops that walk them as an image: the reshapes between them
// go, whatever the cost model says, and so do quotients of rows by the width in code.
// CHECK-LABEL: func.func @rows_of_an_image(
// CHECK:         %[[R:.*]] = "rtask.operator"() ({
// CHECK-NOT:       _shape
// CHECK:           linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<784x3072xf32>, tensor<3072xf32>)
// CHECK-NOT:       _shape
// CHECK:           linalg.generic {{.*}} outs({{.*}} : tensor<784x3072xf32>)
// CHECK-NOT:       _shape
// CHECK:         }) {kind = "elementwise", sym_name = "gelu"} : () -> tensor<784x3072xf32>
// CHECK-NEXT:    return %[[R]]
func.func @rows_of_an_image(%x: tensor<784x3072xf32>, %b: tensor<3072xf32>) -> tensor<784x3072xf32> {
  %r = "rtask.operator"() ({
    %e = tensor.empty() : tensor<784x3072xf32>
    %s = linalg.generic {indexing_maps = [#row, #column, #row], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<784x3072xf32>, tensor<3072xf32>) outs(%e : tensor<784x3072xf32>) {
    ^bb0(%l: f32, %c: f32, %o: f32):
      %t = arith.addf %l, %c : f32
      linalg.yield %t : f32
    } -> tensor<784x3072xf32>
    %w = tensor.expand_shape %s [[0, 1], [2]] output_shape [28, 28, 3072] : tensor<784x3072xf32> into tensor<28x28x3072xf32>
    %f = tensor.empty() : tensor<28x28x3072xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<28x28x3072xf32>) outs(%f : tensor<28x28x3072xf32>) {
    ^bb0(%l: f32, %o: f32):
      %t = math.absf %l : f32
      linalg.yield %t : f32
    } -> tensor<28x28x3072xf32>
    %z = tensor.collapse_shape %y [[0, 1], [2]] : tensor<28x28x3072xf32> into tensor<784x3072xf32>
    "rtask.yield"(%z) : (tensor<784x3072xf32>) -> ()
  }) {kind = "elementwise", sym_name = "gelu"} : () -> tensor<784x3072xf32>
  return %r : tensor<784x3072xf32>
}

// -----

#row = affine_map<(d0, d1) -> (d0, d1)>
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#line = affine_map<(d0, d1, d2) -> (d0, d2)>

// What is added to each line of the image keeps its rows apart.
// CHECK-LABEL: func.func @lines_of_an_image(
// CHECK:           tensor.expand_shape
// CHECK:           linalg.generic {{.*}} ins({{.*}}, %arg1 : tensor<28x28x3072xf32>, tensor<28x3072xf32>)
func.func @lines_of_an_image(%x: tensor<784x3072xf32>, %b: tensor<28x3072xf32>) -> tensor<28x28x3072xf32> {
  %r = "rtask.operator"() ({
    %e = tensor.empty() : tensor<784x3072xf32>
    %s = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<784x3072xf32>) outs(%e : tensor<784x3072xf32>) {
    ^bb0(%l: f32, %o: f32):
      %t = math.absf %l : f32
      linalg.yield %t : f32
    } -> tensor<784x3072xf32>
    %w = tensor.expand_shape %s [[0, 1], [2]] output_shape [28, 28, 3072] : tensor<784x3072xf32> into tensor<28x28x3072xf32>
    %f = tensor.empty() : tensor<28x28x3072xf32>
    %y = linalg.generic {indexing_maps = [#id, #line, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %b : tensor<28x28x3072xf32>, tensor<28x3072xf32>) outs(%f : tensor<28x28x3072xf32>) {
    ^bb0(%l: f32, %c: f32, %o: f32):
      %t = arith.addf %l, %c : f32
      linalg.yield %t : f32
    } -> tensor<28x28x3072xf32>
    "rtask.yield"(%y) : (tensor<28x28x3072xf32>) -> ()
  }) {kind = "elementwise", sym_name = "lines"} : () -> tensor<28x28x3072xf32>
  return %r : tensor<28x28x3072xf32>
}
