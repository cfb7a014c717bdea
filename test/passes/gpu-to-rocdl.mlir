// RUN: rc-opt %s -p 'gpu-to-rocdl{chip=gfx942}' | filecheck %s

// CHECK: gpu.module @kernels [#rocdl.target<O = 3, chip = "gfx942">]
gpu.module @kernels {
  // CHECK: llvm.func internal @called(
  // CHECK-SAME: no_inline
  func.func private @called(%x: f32) -> f32 attributes {no_inline} {
    // CHECK: llvm.call_intrinsic "llvm.sqrt.f32"
    %y = math.sqrt %x : f32
    return %y : f32
  }
  // CHECK: llvm.mlir.global internal @{{.*}}() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x f32>
  // CHECK: llvm.func @kernel(%arg0: !llvm.ptr)
  // CHECK-SAME: rocdl.kernel
  gpu.func @kernel(%p: memref<64xf32>) workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    // CHECK: rocdl.workitem.id.x
    %t = gpu.thread_id x
    %x = memref.load %p[%t] : memref<64xf32>
    %y = func.call @called(%x) : (f32) -> f32
    // CHECK: llvm.call @__rc_exp_f32(
    %z = math.exp %y : f32
    // CHECK: llvm.call_intrinsic "llvm.exp2.f32"({{.*}}) {fastmathFlags = #llvm.fastmath<afn>}
    %a = math.exp %z fastmath<afn> : f32
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.rsq.f32"
    %b = math.rsqrt %a fastmath<afn> : f32
    // There is no instruction for it.
    // CHECK: llvm.call @__rc_tanh_f32(
    %c = math.tanh %b fastmath<afn> : f32
    memref.store %c, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    // CHECK: rocdl.{{.*}}barrier
    gpu.barrier
    %d = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %d, %p[%t] : memref<64xf32>
    gpu.return
  }
  // CHECK-NOT: __ocml_
}
