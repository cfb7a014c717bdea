// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-to-gpu' --split-input-file | filecheck %s

// A row by way of shared memory, from its end: threads meet in front of the stage and behind it, in each task.
// CHECK-LABEL: func.func private @turned
// CHECK:       scf.for
// CHECK:         nvvm.barrier
// CHECK:         llvm.load {{.*}}!llvm.ptr<1> -> f32
// CHECK:         llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK:         nvvm.barrier
// CHECK:         llvm.load {{.*}}!llvm.ptr<3> -> f32
// CHECK:         llvm.store {{.*}} : f32, !llvm.ptr<1>
"rtask.kernel"() ({
^bb0(%x: tensor<8x64xf32>, %out: tensor<8x64xf32>, %task: index):
  gpu.barrier
  %m = bufferization.alloc_tensor() {memory_space = #gpu.address_space<workgroup>} : tensor<1x64xf32>
  %f = scf.forall (%i, %l) in (2, 32) shared_outs(%o = %m) -> (tensor<1x64xf32>) {
    %j = affine.apply affine_map<(a, b) -> (a * 32 + b)>(%i, %l)
    %s = tensor.extract_slice %x[%task, %j] [1, 1] [1, 1] : tensor<8x64xf32> to tensor<1x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[0, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<1x64xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  %k = "rtask.stage"(%f) {kept = array<i64: 1, 64>, lanes = 32 : i64, offset = 0 : i64, register_tile = array<i64: 1, 32>, vector_dim = 1 : i64} : (tensor<1x64xf32>) -> tensor<1x64xf32>
  gpu.barrier
  %r = scf.forall (%i, %l) in (2, 32) shared_outs(%o = %out) -> (tensor<8x64xf32>) {
    %j = affine.apply affine_map<(a, b) -> (a * 32 + b)>(%i, %l)
    %z = affine.apply affine_map<(a, b) -> (63 - a * 32 - b)>(%i, %l)
    %s = tensor.extract_slice %k[0, %z] [1, 1] [1, 1] : tensor<1x64xf32> to tensor<1x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%task, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<8x64xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<8x64xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 8, 1>, kind = "movement", lanes = 32 : i64, on_chip_bytes = 256 : i64,
    reads = [[array<i64: 0, 1, 0, 1>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>, registers = 1 : i64,
    source = "by hand", sym_name = "turned", tasks = 8 : i64, tile = array<i64: 1, 64>, vector_dim = 1 : i64,
    writes = [[array<i64: 0, 1, 0, 1>, array<i64: -1, 0, 0, 0>]]} : () -> ()
