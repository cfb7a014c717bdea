// RUN: rc-opt %s -p 'roller-tile-tasks,rtask.kernel(cse)' | filecheck %s --check-prefix=TASK
// RUN: rc-opt %s -p rc-tile-kernels | filecheck %s

// Rows of a table by number, plus a tensor. A task: 86 of 516 numbers. A register tile: 16 elements of one row.
// Look at the table: it stays whole, as the numbers decide what is read of it; the numbers are sliced.

// TASK-DAG: #[[ROWS:.*]] = affine_map<(d0) -> (d0 * 86)>
// TASK: ^bb0(%[[N:.*]]: tensor<516xi64>, %[[TABLE:.*]]: tensor<1000x256xf32>, %[[P:.*]]: tensor<516x256xf32>, %[[OUT:.*]]: tensor<516x256xf32>, %[[NUMBER:.*]]: index)
// TASK: %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]])
// TASK: %[[A:.*]] = tensor.extract_slice %[[N]][%[[I]]] [86]
// TASK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<86xi64>) outs(%{{.*}} : tensor<86x256xf32>)
// TASK:   tensor.extract %[[TABLE]][%{{.*}}, %{{.*}}]
// TASK: %[[C:.*]] = tensor.extract_slice %[[P]][%[[I]], 0] [86, 256]
// TASK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[T]], %[[C]] : tensor<86x256xf32>, tensor<86x256xf32>) outs(%{{.*}} : tensor<86x256xf32>)
// TASK:   arith.addf %{{.*}}, %{{.*}}
// TASK: %[[R:.*]] = tensor.insert_slice %[[Y]] into %[[OUT]][%[[I]], 0] [86, 256]
// TASK: "rtask.yield"(%[[R]])

// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0 * 86 + d1)>
// CHECK-DAG: #[[PLUS:.*]] = affine_map<(d0, d1) -> (d0 + d1)>
// CHECK: ^bb0(%[[N:.*]]: tensor<516xi64>, %[[TABLE:.*]]: tensor<1000x256xf32>, %[[P:.*]]: tensor<516x256xf32>, %[[OUT:.*]]: tensor<516x256xf32>, %[[NUMBER:.*]]: index)
// One number at a time ...
// CHECK: %[[R:.*]] = scf.for %[[D:.*]] = %c0 to %c86 step %c1 iter_args(%[[O:.*]] = %[[OUT]])
// CHECK:   %[[I:.*]] = affine.apply #[[ROWS]](%[[NUMBER]], %[[D]])
// CHECK:   %[[A:.*]] = tensor.extract_slice %[[N]][%[[I]]] [1]
// ... and 16 elements of its row: the column in the table is that of the element in the row.
// CHECK:   %[[L:.*]] = scf.for %[[J:.*]] = %c0 to %c256 step %c16 iter_args(%[[Q:.*]] = %[[O]])
// CHECK:     %[[T:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<1xi64>) outs(%{{.*}} : tensor<1x16xf32>)
// CHECK:       %[[COLUMN:.*]] = affine.apply #[[PLUS]](%{{.*}}, %[[J]])
// CHECK:       tensor.extract %[[TABLE]][%{{.*}}, %[[COLUMN]]]
// CHECK:     %[[C:.*]] = tensor.extract_slice %[[P]][%[[I]], %[[J]]] [1, 16]
// CHECK:     %[[Y:.*]] = linalg.generic {{.*}} ins(%[[T]], %[[C]] : tensor<1x16xf32>, tensor<1x16xf32>) outs(%{{.*}} : tensor<1x16xf32>)
// CHECK:       arith.addf %{{.*}}, %{{.*}}
// CHECK:     %[[S:.*]] = tensor.insert_slice %[[Y]] into %[[Q]][%[[I]], %[[J]]] [1, 16]
// CHECK:     scf.yield %[[S]]
// CHECK:   scf.yield %[[L]]
// CHECK: "rtask.yield"(%[[R]])

#map = affine_map<(d0, d1) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
"rtask.kernel"() ({
^bb0(%arg0: tensor<516xi64>, %arg1: tensor<1000x256xf32>, %arg2: tensor<516x256xf32>):
  %0 = tensor.empty() : tensor<516x256xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<516xi64>) outs(%0 : tensor<516x256xf32>) {
  ^bb0(%in: i64, %out: f32):
    %c0 = arith.constant 0 : index
    %c1000 = arith.constant 1000 : index
    %c999 = arith.constant 999 : index
    %3 = arith.index_cast %in : i64 to index
    %4 = arith.cmpi slt, %3, %c0 : index
    %5 = arith.addi %3, %c1000 : index
    %6 = arith.select %4, %5, %3 : index
    %7 = arith.maxsi %6, %c0 : index
    %8 = arith.minsi %7, %c999 : index
    %9 = linalg.index 1 : index
    %extracted = tensor.extract %arg1[%8, %9] : tensor<1000x256xf32>
    linalg.yield %extracted : f32
  } -> tensor<516x256xf32>
  %2 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%1, %arg2 : tensor<516x256xf32>, tensor<516x256xf32>) outs(%0 : tensor<516x256xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %3 = arith.addf %in, %in_0 : f32
    linalg.yield %3 : f32
  } -> tensor<516x256xf32>
  "rtask.yield"(%2) : (tensor<516x256xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 6, 1>, in_place = array<i64: 2, 0>, kind = "gather", lanes = 4 : i64, on_chip_bytes = 264880 : i64, order = array<i64: 0, 1>, reads = [[array<i64: 0, 86, 0, 86>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: 0, 86, 0, 86>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 16>, registers = 7 : i64, source = "roller", sym_name = "gather", tasks = 6 : i64, tile = array<i64: 86, 256>, vector_dim = 1 : i64, writes = [[array<i64: 0, 86, 0, 86>, array<i64: -1, 0, 0, 0>]]} : () -> ()
