// RUN: rc-opt %s -p 'gpu-to-nvvm{chip=sm_90a}' | filecheck %s
// RUN: rc-opt %{inputs}/gpu/sgemm.mlir -p 'gpu-to-nvvm{chip=sm_80}' | filecheck %s --check-prefix=COPIES
// RUN: rc-opt %{inputs}/gpu/hgemm.mlir -p 'gpu-to-nvvm{chip=sm_80}' | filecheck %s --check-prefix=TENSOR
// RUN: rc-opt %{inputs}/gpu/persistent.mlir -p 'gpu-to-nvvm{chip=sm_80}' | filecheck %s --check-prefix=WAITS
// RUN: rc-opt %{inputs}/gpu/hopper.mlir -p gpu-to-nvvm | filecheck %s --check-prefix=HOPPER

// COPIES: nvvm.cp.async.shared.global
// COPIES: nvvm.cp.async.commit.group
// COPIES: nvvm.cp.async.wait.group 0
// COPIES: llvm.call_intrinsic "llvm.fma.v4f32"

// TENSOR: nvvm.ldmatrix
// TENSOR: nvvm.mma.sync

// WAITS-LABEL: llvm.func @program
// WAITS: llvm.load {{.*}} atomic syncscope("device") acquire
// WAITS: nvvm.nanosleep
// WAITS: llvm.switch
// WAITS: llvm.fence syncscope("device") release
// WAITS: llvm.atomicrmw add {{.*}} syncscope("device") monotonic

// HOPPER-LABEL: llvm.func @hopper
// HOPPER-SAME: nvvm.grid_constant
// HOPPER: nvvm.cp.async.bulk.tensor.shared.cluster.global
// HOPPER: llvm.inline_asm {{.*}}wgmma.mma_async

// CHECK: gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90a">]
gpu.module @kernels {
  // Dynamic shared memory is external and fits tiles with a swizzle.
  // CHECK: llvm.mlir.global external @__dynamic_shmem__0() {addr_space = 3 : i32, alignment = 1024 : i64}

  // Functions of the device are internal, with the attribute that they ask for.
  // CHECK: llvm.func internal @called(
  // CHECK-SAME: no_inline
  func.func private @called(%x: f32) -> f32 attributes {no_inline} {
    // CHECK: llvm.call_intrinsic "llvm.sqrt.f32"
    %y = math.sqrt %x : f32
    return %y : f32
  }
  // CHECK: llvm.func internal @inlined(
  // CHECK-SAME: always_inline
  func.func private @inlined(%x: f32) -> f32 attributes {always_inline} {
    return %x : f32
  }
  // CHECK: llvm.func internal @open(%arg0: f32) -> f32 attributes {llvm.emit_c_interface, sym_visibility = "private"}
  func.func private @open(%x: f32) -> f32 {
    return %x : f32
  }

  // What is not private can be called from another module.
  // CHECK: llvm.func @known(%arg0: f32) -> f32 attributes {llvm.emit_c_interface, no_inline}
  func.func @known(%x: f32) -> f32 attributes {no_inline} {
    return %x : f32
  }

  // Shared memory can be accessed 16 bytes at a time; a larger alignment stays.
  // CHECK: llvm.mlir.global internal @[[S:.*]]() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x f32>
  // CHECK: llvm.mlir.global internal @{{.*}}() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<32 x f32>
  // CHECK: llvm.func @kernel(%arg0: !llvm.ptr {llvm.noalias}, %arg1: f32)
  // CHECK-SAME: nvvm.kernel, nvvm.maxntid = array<i32: 64, 1, 1>}
  gpu.func @kernel(%p: memref<64xf32> {llvm.noalias}, %a: f32)
      workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>,
                %r: memref<32xf32, #gpu.address_space<workgroup>> {llvm.align = 128 : i64})
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %t = gpu.thread_id x
    %x = memref.load %p[%t] : memref<64xf32>
    %y = func.call @called(%x) : (f32) -> f32
    %z = func.call @inlined(%y) : (f32) -> f32
    %w = func.call @open(%z) : (f32) -> f32
    // CHECK: llvm.mlir.addressof @[[S]]
    memref.store %w, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %w, %r[%c0] : memref<32xf32, #gpu.address_space<workgroup>>
    %dynamic = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %view = memref.view %dynamic[%c0][]
      : memref<?xi8, #gpu.address_space<workgroup>> to memref<64xf32, #gpu.address_space<workgroup>>
    // CHECK: nvvm.barrier
    gpu.barrier
    memref.store %a, %view[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}

gpu.module @shifts {
  // The halves of an index that travels between threads: no shift of 32 bits by 32.
  // CHECK-LABEL: llvm.func @halves
  // CHECK-NOT: llvm.lshr {{.*}} : i32
  // CHECK: llvm.lshr {{.*}} : i64
  gpu.func @halves(%out: memref<2xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : i64
    %c32 = arith.constant 32 : i64
    %id = gpu.thread_id x
    %wide = arith.index_cast %id : index to i64
    %index = arith.minui %wide, %c3 : i64
    %low = arith.trunci %index : i64 to i32
    %shifted = arith.shrui %index, %c32 : i64
    %high = arith.trunci %shifted : i64 to i32
    memref.store %low, %out[%c0] : memref<2xi32>
    memref.store %high, %out[%c1] : memref<2xi32>
    gpu.return
  }
}

gpu.module @hopper {
  // A TMA descriptor is 128 bytes by value; ptxas heeds setmaxnreg with minctasm only.
  // CHECK: llvm.func @copy(%arg0: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}, %arg1: !llvm.ptr)
  // CHECK-SAME: nvvm.minctasm = 1 : i32
  gpu.func @copy(%descriptor: !llvm.ptr {rcompiler.tma}, %p: !llvm.ptr) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    // CHECK: nvvm.setmaxregister
    nvvm.setmaxregister decrease 40
    gpu.return
  }
}

// Without a device library: instructions, or functions of ours.
gpu.module @math {
  // CHECK-LABEL: llvm.func @exact
  gpu.func @exact(%p: memref<4xf32>, %h: memref<4xf16>, %n: memref<4xi32>) kernel {
    %c0 = arith.constant 0 : index
    %v = vector.load %p[%c0] : memref<4xf32>, vector<4xf32>
    // CHECK: llvm.call_intrinsic "llvm.floor.v4f32"
    %0 = math.floor %v : vector<4xf32>
    // CHECK: llvm.call_intrinsic "llvm.fabs.v4f32"
    %1 = math.absf %0 : vector<4xf32>
    // CHECK: llvm.call_intrinsic "llvm.maxnum.v4f32"
    %2 = arith.maxnumf %1, %v : vector<4xf32>
    vector.store %2, %p[%c0] : memref<4xf32>, vector<4xf32>
    // LLVM has no vectors of vectors.
    %m = vector.broadcast %v : vector<4xf32> to vector<2x4xf32>
    // CHECK-COUNT-8: llvm.call_intrinsic "llvm.sqrt.f32"
    %s = math.sqrt %m : vector<2x4xf32>
    %3 = vector.extract %s[1] : vector<4xf32> from vector<2x4xf32>
    vector.store %3, %p[%c0] : memref<4xf32>, vector<4xf32>
    %x = memref.load %h[%c0] : memref<4xf16>
    // CHECK: llvm.call_intrinsic "llvm.roundeven.f16"
    %4 = math.roundeven %x : f16
    memref.store %4, %h[%c0] : memref<4xf16>
    %i = memref.load %n[%c0] : memref<4xi32>
    // CHECK: llvm.call_intrinsic "llvm.ctlz.i32"({{.*}}, {{.*}}) : (i32, i1) -> i32
    %5 = math.ctlz %i : i32
    memref.store %5, %n[%c0] : memref<4xi32>
    gpu.return
  }

  // CHECK-LABEL: llvm.func @computed
  gpu.func @computed(%p: memref<4xf32>, %h: memref<4xbf16>) kernel {
    %c0 = arith.constant 0 : index
    %x = memref.load %p[%c0] : memref<4xf32>
    // CHECK: llvm.call_intrinsic "llvm.sqrt.f32"
    // CHECK-NEXT: %[[WIDE:.*]] = llvm.fpext %{{.*}} : f32 to f64
    // CHECK:      %[[R:.*]] = llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.d"(%[[WIDE]])
    // CHECK-COUNT-4: llvm.call_intrinsic "llvm.fma.f64"
    // CHECK:      llvm.fcmp "one"
    // CHECK:      llvm.fptrunc {{.*}} : f64 to f32
    %0 = math.rsqrt %x : f32
    // CHECK: llvm.call @__rc_exp_f32(
    %1 = math.exp %0 : f32
    // CHECK: llvm.call @__rc_remf_f32(
    %2 = arith.remf %1, %x : f32
    memref.store %2, %p[%c0] : memref<4xf32>
    %y = vector.load %h[%c0] : memref<4xbf16>, vector<2xbf16>
    // CHECK-COUNT-2: llvm.call @__rc_tanh_f32({{.*}}) : (f32) -> f32
    // CHECK: llvm.fptrunc
    %3 = math.tanh %y : vector<2xbf16>
    vector.store %3, %h[%c0] : memref<4xbf16>, vector<2xbf16>
    gpu.return
  }

  // CHECK-LABEL: llvm.func @approximated
  gpu.func @approximated(%p: memref<4xf32>) kernel {
    %c0 = arith.constant 0 : index
    %x = memref.load %p[%c0] : memref<4xf32>
    // CHECK: llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.f"
    %0 = math.rsqrt %x fastmath<afn> : f32
    // CHECK: llvm.fmul
    // CHECK-NEXT: llvm.call_intrinsic "llvm.exp2.f32"({{.*}}) {fastmathFlags = #llvm.fastmath<afn>}
    %1 = math.exp %0 fastmath<afn> : f32
    // CHECK: llvm.call_intrinsic "llvm.nvvm.lg2.approx.f"
    // CHECK-NEXT: llvm.fmul
    %2 = math.log %1 fastmath<fast> : f32
    // CHECK: llvm.call @__rc_erf_f32(
    %3 = math.erf %2 fastmath<afn> : f32
    memref.store %3, %p[%c0] : memref<4xf32>
    gpu.return
  }

  // Once each, always inlined.
  // CHECK: llvm.func internal @__rc_exp_f32({{.*}}always_inline
  // CHECK: llvm.func internal @__rc_remf_f32({{.*}}always_inline
  // CHECK: llvm.func internal @__rc_tanh_f32({{.*}}always_inline
  // CHECK: llvm.func internal @__rc_erf_f32({{.*}}always_inline
  // CHECK-NOT: __nv_
}
