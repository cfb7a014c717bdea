// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-to-gpu' --split-input-file | filecheck %s

// Sums that a warp shares in: its lanes add up neighbours each, and then exchange what they have. One of them stores.
// CHECK-LABEL: func.func private @row_by_row
// CHECK:       scf.for
// CHECK:         llvm.load
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK:         scf.if
// CHECK:           llvm.store
"rtask.kernel"() ({
^bb0(%x: tensor<8x64xf32>, %out: tensor<8xf32>, %task: index):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %r = scf.forall (%i, %l) in (8, 1) shared_outs(%o = %out) -> (tensor<8xf32>) {
    %j = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %l)
    %s = tensor.extract_slice %x[%j, 0] [1, 64] [1, 1] : tensor<8x64xf32> to tensor<1x64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<1x64xf32>) outs(%f : tensor<1xf32>) attrs = {rtask.lane_dim = 1 : i64, rtask.lanes = 32 : i64} {
    ^bb0(%u: f32, %v: f32):
      %w = arith.addf %u, %v : f32
      linalg.yield %w : f32
    } -> tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %y into %o[%j] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "reduction", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64,
    source = "by hand", sym_name = "row_by_row", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Each of 8 lanes has a sum of its own: the warp makes them in turn, that of each lane's row, and keeps the lane's own.
// CHECK-LABEL: func.func private @lane_by_lane
// CHECK:       %[[LANE:.*]] = arith.remui
// CHECK:       %[[ROW:.*]] = arith.minsi %[[LANE]]
// CHECK:       scf.for %[[TURN:.*]] = {{.*}} iter_args
// CHECK:         %[[LOW:.*]], %{{.*}} = gpu.shuffle idx
// CHECK:         %[[ASKED:.*]] = arith.extui %[[LOW]]
// CHECK:         %[[OTHER:.*]] = arith.ori %[[ASKED]]
// CHECK:         %[[ROW:.*]] = arith.muli %[[OTHER]]
// CHECK:         %[[AT:.*]] = llvm.getelementptr %{{.*}}[%[[ROW]]]
// CHECK:         llvm.load %[[AT]]
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK:         arith.cmpi eq, %[[LANE]], %[[TURN]]
// CHECK:         arith.select
// CHECK:       scf.if
// CHECK:         llvm.store
"rtask.kernel"() ({
^bb0(%x: tensor<8x64xf32>, %out: tensor<8xf32>, %task: index):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %r = scf.forall (%i, %l) in (1, 8) shared_outs(%o = %out) -> (tensor<8xf32>) {
    %j = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %l)
    %s = tensor.extract_slice %x[%j, 0] [1, 64] [1, 1] : tensor<8x64xf32> to tensor<1x64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<1x64xf32>) outs(%f : tensor<1xf32>) attrs = {rtask.lane_dim = 1 : i64, rtask.lanes = 32 : i64} {
    ^bb0(%u: f32, %v: f32):
      %w = arith.addf %u, %v : f32
      linalg.yield %w : f32
    } -> tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %y into %o[%j] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "reduction", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64,
    source = "by hand", sym_name = "lane_by_lane", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()
