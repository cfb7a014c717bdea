// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},vdevice-to-cpu' --split-input-file --verify-diagnostics

// A constant tensor that is not a splat is an operand of the kernel.
// expected-error@+1 {{a constant tensor of an rTask body must be an operand or a splat}}
"rtask.kernel"() ({
  %y = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  "rtask.yield"(%y) : (tensor<2xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "movement", lanes = 1 : i64, on_chip_bytes = 8 : i64,
    order = array<i64: 0>, reads = [], register_tile = array<i64: 1>, registers = 1 : i64, source = "test", sym_name = "k",
    tasks = 1 : i64, tile = array<i64: 2>, vector_dim = 0 : i64, writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A sequential body may not exchange the tensors that it carries.
// expected-error@+1 {{a sequential loop exchanges two tensors; that needs a copy}}
"rtask.kernel"() ({
^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %x, %b = %y) -> (tensor<2xf32>, tensor<2xf32>) {
    scf.yield %b, %a : tensor<2xf32>, tensor<2xf32>
  }
  %t = builtin.unrealized_conversion_cast %r#0, %r#1 : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  "rtask.yield"(%t) : (tuple<tensor<2xf32>, tensor<2xf32>>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "sequential", lanes = 1 : i64, on_chip_bytes = 8 : i64,
    order = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1>,
    registers = 1 : i64, source = "test", sym_name = "k", tasks = 1 : i64, tile = array<i64: 2>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Prefetches are for devices that have an instruction for them.
// expected-error@+1 {{tasks ask for memory on NVIDIA GPUs only}}
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>):
  %none = builtin.unrealized_conversion_cast to tuple<>
  "rtask.yield"(%none) : (tuple<>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "prefetch", lanes = 1 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1>, registers = 0 : i64, source = "prefetch",
    sym_name = "p", tasks = 1 : i64, tile = array<i64: 1>, vector_dim = -1 : i64, writes = []} : () -> ()

// -----

// What is pinned lies in memory of an execution unit's own; all cores share theirs.
// expected-error@+1 {{cores have no memory of their own to pin tensors in}}
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>):
  %y = tensor.expand_shape %x [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  "rtask.yield"(%y) : (tensor<2x4xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "movement", lanes = 1 : i64, on_chip_bytes = 0 : i64,
    order = array<i64: 0, 1>, pinned = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 1, 1>, registers = 1 : i64, source = "test", sym_name = "k", tasks = 1 : i64,
    tile = array<i64: 2, 4>, vector_dim = -1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
