// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},roller-tile-tasks{by-threads=true},roller-tile-threads{threads=64}' --split-input-file | filecheck %s

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
