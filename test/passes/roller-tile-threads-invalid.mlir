// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},roller-tile-tasks,roller-tile-threads' --split-input-file --verify-diagnostics

// A body that has been here.
// expected-error@+1 {{has its threads already; leave roller-tile-threads out}}
"rtask.kernel"() ({
^bb0(%x: tensor<8xf32>, %out: tensor<8xf32>, %task: index):
  %r = scf.forall (%l) in (8) shared_outs(%o = %out) -> (tensor<8xf32>) {
    %s = tensor.extract_slice %x[%l] [1] [1] : tensor<8xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%l] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<8xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1>, kind = "movement", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "by hand",
    sym_name = "copied", tasks = 1 : i64, tile = array<i64: 8>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()
