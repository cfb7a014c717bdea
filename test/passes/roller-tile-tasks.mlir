// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' --split-input-file | filecheck %s

// A product with its bias: the grid position of the task, the slices of its operands, the tile of the product and of
// what comes after it, and where the tile goes.
// CHECK:       "rtask.kernel"()
// CHECK-NEXT:  ^bb0(%[[X:.*]]: tensor<64x256xf32>, %[[W:.*]]: tensor<256x96xf32>, %[[B:.*]]: tensor<96xf32>, %[[OUT:.*]]: tensor<64x96xf32>, %[[TASK:.*]]: index):
// CHECK:         %[[G0:.*]] = affine.apply #[[DIV:.*]](%[[TASK]])
// CHECK:         %[[G1:.*]] = affine.apply #[[MOD:.*]](%[[TASK]])
// CHECK:         %[[I:.*]] = affine.apply #[[ROWS:.*]](%[[G0]])
// CHECK:         %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [16, 256] [1, 1]
// CHECK:         %[[J:.*]] = affine.apply #[[COLUMNS:.*]](%[[G1]])
// CHECK:         %[[V:.*]] = tensor.extract_slice %[[W]][0, %[[J]]] [256, 48] [1, 1]
// CHECK:         %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[V]] : tensor<16x256xf32>, tensor<256x48xf32>)
// CHECK:         %[[C:.*]] = tensor.extract_slice %[[B]][%[[J]]] [48] [1]
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<16x48xf32>, tensor<48xf32>)
// CHECK:         %[[R:.*]] = tensor.insert_slice %[[T]] into %[[OUT]][%[[I]], %[[J]]] [16, 48] [1, 1]
// CHECK:         "rtask.yield"(%[[R]])
"rtask.kernel"() ({
^bb0(%x: tensor<64x256xf32>, %w: tensor<256x96xf32>, %bias: tensor<96xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x96xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x96xf32>) -> tensor<64x96xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<64x256xf32>, tensor<256x96xf32>) outs(%f : tensor<64x96xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<64x96xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<64x96xf32>, tensor<96xf32>) outs(%e : tensor<64x96xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<64x96xf32>
  "rtask.yield"(%y) : (tensor<64x96xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 4, 2>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 16, 0, 16>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: 1, 48, 0, 48>], [array<i64: 1, 48, 0, 48>]], register_tile = array<i64: 4, 16>, registers = 1 : i64,
    source = "roller", sym_name = "product", tasks = 8 : i64, tile = array<i64: 16, 48>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 16, 0, 16>, array<i64: 1, 48, 0, 48>]]} : () -> ()

// -----

// The last tile along the vectors is smaller: it is a side of its own, of static size.
// CHECK:       %[[LAST:.*]] = arith.cmpi eq, %{{.*}}, %c1
// CHECK:       scf.if %[[LAST]]
// CHECK:         tensor.insert_slice {{.*}}[8, 32] [1, 1]
// CHECK:       } else {
// CHECK:         tensor.insert_slice {{.*}}[8, 64] [1, 1]
"rtask.kernel"() ({
^bb0(%x: tensor<8x32xf32>, %w: tensor<32x96xf32>, %bias: tensor<96xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x96xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x96xf32>) -> tensor<8x96xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x32xf32>, tensor<32x96xf32>) outs(%f : tensor<8x96xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<8x96xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<8x96xf32>, tensor<96xf32>) outs(%e : tensor<8x96xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x96xf32>
  "rtask.yield"(%y) : (tensor<8x96xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 2>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: 1, 64, 0, 64>], [array<i64: 1, 64, 0, 64>]], register_tile = array<i64: 4, 16>, registers = 1 : i64,
    source = "roller", sym_name = "columns", tasks = 2 : i64, tile = array<i64: 8, 64>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 64, 0, 64>]]} : () -> ()

// -----

// The last tile along an axis that nothing is computed together along: a size that the task knows.
// CHECK:       %[[END:.*]] = affine.min
// CHECK:       %[[SIZE:.*]] = affine.apply {{.*}}%[[END]]
// CHECK:       linalg.generic {{.*}} outs(%{{.*}} : tensor<?x16xf32>)
// CHECK:       tensor.insert_slice {{.*}}[%[[SIZE]], 16] [1, 1] : tensor<?x16xf32> into tensor<10x16xf32>
"rtask.kernel"() ({
^bb0(%x: tensor<10x32xf32>, %w: tensor<32x16xf32>, %bias: tensor<16xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<10x16xf32>) -> tensor<10x16xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<10x32xf32>, tensor<32x16xf32>) outs(%f : tensor<10x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<10x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<10x16xf32>, tensor<16xf32>) outs(%e : tensor<10x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<10x16xf32>
  "rtask.yield"(%y) : (tensor<10x16xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 3, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 16>, registers = 1 : i64,
    source = "roller", sym_name = "rows", tasks = 3 : i64, tile = array<i64: 4, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A convolution in steps of 2 whose taps are 3 apart, of 2 groups: the window of 4 x 5 results.
// CHECK:       tensor.extract_slice %{{.*}}[%{{.*}}, 0, %{{.*}}, 0] [1, 3, 13, 15] [1, 1, 1, 1] : tensor<2x3x31x15xf32>
// CHECK:       tensor.extract_slice %{{.*}}[%{{.*}}, 0, 0, 0, 0] [1, 8, 3, 3, 3] [1, 1, 1, 1, 1] : tensor<2x8x3x3x3xf32>
// CHECK:       linalg.generic {{.*}} outs(%{{.*}} : tensor<1x8x4x5xf32>)
// CHECK:       tensor.insert_slice {{.*}}[1, 8, 4, 5]
"rtask.kernel"() ({
^bb0(%x: tensor<2x3x31x15xf32>, %w: tensor<2x8x3x3x3xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x13x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x13x5xf32>) -> tensor<2x8x13x5xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(g, o, y, x, c, r, s) -> (g, c, y * 2 + r * 3, x * 2 + s * 3)>, affine_map<(g, o, y, x, c, r, s) -> (g, o, c, r, s)>, affine_map<(g, o, y, x, c, r, s) -> (g, o, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<2x3x31x15xf32>, tensor<2x8x3x3x3xf32>) outs(%f : tensor<2x8x13x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<2x8x13x5xf32>
  "rtask.yield"(%p) : (tensor<2x8x13x5xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 2, 1, 4, 1>, kind = "convolution", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1, 2, 3>,
    reads = [[array<i64: 0, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: 2, 8, 0, 13>, array<i64: -1, 0, 0, 0>], [array<i64: 0, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 2, 2, 5>, registers = 1 : i64,
    source = "roller", sym_name = "windows", tasks = 8 : i64, tile = array<i64: 1, 8, 4, 5>,
    vector_dim = 3 : i64, writes = [[array<i64: 0, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: 2, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Its own numbers of elements are those of the whole operator; a permuted read stays one slice.
// CHECK:       %[[I:.*]] = affine.apply {{.*}}(%{{.*}})
// CHECK:       tensor.extract_slice %{{.*}}[0, %[[I]]] [6, 4] [1, 1] : tensor<6x8xi64> to tensor<6x4xi64>
// CHECK:       linalg.generic {indexing_maps = [#{{.*}}, {{.*}}
// CHECK:         %[[N:.*]] = linalg.index 0
// CHECK:         affine.apply {{.*}}(%[[N]], %[[I]])
"rtask.kernel"() ({
^bb0(%x: tensor<6x8xi64>):
  %e = tensor.empty() : tensor<8x6xi64>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x8xi64>) outs(%e : tensor<8x6xi64>) {
  ^bb0(%a: i64, %o: i64):
    %n = linalg.index 0 : index
    %c = arith.index_cast %n : index to i64
    %d = arith.addi %a, %c : i64
    linalg.yield %d : i64
  } -> tensor<8x6xi64>
  "rtask.yield"(%y) : (tensor<8x6xi64>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 2, 1>, kind = "movement", lanes = 1 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: 0, 4, 0, 4>]], register_tile = array<i64: 1, 1>, registers = 1 : i64,
    source = "roller", sym_name = "numbers", tasks = 2 : i64, tile = array<i64: 4, 6>,
    vector_dim = -1 : i64, writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Panels: the columns of tiles of whole panels are whole panels, others are picked one by one.
// CHECK: ^bb0(%{{.*}}: tensor<4x3x8xf32>, %{{.*}}: tensor<3x32xf32>
// CHECK:       tensor.extract_slice %{{.*}}[%{{.*}}, 0, 0] [2, 3, 8] [1, 1, 1]
// CHECK-NOT:   tensor.extract %
// CHECK:       "rtask.yield"
// CHECK: ^bb0(%[[P:.*]]: tensor<4x3x8xf32>, %{{.*}}: tensor<3x32xf32>
// CHECK:       linalg.generic
// CHECK:         tensor.extract %[[P]][
"rtask.kernel"() ({
^bb0(%x: tensor<4x3x8xf32>):
  %e = tensor.empty() : tensor<3x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j floordiv 8, i, j mod 8)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x3x8xf32>) outs(%e : tensor<3x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x32xf32>
  "rtask.yield"(%y) : (tensor<3x32xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 2>, kind = "movement", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 4>, registers = 1 : i64,
    source = "roller", sym_name = "panels", tasks = 2 : i64, tile = array<i64: 3, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 16, 0, 16>]]} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<4x3x8xf32>):
  %e = tensor.empty() : tensor<3x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j floordiv 8, i, j mod 8)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x3x8xf32>) outs(%e : tensor<3x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x32xf32>
  "rtask.yield"(%y) : (tensor<3x32xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 3>, kind = "movement", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 4>, registers = 1 : i64,
    source = "roller", sym_name = "parts", tasks = 3 : i64, tile = array<i64: 3, 12>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 12, 0, 12>]]} : () -> ()

// -----

// A product with panels that tiles read in their middle: an op of its own gathers them, and the product stays one of two tensors.
// CHECK: ^bb0(%{{.*}}: tensor<5x3xf32>, %[[W:.*]]: tensor<4x3x8xf32>
// CHECK:       } else {
// CHECK:         %[[G:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<12x3xf32>)
// CHECK:           tensor.extract %[[W]][
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%{{.*}}, %[[G]] : tensor<5x3xf32>, tensor<12x3xf32>)
// CHECK-NOT:     tensor.extract %
// CHECK:           arith.mulf
"rtask.kernel"() ({
^bb0(%x: tensor<5x3xf32>, %w: tensor<4x3x8xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x32xf32>) -> tensor<5x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j floordiv 8, k, j mod 8)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<5x3xf32>, tensor<4x3x8xf32>) outs(%f : tensor<5x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<5x32xf32>
  "rtask.yield"(%y) : (tensor<5x32xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 3>, kind = "contraction", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 5, 0, 5>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 4>, registers = 1 : i64,
    source = "roller", sym_name = "product", tasks = 3 : i64, tile = array<i64: 5, 12>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 5, 0, 5>, array<i64: 1, 12, 0, 12>]]} : () -> ()

// -----

// A result that is padded: the tile of the sums, and what of the borders lies in it. No tile is of negative size.
// CHECK: ^bb0(%{{.*}}: tensor<6x4xf32>, %{{.*}}: tensor<8x4xf32>
// CHECK:       %[[LOW:.*]] = affine.max
// CHECK:       %[[HIGH:.*]] = affine.min
// CHECK:       %[[START:.*]] = affine.min {{.*}}(%[[LOW]], %c7)
// CHECK:       %[[END:.*]] = affine.max {{.*}}(%[[HIGH]], %c1)
// CHECK:       linalg.generic {{.*}} outs(%{{.*}} : tensor<?x4xf32>)
// CHECK:       %[[R:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[%[[START]], 0]
// CHECK:       tensor.insert_slice %{{.*}} into %[[R]]
"rtask.kernel"() ({
^bb0(%x: tensor<6x4xf32>):
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<6x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x4xf32>) outs(%e : tensor<6x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %a, %one : f32
    linalg.yield %b : f32
  } -> tensor<6x4xf32>
  %p = tensor.pad %y low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %one : f32
  } : tensor<6x4xf32> to tensor<8x4xf32>
  "rtask.yield"(%p) : (tensor<8x4xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 4, 1>, kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 2, -1, 2>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 4>, registers = 1 : i64,
    source = "roller", sym_name = "borders", tasks = 4 : i64, tile = array<i64: 2, 4>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 2, 0, 2>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A stage: 8 of its rows are computed first and kept; the product reads them there.
// CHECK: ^bb0(%{{.*}}: tensor<16x4xf32>, %{{.*}}: tensor<4x4xf32>
// CHECK:       %[[T:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<8x4xf32>)
// CHECK:       %[[S:.*]] = "rtask.stage"(%[[T]]) {{.*}}kept = array<i64: 8, 4>{{.*}}offset = 0 : i64
// CHECK:       linalg.generic {{.*}}"reduction"{{.*}} ins(%[[S]], %{{.*}} : tensor<8x4xf32>, tensor<4x4xf32>)
"rtask.kernel"() ({
^bb0(%x: tensor<16x4xf32>, %w: tensor<4x4xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x4xf32>) outs(%e : tensor<16x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.tanh %a : f32
    linalg.yield %b : f32
  } -> tensor<16x4xf32>
  %s = "rtask.stage"(%t) {axes = array<i64: 0, -1>, lanes = 4 : i64, order = array<i64: 0, 1>, register_tile = array<i64: 2, 4>, vector_dim = 1 : i64} : (tensor<16x4xf32>) -> tensor<16x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x4xf32>) -> tensor<16x4xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %w : tensor<16x4xf32>, tensor<4x4xf32>) outs(%f : tensor<16x4xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %acc, %c : f32
    linalg.yield %d : f32
  } -> tensor<16x4xf32>
  "rtask.yield"(%p) : (tensor<16x4xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 2, 1>, kind = "contraction", lanes = 4 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 8, 0, 8>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 2, 4>, registers = 1 : i64,
    source = "roller", sym_name = "staged", tasks = 2 : i64, tile = array<i64: 8, 4>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 8, 0, 8>, array<i64: -1, 0, 0, 0>]]} : () -> ()
