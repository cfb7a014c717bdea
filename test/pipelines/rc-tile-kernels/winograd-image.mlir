// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// Winograd's F(4x4, 3x3): an image to tiles of 6 x 6 pixels, 4 apart, B^T d B as two generics. A task: 4 blocks of 8
// channels. A register tile: the 6 x 6 pairs of one tile.

// TASK-DAG: #[[BLOCKS:.*]] = affine_map<(d0) -> (d0 * 4)>
// TASK-DAG: #[[DOWN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3 * 4 + d6, d4, d5)>
// TASK-DAG: #[[ACROSS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d2, d3, d4, d5 * 4 + d7, d6)>
// TASK: ^bb0(%[[X:.*]]: tensor<1x8x30x30x8xf32>, %[[OUT:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[M:.*]] = arith.constant dense<
// TASK: %[[C:.*]] = affine.apply #[[BLOCKS]](%[[NUMBER]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][0, %[[C]], 0, 0, 0] [1, 4, 30, 30, 8]
// Rows: 6 of each tile, for all columns. Then the columns.
// TASK: %[[T:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[DOWN]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[A]] : tensor<6x6xf32>, tensor<1x4x30x30x8xf32>) outs(%{{.*}} : tensor<6x1x4x7x30x8xf32>)
// TASK: %[[Y:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[ACROSS]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[T]] : tensor<6x6xf32>, tensor<6x1x4x7x30x8xf32>) outs(%{{.*}} : tensor<6x6x1x4x7x7x8xf32>)
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][0, 0, 0, %[[C]], 0, 0, 0] [6, 6, 1, 4, 7, 7, 8]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[CHANNELS:.*]] = affine_map<(d0, d1) -> (d0 * 4 + d1)>
// CHECK-DAG: #[[BLOCKS:.*]] = affine_map<(d0) -> (d0 * 4)>
// CHECK-DAG: #[[DOWN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3 * 4 + d6, d4, d5)>
// CHECK-DAG: #[[ACROSS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d2, d3, d4, d5 * 4 + d7, d6)>
// CHECK: ^bb0(%[[X:.*]]: tensor<1x8x30x30x8xf32>, %[[OUT:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[M:.*]] = arith.constant dense<
// Loops over channels, and over tiles.
// CHECK: %[[L0:.*]] = scf.for %[[D0:.*]] = %c0 to %c4 step %c1 iter_args(%[[O0:.*]] = %[[OUT]])
// CHECK:   %[[C:.*]] = affine.apply #[[CHANNELS]](%[[NUMBER]], %[[D0]])
// CHECK:   %[[L1:.*]] = scf.for %[[D1:.*]] = %c0 to %c7 step %c1 iter_args(%[[O1:.*]] = %[[O0]])
// A tile starts 4 pixels behind the one before ...
// CHECK:     %[[Y:.*]] = affine.apply #[[BLOCKS]](%[[D1]])
// CHECK:     %[[L2:.*]] = scf.for %[[D2:.*]] = %c0 to %c7 step %c1 iter_args(%[[O2:.*]] = %[[O1]])
// CHECK:       %[[X2:.*]] = affine.apply #[[BLOCKS]](%[[D2]])
// ... and reads 6 x 6 of them.
// CHECK:       %[[A:.*]] = tensor.extract_slice %[[X]][0, %[[C]], %[[Y]], %[[X2]], 0] [1, 1, 6, 6, 8]
// Both generics of the tile, the rows without what other tiles need.
// CHECK:       %[[T:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[DOWN]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[A]] : tensor<6x6xf32>, tensor<1x1x6x6x8xf32>) outs(%{{.*}} : tensor<6x1x1x1x6x8xf32>)
// CHECK:       %[[V:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[ACROSS]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[T]] : tensor<6x6xf32>, tensor<6x1x1x1x6x8xf32>) outs(%{{.*}} : tensor<6x6x1x1x1x1x8xf32>)
// CHECK:       %[[S:.*]] = tensor.insert_slice %[[V]] into %[[O2]][0, 0, 0, %[[C]], %[[D1]], %[[D2]], 0] [6, 6, 1, 1, 1, 1, 8]
// CHECK:       scf.yield %[[S]]
// CHECK:     scf.yield %[[L2]]
// CHECK:   scf.yield %[[L1]]
// CHECK: "rtask.yield"(%[[L0]])

#map = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d6)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d2, d3 * 4 + d6, d4, d5)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4, d5)>
#map3 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d7)>
#map4 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d2, d3, d4, d5 * 4 + d7, d6)>
#map5 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4, d5, d6)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<1x8x30x30x8xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<6x1x8x7x30x8xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<6x1x8x7x30x8xf32>) -> tensor<6x1x8x7x30x8xf32>
  %cst_0 = arith.constant dense<[[0.87890625, 0.000000e+00, -2.640625, 0.000000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, -1.406250e+00, -2.250000e+00, 6.250000e-01, 1.000000e+00, 0.000000e+00], [0.000000e+00, 1.406250e+00, -2.250000e+00, -6.250000e-01, 1.000000e+00, 0.000000e+00], [0.000000e+00, -0.5859375, -3.906250e-01, 1.500000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, 0.5859375, -3.906250e-01, -1.500000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, 0.87890625, 0.000000e+00, -2.640625, 0.000000e+00, 1.000000e+00]]> : tensor<6x6xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%cst_0, %arg0 : tensor<6x6xf32>, tensor<1x8x30x30x8xf32>) outs(%1 : tensor<6x1x8x7x30x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %6 = arith.mulf %in, %in_2 : f32
    %7 = arith.addf %out, %6 : f32
    linalg.yield %7 : f32
  } -> tensor<6x1x8x7x30x8xf32>
  %3 = tensor.empty() : tensor<6x6x1x8x7x7x8xf32>
  %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<6x6x1x8x7x7x8xf32>) -> tensor<6x6x1x8x7x7x8xf32>
  %cst_1 = arith.constant dense<[[0.87890625, 0.000000e+00, -2.640625, 0.000000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, -1.406250e+00, -2.250000e+00, 6.250000e-01, 1.000000e+00, 0.000000e+00], [0.000000e+00, 1.406250e+00, -2.250000e+00, -6.250000e-01, 1.000000e+00, 0.000000e+00], [0.000000e+00, -0.5859375, -3.906250e-01, 1.500000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, 0.5859375, -3.906250e-01, -1.500000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, 0.87890625, 0.000000e+00, -2.640625, 0.000000e+00, 1.000000e+00]]> : tensor<6x6xf32>
  %5 = linalg.generic {indexing_maps = [#map3, #map4, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%cst_1, %2 : tensor<6x6xf32>, tensor<6x1x8x7x30x8xf32>) outs(%4 : tensor<6x6x1x8x7x7x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %6 = arith.mulf %in, %in_2 : f32
    %7 = arith.addf %out, %6 : f32
    linalg.yield %7 : f32
  } -> tensor<6x6x1x8x7x7x8xf32>
  "rtask.yield"(%5) : (tensor<6x6x1x8x7x7x8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1, 1, 2, 1, 1, 1>, kind = "transform", lanes = 8 : i64, on_chip_bytes = 396288 : i64, order = array<i64: 3, 4, 5, 0, 1, 2, 6>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: 3, 4, 0, 4>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 6, 6, 1, 1, 1, 1, 8>, registers = 16 : i64, source = "roller", sym_name = "winograd_image", tasks = 2 : i64, tile = array<i64: 6, 6, 1, 4, 7, 7, 8>, vector_dim = 6 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: 3, 4, 0, 4>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
