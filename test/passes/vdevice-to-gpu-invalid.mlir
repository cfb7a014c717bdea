// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-to-gpu' --split-input-file --verify-diagnostics

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

// Stages of more than the shared memory of a block.
// expected-error@+1 {{its tasks keep 262144 bytes in shared memory, and a block has 232448}}
"rtask.kernel"() ({
^bb0(%x: tensor<65536xf32>):
  %e = tensor.empty() : tensor<65536xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%x : tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<65536xf32>
  %k = "rtask.stage"(%p) {axes = array<i64: -1>, register_tile = array<i64: 32>, order = array<i64: 0>, vector_dim = 0 : i64, lanes = 32 : i64} : (tensor<65536xf32>) -> tensor<65536xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d) -> (65535 - d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%k : tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.negf %l : f32
    linalg.yield %s : f32
  } -> tensor<65536xf32>
  "rtask.yield"(%y) : (tensor<65536xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "elementwise", lanes = 32 : i64, on_chip_bytes = 8 : i64,
    order = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 32>, registers = 1 : i64,
    source = "test", sym_name = "k", tasks = 1 : i64, tile = array<i64: 65536>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// The body of one task that does not say which thread does what.
// expected-error@+1 {{does not say which thread makes which part of a tile; run roller-tile-threads}}
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>, %out: tensor<8xf32>, %task: index):
  %r = tensor.insert_slice %x into %out[0] [8] [1] : tensor<8xf32> into tensor<8xf32>
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "movement", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "by hand",
    sym_name = "copied", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A forall of more lanes than a group has threads.
// expected-error@+1 {{the last dim of a forall counts the lanes of a group, of which there are 4}}
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>, %out: tensor<8xf32>, %task: index):
  %r = scf.forall (%l) in (8) shared_outs(%o = %out) -> (tensor<8xf32>) {
    %s = tensor.extract_slice %x[%l] [1] [1] : tensor<8xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%l] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "movement", lanes = 4 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "by hand",
    sym_name = "copied", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Threads by two axes are another order of their numbers.
// expected-error@+1 {{threads share in a forall from 0 in steps of 1 whose mapping is [#gpu.thread<linear_dim_0>]}}
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>, %out: tensor<8xf32>, %task: index):
  %r = scf.forall (%l) in (8) shared_outs(%o = %out) -> (tensor<8xf32>) {
    %s = tensor.extract_slice %x[%l] [1] [1] : tensor<8xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%l] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<x>]}
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "movement", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "by hand",
    sym_name = "copied", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Half of a warp cannot share in a sum alone.
// expected-error@+1 {{'rtask.lanes' says that 16 lanes share in a sum, and a warp of this device has 32; make the body anew}}
"rtask.kernel"() ({
^bb0(%x: tensor<8x64xf32>, %out: tensor<8xf32>, %task: index):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %r = scf.forall (%i, %l) in (8, 1) shared_outs(%o = %out) -> (tensor<8xf32>) {
    %j = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %l)
    %s = tensor.extract_slice %x[%j, 0] [1, 64] [1, 1] : tensor<8x64xf32> to tensor<1x64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<1x64xf32>) outs(%f : tensor<1xf32>) attrs = {rtask.lane_dim = 1 : i64, rtask.lanes = 16 : i64} {
    ^bb0(%u: f32, %v: f32):
      %w = arith.addf %u, %v : f32
      linalg.yield %w : f32
    } -> tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %y into %o[%j] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "reduction", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64,
    source = "by hand", sym_name = "half", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()
