// A persistent kernel: each block runs the rows of a table that are its own. A row is eight i32: kind
// of task, offsets of two operands and the result in the arena, the counter to wait for and how far
// (-1: none), the counter to raise, spare. The arena is no noalias: other blocks write it meanwhile.
!arena = memref<1048576xf32>
!shared = memref<8xf32, #gpu.address_space<workgroup>>
gpu.module @kernels {
  func.func private @rectify(%arena: !arena, %shared: !shared, %t: index, %x: index, %y: index, %out: index) attributes {always_inline} {
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %c4 = arith.constant 4 : index
    %o = arith.muli %t, %c4 : index
    %from = arith.addi %x, %o : index
    %to = arith.addi %out, %o : index
    %v = vector.load %arena[%from] {alignment = 16 : i64} : !arena, vector<4xf32>
    %r = arith.maxnumf %v, %zero : vector<4xf32>
    vector.store %r, %arena[%to] {alignment = 16 : i64} : !arena, vector<4xf32>
    return
  }
  func.func private @add(%arena: !arena, %shared: !shared, %t: index, %x: index, %y: index, %out: index) attributes {always_inline} {
    %c4 = arith.constant 4 : index
    %o = arith.muli %t, %c4 : index
    %from = arith.addi %x, %o : index
    %and = arith.addi %y, %o : index
    %to = arith.addi %out, %o : index
    %v = vector.load %arena[%from] {alignment = 16 : i64} : !arena, vector<4xf32>
    %w = vector.load %arena[%and] {alignment = 16 : i64} : !arena, vector<4xf32>
    %r = arith.addf %v, %w : vector<4xf32>
    vector.store %r, %arena[%to] {alignment = 16 : i64} : !arena, vector<4xf32>
    return
  }
  // The sum over 64 threads: a named barrier for two of the eight warps.
  func.func private @sum(%arena: !arena, %shared: !shared, %t: index, %x: index, %y: index, %out: index) attributes {no_inline} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %lanes = arith.constant 32 : i32
    %barrier = arith.constant 1 : i32
    %threads = arith.constant 64 : i32
    %active = arith.cmpi ult, %t, %c64 : index
    scf.if %active {
      %from = arith.addi %x, %t : index
      %v = memref.load %arena[%from] : !arena
      %d16 = arith.constant 16 : i32
      %v16, %p16 = gpu.shuffle xor %v, %d16, %lanes : f32
      %s16 = arith.addf %v, %v16 : f32
      %d8 = arith.constant 8 : i32
      %v8, %p8 = gpu.shuffle xor %s16, %d8, %lanes : f32
      %s8 = arith.addf %s16, %v8 : f32
      %d4 = arith.constant 4 : i32
      %v4, %p4 = gpu.shuffle xor %s8, %d4, %lanes : f32
      %s4 = arith.addf %s8, %v4 : f32
      %d2 = arith.constant 2 : i32
      %v2, %p2 = gpu.shuffle xor %s4, %d2, %lanes : f32
      %s2 = arith.addf %s4, %v2 : f32
      %d1 = arith.constant 1 : i32
      %v1, %p1 = gpu.shuffle xor %s2, %d1, %lanes : f32
      %s1 = arith.addf %s2, %v1 : f32
      %warp = arith.divui %t, %c32 : index
      memref.store %s1, %shared[%warp] : !shared
      nvvm.barrier id = %barrier number_of_threads = %threads
      %a = memref.load %shared[%c0] : !shared
      %b = memref.load %shared[%c1] : !shared
      %total = arith.addf %a, %b : f32
      %first = arith.cmpi eq, %t, %c0 : index
      scf.if %first {
        memref.store %total, %arena[%out] : !arena
      }
    }
    return
  }
  gpu.func @program(%arena: !arena, %table: memref<4096x8xi32>, %starts: memref<133xi32>, %counters: !llvm.ptr)
      workgroup(%shared: !shared) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c6 = arith.constant 6 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %pause = arith.constant 64 : i32
    %t = gpu.thread_id x
    %block = gpu.block_id x
    %leads = arith.cmpi eq, %t, %c0 : index
    %after = arith.addi %block, %c1 : index
    %low = memref.load %starts[%block] : memref<133xi32>
    %high = memref.load %starts[%after] : memref<133xi32>
    %from = arith.index_cast %low : i32 to index
    %to = arith.index_cast %high : i32 to index
    scf.for %i = %from to %to step %c1 {
      %kind = memref.load %table[%i, %c0] : memref<4096x8xi32>
      %x = memref.load %table[%i, %c1] : memref<4096x8xi32>
      %y = memref.load %table[%i, %c2] : memref<4096x8xi32>
      %o = memref.load %table[%i, %c3] : memref<4096x8xi32>
      %wait = memref.load %table[%i, %c4] : memref<4096x8xi32>
      %need = memref.load %table[%i, %c5] : memref<4096x8xi32>
      %signal = memref.load %table[%i, %c6] : memref<4096x8xi32>
      %waits = arith.cmpi sge, %wait, %zero : i32
      %asks = arith.andi %waits, %leads : i1
      scf.if %asks {
        %counter = llvm.getelementptr %counters[%wait] : (!llvm.ptr, i32) -> !llvm.ptr, i32
        scf.while : () -> () {
          %count = llvm.load %counter atomic syncscope("device") acquire {alignment = 4 : i64} : !llvm.ptr -> i32
          %less = arith.cmpi slt, %count, %need : i32
          scf.condition(%less)
        } do {
          nvvm.nanosleep %pause
          scf.yield
        }
      }
      gpu.barrier
      %task = arith.index_cast %kind : i32 to index
      %xi = arith.index_cast %x : i32 to index
      %yi = arith.index_cast %y : i32 to index
      %oi = arith.index_cast %o : i32 to index
      scf.index_switch %task
      case 0 {
        func.call @rectify(%arena, %shared, %t, %xi, %yi, %oi) : (!arena, !shared, index, index, index, index) -> ()
        scf.yield
      }
      case 1 {
        func.call @add(%arena, %shared, %t, %xi, %yi, %oi) : (!arena, !shared, index, index, index, index) -> ()
        scf.yield
      }
      case 2 {
        func.call @sum(%arena, %shared, %t, %xi, %yi, %oi) : (!arena, !shared, index, index, index, index) -> ()
        scf.yield
      }
      default {
      }
      gpu.barrier
      scf.if %leads {
        %counter = llvm.getelementptr %counters[%signal] : (!llvm.ptr, i32) -> !llvm.ptr, i32
        llvm.fence syncscope("device") release
        %old = llvm.atomicrmw add %counter, %one syncscope("device") monotonic : !llvm.ptr, i32
      }
    }
    gpu.return
  }
}
