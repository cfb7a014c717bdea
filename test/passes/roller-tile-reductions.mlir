// RUN: rc-opt %s -p 'roller-tile-tasks,roller-tile-reductions' | filecheck %s

// Outer loops of `order` are around the parts: of each 4 rows, the sums of all 16 columns wait between the parts.
// CHECK: ^bb0(
// CHECK:       scf.for %[[I:.*]] = %c0 to %c8 step %c4
// CHECK:         bufferization.alloc_tensor() : tensor<4x16xf32>
// CHECK:         scf.for {{.*}} to %c16{{.*}} step %c8
// CHECK:         scf.for %[[K:.*]] = %c0{{.*}} to %c300 step %c100
// CHECK:           scf.for %[[J:.*]] = %c0{{.*}} to %c16{{.*}} step %c8
"rtask.kernel"() ({
^bb0(%x: tensor<8x300xf32>, %w: tensor<300x16xf32>, %bias: tensor<16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x300xf32>, tensor<300x16xf32>) outs(%f : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<8x16xf32>, tensor<16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x16xf32>
  "rtask.yield"(%y) : (tensor<8x16xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 4, 8>, registers = 1 : i64,
    source = "roller", sym_name = "parts", tasks = 1 : i64, tile = array<i64: 8, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], reduction_tile = array<i64: 1, 100>} : () -> ()

// The sums of a result that is reshaped have two dims, and its third one goes along their second.
// CHECK:     sym_name = "parts"
// CHECK:     bufferization.alloc_tensor() {rtask.vector_dim = 1 : i64} : tensor<4x8xf32>
"rtask.kernel"() ({
^bb0(%x: tensor<4x300xf32>, %w: tensor<300x8xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x300xf32>, tensor<300x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<4x8xf32>
  %y = tensor.expand_shape %p [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  "rtask.yield"(%y) : (tensor<4x2x4xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1, 1>, kind = "contraction", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1, 2>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 4, 2, 4>, registers = 1 : i64,
    source = "roller", sym_name = "reshaped", tasks = 1 : i64, tile = array<i64: 4, 2, 4>,
    vector_dim = 2 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], reduction_tile = array<i64: 0, 100>} : () -> ()

// Register tiles of 4 and 2 of 6 columns of two heads are no box of the sums: the reduction stays whole.
// CHECK:     sym_name = "reshaped"
// CHECK-NOT: bufferization.alloc_tensor
// CHECK-NOT: scf.for
// CHECK:     linalg.generic {{.*}} tensor<4x300xf32>, tensor<300x12xf32>
// CHECK-NOT: reduction_tile
// CHECK:     sym_name = "heads"
"rtask.kernel"() ({
^bb0(%x: tensor<4x300xf32>, %w: tensor<300x12xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x12xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x12xf32>) -> tensor<4x12xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x300xf32>, tensor<300x12xf32>) outs(%f : tensor<4x12xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<4x12xf32>
  %y = tensor.expand_shape %p [[0], [1, 2]] output_shape [4, 2, 6] : tensor<4x12xf32> into tensor<4x2x6xf32>
  "rtask.yield"(%y) : (tensor<4x2x6xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1, 1>, kind = "contraction", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1, 2>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 4, 2, 6>, registers = 1 : i64,
    source = "roller", sym_name = "heads", tasks = 1 : i64, tile = array<i64: 4, 2, 6>,
    vector_dim = 2 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], reduction_tile = array<i64: 0, 100>} : () -> ()
