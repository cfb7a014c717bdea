// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// softmax(q * k) * v of 4 heads: what is between the products is a stage, which a task makes of its own
// 24 rows and keeps on chip (`kept`, at `offset`). Look at the chain of stages: scores, maximum of each
// row, exponentials (in the place of the scores), sums (in the place of the maxima).

// TASK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 10)>
// TASK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 10)>
// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 24)>
// TASK: ^bb0(%[[Q:.*]]: tensor<4x240x64xf32>, %[[K:.*]]: tensor<4x32x64x8xf32>, %[[V:.*]]: tensor<4x8x256x8xf32>, %[[OUT:.*]]: tensor<4x240x64xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[HEAD:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// TASK: %[[G:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[G]])
// 24 rows of one head of q, and all of k.
// TASK: %[[A:.*]] = tensor.extract_slice %[[Q]][%[[HEAD]], %[[I]], 0] [1, 24, 64]
// TASK: %[[B:.*]] = tensor.extract_slice %[[K]][%[[HEAD]], 0, 0, 0] [1, 32, 64, 8]
// TASK: %[[SCORES:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]], %[[B]] : tensor<1x24x64xf32>, tensor<1x32x64x8xf32>) outs(%{{.*}} : tensor<1x24x256xf32>)
// TASK: %[[S0:.*]] = "rtask.stage"(%[[SCORES]]) {{.*}}kept = array<i64: 1, 24, 256>{{.*}}offset = 0
// TASK: %[[MAX:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[S0]] : tensor<1x24x256xf32>) outs(%{{.*}} : tensor<1x24xf32>)
// TASK:   arith.maxnumf %{{.*}}, %{{.*}}
// TASK: %[[S1:.*]] = "rtask.stage"(%[[MAX]]) {{.*}}kept = array<i64: 1, 24>{{.*}}offset = 26112
// TASK: %[[EXP:.*]] = linalg.generic {{.*}} ins(%[[S0]], %[[S1]] : tensor<1x24x256xf32>, tensor<1x24xf32>) outs(%{{.*}} : tensor<1x24x256xf32>)
// TASK:   math.exp2 %{{.*}}
// TASK: %[[S2:.*]] = "rtask.stage"(%[[EXP]]) {{.*}}kept = array<i64: 1, 24, 256>{{.*}}offset = 0
// TASK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[S2]] : tensor<1x24x256xf32>) outs(%{{.*}} : tensor<1x24xf32>)
// TASK: %[[S3:.*]] = "rtask.stage"(%[[SUM]]) {{.*}}kept = array<i64: 1, 24>{{.*}}offset = 26112
// The second product reads the stage of the exponentials; its sums are divided by theirs behind it.
// TASK: %[[C:.*]] = tensor.extract_slice %[[V]][%[[HEAD]], 0, 0, 0] [1, 8, 256, 8]
// TASK: %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[S2]], %[[C]] : tensor<1x24x256xf32>, tensor<1x8x256x8xf32>) outs(%{{.*}} : tensor<1x24x64xf32>)
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[S3]] : tensor<1x24x64xf32>, tensor<1x24xf32>) outs(%{{.*}} : tensor<1x24x64xf32>)
// TASK:   arith.divf %{{.*}}, %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[HEAD]], %[[I]], 0] [1, 24, 64]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[DIV:.*]] = affine_map<(d0) -> (d0 floordiv 10)>
// CHECK-DAG: #[[MOD:.*]] = affine_map<(d0) -> (d0 mod 10)>
// CHECK-DAG: #[[PANEL:.*]] = affine_map<(d0) -> ((d0 floordiv 32) * 4)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 + d1 * 24)>
// CHECK: ^bb0(%[[Q:.*]]: tensor<4x240x64xf32>, %[[K:.*]]: tensor<4x32x64x8xf32>, %[[V:.*]]: tensor<4x8x256x8xf32>, %[[OUT:.*]]: tensor<4x240x64xf32>, %[[NUMBER:.*]]: index)
// CHECK: %[[HEAD:.*]] = affine.apply #[[DIV]](%[[NUMBER]])
// CHECK: %[[G:.*]] = affine.apply #[[MOD]](%[[NUMBER]])
// The scores: loops over 32 keys and 3 rows, into a tensor of the stage.
// CHECK: %[[L0:.*]] = scf.for %[[J0:.*]] = %c0 to %c256 step %c32 iter_args(%[[O0:.*]] = %{{.*}})
// CHECK:   %[[JB:.*]] = affine.apply #[[PANEL]](%[[J0]])
// CHECK:   %[[KB:.*]] = tensor.extract_slice %[[K]][%[[HEAD]], %[[JB]], 0, 0] [1, 4, 64, 8]
// CHECK:   %[[L1:.*]] = scf.for %[[I1:.*]] = %c0 to %c24 step %c3 iter_args(%[[O1:.*]] = %[[O0]])
// CHECK:     %[[I1Q:.*]] = affine.apply #[[ROWS]](%[[I1]], %[[G]])
// CHECK:     %[[QA:.*]] = tensor.extract_slice %[[Q]][%[[HEAD]], %[[I1Q]], 0] [1, 3, 64]
// CHECK:     %[[SCORES:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[QA]], %[[KB]] : tensor<1x3x64xf32>, tensor<1x4x64x8xf32>) outs(%{{.*}} : tensor<1x3x32xf32>)
// CHECK:     %[[R1:.*]] = tensor.insert_slice %[[SCORES]] into %[[O1]][0, %[[I1]], %[[J0]]] [1, 3, 32]
// CHECK:     scf.yield %[[R1]]
// CHECK:   scf.yield %[[L1]]
// CHECK: %[[S0:.*]] = "rtask.stage"(%[[L0]]) {{.*}}kept = array<i64: 1, 24, 256>{{.*}}offset = 0
// The maxima, row by row.
// CHECK: %[[L2:.*]] = scf.for %[[I2:.*]] = %c0 to %c24 step %c1 iter_args(%[[O2:.*]] = %{{.*}})
// CHECK:   %[[A2:.*]] = tensor.extract_slice %[[S0]][0, %[[I2]], 0] [1, 1, 256]
// CHECK:   %[[MAX:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A2]] : tensor<1x1x256xf32>) outs(%{{.*}} : tensor<1x1xf32>)
// CHECK:     arith.maxnumf %{{.*}}, %{{.*}}
// CHECK:   %[[R2:.*]] = tensor.insert_slice %[[MAX]] into %[[O2]][0, %[[I2]]] [1, 1]
// CHECK:   scf.yield %[[R2]]
// CHECK: %[[S1:.*]] = "rtask.stage"(%[[L2]]) {{.*}}kept = array<i64: 1, 24>{{.*}}offset = 26112
// The exponentials: rows, and 32 of a row.
// CHECK: %[[L3:.*]] = scf.for %[[I3:.*]] = %c0 to %c24 step %c1 iter_args(%[[O3:.*]] = %{{.*}})
// CHECK:   %[[A3:.*]] = tensor.extract_slice %[[S1]][0, %[[I3]]] [1, 1]
// CHECK:   %[[L4:.*]] = scf.for %[[J4:.*]] = %c0 to %c256 step %c32 iter_args(%[[O4:.*]] = %[[O3]])
// CHECK:     %[[A4:.*]] = tensor.extract_slice %[[S0]][0, %[[I3]], %[[J4]]] [1, 1, 32]
// CHECK:     %[[EXP:.*]] = linalg.generic {{.*}} ins(%[[A4]], %[[A3]] : tensor<1x1x32xf32>, tensor<1x1xf32>) outs(%{{.*}} : tensor<1x1x32xf32>)
// CHECK:       math.exp2 %{{.*}}
// CHECK:     %[[R4:.*]] = tensor.insert_slice %[[EXP]] into %[[O4]][0, %[[I3]], %[[J4]]] [1, 1, 32]
// CHECK:     scf.yield %[[R4]]
// CHECK:   scf.yield %[[L4]]
// CHECK: %[[S2:.*]] = "rtask.stage"(%[[L3]]) {{.*}}kept = array<i64: 1, 24, 256>{{.*}}offset = 0
// Their sums.
// CHECK: %[[L5:.*]] = scf.for %[[I5:.*]] = %c0 to %c24 step %c1 iter_args(%[[O5:.*]] = %{{.*}})
// CHECK:   %[[A5:.*]] = tensor.extract_slice %[[S2]][0, %[[I5]], 0] [1, 1, 256]
// CHECK:   %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A5]] : tensor<1x1x256xf32>) outs(%{{.*}} : tensor<1x1xf32>)
// CHECK:   %[[R5:.*]] = tensor.insert_slice %[[SUM]] into %[[O5]][0, %[[I5]]] [1, 1]
// CHECK:   scf.yield %[[R5]]
// CHECK: %[[S3:.*]] = "rtask.stage"(%[[L5]]) {{.*}}kept = array<i64: 1, 24>{{.*}}offset = 26112
// The result: 32 columns and 3 rows at a time.
// CHECK: %[[L6:.*]] = scf.for %[[J6:.*]] = %c0 to %c64 step %c32 iter_args(%[[O6:.*]] = %[[OUT]])
// CHECK:   %[[JV:.*]] = affine.apply #[[PANEL]](%[[J6]])
// CHECK:   %[[VB:.*]] = tensor.extract_slice %[[V]][%[[HEAD]], %[[JV]], 0, 0] [1, 4, 256, 8]
// CHECK:   %[[L7:.*]] = scf.for %[[I7:.*]] = %c0 to %c24 step %c3 iter_args(%[[O7:.*]] = %[[O6]])
// CHECK:     %[[A7:.*]] = tensor.extract_slice %[[S2]][0, %[[I7]], 0] [1, 3, 256]
// CHECK:     %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A7]], %[[VB]] : tensor<1x3x256xf32>, tensor<1x4x256x8xf32>) outs(%{{.*}} : tensor<1x3x32xf32>)
// The epilogue of a register tile: the sums of its 3 rows.
// CHECK:     %[[A8:.*]] = tensor.extract_slice %[[S3]][0, %[[I7]]] [1, 3]
// CHECK:     %[[Y:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[A8]] : tensor<1x3x32xf32>, tensor<1x3xf32>) outs(%{{.*}} : tensor<1x3x32xf32>)
// CHECK:       arith.divf %{{.*}}, %{{.*}}
// CHECK:     %[[I7Q:.*]] = affine.apply #[[ROWS]](%[[I7]], %[[G]])
// CHECK:     %[[R7:.*]] = tensor.insert_slice %[[Y]] into %[[O7]][%[[HEAD]], %[[I7Q]], %[[J6]]] [1, 3, 32]
// CHECK:     scf.yield %[[R7]]
// CHECK:   scf.yield %[[L7]]
// CHECK: "rtask.yield"(%[[L6]])

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d2 floordiv 8, d3, d2 mod 8)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<4x240x64xf32>, %arg1: tensor<4x32x64x8xf32>, %arg2: tensor<4x8x256x8xf32>):
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<4x240x256xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4x240x256xf32>) -> tensor<4x240x256xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<4x240x64xf32>, tensor<4x32x64x8xf32>) outs(%1 : tensor<4x240x256xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %19 = arith.mulf %in, %in_3 : f32
    %20 = arith.addf %out, %19 : f32
    linalg.yield %20 : f32
  } -> tensor<4x240x256xf32>
  %3 = "rtask.stage"(%2) {axes = array<i64: 0, 1, -1>, lanes = 8 : i64, order = array<i64: 0, 2, 1>, register_tile = array<i64: 1, 3, 32>, vector_dim = 2 : i64} : (tensor<4x240x256xf32>) -> tensor<4x240x256xf32>
  %cst_0 = arith.constant 0xFF800000 : f32
  %4 = tensor.empty() : tensor<4x240xf32>
  %5 = linalg.fill ins(%cst_0 : f32) outs(%4 : tensor<4x240xf32>) -> tensor<4x240xf32>
  %6 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]} ins(%3 : tensor<4x240x256xf32>) outs(%5 : tensor<4x240xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.maxnumf %out, %in : f32
    linalg.yield %19 : f32
  } -> tensor<4x240xf32>
  %7 = "rtask.stage"(%6) {axes = array<i64: 0, 1>, lanes = 8 : i64, order = array<i64: 0, 1>, register_tile = array<i64: 1, 1>, vector_dim = -1 : i64} : (tensor<4x240xf32>) -> tensor<4x240xf32>
  %8 = tensor.empty() : tensor<4x240x256xf32>
  %9 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3, %7 : tensor<4x240x256xf32>, tensor<4x240xf32>) outs(%8 : tensor<4x240x256xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %cst_4 = arith.constant 1.44269502 : f32
    %19 = arith.subf %in, %in_3 : f32
    %20 = arith.mulf %19, %cst_4 : f32
    %21 = math.exp2 %20 : f32
    linalg.yield %21 : f32
  } -> tensor<4x240x256xf32>
  %10 = "rtask.stage"(%9) {axes = array<i64: 0, 1, -1>, lanes = 8 : i64, order = array<i64: 0, 1, 2>, register_tile = array<i64: 1, 1, 32>, vector_dim = 2 : i64} : (tensor<4x240x256xf32>) -> tensor<4x240x256xf32>
  %cst_1 = arith.constant 0.000000e+00 : f32
  %11 = linalg.fill ins(%cst_1 : f32) outs(%4 : tensor<4x240xf32>) -> tensor<4x240xf32>
  %12 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]} ins(%10 : tensor<4x240x256xf32>) outs(%11 : tensor<4x240xf32>) {
  ^bb0(%in: f32, %out: f32):
    %19 = arith.addf %out, %in : f32
    linalg.yield %19 : f32
  } -> tensor<4x240xf32>
  %13 = "rtask.stage"(%12) {axes = array<i64: 0, 1>, lanes = 8 : i64, order = array<i64: 0, 1>, register_tile = array<i64: 1, 1>, vector_dim = -1 : i64} : (tensor<4x240xf32>) -> tensor<4x240xf32>
  %cst_2 = arith.constant 0.000000e+00 : f32
  %14 = tensor.empty() : tensor<4x240x64xf32>
  %15 = linalg.fill ins(%cst_2 : f32) outs(%14 : tensor<4x240x64xf32>) -> tensor<4x240x64xf32>
  %16 = tensor.empty() : tensor<4x240x64xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%10, %arg2 : tensor<4x240x256xf32>, tensor<4x8x256x8xf32>) outs(%15 : tensor<4x240x64xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %19 = arith.mulf %in, %in_3 : f32
    %20 = arith.addf %out, %19 : f32
    linalg.yield %20 : f32
  } -> tensor<4x240x64xf32>
  %18 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%17, %13 : tensor<4x240x64xf32>, tensor<4x240xf32>) outs(%16 : tensor<4x240x64xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %cst_4 = arith.constant 1.000000e+00 : f32
    %19 = arith.divf %cst_4, %in_3 : f32
    %20 = arith.mulf %in, %19 : f32
    linalg.yield %20 : f32
  } -> tensor<4x240x64xf32>
  "rtask.yield"(%18) : (tensor<4x240x64xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 4, 10, 1>, kind = "contraction", lanes = 8 : i64, on_chip_bytes = 96352 : i64, order = array<i64: 0, 2, 1>, reads = [[array<i64: 0, 1, 0, 1>, array<i64: 1, 24, 0, 24>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 0, 1, 0, 1>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 3, 32>, registers = 16 : i64, source = "roller", sym_name = "attention", tasks = 40 : i64, tile = array<i64: 1, 24, 64>, vector_dim = 2 : i64, writes = [[array<i64: 0, 1, 0, 1>, array<i64: 1, 24, 0, 24>, array<i64: -1, 0, 0, 0>]]} : () -> ()
