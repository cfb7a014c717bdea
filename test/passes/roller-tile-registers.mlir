// RUN: rc-opt %s -p rc-tile-kernels --split-input-file | filecheck %s

// A product: the loop over columns is outside, as `order` says; register tiles of 6 rows, and 4 that are left; vectors
// of 8 columns, and half of one that is left. What a loop does not change stands in front of it.
// CHECK: ^bb0(%[[X:.*]]: tensor<10x32xf32>, %[[W:.*]]: tensor<32x20xf32>, %{{.*}}: tensor<20xf32>, %[[OUT:.*]]: tensor<10x20xf32>
// CHECK:       %[[A:.*]] = tensor.extract_slice %[[X]][0, 0] [6, 32]
// CHECK:       %[[B:.*]] = tensor.extract_slice %[[X]][6, 0] [4, 32]
// CHECK:       %[[Q:.*]] = scf.for %[[J:.*]] = %c0 to %c16 step %c8 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:         %[[V:.*]] = tensor.extract_slice %[[W]][0, %[[J]]] [32, 8]
// CHECK:         linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<6x32xf32>, tensor<32x8xf32>)
// CHECK:         tensor.insert_slice {{.*}} into %[[O]][0, %[[J]]] [6, 8]
// CHECK:         linalg.generic {{.*}}"reduction"{{.*}} ins(%[[B]], %[[V]] : tensor<4x32xf32>, tensor<32x8xf32>)
// CHECK:         scf.yield
// CHECK:       linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %{{.*}} : tensor<6x32xf32>, tensor<32x4xf32>)
// CHECK:       tensor.insert_slice {{.*}} into %[[Q]][0, 16] [6, 4]
"rtask.kernel"() ({
^bb0(%x: tensor<10x32xf32>, %w: tensor<32x20xf32>, %bias: tensor<20xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10x20xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<10x20xf32>) -> tensor<10x20xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<10x32xf32>, tensor<32x20xf32>) outs(%f : tensor<10x20xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<10x20xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<10x20xf32>, tensor<20xf32>) outs(%e : tensor<10x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<10x20xf32>
  "rtask.yield"(%y) : (tensor<10x20xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 1, 0>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 6, 8>, registers = 1 : i64,
    source = "roller", sym_name = "product", tasks = 1 : i64, tile = array<i64: 10, 20>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// The reduction in parts of 128: the sums of the tile wait in a tensor of the task.
// CHECK: ^bb0(%[[X:.*]]: tensor<4x300xf32>, %[[W:.*]]: tensor<300x16xf32>
// CHECK:       %[[E:.*]] = bufferization.alloc_tensor() : tensor<4x16xf32>
// CHECK:       %[[S:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[E]])
// CHECK:       %[[U:.*]] = scf.for %[[K:.*]] = %c0 to %c256 step %c128 iter_args(%[[I:.*]] = %[[S]])
// CHECK:         tensor.extract_slice %[[X]][0, %[[K]]] [4, 128]
// CHECK:         scf.for %[[J:.*]] = %c0 to %c16 step %c8 iter_args(%[[P:.*]] = %[[I]])
// CHECK:           tensor.extract_slice %[[P]][0, %[[J]]] [4, 8]
// CHECK:           tensor.extract_slice %[[W]][%[[K]], %[[J]]] [128, 8]
// CHECK:       %[[L:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[U]])
// CHECK:         tensor.extract_slice %[[W]][256, %{{.*}}] [44, 8]
// CHECK:       scf.for
// CHECK:         tensor.extract_slice %[[L]]
// CHECK:         arith.addf
// CHECK:         tensor.insert_slice
"rtask.kernel"() ({
^bb0(%x: tensor<4x300xf32>, %w: tensor<300x16xf32>, %bias: tensor<16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x300xf32>, tensor<300x16xf32>) outs(%f : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<4x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<4x16xf32>
  "rtask.yield"(%y) : (tensor<4x16xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 4, 8>, registers = 1 : i64,
    source = "roller", sym_name = "parts", tasks = 1 : i64, tile = array<i64: 4, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], reduction_tile = array<i64: 0, 128>} : () -> ()

// -----

// Exponentials that the sum and the quotient both need: the row of them once, in front of the loop over columns.
// CHECK: ^bb0(%{{.*}}: tensor<4x64xf32>, %{{.*}}: tensor<4x64xf32>
// CHECK:       scf.for %[[I:.*]] = %c0 to %c4 step %c1
// CHECK:         math.exp
// CHECK:         scf.for %[[J:.*]] = %c0 to %c64 step %c16
// CHECK:           tensor.extract_slice %{{.*}}[0, %[[J]]] [1, 16]
// CHECK:           arith.divf
"rtask.kernel"() ({
^bb0(%x: tensor<4x64xf32>):
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %r = tensor.empty() : tensor<4xf32>
  %e = tensor.empty() : tensor<4x64xf32>
  %m0 = linalg.fill ins(%low : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%m0 : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %b = arith.maximumf %acc, %a : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<4x64xf32>, tensor<4xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.subf %a, %b : f32
    %d = math.exp %c : f32
    linalg.yield %d : f32
  } -> tensor<4x64xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<4x64xf32>) outs(%s0 : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %b = arith.addf %acc, %a : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<4x64xf32>, tensor<4xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.divf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<4x64xf32>
  "rtask.yield"(%y) : (tensor<4x64xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "reduction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 16>, registers = 1 : i64,
    source = "roller", sym_name = "softmax", tasks = 1 : i64, tile = array<i64: 4, 64>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Pairs of rows that are one row of a product: register tiles of 3 rows begin in the middle of a pair every other time,
// so a turn of the loop makes two of them, and the shape of what each needs of the product is known.
// CHECK: ^bb0(%[[X:.*]]: tensor<6x32xf32>, %[[W:.*]]: tensor<32x8xf32>, %[[OUT:.*]]: tensor<12x8xf32>
// CHECK-NOT:   tensor.extract %
// CHECK:       %[[Q:.*]] = scf.for %[[I:.*]] = %c0 to %c12 step %c6 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:         linalg.generic {{.*}}"reduction"{{.*}} outs(%{{.*}} : tensor<2x8xf32>)
// CHECK:         %[[A:.*]] = tensor.insert_slice {{.*}} into %[[O]][%[[I]], 0] [3, 8]
// CHECK:         linalg.generic {{.*}}"reduction"{{.*}} outs(%{{.*}} : tensor<2x8xf32>)
// CHECK:         tensor.insert_slice {{.*}} into %[[A]][%{{.*}}, 0] [3, 8]
// CHECK:         scf.yield
"rtask.kernel"() ({
^bb0(%x: tensor<6x32xf32>, %w: tensor<32x8xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x32xf32>, tensor<32x8xf32>) outs(%f : tensor<6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<6x8xf32>
  %o = tensor.empty() : tensor<12x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i floordiv 2, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<6x8xf32>) outs(%o : tensor<12x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<12x8xf32>
  "rtask.yield"(%y) : (tensor<12x8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 3, 8>, registers = 1 : i64,
    source = "roller", sym_name = "pairs", tasks = 1 : i64, tile = array<i64: 12, 8>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
