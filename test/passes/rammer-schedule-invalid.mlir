// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},rammer-schedule' --split-input-file --verify-diagnostics
// RUN: not rc-opt %s -p 'rammer-schedule{policy=best}' --split-input-file 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not rc-opt %s -p 'rammer-schedule{policy=nowhere:best}' --split-input-file 2>&1 | filecheck %s --check-prefix=MODULE
// RUN: not rc-opt %s -p 'rammer-schedule{policy=rcompiler.rammer.policy.wave:best}' --split-input-file 2>&1 | filecheck %s --check-prefix=FUNCTION

// NAME: rammer-schedule: option 'policy': policy 'best' is none of base, wave, bsp, merge, rammer, list, dynamic, nor module:function
// MODULE: policy 'nowhere:best' cannot be imported: ModuleNotFoundError
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
