// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},roller-tile-tasks,roller-tile-threads' --split-input-file --verify-diagnostics

// What a task keeps for all of its threads needs them to wait for each other, which no forall says.
// expected-error@+1 {{keeps a stage; leave roller-tile-threads out}}
"rtask.kernel"() ({
^bb0(%x: tensor<8x16xf32>):
  %e = tensor.empty() : tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %k = "rtask.stage"(%y) {axes = array<i64: 0, 1>, lanes = 8 : i64, order = array<i64: 0, 1>, register_tile = array<i64: 1, 8>, vector_dim = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%k : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  "rtask.yield"(%z) : (tensor<8x16xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 0 : i64, order = array<i64: 0, 1>,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 8>, registers = 1 : i64,
    source = "roller", sym_name = "staged", tasks = 1 : i64, tile = array<i64: 8, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// expected-error@+1 {{has its threads already; leave roller-tile-threads out}}
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>, %out: tensor<8xf32>, %task: index):
  %r = scf.forall (%l) in (8) shared_outs(%o = %out) -> (tensor<8xf32>) {
    %s = tensor.extract_slice %x[%l] [1] [1] : tensor<8xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%l] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "movement", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "by hand",
    sym_name = "copied", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()
