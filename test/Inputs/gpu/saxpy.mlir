// y = exp(a x) + y of the first n of 1024, a block's part of x by way of shared memory.
!vector = memref<1024xf32>
!shared = memref<128xf32, #gpu.address_space<workgroup>>
gpu.module @kernels {
  gpu.func @saxpy(%x: !vector, %y: !vector, %a: f32, %n: index) workgroup(%s: !shared) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %b = gpu.block_id x
    %d = gpu.block_dim x
    %t = gpu.thread_id x
    %o = arith.muli %b, %d : index
    %i = arith.addi %o, %t : index
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : !vector
      memref.store %v, %s[%t] : !shared
    }
    gpu.barrier
    scf.if %inside {
      %v = memref.load %s[%t] : !shared
      %w = memref.load %y[%i] : !vector
      %m = arith.mulf %v, %a : f32
      %e = math.exp %m : f32
      %r = arith.addf %e, %w : f32
      memref.store %r, %y[%i] : !vector
    }
    gpu.return
  }
}
