// RUN: rc-opt %s -p 'rtask-pack-weights' | filecheck %s
// RUN: rc-opt %s -p 'rtask-pack-weights{lanes=32}' | filecheck %s --check-prefix=WIDE
// RUN: rc-opt %s -p 'rtask-pack-weights{lines=true}' | filecheck %s --check-prefix=LINES
// RUN: rc-opt %s -p 'rtask-pack-weights{of-bytes=false lines=true}' | filecheck %s --check-prefix=UNITS

// CHECK-DAG: #[[PANELS:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16)>
// LINES-DAG: #[[LINE:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[HEADS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2 floordiv 16, d3, d2 mod 16)>

// 40 columns become 3 panels.
// CHECK-LABEL: func.func @product
// CHECK: tensor.pad {{.*}} high[0, 8]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<3x8x16xf32>)
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[PANELS]], {{.*}} ins(%{{.*}}, %[[P]] :
// WIDE-LABEL: func.func @product
// WIDE-NOT: x32xf32
// WIDE: return
func.func @product(%x: tensor<4x8xf32>) -> tensor<4x40xf32> {
  %w = arith.constant dense_resource<w_0> : tensor<8x40xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x40xf32>) -> tensor<4x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x8xf32>, tensor<8x40xf32>) outs(%f : tensor<4x40xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x40xf32>
  return %y : tensor<4x40xf32>
}

// Weights stored by rows of outputs, one matrix per head: panels stay behind the batch dim.
// CHECK-LABEL: func.func @batched_transposed
// CHECK: %[[P:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4x8x16xf32>)
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[HEADS]], {{.*}} ins(%{{.*}}, %[[P]] :
func.func @batched_transposed(%x: tensor<2x4x8xf32>) -> tensor<2x4x64xf32> {
  %w = arith.constant dense_resource<w_1> : tensor<2x64x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x64xf32>) -> tensor<2x4x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x4x8xf32>, tensor<2x64x8xf32>) outs(%f : tensor<2x4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x4x64xf32>
  return %y : tensor<2x4x64xf32>
}

// Activations on both sides stay as they are.
// CHECK-LABEL: func.func @no_constant
// CHECK-NOT: tensor.expand_shape
// CHECK: return
func.func @no_constant(%x: tensor<4x8xf32>, %w: tensor<8x40xf32>) -> tensor<4x40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x40xf32>) -> tensor<4x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x8xf32>, tensor<8x40xf32>) outs(%f : tensor<4x40xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x40xf32>
  return %y : tensor<4x40xf32>
}

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>

// Rows of four vectors lie as close as in a panel, and nothing else copies them.
// CHECK-LABEL: func.func @narrow_rows
// CHECK:         ins(%arg0, %arg1 : tensor<512x512xf32>, tensor<512x64xf32>)
func.func @narrow_rows(%x: tensor<512x512xf32>, %w: tensor<512x64xf32>) -> tensor<512x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x64xf32>) -> tensor<512x64xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<512x512xf32>, tensor<512x64xf32>) outs(%f : tensor<512x64xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<512x64xf32>
  return %y : tensor<512x64xf32>
}

// Wide rows that many rows read become panels at run time.
// CHECK-LABEL: func.func @wide_rows
// CHECK:         ins(%arg0, %{{.*}} : tensor<512x512xf32>, tensor<8x512x16xf32>)
func.func @wide_rows(%x: tensor<512x512xf32>, %w: tensor<512x128xf32>) -> tensor<512x128xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x128xf32>) -> tensor<512x128xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<512x512xf32>, tensor<512x128xf32>) outs(%f : tensor<512x128xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<512x128xf32>
  return %y : tensor<512x128xf32>
}

// Of one row, for lanes that share in each sum: a column after the other where it is long enough.
// CHECK-LABEL: func.func @one_row
// CHECK:         ins(%arg0, %{{.*}} : tensor<1x64xf32>, tensor<3x64x16xf32>)
// LINES-LABEL: func.func @one_row
// LINES:         %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<48x64xf32>)
// LINES:         linalg.generic {indexing_maps = [#{{.*}}, #[[LINE]], {{.*}} ins(%arg0, %[[W]] :
func.func @one_row(%x: tensor<1x64xf32>) -> tensor<1x48xf32> {
  %w = arith.constant dense_resource<w_7> : tensor<64x48xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x48xf32>) -> tensor<1x48xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x64xf32>, tensor<64x48xf32>) outs(%f : tensor<1x48xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x48xf32>
  return %y : tensor<1x48xf32>
}

// Short columns are in panels all the same.
// LINES-LABEL: func.func @short_column
// LINES:         ins(%arg0, %{{.*}} : tensor<1x63xf32>, tensor<3x63x16xf32>)
func.func @short_column(%x: tensor<1x63xf32>) -> tensor<1x48xf32> {
  %w = arith.constant dense_resource<w_8> : tensor<63x48xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x48xf32>) -> tensor<1x48xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x63xf32>, tensor<63x48xf32>) outs(%f : tensor<1x48xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x48xf32>
  return %y : tensor<1x48xf32>
}

// No operand of what compares all pairs of a row is weights: the one with the columns is not summed over.
// CHECK-LABEL: func.func @all_pairs
// CHECK:         ins(%arg0, %arg0 : tensor<2x64xi32>, tensor<2x64xi32>)
func.func @all_pairs(%x: tensor<2x64xi32>, %f: tensor<2x64xi32>) -> tensor<2x64xi32> {
  %y = linalg.generic {indexing_maps = [affine_map<(r, i, j) -> (r, i)>, affine_map<(r, i, j) -> (r, j)>, affine_map<(r, i, j) -> (r, i)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %x : tensor<2x64xi32>, tensor<2x64xi32>) outs(%f : tensor<2x64xi32>) {
  ^bb0(%a: i32, %b: i32, %acc: i32):
    %c = arith.cmpi slt, %b, %a : i32
    %n = arith.extui %c : i1 to i32
    %s = arith.addi %acc, %n : i32
    linalg.yield %s : i32
  } -> tensor<2x64xi32>
  return %y : tensor<2x64xi32>
}

// Weights that are made of words of a few bits are not copied, however many rows read them.
// CHECK-LABEL: func.func @unpacked
// CHECK:         %[[U:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<64x48xi32>, tensor<48xf32>)
// CHECK:         ins(%arg0, %[[U]] : tensor<512x64xf32>, tensor<64x48xf32>)
func.func @unpacked(%x: tensor<512x64xf32>) -> tensor<512x48xf32> {
  %words = arith.constant dense_resource<w_9> : tensor<64x48xi32>
  %scales = arith.constant dense_resource<w_10> : tensor<48xf32>
  %e = tensor.empty() : tensor<64x48xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(k, n) -> (k, n)>, affine_map<(k, n) -> (n)>, affine_map<(k, n) -> (k, n)>], iterator_types = ["parallel", "parallel"]} ins(%words, %scales : tensor<64x48xi32>, tensor<48xf32>) outs(%e : tensor<64x48xf32>) {
  ^bb0(%word: i32, %scale: f32, %o: f32):
    %f = arith.sitofp %word : i32 to f32
    %s = arith.mulf %f, %scale : f32
    linalg.yield %s : f32
  } -> tensor<64x48xf32>
  %zero = arith.constant 0.0 : f32
  %d = tensor.empty() : tensor<512x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<512x48xf32>) -> tensor<512x48xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<512x64xf32>, tensor<64x48xf32>) outs(%f : tensor<512x48xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<512x48xf32>
  return %y : tensor<512x48xf32>
}

// Bytes for a matrix unit stay as they are; those of one row lie in lines all the same.
// CHECK-LABEL: func.func @bytes
// CHECK: outs(%{{.*}} : tensor<3x64x16xi8>)
// UNITS-LABEL: func.func @bytes
// UNITS-NOT: x16xi8>
// UNITS: ins(%arg0, %{{.*}} : tensor<4x64xi8>, tensor<64x48xi8>)
// UNITS: outs(%{{.*}} : tensor<48x64xi8>)
// UNITS: ins(%arg1, %{{.*}} : tensor<1x64xi8>, tensor<48x64xi8>)
func.func @bytes(%x: tensor<4x64xi8>, %one: tensor<1x64xi8>) -> (tensor<4x48xi32>, tensor<1x48xi32>) {
  %w = arith.constant dense_resource<w_bytes> : tensor<64x48xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x48xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<4x48xi32>) -> tensor<4x48xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x64xi8>, tensor<64x48xi8>) outs(%f : tensor<4x48xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<4x48xi32>
  %e1 = tensor.empty() : tensor<1x48xi32>
  %f1 = linalg.fill ins(%zero : i32) outs(%e1 : tensor<1x48xi32>) -> tensor<1x48xi32>
  %z = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%one, %w : tensor<1x64xi8>, tensor<64x48xi8>) outs(%f1 : tensor<1x48xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<1x48xi32>
  return %y, %z : tensor<4x48xi32>, tensor<1x48xi32>
}
