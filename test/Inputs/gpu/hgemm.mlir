// C = A B, 256x256 f16 with sums in f32, on tensor cores by mma.sync: blocks of 64x32 by four warps,
// 16x32 each; asynchronous copies of 32 columns of A and rows of B at a time, ldmatrix from there.
!left = memref<256x256xf16>
!result = memref<256x256xf32>
!shared_left = memref<64x40xf16, #gpu.address_space<workgroup>>
!shared_right = memref<32x40xf16, #gpu.address_space<workgroup>>
!sum = vector<2x2xf32>
gpu.module @kernels {
  gpu.func @hgemm(%a: !left {llvm.noalias, llvm.align = 16 : i64},
                  %b: !left {llvm.noalias, llvm.align = 16 : i64},
                  %c: !result {llvm.noalias, llvm.align = 16 : i64})
      workgroup(%as: !shared_left, %bs: !shared_right) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c24 = arith.constant 24 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %zero = arith.constant dense<0.0> : !sum
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %t = gpu.thread_id x
    %m0 = arith.muli %by, %c64 : index
    %n0 = arith.muli %bx, %c32 : index
    // Copies: eight elements of a row, four threads a row; 32 rows at a time.
    %line = arith.divui %t, %c4 : index
    %line32 = arith.addi %line, %c32 : index
    %t4 = arith.remui %t, %c4 : index
    %part = arith.muli %t4, %c8 : index
    %row = arith.addi %m0, %line : index
    %row32 = arith.addi %m0, %line32 : index
    %column = arith.addi %n0, %part : index
    // ldmatrix: a lane names a row of eight elements.
    %lane = arith.remui %t, %c32 : index
    %warp = arith.divui %t, %c32 : index
    %wm = arith.muli %warp, %c16 : index
    %lane16 = arith.remui %lane, %c16 : index
    %half = arith.divui %lane, %c16 : index
    %half8 = arith.muli %half, %c8 : index
    %lane_row = arith.addi %wm, %lane16 : index
    %right_column = arith.addi %half8, %c16 : index
    %r:4 = scf.for %k = %c0 to %c256 step %c32
        iter_args(%s0 = %zero, %s1 = %zero, %s2 = %zero, %s3 = %zero) -> (!sum, !sum, !sum, !sum) {
      %ak = arith.addi %k, %part : index
      %bk = arith.addi %k, %line : index
      %a0 = nvgpu.device_async_copy %a[%row, %ak], %as[%line, %part], 8 {bypassL1} : !left to !shared_left
      %a1 = nvgpu.device_async_copy %a[%row32, %ak], %as[%line32, %part], 8 {bypassL1} : !left to !shared_left
      %b0 = nvgpu.device_async_copy %b[%bk, %column], %bs[%line, %part], 8 {bypassL1} : !left to !shared_right
      %group = nvgpu.device_async_create_group %a0, %a1, %b0
      nvgpu.device_async_wait %group {numGroups = 0 : i32}
      gpu.barrier
      %sums:4 = scf.for %j = %c0 to %c32 step %c16
          iter_args(%u0 = %s0, %u1 = %s1, %u2 = %s2, %u3 = %s3) -> (!sum, !sum, !sum, !sum) {
        %left_column = arith.addi %j, %half8 : index
        %x = nvgpu.ldmatrix %as[%lane_row, %left_column] {numTiles = 4 : i32, transpose = false} : !shared_left -> vector<4x2xf16>
        %right_row = arith.addi %j, %lane16 : index
        %y = nvgpu.ldmatrix %bs[%right_row, %half8] {numTiles = 4 : i32, transpose = true} : !shared_right -> vector<4x2xf16>
        %z = nvgpu.ldmatrix %bs[%right_row, %right_column] {numTiles = 4 : i32, transpose = true} : !shared_right -> vector<4x2xf16>
        %y0 = vector.extract_strided_slice %y {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
        %y1 = vector.extract_strided_slice %y {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
        %z0 = vector.extract_strided_slice %z {offsets = [0], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
        %z1 = vector.extract_strided_slice %z {offsets = [2], sizes = [2], strides = [1]} : vector<4x2xf16> to vector<2x2xf16>
        %w0 = nvgpu.mma.sync (%x, %y0, %u0) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, !sum) -> !sum
        %w1 = nvgpu.mma.sync (%x, %y1, %u1) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, !sum) -> !sum
        %w2 = nvgpu.mma.sync (%x, %z0, %u2) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, !sum) -> !sum
        %w3 = nvgpu.mma.sync (%x, %z1, %u3) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, !sum) -> !sum
        scf.yield %w0, %w1, %w2, %w3 : !sum, !sum, !sum, !sum
      }
      gpu.barrier
      scf.yield %sums#0, %sums#1, %sums#2, %sums#3 : !sum, !sum, !sum, !sum
    }
    // A lane holds two neighbours of two rows, eight apart, of every 16x8 results.
    %quad = arith.divui %lane, %c4 : index
    %in_quad = arith.remui %lane, %c4 : index
    %pair = arith.muli %in_quad, %c2 : index
    %top = arith.addi %m0, %wm : index
    %o0 = arith.addi %top, %quad : index
    %o1 = arith.addi %o0, %c8 : index
    %p0 = arith.addi %n0, %pair : index
    %p1 = arith.addi %p0, %c8 : index
    %p2 = arith.addi %p0, %c16 : index
    %p3 = arith.addi %p0, %c24 : index
    %e0 = vector.extract %r#0[0] : vector<2xf32> from !sum
    %e1 = vector.extract %r#0[1] : vector<2xf32> from !sum
    %e2 = vector.extract %r#1[0] : vector<2xf32> from !sum
    %e3 = vector.extract %r#1[1] : vector<2xf32> from !sum
    %e4 = vector.extract %r#2[0] : vector<2xf32> from !sum
    %e5 = vector.extract %r#2[1] : vector<2xf32> from !sum
    %e6 = vector.extract %r#3[0] : vector<2xf32> from !sum
    %e7 = vector.extract %r#3[1] : vector<2xf32> from !sum
    vector.store %e0, %c[%o0, %p0] {alignment = 8 : i64} : !result, vector<2xf32>
    vector.store %e1, %c[%o1, %p0] {alignment = 8 : i64} : !result, vector<2xf32>
    vector.store %e2, %c[%o0, %p1] {alignment = 8 : i64} : !result, vector<2xf32>
    vector.store %e3, %c[%o1, %p1] {alignment = 8 : i64} : !result, vector<2xf32>
    vector.store %e4, %c[%o0, %p2] {alignment = 8 : i64} : !result, vector<2xf32>
    vector.store %e5, %c[%o1, %p2] {alignment = 8 : i64} : !result, vector<2xf32>
    vector.store %e6, %c[%o0, %p3] {alignment = 8 : i64} : !result, vector<2xf32>
    vector.store %e7, %c[%o1, %p3] {alignment = 8 : i64} : !result, vector<2xf32>
    gpu.return
  }
}
