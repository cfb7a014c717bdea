// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// Winograd's way back: A^T m A as two generics, 4 x 4 pixels of each tile of 6 x 6 pairs, with bias and relu. A task: 4
// blocks of 8 channels. A register tile: the pixels of one tile.

// TASK-DAG: #[[BLOCKS:.*]] = affine_map<(d0) -> (d0 * 4)>
// TASK-DAG: #[[DOWN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d6, d0, d1, d2, d3 floordiv 4, d4, d5)>
// TASK-DAG: #[[ACROSS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d0, d1, d2, d3 floordiv 4, d4)>
// TASK: ^bb0(%[[X:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[B:.*]]: tensor<8x8xf32>, %[[OUT:.*]]: tensor<1x8x28x28x8xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[M:.*]] = arith.constant dense<
// TASK: %[[C:.*]] = affine.apply #[[BLOCKS]](%[[NUMBER]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][0, 0, 0, %[[C]], 0, 0, 0] [6, 6, 1, 4, 7, 7, 8]
// Pixel rows from pairs (6 x 6 to 4 x 6), pixel columns (4 x 6 to 4 x 4), the epilogue.
// TASK: %[[T:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[DOWN]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[A]] : tensor<4x6xf32>, tensor<6x6x1x4x7x7x8xf32>) outs(%{{.*}} : tensor<6x1x4x28x7x8xf32>)
// TASK: %[[P:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[ACROSS]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[T]] : tensor<4x6xf32>, tensor<6x1x4x28x7x8xf32>) outs(%{{.*}} : tensor<1x4x28x28x8xf32>)
// TASK: %[[BI:.*]] = tensor.extract_slice %[[B]][%[[C]], 0] [4, 8]
// TASK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[BI]] : tensor<1x4x28x28x8xf32>, tensor<4x8xf32>) outs(%{{.*}} : tensor<1x4x28x28x8xf32>)
// TASK:   arith.addf %{{.*}}, %{{.*}}
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<1x4x28x28x8xf32>) outs(%{{.*}} : tensor<1x4x28x28x8xf32>)
// TASK:   arith.maximumf %{{.*}}, %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][0, %[[C]], 0, 0, 0] [1, 4, 28, 28, 8]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[CHANNELS:.*]] = affine_map<(d0, d1) -> (d0 * 4 + d1)>
// CHECK-DAG: #[[DOWN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d6, d0, d1, d2, d3 floordiv 4, d4, d5)>
// CHECK-DAG: #[[ACROSS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d0, d1, d2, d3 floordiv 4, d4)>
// CHECK: ^bb0(%[[X:.*]]: tensor<6x6x1x8x7x7x8xf32>, %[[B:.*]]: tensor<8x8xf32>, %[[OUT:.*]]: tensor<1x8x28x28x8xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[M:.*]] = arith.constant dense<
// The loop over blocks of channels: the rows of all tiles of one, once.
// CHECK: %[[L0:.*]] = scf.for %[[D0:.*]] = %c0 to %c4 step %c1 iter_args(%[[O0:.*]] = %[[OUT]])
// CHECK:   %[[C:.*]] = affine.apply #[[CHANNELS]](%[[NUMBER]], %[[D0]])
// CHECK:   %[[A:.*]] = tensor.extract_slice %[[X]][0, 0, 0, %[[C]], 0, 0, 0] [6, 6, 1, 1, 7, 7, 8]
// CHECK:   %[[T:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[DOWN]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[A]] : tensor<4x6xf32>, tensor<6x6x1x1x7x7x8xf32>) outs(%{{.*}} : tensor<6x1x1x28x7x8xf32>)
// CHECK:   %[[BI:.*]] = tensor.extract_slice %[[B]][%[[C]], 0] [1, 8]
// The loop over tiles, downwards: the columns of 4 rows of pixels.
// CHECK:   %[[L1:.*]] = scf.for %[[Y:.*]] = %c0 to %c28 step %c4 iter_args(%[[O1:.*]] = %[[O0]])
// CHECK:     %[[A1:.*]] = tensor.extract_slice %[[T]][0, 0, 0, %[[Y]], 0, 0] [6, 1, 1, 4, 7, 8]
// CHECK:     %[[P:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[ACROSS]], #{{.*}}], {{.*}}"reduction"{{.*}} ins(%[[M]], %[[A1]] : tensor<4x6xf32>, tensor<6x1x1x4x7x8xf32>) outs(%{{.*}} : tensor<1x1x4x28x8xf32>)
// The loop over tiles in these rows: the epilogue of 4 x 4 pixels.
// CHECK:     %[[L2:.*]] = scf.for %[[X2:.*]] = %c0 to %c28 step %c4 iter_args(%[[O2:.*]] = %[[O1]])
// CHECK:       %[[A2:.*]] = tensor.extract_slice %[[P]][0, 0, 0, %[[X2]], 0] [1, 1, 4, 4, 8]
// CHECK:       %[[Q:.*]] = linalg.generic {{.*}} ins(%[[A2]], %[[BI]] : tensor<1x1x4x4x8xf32>, tensor<1x8xf32>) outs(%{{.*}} : tensor<1x1x4x4x8xf32>)
// CHECK:         arith.addf %{{.*}}, %{{.*}}
// CHECK:       %[[Z:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<1x1x4x4x8xf32>) outs(%{{.*}} : tensor<1x1x4x4x8xf32>)
// CHECK:         arith.maximumf %{{.*}}, %{{.*}}
// CHECK:       %[[S:.*]] = tensor.insert_slice %[[Z]] into %[[O2]][0, %[[C]], %[[Y]], %[[X2]], 0] [1, 1, 4, 4, 8]
// CHECK:       scf.yield %[[S]]
// CHECK:     scf.yield %[[L2]]
// CHECK:   scf.yield %[[L1]]
// CHECK: "rtask.yield"(%[[L0]])

#map = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3 mod 4, d6)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d6, d0, d1, d2, d3 floordiv 4, d4, d5)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4, d5)>
#map3 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d3 mod 4, d5)>
#map4 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d0, d1, d2, d3 floordiv 4, d4)>
#map5 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4)>
#map6 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<6x6x1x8x7x7x8xf32>, %arg1: tensor<8x8xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<6x1x8x28x7x8xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<6x1x8x28x7x8xf32>) -> tensor<6x1x8x28x7x8xf32>
  %cst_0 = arith.constant dense<[[1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, 6.250000e-01, -6.250000e-01, 1.500000e+00, -1.500000e+00, 0.000000e+00], [0.000000e+00, 3.906250e-01, 3.906250e-01, 2.250000e+00, 2.250000e+00, 0.000000e+00], [0.000000e+00, 0.244140625, -0.244140625, 3.375000e+00, -3.375000e+00, 1.000000e+00]]> : tensor<4x6xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%cst_0, %arg0 : tensor<4x6xf32>, tensor<6x6x1x8x7x7x8xf32>) outs(%1 : tensor<6x1x8x28x7x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %8 = arith.mulf %in, %in_2 : f32
    %9 = arith.addf %out, %8 : f32
    linalg.yield %9 : f32
  } -> tensor<6x1x8x28x7x8xf32>
  %3 = tensor.empty() : tensor<1x8x28x28x8xf32>
  %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<1x8x28x28x8xf32>) -> tensor<1x8x28x28x8xf32>
  %cst_1 = arith.constant dense<[[1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, 6.250000e-01, -6.250000e-01, 1.500000e+00, -1.500000e+00, 0.000000e+00], [0.000000e+00, 3.906250e-01, 3.906250e-01, 2.250000e+00, 2.250000e+00, 0.000000e+00], [0.000000e+00, 0.244140625, -0.244140625, 3.375000e+00, -3.375000e+00, 1.000000e+00]]> : tensor<4x6xf32>
  %5 = linalg.generic {indexing_maps = [#map3, #map4, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%cst_1, %2 : tensor<4x6xf32>, tensor<6x1x8x28x7x8xf32>) outs(%4 : tensor<1x8x28x28x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %8 = arith.mulf %in, %in_2 : f32
    %9 = arith.addf %out, %8 : f32
    linalg.yield %9 : f32
  } -> tensor<1x8x28x28x8xf32>
  %6 = linalg.generic {indexing_maps = [#map6, #map7, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%5, %arg1 : tensor<1x8x28x28x8xf32>, tensor<8x8xf32>) outs(%3 : tensor<1x8x28x28x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %8 = arith.addf %in, %in_2 : f32
    linalg.yield %8 : f32
  } -> tensor<1x8x28x28x8xf32>
  %7 = linalg.generic {indexing_maps = [#map6, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%6 : tensor<1x8x28x28x8xf32>) outs(%3 : tensor<1x8x28x28x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = arith.maximumf %in, %cst : f32
    linalg.yield %8 : f32
  } -> tensor<1x8x28x28x8xf32>
  "rtask.yield"(%7) : (tensor<1x8x28x28x8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 2, 1, 1, 1>, kind = "transform", lanes = 8 : i64, on_chip_bytes = 326272 : i64, order = array<i64: 1, 2, 3, 0, 4>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: 1, 4, 0, 4>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 1, 4, 0, 4>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 1, 4, 4, 8>, registers = 16 : i64, source = "roller", sym_name = "winograd_result", tasks = 2 : i64, tile = array<i64: 1, 4, 28, 28, 8>, vector_dim = 4 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: 1, 4, 0, 4>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
