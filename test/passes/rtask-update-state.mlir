// RUN: rc-opt %s -p 'rtask-update-state' --split-input-file | filecheck %s

// One row of a cache is replaced, which nobody else reads: the rest stays where it is.
// CHECK-LABEL: func.func @main
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %arg2)
// CHECK:           tensor.insert
// CHECK:         } {rtask.updates}
func.func @main(%x: tensor<8xf32>, %at: tensor<1xindex>, %k: tensor<16x8xf32> {rtask.state = "k"})
    -> (tensor<16x8xf32> {rtask.state = "k"}) {
  %0 = "rtask.operator"() ({
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %1 = scf.for %i = %c0 to %c8 step %c1 iter_args(%t = %k) -> (tensor<16x8xf32>) {
      %row = tensor.extract %at[%c0] : tensor<1xindex>
      %new = tensor.extract %x[%i] : tensor<8xf32>
      %2 = tensor.insert %new into %t[%row, %i] : tensor<16x8xf32>
      scf.yield %2 : tensor<16x8xf32>
    }
    "rtask.yield"(%1) : (tensor<16x8xf32>) -> ()
  }) {kind = "sequential", sym_name = "append"} : () -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// -----

// The last value is read by another rOperator, too, which may come later.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     rtask.updates
func.func @main(%x: tensor<8xf32>, %k: tensor<16x8xf32> {rtask.state = "k"})
    -> (tensor<16x8xf32>, tensor<16x8xf32> {rtask.state = "k"}) {
  %0 = "rtask.operator"() ({
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %1 = scf.for %i = %c0 to %c8 step %c1 iter_args(%t = %k) -> (tensor<16x8xf32>) {
      %new = tensor.extract %x[%i] : tensor<8xf32>
      %2 = tensor.insert %new into %t[%c0, %i] : tensor<16x8xf32>
      scf.yield %2 : tensor<16x8xf32>
    }
    "rtask.yield"(%1) : (tensor<16x8xf32>) -> ()
  }) {kind = "sequential", sym_name = "append"} : () -> tensor<16x8xf32>
  %3 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<16x8xf32>
    %4 = linalg.exp ins(%k : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) -> tensor<16x8xf32>
    "rtask.yield"(%4) : (tensor<16x8xf32>) -> ()
  }) {kind = "elementwise", sym_name = "other"} : () -> tensor<16x8xf32>
  return %3, %0 : tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

// What is updated is the next value of another state.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     rtask.updates
func.func @main(%x: tensor<8xf32>, %k: tensor<16x8xf32> {rtask.state = "k"}, %v: tensor<16x8xf32> {rtask.state = "v"})
    -> (tensor<16x8xf32> {rtask.state = "k"}, tensor<16x8xf32> {rtask.state = "v"}) {
  %0 = "rtask.operator"() ({
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %1 = scf.for %i = %c0 to %c8 step %c1 iter_args(%t = %v) -> (tensor<16x8xf32>) {
      %new = tensor.extract %x[%i] : tensor<8xf32>
      %2 = tensor.insert %new into %t[%c0, %i] : tensor<16x8xf32>
      scf.yield %2 : tensor<16x8xf32>
    }
    "rtask.yield"(%1) : (tensor<16x8xf32>) -> ()
  }) {kind = "sequential", sym_name = "append"} : () -> tensor<16x8xf32>
  %3 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<16x8xf32>
    %4 = linalg.exp ins(%k : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) -> tensor<16x8xf32>
    "rtask.yield"(%4) : (tensor<16x8xf32>) -> ()
  }) {kind = "elementwise", sym_name = "other"} : () -> tensor<16x8xf32>
  return %0, %3 : tensor<16x8xf32>, tensor<16x8xf32>
}
