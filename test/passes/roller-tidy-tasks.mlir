// RUN: rc-opt %s -p roller-tidy-tasks --split-input-file | filecheck %s

// The rows that a loop over columns reads are sliced in front of it, and constants are there once.
// CHECK: ^bb0(%[[X:.*]]: tensor<8x16xf32>, %[[OUT:.*]]: tensor<8x16xf32>, %[[TASK:.*]]: index):
// CHECK:      %[[I:.*]] = affine.apply
// CHECK:      %[[S:.*]] = tensor.extract_slice %[[X]][%[[I]], 0] [4, 16]
// CHECK:      scf.for %[[J:.*]] = %c0 to %c16 step %c8
// CHECK-NEXT:   tensor.extract_slice %[[S]][0, %[[J]]] [4, 8]
// CHECK-NEXT:   tensor.insert_slice
// CHECK-NEXT:   scf.yield
"rtask.kernel"() ({
^bb0(%x: tensor<8x16xf32>, %out: tensor<8x16xf32>, %task: index):
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %r = scf.for %j = %c0 to %c16 step %c8 iter_args(%o = %out) -> (tensor<8x16xf32>) {
    %i = affine.apply affine_map<(t) -> (t * 4)>(%task)
    %s = tensor.extract_slice %x[%i, 0] [4, 16] [1, 1] : tensor<8x16xf32> to tensor<4x16xf32>
    %t = tensor.extract_slice %s[0, %j] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
    %k = affine.apply affine_map<(t) -> (t * 4)>(%task)
    %q = tensor.insert_slice %t into %o[%k, %j] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x16xf32>
    scf.yield %q : tensor<8x16xf32>
  }
  "rtask.yield"(%r) : (tensor<8x16xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 2, 1>, kind = "movement", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 4, 8>, registers = 1 : i64,
    source = "roller", sym_name = "rows", tasks = 2 : i64, tile = array<i64: 4, 16>,
    vector_dim = 1 : i64, writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A sequential body reads an element where it needs it.
// CHECK: ^bb0(%{{.*}}: tensor<8xf32>, %[[AT:.*]]: tensor<1xi64>):
// CHECK:      scf.for
// CHECK-NEXT:   tensor.extract %[[AT]][%c0]
// CHECK:        tensor.insert
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>, %at: tensor<1xi64>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %e = tensor.empty() : tensor<8xf32>
  %r = scf.for %j = %c0 to %c8 step %c1 iter_args(%o = %e) -> (tensor<8xf32>) {
    %a = tensor.extract %at[%c0] : tensor<1xi64>
    %i = arith.index_cast %a : i64 to index
    %v = tensor.extract %x[%i] : tensor<8xf32>
    %q = tensor.insert %v into %o[%j] : tensor<8xf32>
    scf.yield %q : tensor<8xf32>
  }
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "sequential", lanes = 1 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1>, registers = 1 : i64,
    source = "roller", sym_name = "last", tasks = 1 : i64, tile = array<i64: 8>,
    vector_dim = -1 : i64, writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()
