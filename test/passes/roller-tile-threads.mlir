// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},roller-tile-tasks{by-threads=true},roller-tile-threads{threads=64}' --split-input-file | filecheck %s

// Groups of 16 threads, register tiles of 2 rows. 37 columns are two vectors and 5 that are left, in a forall of 5 lanes;
// four groups get 16 register tiles of the first, each thread two elements of them.
// CHECK:       affine_map<(d0) -> (d0 + 32)>
// CHECK:       ^bb0(%[[X:.*]]: tensor<16x37xf32>, %[[OUT:.*]]: tensor<16x37xf32>, %{{.*}}: index):
// CHECK:       %[[A:.*]] = scf.forall (%[[I:.*]], %[[J:.*]], %[[L:.*]]) in (8, 2, 16) shared_outs(%[[O:.*]] = %[[OUT]])
// CHECK:         %[[S:.*]] = tensor.extract_slice %[[X]][{{.*}}] [2, 1] [1, 1] : tensor<16x37xf32> to tensor<2x1xf32>
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<2x1xf32>)
// CHECK:         scf.forall.in_parallel
// CHECK:           tensor.parallel_insert_slice %[[T]] into %[[O]][{{.*}}] [2, 1] [1, 1]
// CHECK:       {mapping = [#gpu.thread<linear_dim_2>, #gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>], rtask.in_flight = 16 : i64}
// CHECK:       %[[B:.*]] = scf.forall (%{{.*}}, %{{.*}}) in (8, 5) shared_outs(%{{.*}} = %[[A]])
// CHECK:         tensor.parallel_insert_slice {{.*}} [2, 1] [1, 1]
// CHECK:       {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>], rtask.in_flight = 2 : i64}
// CHECK:       "rtask.yield"(%[[B]])
// CHECK-NOT:   order =
"rtask.kernel"() ({
^bb0(%x: tensor<16x37xf32>):
  %e = tensor.empty() : tensor<16x37xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x37xf32>) outs(%e : tensor<16x37xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<16x37xf32>
  "rtask.yield"(%y) : (tensor<16x37xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "elementwise", lanes = 16 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 2, 16>, registers = 1 : i64,
    source = "roller", sym_name = "exp", tasks = 1 : i64, tile = array<i64: 16, 37>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Two vectors in a register tile: a thread has every eighth element. The last task has fewer rows, of a number that only a
// run knows: it is a bound of the forall.
// CHECK:       ^bb0(%[[X:.*]]: tensor<10x32xf32>, %[[OUT:.*]]: tensor<10x32xf32>, %[[TASK:.*]]: index):
// CHECK:       scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%{{.*}}, 2, 8)
// CHECK:         tensor.parallel_insert_slice {{.*}} [1, 2] [1, 8] : tensor<1x2xf32> into tensor<10x32xf32>
"rtask.kernel"() ({
^bb0(%x: tensor<10x32xf32>):
  %e = tensor.empty() : tensor<10x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<10x32xf32>) outs(%e : tensor<10x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<10x32xf32>
  "rtask.yield"(%y) : (tensor<10x32xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 4, 1>, kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 3, 0, 3>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 16>, registers = 1 : i64,
    source = "roller", sym_name = "exp", tasks = 4 : i64, tile = array<i64: 3, 32>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 3, 0, 3>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Sums of windows: a thread makes those of its elements alone, one after the other.
// CHECK:       scf.forall (%{{.*}}, %{{.*}}) in (4, 8)
// CHECK:         linalg.generic {{.*}}"reduction"{{.*}} ins(%{{.*}}, %{{.*}} : tensor<3x1xf32>, tensor<3xf32>) outs(%{{.*}} : tensor<1x1xf32>)
// CHECK:       rtask.in_flight = 1 : i64
"rtask.kernel"() ({
^bb0(%x: tensor<6x8xf32>):
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %w = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i + k, j)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x8xf32>, tensor<3xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %n: f32, %o: f32):
    %b = arith.maximumf %a, %o : f32
    linalg.yield %b : f32
  } -> tensor<4x8xf32>
  "rtask.yield"(%y) : (tensor<4x8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "pooling", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 2, 8>, registers = 1 : i64,
    source = "roller", sym_name = "pool", tasks = 1 : i64, tile = array<i64: 4, 8>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Rows along memory, in whose sums the lanes of a warp share: both warps of the block have two of them. One lane puts
// them into the result.
// CHECK:       ^bb0(%[[X:.*]]: tensor<4x64xf32>, %[[OUT:.*]]: tensor<4xf32>, %{{.*}}: index):
// CHECK:       scf.forall (%[[I:.*]], %{{.*}}) in (2, 1) shared_outs(%[[O:.*]] = %[[OUT]])
// CHECK:         %[[Y:.*]] = affine.apply {{.*}}(%[[I]])
// CHECK:         %[[S:.*]] = tensor.extract_slice %[[X]][%[[Y]], 0] [2, 64] [1, 1]
// CHECK:         %[[T:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<2x64xf32>) outs(%{{.*}} : tensor<2xf32>) attrs = {rtask.lane_dim = 1 : i64, rtask.lanes = 32 : i64}
// CHECK:           tensor.parallel_insert_slice %[[T]] into %[[O]][{{.*}}] [2] [1]
// CHECK:       rtask.in_flight = 2 : i64
"rtask.kernel"() ({
^bb0(%x: tensor<4x64xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %a, %o : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  "rtask.yield"(%y) : (tensor<4xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "pooling", lanes = 1 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 4>, registers = 1 : i64,
    source = "roller", sym_name = "sums", tasks = 1 : i64, tile = array<i64: 4>,
    vector_dim = -1 : i64, writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A row divided by its sum: its lanes have an element each, and share in the one sum.
// CHECK:       scf.forall (%[[I:.*]], %[[L:.*]]) in (4, 32)
// CHECK:         %[[E:.*]] = tensor.extract_slice %[[X:.*]][%[[I]], %[[L]]] [1, 1] [1, 1]
// CHECK:         %[[S:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [1, 32] [1, 1]
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<1x32xf32>) {{.*}}rtask.lanes = 32
// CHECK:         %[[Q:.*]] = linalg.generic {{.*}} ins(%[[E]], %[[SUM]] :
// CHECK:           tensor.parallel_insert_slice %[[Q]] into %{{.*}}[%[[I]], %[[L]]] [1, 1] [1, 1]
"rtask.kernel"() ({
^bb0(%x: tensor<4x32xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x32xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %a, %o : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %g = tensor.empty() : tensor<4x32xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x32xf32>, tensor<4xf32>) outs(%g : tensor<4x32xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %b = arith.divf %a, %s : f32
    linalg.yield %b : f32
  } -> tensor<4x32xf32>
  "rtask.yield"(%z) : (tensor<4x32xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "reduction", lanes = 32 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>, registers = 1 : i64,
    source = "roller", sym_name = "shares", tasks = 1 : i64, tile = array<i64: 4, 32>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A stage is filled by all threads, into memory that they share: they meet in front of it, as some may still read what the
// task before has kept, and behind it.
// CHECK:       gpu.barrier
// CHECK:       %[[MEMORY:.*]] = bufferization.alloc_tensor() {memory_space = #gpu.address_space<workgroup>} : tensor<4x16xf32>
// CHECK:       %[[FILLED:.*]] = scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (4, 2, 8) shared_outs(%{{.*}} = %[[MEMORY]])
// CHECK:         math.exp
// CHECK:       %[[KEPT:.*]] = "rtask.stage"(%[[FILLED]]) {kept = array<i64: 4, 16>, lanes = 8 : i64, offset = 0 : i64
// CHECK:       gpu.barrier
// CHECK:       scf.forall
// CHECK:         tensor.extract_slice %[[KEPT]]
// CHECK:         arith.negf
"rtask.kernel"() ({
^bb0(%x: tensor<8x16xf32>):
  %e = tensor.empty() : tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %k = "rtask.stage"(%y) {axes = array<i64: 0, -1>, lanes = 8 : i64, order = array<i64: 0, 1>, register_tile = array<i64: 1, 8>, vector_dim = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 15 - j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%k : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.negf %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  "rtask.yield"(%z) : (tensor<8x16xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 2, 1>, kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 2, 8>, registers = 1 : i64,
    source = "roller", sym_name = "staged", tasks = 2 : i64, tile = array<i64: 4, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A stage that reads another one waits for it.
// CHECK:       gpu.barrier
// CHECK:       scf.forall
// CHECK:         math.exp
// CHECK:       "rtask.stage"{{.*}}offset = 0
// CHECK:       gpu.barrier
// CHECK:       scf.forall
// CHECK:         math.sqrt
// CHECK:       "rtask.stage"{{.*}}offset = 256
// CHECK:       gpu.barrier
// CHECK:       scf.forall
// CHECK:         arith.negf
// CHECK-NOT:   gpu.barrier
"rtask.kernel"() ({
^bb0(%x: tensor<8x16xf32>):
  %e = tensor.empty() : tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %k = "rtask.stage"(%y) {axes = array<i64: 0, -1>, lanes = 8 : i64, order = array<i64: 0, 1>, register_tile = array<i64: 1, 8>, vector_dim = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 15 - j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%k : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.sqrt %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %m = "rtask.stage"(%w) {axes = array<i64: 0, -1>, lanes = 8 : i64, order = array<i64: 0, 1>, register_tile = array<i64: 1, 8>, vector_dim = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 15 - j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.negf %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  "rtask.yield"(%z) : (tensor<8x16xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 2, 1>, kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 2, 8>, registers = 1 : i64,
    source = "roller", sym_name = "staged", tasks = 2 : i64, tile = array<i64: 4, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()
