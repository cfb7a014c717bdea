// C = A B of 256x256 f32: blocks of 64x64 by 256 threads, 4x4 results each, from a ring of two stages
// of 16 columns of A and rows of B in shared memory that asynchronous copies fill.
!global = memref<256x256xf32>
!left = memref<2x64x20xf32, #gpu.address_space<workgroup>>
!right = memref<2x16x64xf32, #gpu.address_space<workgroup>>
gpu.module @kernels {
  gpu.func @sgemm(%a: !global {llvm.noalias, llvm.align = 16 : i64},
                  %b: !global {llvm.noalias, llvm.align = 16 : i64},
                  %c: !global {llvm.noalias, llvm.align = 16 : i64})
      workgroup(%as: !left, %bs: !right) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %t = gpu.thread_id x
    %m0 = arith.muli %by, %c64 : index
    %n0 = arith.muli %bx, %c64 : index
    // What a thread copies of each stage: four elements of A and of B.
    %copy_m = arith.divui %t, %c4 : index
    %t4 = arith.remui %t, %c4 : index
    %copy_ak = arith.muli %t4, %c4 : index
    %copy_row = arith.addi %m0, %copy_m : index
    %copy_bk = arith.divui %t, %c16 : index
    %t16 = arith.remui %t, %c16 : index
    %copy_n = arith.muli %t16, %c4 : index
    %copy_column = arith.addi %n0, %copy_n : index
    // What it computes.
    %row = arith.muli %copy_bk, %c4 : index
    %row1 = arith.addi %row, %c1 : index
    %row2 = arith.addi %row, %c2 : index
    %row3 = arith.addi %row, %c3 : index
    %a0 = nvgpu.device_async_copy %a[%copy_row, %copy_ak], %as[%c0, %copy_m, %copy_ak], 4 {bypassL1} : !global to !left
    %b0 = nvgpu.device_async_copy %b[%copy_bk, %copy_column], %bs[%c0, %copy_bk, %copy_n], 4 {bypassL1} : !global to !right
    %first = nvgpu.device_async_create_group %a0, %b0
    %r:4 = scf.for %k = %c0 to %c256 step %c16
        iter_args(%s0 = %zero, %s1 = %zero, %s2 = %zero, %s3 = %zero)
        -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
      nvgpu.device_async_wait %first {numGroups = 0 : i32}
      gpu.barrier
      %step = arith.divui %k, %c16 : index
      %stage = arith.remui %step, %c2 : index
      %next = arith.addi %k, %c16 : index
      %more = arith.cmpi ult, %next, %c256 : index
      scf.if %more {
        %other = arith.subi %c1, %stage : index
        %ak = arith.addi %next, %copy_ak : index
        %bk = arith.addi %next, %copy_bk : index
        %an = nvgpu.device_async_copy %a[%copy_row, %ak], %as[%other, %copy_m, %copy_ak], 4 {bypassL1} : !global to !left
        %bn = nvgpu.device_async_copy %b[%bk, %copy_column], %bs[%other, %copy_bk, %copy_n], 4 {bypassL1} : !global to !right
        %group = nvgpu.device_async_create_group %an, %bn
      }
      %sums:4 = scf.for %j = %c0 to %c16 step %c1
          iter_args(%u0 = %s0, %u1 = %s1, %u2 = %s2, %u3 = %s3)
          -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
        %right = vector.load %bs[%stage, %j, %copy_n] {alignment = 16 : i64} : !right, vector<4xf32>
        %l0 = memref.load %as[%stage, %row, %j] : !left
        %l1 = memref.load %as[%stage, %row1, %j] : !left
        %l2 = memref.load %as[%stage, %row2, %j] : !left
        %l3 = memref.load %as[%stage, %row3, %j] : !left
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
    gpu.return
  }
}
