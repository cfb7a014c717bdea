// RUN: rc-opt %s -p 'gpu-to-rocdl{chip=gfx90a}' --split-input-file --verify-diagnostics
// RUN: not rc-opt %s -p 'gpu-to-rocdl{chip=sm_80}' 2>&1 | filecheck %s
// CHECK: gpu-to-rocdl: no AMD architecture 'sm_80'

gpu.module @a {
  gpu.func @f() kernel {
    // expected-error@+1 {{'nvgpu.device_async_create_group' exists on NVIDIA GPUs only}}
    %group = nvgpu.device_async_create_group {}
    gpu.return
  }
}

// -----

gpu.module @warps {
  gpu.func @f() kernel {
    %all = arith.constant -1 : i32
    // expected-error@+1 {{'nvvm.bar.warp.sync' exists on NVIDIA GPUs only}}
    nvvm.bar.warp.sync %all : i32
    gpu.return
  }
}

// -----

// expected-error@+1 {{@f has TMA descriptors, which exist on NVIDIA GPUs only}}
gpu.module @b {
  gpu.func @f(%descriptor: !llvm.ptr {rcompiler.tma}) kernel { gpu.return }
}

// -----

gpu.module @c {
  gpu.func @f(%p: memref<4x4xf32>) kernel {
    %c0 = arith.constant 0 : index
    // expected-error@+1 {{'vector.load' is left after lowering to rocdl}}
    %v = vector.load %p[%c0, %c0] : memref<4x4xf32>, vector<4x4xf32>
    vector.store %v, %p[%c0, %c0] : memref<4x4xf32>, vector<4x4xf32>
    gpu.return
  }
}
