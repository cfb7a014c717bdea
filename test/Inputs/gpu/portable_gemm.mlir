// C = A B of 256x256 f32 for any GPU: blocks of 64x64 by 256 threads, 4x4 results each, 16 columns of A
// and rows of B at a time in shared memory; then a counter is raised for those who wait for the block.
!global = memref<256x256xf32>
!left = memref<64x20xf32, #gpu.address_space<workgroup>>
!right = memref<16x64xf32, #gpu.address_space<workgroup>>
gpu.module @kernels {
  gpu.func @gemm(%a: !global, %b: !global, %c: !global, %counter: !llvm.ptr)
      workgroup(%as: !left, %bs: !right) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %one = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %t = gpu.thread_id x
    %m0 = arith.muli %by, %c64 : index
    %n0 = arith.muli %bx, %c64 : index
    %copy_m = arith.divui %t, %c4 : index
    %t4 = arith.remui %t, %c4 : index
    %copy_ak = arith.muli %t4, %c4 : index
    %copy_row = arith.addi %m0, %copy_m : index
    %copy_bk = arith.divui %t, %c16 : index
    %t16 = arith.remui %t, %c16 : index
    %copy_n = arith.muli %t16, %c4 : index
    %copy_column = arith.addi %n0, %copy_n : index
    %row = arith.muli %copy_bk, %c4 : index
    %row1 = arith.addi %row, %c1 : index
    %row2 = arith.addi %row, %c2 : index
    %row3 = arith.addi %row, %c3 : index
    %r:4 = scf.for %k = %c0 to %c256 step %c16
        iter_args(%s0 = %zero, %s1 = %zero, %s2 = %zero, %s3 = %zero)
        -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
      %ak = arith.addi %k, %copy_ak : index
      %bk = arith.addi %k, %copy_bk : index
      %av = vector.load %a[%copy_row, %ak] {alignment = 16 : i64} : !global, vector<4xf32>
      %bv = vector.load %b[%bk, %copy_column] {alignment = 16 : i64} : !global, vector<4xf32>
      vector.store %av, %as[%copy_m, %copy_ak] {alignment = 16 : i64} : !left, vector<4xf32>
      vector.store %bv, %bs[%copy_bk, %copy_n] {alignment = 16 : i64} : !right, vector<4xf32>
      gpu.barrier
      %sums:4 = scf.for %j = %c0 to %c16 step %c1
          iter_args(%u0 = %s0, %u1 = %s1, %u2 = %s2, %u3 = %s3)
          -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
        %right = vector.load %bs[%j, %copy_n] {alignment = 16 : i64} : !right, vector<4xf32>
        %l0 = memref.load %as[%row, %j] : !left
        %l1 = memref.load %as[%row1, %j] : !left
        %l2 = memref.load %as[%row2, %j] : !left
        %l3 = memref.load %as[%row3, %j] : !left
        %v0 = vector.broadcast %l0 : f32 to vector<4xf32>
        %v1 = vector.broadcast %l1 : f32 to vector<4xf32>
        %v2 = vector.broadcast %l2 : f32 to vector<4xf32>
        %v3 = vector.broadcast %l3 : f32 to vector<4xf32>
        %w0 = vector.fma %v0, %right, %u0 : vector<4xf32>
        %w1 = vector.fma %v1, %right, %u1 : vector<4xf32>
        %w2 = vector.fma %v2, %right, %u2 : vector<4xf32>
        %w3 = vector.fma %v3, %right, %u3 : vector<4xf32>
        scf.yield %w0, %w1, %w2, %w3 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
      }
      gpu.barrier
      scf.yield %sums#0, %sums#1, %sums#2, %sums#3 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
    }
    %o0 = arith.addi %m0, %row : index
    %o1 = arith.addi %m0, %row1 : index
    %o2 = arith.addi %m0, %row2 : index
    %o3 = arith.addi %m0, %row3 : index
    vector.store %r#0, %c[%o0, %copy_column] {alignment = 16 : i64} : !global, vector<4xf32>
    vector.store %r#1, %c[%o1, %copy_column] {alignment = 16 : i64} : !global, vector<4xf32>
    vector.store %r#2, %c[%o2, %copy_column] {alignment = 16 : i64} : !global, vector<4xf32>
    vector.store %r#3, %c[%o3, %copy_column] {alignment = 16 : i64} : !global, vector<4xf32>
    gpu.barrier
    %leads = arith.cmpi eq, %t, %c0 : index
    scf.if %leads {
      llvm.fence syncscope("agent") release
      %old = llvm.atomicrmw add %counter, %one syncscope("agent") monotonic : !llvm.ptr, i32
    }
    gpu.return
  }
}
