// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// A softmax of rows of 256 elements. A task: 86 of 516 rows. A register tile: 32 elements of one row.
// Look at where the maximum, the exponentials and their sum stand: between the loop over rows and
// the loop over columns, because all columns need them.

// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 86)>
// TASK: ^bb0(%[[X:.*]]: tensor<516x256xf32>, %[[OUT:.*]]: tensor<516x256xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [86, 256]
// Row by row: the maximum, the exponentials, their sum, the quotients.
// TASK: %[[MAX:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]] : tensor<86x256xf32>) outs(%{{.*}} : tensor<86xf32>)
// TASK:   arith.maxnumf %{{.*}}, %{{.*}}
// TASK: %[[EXP:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[MAX]] : tensor<86x256xf32>, tensor<86xf32>) outs(%{{.*}} : tensor<86x256xf32>)
// TASK:   math.exp2 %{{.*}}
// TASK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[EXP]] : tensor<86x256xf32>) outs(%{{.*}} : tensor<86xf32>)
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[EXP]], %[[SUM]] : tensor<86x256xf32>, tensor<86xf32>) outs(%{{.*}} : tensor<86x256xf32>)
// TASK:   arith.divf %{{.*}}, %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[I]], 0] [86, 256]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 86 + d1)>
// CHECK: ^bb0(%[[X:.*]]: tensor<516x256xf32>, %[[OUT:.*]]: tensor<516x256xf32>, %[[NUMBER:.*]]: index)
// The loop over rows, and what a row needs once.
// CHECK: %[[R:.*]] = scf.for %[[D:.*]] = %c0 to %c86 step %c1 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:   %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]], %[[D]])
// CHECK:   %[[A:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [1, 256]
// CHECK:   %[[MAX:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A]] : tensor<1x256xf32>) outs(%{{.*}} : tensor<1xf32>)
// CHECK:     arith.maxnumf %{{.*}}, %{{.*}}
// CHECK:   %[[EXP:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[MAX]] : tensor<1x256xf32>, tensor<1xf32>) outs(%{{.*}} : tensor<1x256xf32>)
// CHECK:     math.exp2 %{{.*}}
// CHECK:   %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[EXP]] : tensor<1x256xf32>) outs(%{{.*}} : tensor<1xf32>)
// The loop over columns: quotients of 32 of the exponentials above.
// CHECK:   %[[L:.*]] = scf.for %[[J:.*]] = %c0 to %c256 step %c32 iter_args(%[[P:.*]] = %[[O]])
// CHECK:     %[[E:.*]] = tensor.extract_slice %[[EXP]][0, %[[J]]] [1, 32]
// CHECK:     %[[Y:.*]] = linalg.generic {{.*}} ins(%[[E]], %[[SUM]] : tensor<1x32xf32>, tensor<1xf32>) outs(%{{.*}} : tensor<1x32xf32>)
// CHECK:       arith.divf %{{.*}}, %{{.*}}
// CHECK:     %[[S:.*]] = tensor.insert_slice %[[Y]] into %[[P]][%[[I]], %[[J]]] [1, 32]
// CHECK:     scf.yield %[[S]]
// CHECK:   scf.yield %[[L]]
// CHECK: "rtask.yield"(%[[R]])

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<516x256xf32>):
  %cst = arith.constant 0xFF800000 : f32
  %0 = tensor.empty() : tensor<516xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<516xf32>) -> tensor<516xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<516x256xf32>) outs(%1 : tensor<516xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = arith.maxnumf %out, %in : f32
    linalg.yield %8 : f32
  } -> tensor<516xf32>
  %3 = tensor.empty() : tensor<516x256xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %2 : tensor<516x256xf32>, tensor<516xf32>) outs(%3 : tensor<516x256xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %cst_2 = arith.constant 1.44269502 : f32
    %8 = arith.subf %in, %in_1 : f32
    %9 = arith.mulf %8, %cst_2 : f32
    %10 = math.exp2 %9 : f32
    linalg.yield %10 : f32
  } -> tensor<516x256xf32>
  %cst_0 = arith.constant 0.000000e+00 : f32
  %5 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<516xf32>) -> tensor<516xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%4 : tensor<516x256xf32>) outs(%5 : tensor<516xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = arith.addf %out, %in : f32
    linalg.yield %8 : f32
  } -> tensor<516xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%4, %6 : tensor<516x256xf32>, tensor<516xf32>) outs(%3 : tensor<516x256xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %cst_2 = arith.constant 1.000000e+00 : f32
    %8 = arith.divf %cst_2, %in_1 : f32
    %9 = arith.mulf %in, %8 : f32
    linalg.yield %9 : f32
  } -> tensor<516x256xf32>
  "rtask.yield"(%7) : (tensor<516x256xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 6, 1>, kind = "reduction", lanes = 8 : i64, on_chip_bytes = 176128 : i64, order = array<i64: 0, 1>, reads = [[array<i64: 0, 86, 0, 86>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>, registers = 9 : i64, source = "roller", sym_name = "softmax", tasks = 6 : i64, tile = array<i64: 86, 256>, vector_dim = 1 : i64, writes = [[array<i64: 0, 86, 0, 86>, array<i64: -1, 0, 0, 0>]]} : () -> ()
