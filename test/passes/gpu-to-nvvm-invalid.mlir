// RUN: rc-opt %s -p 'gpu-to-nvvm{chip=sm_80}' --split-input-file --verify-diagnostics
// RUN: not rc-opt %s -p 'gpu-to-nvvm{chip=gfx90a}' 2>&1 | filecheck %s
// CHECK: gpu-to-nvvm: no NVIDIA architecture 'gfx90a'

gpu.module @a {
  // expected-error@+1 {{failed to legalize operation 'gpu.func'}}
  gpu.func @dynamic(%p: memref<?xf32>) kernel { gpu.return }
}

// -----

gpu.module @b {
  gpu.func @f(%p: memref<4x4xf32>) kernel {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{'vector.load' is left after lowering to nvvm; kernels take static memrefs}}
    %v = vector.load %p[%c0, %c0] : memref<4x4xf32>, vector<4x4xf32>
    vector.store %v, %p[%c0, %c0] : memref<4x4xf32>, vector<4x4xf32>
    gpu.return
  }
}

// -----

gpu.module @c {
  gpu.func @f(%p: !llvm.ptr) kernel {
    // expected-error@+1 {{'builtin.unrealized_conversion_cast' of !llvm.ptr to tuple<i32> is left}}
    %q = builtin.unrealized_conversion_cast %p : !llvm.ptr to tuple<i32>
    %r = builtin.unrealized_conversion_cast %q : tuple<i32> to i32
    llvm.store %r, %p : i32, !llvm.ptr
    gpu.return
  }
}

// -----

gpu.module @d {
  gpu.func @f(%p: memref<64xf64>) kernel {
    %c0 = arith.constant 0 : index
    %x = memref.load %p[%c0] : memref<64xf64>
    // expected-error@+1 {{'math.cbrt' of f64 has no expansion for GPUs without a device library}}
    %y = math.cbrt %x : f64
    memref.store %y, %p[%c0] : memref<64xf64>
    gpu.return
  }
}

// -----

gpu.module @e {
  gpu.func @f(%p: memref<64xf32>) kernel {
    %c0 = arith.constant 0 : index
    %x = memref.load %p[%c0] : memref<64xf32>
    // expected-error@+1 {{'math.cbrt' of f32 has no expansion}}
    %y = math.cbrt %x : f32
    memref.store %y, %p[%c0] : memref<64xf32>
    gpu.return
  }
}

// -----

gpu.module @g {
  gpu.func @f(%p: memref<64xi32>) kernel {
    %c0 = arith.constant 0 : index
    %x = memref.load %p[%c0] : memref<64xi32>
    // expected-error@+1 {{'llvm.atomicrmw' with an ordering of its own, which LLVM drops; make it monotonic}}
    %y = memref.atomic_rmw addi %x, %p[%c0] : (i32, memref<64xi32>) -> i32
    gpu.return
  }
}

// -----

gpu.module @h {
  gpu.func @f() kernel {
    // expected-error@+1 {{'nvvm.setmaxregister' needs sm_90a; the chip is sm_80}}
    nvvm.setmaxregister decrease 40
    gpu.return
  }
}

// -----

gpu.module @i {
  gpu.func @f() kernel {
    // expected-error@+1 {{'nvvm.cluster.arrive' needs sm_90 or later; the chip is sm_80}}
    nvvm.cluster.arrive {aligned}
    gpu.return
  }
}
