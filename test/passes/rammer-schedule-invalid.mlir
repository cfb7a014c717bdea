// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},rammer-schedule' --split-input-file --verify-diagnostics
// RUN: not rc-opt %s -p 'rammer-schedule{policy=best}' --split-input-file 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not rc-opt %s -p 'rammer-schedule{policy=nowhere:best}' --split-input-file 2>&1 | filecheck %s --check-prefix=MODULE
// RUN: not rc-opt %s -p 'rammer-schedule{policy=rcompiler.rammer.policy.wave:best}' --split-input-file 2>&1 | filecheck %s --check-prefix=FUNCTION
// RUN: not rc-opt %s -p 'rammer-schedule{memory=none}' --split-input-file 2>&1 | filecheck %s --check-prefix=MEMORY

// NAME: rammer-schedule: option 'policy': policy 'best' is none of base, wave, bsp, merge, rammer, list, dynamic, nor module:function
// MODULE: policy 'nowhere:best' cannot be imported: ModuleNotFoundError
// MEMORY: rammer-schedule: option 'memory' cannot be 'none'; choices: auto, reuse, apart
// FUNCTION: policy 'rcompiler.rammer.policy.wave:best' cannot be imported: AttributeError

// rKernels are made by roller-tile.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{rOperator o has no rKernel; run roller-tile first}}
  %r = "rtask.operator"() ({
    "rtask.yield"(%x) : (tensor<8xf32>) -> ()
  }) {sym_name = "o", kind = "movement"} : () -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// rOperators are made by rtask-form.
func.func @main(%x: tensor<8xf32>) -> tensor<16xf32> {
  // expected-error@+1 {{tensor.concat is not part of an rOperator; run rtask-form first}}
  %r = tensor.concat dim(0) %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// -----

// An output is computed by an rOperator.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{output 0 is an input, a constant or another output; run rtask-form first}}
  return %x : tensor<8xf32>
}

// -----

// The rows of a loop over steps lie at addresses that kernels take.
func.func @main(%x: tensor<8x12xf32>) -> tensor<1x12xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %z = arith.constant dense<0.0> : tensor<1x12xf32>
  %r = scf.for %t = %c0 to %c8 step %c1 iter_args(%h = %z) -> (tensor<1x12xf32>) {
    // expected-error@+1 {{the row of a step is not contiguous, or not at 64 bytes}}
    %row = tensor.extract_slice %x[%t, 0] [1, 12] [1, 1] : tensor<8x12xf32> to tensor<1x12xf32>
    %n = func.call @step(%row) : (tensor<1x12xf32>) -> tensor<1x12xf32>
    scf.yield %n : tensor<1x12xf32>
  }
  return %r : tensor<1x12xf32>
}
func.func private @step(%x: tensor<1x12xf32>) -> tensor<1x12xf32> {
  return %x : tensor<1x12xf32>
}

// -----

// What such a loop collects is computed in its steps.
// expected-error@+1 {{value in0.0 cannot lie at byte 0 of step.rows: a loop collects what its steps compute, each value once, at aligned addresses}}
module {
  func.func @main(%x: tensor<8x16xf32>) -> tensor<8x1x16xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %y = tensor.empty() : tensor<8x1x16xf32>
    %r = scf.for %t = %c0 to %c8 step %c1 iter_args(%k = %y) -> (tensor<8x1x16xf32>) {
      %row = tensor.extract_slice %x[%t, 0] [1, 16] [1, 1] : tensor<8x16xf32> to tensor<1x16xf32>
      %n = func.call @step(%row) : (tensor<1x16xf32>) -> tensor<1x16xf32>
      %p = tensor.insert_slice %n into %k[%t, 0, 0] [1, 1, 16] [1, 1, 1] : tensor<1x16xf32> into tensor<8x1x16xf32>
      scf.yield %p : tensor<8x1x16xf32>
    }
    return %r : tensor<8x1x16xf32>
  }
  func.func private @step(%x: tensor<1x16xf32>) -> tensor<1x16xf32> {
    return %x : tensor<1x16xf32>
  }
}

// -----

// A state that has a last value and no next one.
// expected-error@+1 {{rtask.state is of one argument and of one result, and of both: name it twice}}
func.func @main(%h: tensor<64xf32> {rtask.state = "h"}) -> tensor<64xf32> {
  %0 = tensor.empty() : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// What is used always is computed always.
func.func @main(%c: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{what it makes is used where its guard does not hold; remove the rtask.guard, or choose by its condition}}
  %r = "rtask.operator"() ({
    "rtask.guard"(%c) {holds = true} : (tensor<i1>) -> ()
    "rtask.yield"(%x) : (tensor<8xf32>) -> ()
  }) {sym_name = "o", kind = "movement"} : () -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// The other side of a choice.
#id = affine_map<(d0) -> (d0)>
#one = affine_map<(d0) -> ()>
func.func @main(%c: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{what it makes is used where its guard does not hold}}
  %r = "rtask.operator"() ({
    "rtask.guard"(%c) {holds = true} : (tensor<i1>) -> ()
    "rtask.yield"(%x) : (tensor<8xf32>) -> ()
  }) {sym_name = "o", kind = "movement"} : () -> tensor<8xf32>
  %y = "rtask.operator"() ({
    %e = tensor.empty() : tensor<8xf32>
    %s = linalg.generic {indexing_maps = [#one, #id, #id, #id], iterator_types = ["parallel"]} ins(%c, %x, %r : tensor<i1>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%t: i1, %l: f32, %m: f32, %o: f32):
      %n = arith.select %t, %l, %m : f32
      linalg.yield %n : f32
    } -> tensor<8xf32>
    "rtask.yield"(%s) : (tensor<8xf32>) -> ()
  }) {sym_name = "choice", kind = "elementwise"} : () -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// rKernels look at what their operator is guarded by.
func.func @main(%c: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{rKernel @k has other guards than it; run roller-tile again}}
  %r = "rtask.operator"() ({
    %e = tensor.empty() : tensor<8xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%c, %x : tensor<i1>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%t: i1, %l: f32, %o: f32):
      %n = arith.select %t, %l, %l : f32
      linalg.yield %n : f32
    } -> tensor<8xf32>
    "rtask.yield"(%s) : (tensor<8xf32>) -> ()
  }) {sym_name = "o", kind = "elementwise", kernels = [@k]} : () -> tensor<8xf32>
  return %r : tensor<8xf32>
}
"rtask.kernel"() ({
^bb0(%c: tensor<i1>, %x: tensor<8xf32>):
  %e = tensor.empty() : tensor<8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%c, %x : tensor<i1>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%t: i1, %l: f32, %o: f32):
    %n = arith.select %t, %l, %l : f32
    linalg.yield %n : f32
  } -> tensor<8xf32>
  "rtask.yield"(%s) : (tensor<8xf32>) -> ()
}) {sym_name = "k", kind = "elementwise", grid = array<i64: 2>, tile = array<i64: 4>, register_tile = array<i64: 4>, vector_dim = 0 : i64, lanes = 4 : i64, tasks = 2 : i64, on_chip_bytes = 32 : i64, registers = 1 : i64, estimated_ns = 3.0 : f64, source = "roller", reads = [[], [array<i64: 0, 4, 0, 4>]], writes = [[array<i64: 0, 4, 0, 4>]], guards = array<i64: 0, 1>} : () -> ()
