// C = A B of 1024x1024 f16 with sums in f32, blocks of 128x128 by two warpgroups: one thread of the
// second feeds a ring of four stages by TMA, the first multiplies by wgmma.
!barriers = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 4>
!map_a = !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!map_b = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!dynamic = memref<?xi8, #gpu.address_space<workgroup>>
!tile_a = memref<128x64xf16, #gpu.address_space<workgroup>>
!half_b = memref<64x64xf16, #gpu.address_space<workgroup>>
!tile_b = memref<64x128xf16, #gpu.address_space<workgroup>>
!sums = !nvgpu.warpgroup.accumulator<fragmented = vector<128x128xf32>>
gpu.module @kernels {
  gpu.func @hopper(%pa: !llvm.ptr {rcompiler.tma}, %pb: !llvm.ptr {rcompiler.tma},
                   %c: memref<1024x1024xf32> {llvm.align = 16 : i64}) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %a = builtin.unrealized_conversion_cast %pa : !llvm.ptr to !map_a
    %b = builtin.unrealized_conversion_cast %pb : !llvm.ptr to !map_b
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %half_bytes = arith.constant 8192 : index
    %stage_bytes = arith.constant 16384 : index
    %start_b = arith.constant 65536 : index
    %transaction = arith.constant 32768 : index
    %ticks = arith.constant 10000000 : index
    %false = arith.constant false
    %true = arith.constant true
    %t = gpu.thread_id x
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %m0 = arith.muli %by, %c128 : index
    %n0 = arith.muli %bx, %c128 : index
    %n1 = arith.addi %n0, %c64 : index
    %group = arith.divui %t, %c128 : index
    %in_group = arith.remui %t, %c128 : index
    %leads = arith.cmpi eq, %in_group, %c0 : index
    %smem = gpu.dynamic_shared_memory : !dynamic
    %full = nvgpu.mbarrier.create -> !barriers
    %empty = nvgpu.mbarrier.create -> !barriers
    %first = arith.cmpi eq, %t, %c0 : index
    scf.if %first {
      scf.for %i = %c0 to %c4 step %c1 {
        nvgpu.mbarrier.init %full[%i], %c1 : !barriers
        nvgpu.mbarrier.init %empty[%i], %c1 : !barriers
      }
      nvgpu.tma.prefetch.descriptor %a : !map_a
      nvgpu.tma.prefetch.descriptor %b : !map_b
      nvvm.fence.mbarrier.init
    }
    gpu.barrier
    %feeds = arith.cmpi eq, %group, %c1 : index
    scf.if %feeds {
      nvvm.setmaxregister decrease 40
      scf.if %leads {
        %end = scf.for %k = %c0 to %c16 step %c1 iter_args(%phase = %true) -> (i1) {
          %s = arith.remui %k, %c4 : index
          nvgpu.mbarrier.try_wait.parity %empty[%s], %phase, %ticks : !barriers
          %k0 = arith.muli %k, %c64 : index
          %at_a = arith.muli %s, %stage_bytes : index
          %at_b = arith.addi %at_a, %start_b : index
          %at_b1 = arith.addi %at_b, %half_bytes : index
          %va = memref.view %smem[%at_a][] : !dynamic to !tile_a
          %vb = memref.view %smem[%at_b][] : !dynamic to !half_b
          %vb1 = memref.view %smem[%at_b1][] : !dynamic to !half_b
          nvgpu.mbarrier.arrive.expect_tx %full[%s], %transaction : !barriers
          nvgpu.tma.async.load %a[%k0, %m0], %full[%s] to %va : !map_a, !barriers -> !tile_a
          nvgpu.tma.async.load %b[%n0, %k0], %full[%s] to %vb : !map_b, !barriers -> !half_b
          nvgpu.tma.async.load %b[%n1, %k0], %full[%s] to %vb1 : !map_b, !barriers -> !half_b
          %next = arith.addi %s, %c1 : index
          %wraps = arith.cmpi eq, %next, %c4 : index
          %turned = arith.xori %phase, %wraps : i1
          scf.yield %turned : i1
        }
      }
    } else {
      nvvm.setmaxregister increase 232
      %zero = nvgpu.warpgroup.mma.init.accumulator -> !sums
      %r:2 = scf.for %k = %c0 to %c16 step %c1 iter_args(%sum = %zero, %phase = %false) -> (!sums, i1) {
        %s = arith.remui %k, %c4 : index
        nvgpu.mbarrier.try_wait.parity %full[%s], %phase, %ticks : !barriers
        %at_a = arith.muli %s, %stage_bytes : index
        %at_b = arith.addi %at_a, %start_b : index
        %va = memref.view %smem[%at_a][] : !dynamic to !tile_a
        %vb = memref.view %smem[%at_b][] : !dynamic to !tile_b
        %da = nvgpu.warpgroup.generate.descriptor %va, %a : !tile_a, !map_a -> !nvgpu.warpgroup.descriptor<tensor = !tile_a>
        %db = nvgpu.warpgroup.generate.descriptor %vb, %b : !tile_b, !map_b -> !nvgpu.warpgroup.descriptor<tensor = !tile_b>
        %more = nvgpu.warpgroup.mma %da, %db, %sum {transposeB} : <tensor = !tile_a>, <tensor = !tile_b>, !sums -> !sums
        // One group stays in flight: the stage before this one is free.
        %later = arith.cmpi ne, %k, %c0 : index
        %frees = arith.andi %leads, %later : i1
        scf.if %frees {
          %before = arith.subi %k, %c1 : index
          %sb = arith.remui %before, %c4 : index
          %token = nvgpu.mbarrier.arrive %empty[%sb] : !barriers -> !nvgpu.mbarrier.token
        }
        %next = arith.addi %s, %c1 : index
        %wraps = arith.cmpi eq, %next, %c4 : index
        %turned = arith.xori %phase, %wraps : i1
        scf.yield %more, %turned : !sums, i1
      }
      nvvm.wgmma.wait.group.sync.aligned 0
      %tile = memref.subview %c[%m0, %n0] [128, 128] [1, 1] : memref<1024x1024xf32> to memref<128x128xf32, strided<[1024, 1], offset: ?>>
      nvgpu.warpgroup.mma.store %r#0, %tile : !sums to memref<128x128xf32, strided<[1024, 1], offset: ?>>
    }
    gpu.return
  }
}
