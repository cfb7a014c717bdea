// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-to-gpu' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=v100},vdevice-to-gpu' --split-input-file | filecheck %s --check-prefix OLD
// RUN: rc-opt %s -p 'vdevice-attach-device{device=a100 precision=tf32},vdevice-to-gpu' --split-input-file | filecheck %s --check-prefix TF32
// RUN: rc-opt %s -p 'vdevice-attach-device{device=mi300x},vdevice-to-gpu' --split-input-file | filecheck %s --check-prefix AMD
// RUN: rc-opt %s -p 'vdevice-attach-device{device=mi300x},vdevice-to-gpu' --split-input-file | filecheck %s --check-prefix NONE
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-to-gpu{entry=false}' --split-input-file | filecheck %s --check-prefix ALONE
// RUN: rc-opt %s -p 'vdevice-attach-device{device=a100},vdevice-to-gpu' --split-input-file | filecheck %s --check-prefix AMPERE
// NONE-NOT: {{nvvm|"device"}}

#id = affine_map<(d0) -> (d0)>

// 300 elements, tasks of 200: the second one has 100. A block of 256 threads has 8 groups of 32: register
// tiles of 64 are cut in two, so that more than 3 groups get some. The last elements of a task are of some threads only;
// what the others read there is in bounds.
// Functions alone can be called from other modules.
// ALONE:       gpu.module @rcompiler attributes {rcompiler.shared = 0 : i64}
// ALONE-NEXT:  llvm.mlir.global external @veu_shared()
// ALONE-NEXT:  func.func @k_abs({{.*}}) attributes {no_inline}
// ALONE-NOT:   @give_up
// ALONE-NOT:   @veu(
// CHECK:       gpu.module @rcompiler attributes {rcompiler.shared = 0 : i64}
// CHECK-LABEL: func.func private @k_abs(%arg0: !llvm.ptr<1>, %arg1: !llvm.ptr<1>, %arg2: !llvm.ptr<1>, %arg3: i64, %arg4: i64, %arg5: i64, %arg6: !llvm.ptr<3>, %arg7: !llvm.ptr<1>) attributes {no_inline}
// CHECK:       %[[X:.*]] = gpu.thread_id x
// CHECK:       %[[WORD:.*]] = arith.index_cast %[[X]] : index to i32
// CHECK:       %[[LOW:.*]] = arith.andi %[[WORD]], %c255_i32
// CHECK:       %[[T:.*]] = arith.extui %[[LOW]] : i32 to i64
// CHECK:       %[[LANE:.*]] = arith.remui %[[T]], %c32_i64
// CHECK:       %[[GROUP:.*]] = arith.divui %[[T]], %c32_i64
// CHECK:       %[[SLOT:.*]] = llvm.getelementptr %arg0[0]
// CHECK:       %[[BASE:.*]] = llvm.load %[[SLOT]] {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK:       %[[BYTE_SLOT:.*]] = llvm.getelementptr %arg0[1]
// CHECK:       %[[BYTE:.*]] = llvm.load %[[BYTE_SLOT]] {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK:       %[[ENTRY:.*]] = llvm.getelementptr %arg1[%[[BASE]]]
// CHECK:       %[[MEMORY:.*]] = llvm.load %[[ENTRY]] {alignment = 8 : i64} : !llvm.ptr<1> -> !llvm.ptr<1>
// CHECK:       llvm.getelementptr %[[MEMORY]][%[[BYTE]]] {{.*}} i8
// CHECK-DAG:   arith.minsi %[[LANE]], %c7_i64
// CHECK-DAG:   %[[ACTIVE:.*]] = arith.cmpi slt, %[[LANE]], %c8_i64
// CHECK:       scf.for %[[I:.*]] = {{.*}} {
// CHECK:         arith.muli %[[I]], %arg5
// CHECK:         %[[TASK:.*]] = arith.trunci {{.*}} : i64 to i32
// CHECK:         %[[SMALL:.*]] = arith.andi %[[TASK]], %c1_i32
// CHECK:         arith.extui %[[SMALL]] : i32 to i64
// CHECK:         %[[LAST:.*]] = arith.cmpi eq
// CHECK:         scf.if %[[LAST]]
// CHECK:         } else {
// CHECK:           scf.for %{{.*}} = %[[GROUP]] to %c6_i64 step %c8_i64
// CHECK-COUNT-1:     llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK:           scf.for %{{.*}} = %[[GROUP]] to %c1_i64 step %c8_i64
// CHECK-NEXT:        scf.if %[[ACTIVE]] {
// CHECK-NEXT:          llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK-NOT:   gpu.barrier
// CHECK:       return
"rtask.kernel"() ({
^bb0(%x: tensor<300xf32>):
  %e = tensor.empty() : tensor<300xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<300xf32>) outs(%e : tensor<300xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<300xf32>
  "rtask.yield"(%y) : (tensor<300xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 200, 0, 200>]], register_tile = array<i64: 64>, registers = 1 : i64,
    source = "test", sym_name = "k_abs", tasks = 2 : i64, tile = array<i64: 200>, vector_dim = 0 : i64,
    writes = [[array<i64: 0, 200, 0, 200>]]} : () -> ()

// -----

// A product of 32 x 64, the operands in shared memory in parts of 32 steps, as copies of 16 bytes of what lies in
// memory: of three parts before the first one is multiplied, and of one more in each. A line of x has the 32 steps of a
// position and 4 elements more, one of w the 64 positions of a step; both are read 16 bytes at a time. One barrier for
// each part, behind the wait for all copies but those of the two parts that follow.
// CHECK:       gpu.module @rcompiler attributes {rcompiler.shared = 51200 : i64}
// CHECK-LABEL: func.func private @k_product
// CHECK:       gpu.barrier
// CHECK:       arith.muli %{{.*}}, %c36_i64
// CHECK:       arith.muli %{{.*}}, %c128_i64
// CHECK-COUNT-3: nvvm.cp.async.shared.global %{{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
// CHECK-NEXT:  nvvm.cp.async.commit.group
// CHECK-COUNT-3: nvvm.cp.async.shared.global %{{.*}}, 16, cache = cg
// CHECK-NEXT:  nvvm.cp.async.commit.group
// CHECK-COUNT-3: nvvm.cp.async.shared.global %{{.*}}, 16, cache = cg
// CHECK-NEXT:  nvvm.cp.async.commit.group
// CHECK-NOT:   nvvm.cp.async.shared
// CHECK:       %{{.*}} = scf.for %[[PART:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args({{.*}}%cst
// CHECK-NEXT:    nvvm.cp.async.wait.group 2
// CHECK-NEXT:    gpu.barrier
// CHECK:         %[[NEW:.*]] = arith.addi %[[PART]], %c3_i64
// CHECK:         %[[THERE:.*]] = arith.cmpi slt, %[[NEW]], %c4_i64
// CHECK:         arith.remui %[[NEW]], %c4_i64
// CHECK:         scf.if %[[THERE]] {
// CHECK-COUNT-3:   nvvm.cp.async.shared.global %{{.*}}, 16, cache = cg
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         arith.remui %[[PART]], %c4_i64
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// CHECK:         math.fma
// CHECK-NOT:     gpu.barrier
// CHECK:         scf.yield
// CHECK-COUNT-2: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK:       return
// Before compute capability 8.0 the elements go by way of registers: those of a part are fetched while the part before
// is multiplied, and stored to one of two buffers, 16 bytes at a time as well.
// OLD:         gpu.module @rcompiler attributes {rcompiler.shared = [[BYTES:[1-9][0-9]*]] : i64}
// OLD-LABEL:   func.func private @k_product
// OLD-NOT:     nvvm.cp.async
// OLD:         gpu.barrier
// OLD:         %{{.*}} = scf.for %[[PART:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args({{.*}}%cst
// OLD:           arith.remui %[[PART]], %c2_i64
// OLD:           llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// OLD:           gpu.barrier
// OLD:           llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// OLD:           llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xf32>
// OLD:           math.fma
// OLD-NOT:       gpu.barrier
// OLD:           scf.yield
// OLD:         return
// For matrix units the elements are copied as well, and rounded when they are read: those of x four steps at a time, by
// ldmatrix, which turns nothing; those of w, whose neighbours are positions, one by one.
// TF32-LABEL:  func.func private @k_product
// TF32:        nvvm.cp.async.shared.global %{{.*}}, 16, cache = cg
// TF32:        scf.for
// TF32:          nvvm.cp.async.wait.group 2
// TF32-NEXT:     gpu.barrier
// TF32:          nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4 : i32
// TF32:          nvvm.convert.float.to.tf32 {{.*}}rna
// TF32:          llvm.load {{.*}} : !llvm.ptr<3> -> f32
// TF32:          nvvm.convert.float.to.tf32 {{.*}}rna
// TF32:          nvvm.mma.sync
// TF32-NOT:      gpu.barrier
// TF32:          scf.yield
// TF32:        } {loop_annotation = #loop_annotation
// TF32:        llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
// TF32:        return
"rtask.kernel"() ({
^bb0(%x: tensor<32x128xf32>, %w: tensor<128x64xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<32x128xf32>, tensor<128x64xf32>) outs(%f : tensor<32x64xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<32x64xf32>
  "rtask.yield"(%a) : (tensor<32x64xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 4, 64>, registers = 4 : i64, source = "test", sym_name = "k_product", tasks = 1 : i64,
    tile = array<i64: 32, 64>, vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// x is negated on its way, so its elements go by way of registers; those of w, of which the last 8 columns are padding,
// are copied 16 bytes at a time, or none of them. Both in the same loop: what is kept and what is copied is there behind
// one barrier.
// CHECK-LABEL: func.func private @k_mixed
// CHECK:       %[[THERE:.*]] = arith.cmpi slt, %{{.*}}, %c56_i64
// CHECK:       %[[BYTES:.*]] = arith.select %[[THERE]], %c16_i32, %c0_i32
// CHECK:       nvvm.cp.async.shared.global %{{.*}}, 16, cache = cg, %[[BYTES]] : !llvm.ptr<3>, !llvm.ptr<1>, i32
// CHECK:       arith.negf
// CHECK:       scf.for
// CHECK:         llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK:         nvvm.cp.async.wait.group 2
// CHECK-NEXT:    gpu.barrier
// CHECK:         nvvm.cp.async.shared.global
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         arith.negf
// CHECK:         math.fma
// CHECK-NOT:     gpu.barrier
// CHECK:         scf.yield
// CHECK:       return
"rtask.kernel"() ({
^bb0(%x: tensor<32x128xf32>, %v: tensor<128x56xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %d = tensor.empty() : tensor<32x128xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x128xf32>) outs(%d : tensor<32x128xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.negf %l : f32
    linalg.yield %s : f32
  } -> tensor<32x128xf32>
  %w = tensor.pad %v low[0, 0] high[0, 8] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<128x56xf32> to tensor<128x64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%n, %w : tensor<32x128xf32>, tensor<128x64xf32>) outs(%f : tensor<32x64xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<32x64xf32>
  "rtask.yield"(%a) : (tensor<32x64xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 4, 64>, registers = 4 : i64, source = "test", sym_name = "k_mixed", tasks = 1 : i64,
    tile = array<i64: 32, 64>, vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A reduction along contiguous memory: the 32 lanes of a warp add every 32nd element each, and what they have by
// exchange. The rest, 40 = 32 + 8, is of the first 8 lanes.
// CHECK-LABEL: func.func private @k_sum
// CHECK:       %[[REST:.*]] = arith.cmpi slt, %{{.*}}, %c8_i64
// CHECK:       arith.select %[[REST]]
// CHECK:       gpu.shuffle  xor %{{.*}}, %c16_i32, %c32_i32
// CHECK:       gpu.shuffle  xor %{{.*}}, %c8_i32, %c32_i32
// CHECK:       gpu.shuffle  xor %{{.*}}, %c4_i32, %c32_i32
// CHECK:       gpu.shuffle  xor %{{.*}}, %c2_i32, %c32_i32
// CHECK:       gpu.shuffle  xor %{{.*}}, %c1_i32, %c32_i32
// CHECK:       llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK:       return
// A warp of 64 lanes: the row is shorter than one.
// AMD-LABEL:   func.func private @k_sum
// AMD:         %[[REST:.*]] = arith.cmpi slt, %{{.*}}, %c40_i64
// AMD:         arith.select %[[REST]]
// AMD:         gpu.shuffle  xor %{{.*}}, %c32_i32, %c64_i32
// AMD:         gpu.shuffle  xor %{{.*}}, %c16_i32, %c64_i32
// AMD:         gpu.shuffle  xor %{{.*}}, %c8_i32, %c64_i32
// AMD:         gpu.shuffle  xor %{{.*}}, %c4_i32, %c64_i32
// AMD:         gpu.shuffle  xor %{{.*}}, %c2_i32, %c64_i32
// AMD:         gpu.shuffle  xor %{{.*}}, %c1_i32, %c64_i32
// AMD:         return
"rtask.kernel"() ({
^bb0(%x: tensor<16x40xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16xf32>) -> tensor<16xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<16x40xf32>) outs(%f : tensor<16xf32>) {
  ^bb0(%l: f32, %acc: f32):
    %s = arith.addf %acc, %l : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  "rtask.yield"(%a) : (tensor<16xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "reduction", lanes = 1 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1>,
    registers = 1 : i64, source = "test", sym_name = "k_sum", tasks = 1 : i64, tile = array<i64: 16>, vector_dim = -1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

#two = affine_map<(m, n) -> (m, n)>
#turn = affine_map<(m, n) -> (n, m)>

// A stage lies in shared memory: a barrier before it is written, for those who still read that of the task before, and
// one before others read what a thread has kept.
// CHECK:       gpu.module @rcompiler attributes {rcompiler.shared = 1024 : i64}
// CHECK-LABEL: func.func private @k_stage
// CHECK:       gpu.barrier
// CHECK:       math.fma
// CHECK:       llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK:       gpu.barrier
// CHECK:       llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK:       llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK:       return
"rtask.kernel"() ({
^bb0(%x: tensor<16x16xf32>):
  %e = tensor.empty() : tensor<16x16xf32>
  %p = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.exp %l : f32
    linalg.yield %s : f32
  } -> tensor<16x16xf32>
  %k = "rtask.stage"(%p) {axes = array<i64: -1, -1>, register_tile = array<i64: 1, 16>, order = array<i64: 0, 1>, vector_dim = 1 : i64, lanes = 16 : i64} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %y = linalg.generic {indexing_maps = [#turn, #two], iterator_types = ["parallel", "parallel"]} ins(%k : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.negf %l : f32
    linalg.yield %s : f32
  } -> tensor<16x16xf32>
  "rtask.yield"(%y) : (tensor<16x16xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "elementwise", lanes = 16 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 16>,
    registers = 1 : i64, source = "test", sym_name = "k_stage", tasks = 1 : i64, tile = array<i64: 16, 16>, vector_dim = 1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

#row = affine_map<(m, n) -> (m, n)>

// Stages that do not read each other are computed side by side: there is no barrier in between, and other threads begin
// with the second one. Only the two groups that have anything to do meet, at a barrier of their own; on AMD GPUs the
// whole block does.
// CHECK-LABEL: func.func private @k_gates
// CHECK:       %[[X:.*]] = gpu.thread_id x
// CHECK:       %[[MEETS:.*]] = arith.cmpi ult, %[[X]], %c64
// CHECK-NEXT:  scf.if %[[MEETS]] {
// CHECK:         %[[GROUP:.*]] = arith.divui
// CHECK:         nvvm.barrier id = %c1_i32 number_of_threads = %c64_i32
// CHECK:         scf.for %{{.*}} = %[[GROUP]] to
// CHECK-NEXT:      llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK-NOT:   barrier
// CHECK:         %[[AHEAD:.*]] = arith.addi %[[GROUP]], %c7_i64
// CHECK-NEXT:    %[[NEXT:.*]] = arith.remui %[[AHEAD]], %c8_i64
// CHECK:         scf.for %{{.*}} = %[[NEXT]] to
// CHECK-NEXT:      llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK-NEXT:    }
// CHECK-NEXT:    nvvm.barrier id = %c1_i32 number_of_threads = %c64_i32
// CHECK:         llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK-NOT:   barrier
// CHECK:       return
// AMD-LABEL:   func.func private @k_gates
// AMD-COUNT-2: gpu.barrier
// AMD:         return
"rtask.kernel"() ({
^bb0(%x: tensor<1x32xf32>):
  %e = tensor.empty() : tensor<1x32xf32>
  %p = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x32xf32>) outs(%e : tensor<1x32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  %k = "rtask.stage"(%p) {axes = array<i64: -1, -1>, register_tile = array<i64: 1, 32>, order = array<i64: 0, 1>, vector_dim = 1 : i64, lanes = 32 : i64} : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %q = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x32xf32>) outs(%e : tensor<1x32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.negf %l : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  %g = "rtask.stage"(%q) {axes = array<i64: -1, -1>, register_tile = array<i64: 1, 32>, order = array<i64: 0, 1>, vector_dim = 1 : i64, lanes = 32 : i64} : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %y = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel", "parallel"]} ins(%k, %g : tensor<1x32xf32>, tensor<1x32xf32>) outs(%e : tensor<1x32xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  "rtask.yield"(%y) : (tensor<1x32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "elementwise", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>,
    registers = 1 : i64, source = "test", sym_name = "k_gates", tasks = 1 : i64, tile = array<i64: 1, 32>, vector_dim = 1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// What must be done in order is done by the first thread.
// CHECK-LABEL: func.func private @k_in_order
// CHECK:       %[[X:.*]] = gpu.thread_id x
// CHECK:       %[[T:.*]] = arith.index_cast %[[X]]
// CHECK:       %[[FIRST:.*]] = arith.cmpi eq, %[[T]], %c0_i64
// CHECK:       scf.if %[[FIRST]] {
// CHECK:         scf.for
// CHECK:           llvm.store {{.*}} : f32, !llvm.ptr<1>
// CHECK:       return
"rtask.kernel"() ({
^bb0(%x: tensor<4xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %x) -> (tensor<4xf32>) {
    %v = tensor.extract %a[%i] : tensor<4xf32>
    %s = arith.addf %v, %v : f32
    %n = tensor.insert %s into %a[%c0] : tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }
  "rtask.yield"(%r) : (tensor<4xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "sequential", lanes = 1 : i64, on_chip_bytes = 8 : i64,
    order = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1>, registers = 1 : i64,
    source = "test", sym_name = "k_in_order", tasks = 1 : i64, tile = array<i64: 4>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

#id = affine_map<(d0) -> (d0)>

// The persistent kernel walks the stream of its block. Only the thread that waits touches events: an acquire load and a
// sleep until the count is there, or the limit of a wait is over. Counts go on from launch to launch.
// CHECK-LABEL: func.func private @k_second
// CHECK:       func.func private @give_up
// CHECK:       llvm.cmpxchg {{.*}} syncscope("device") monotonic monotonic
// CHECK:       llvm.atomicrmw add {{.*}} syncscope("device") monotonic
// CHECK:       llvm.fence release
// CHECK-NEXT:  llvm.intr.trap
// CHECK:       gpu.func @veu(%[[CONTROL:.*]]: !llvm.ptr<1>, %[[BASES:.*]]: !llvm.ptr<1>, %[[BOXES:.*]]: !llvm.ptr<1>, %[[EPOCH:.*]]: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>, nvvm.minctasm = 1 : i32}
// CHECK-DAG:   %[[BLOCK:.*]] = gpu.block_id x
// CHECK-DAG:   %[[EU:.*]] = arith.index_cast %[[BLOCK]]
// CHECK-DAG:   %[[LEADER:.*]] = arith.cmpi eq, %{{.*}}, %c0_i64
// CHECK-DAG:   %[[BEFORE:.*]] = arith.subi %[[EPOCH]], %c1_i64
// CHECK:       scf.while
// CHECK:         scf.index_switch
// A run: behind a barrier, the function of the rKernel with that number.
// CHECK:         case 1 {
// CHECK-NEXT:      gpu.barrier
// CHECK:           scf.index_switch
// CHECK:           case 0 {
// CHECK-NEXT:        func.call @k_first(
// CHECK:           case 1 {
// CHECK-NEXT:        func.call @k_second(
// A wait
// CHECK:         case 2 {
// CHECK:           %[[EARLIER:.*]] = arith.muli %{{.*}}, %[[BEFORE]]
// CHECK:           %[[TARGET:.*]] = arith.addi %[[EARLIER]], %{{.*}}
// CHECK:           scf.if %[[LEADER]] {
// CHECK:             scf.while
// CHECK:               llvm.load {{.*}} atomic syncscope("device") acquire
// CHECK:               arith.cmpi slt, %{{.*}}, %[[TARGET]]
// CHECK:               nvvm.nanosleep
// CHECK:               func.call @give_up
// CHECK-NOT:       gpu.barrier
// Signals: what all threads of the block wrote is released by the first one, once for all in a row.
// CHECK:         case 3 {
// CHECK:           gpu.barrier
// CHECK-NEXT:      scf.if %[[LEADER]] {
// CHECK-NEXT:        llvm.fence syncscope("device") release
// CHECK-NEXT:        scf.while
// CHECK-NOT:           fence
// CHECK:               llvm.atomicrmw add {{.*}} syncscope("device") monotonic
// A barrier is a signal and a wait for all blocks.
// CHECK:         case 4 {
// CHECK:           gpu.barrier
// CHECK:             llvm.fence syncscope("device") release
// CHECK:             llvm.load {{.*}} atomic syncscope("device") acquire
// A loop: barriers between the reads of its words, their change, and the next reads.
// CHECK:         case 5 {
// CHECK:           gpu.barrier
// CHECK:           arith.select
// CHECK:           scf.for
// CHECK:             llvm.store {{.*}} {alignment = 8 : i64} : i64, !llvm.ptr<1>
// CHECK:           gpu.barrier
// CHECK:           scf.if %[[LEADER]]
// CHECK:           gpu.barrier
// CHECK:         default {
// CHECK:           llvm.intr.trap
// CHECK:       gpu.return
// On AMD GPUs the clock counts 10 ns, and every thread releases what it wrote before the barrier of a signal.
// AMD-LABEL:   func.func private @k_second
// AMD:         llvm.cmpxchg {{.*}} syncscope("agent") monotonic monotonic
// AMD:         llvm.atomicrmw add {{.*}} syncscope("agent") monotonic
// AMD:         gpu.func @veu({{.*}}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, rocdl.waves_per_eu = 1 : i32}
// AMD:         llvm.store {{.*}} atomic syncscope("agent") monotonic
// AMD:           case 2 {
// AMD:             scf.if
// AMD-NEXT:          %[[SINCE:.*]] = llvm.call_intrinsic "llvm.amdgcn.s.memrealtime"() : () -> i64
// AMD:               llvm.load {{.*}} atomic syncscope("agent") acquire
// AMD:               rocdl.s.sleep 1
// AMD-NEXT:          %[[NOW:.*]] = llvm.call_intrinsic "llvm.amdgcn.s.memrealtime"() : () -> i64
// AMD-NEXT:          %[[TICKS:.*]] = arith.subi %[[NOW]], %[[SINCE]] : i64
// AMD-NEXT:          %[[GONE:.*]] = arith.muli %[[TICKS]], %c10_i64 : i64
// AMD-NEXT:          arith.cmpi sgt, %[[GONE]]
// AMD:           case 3 {
// AMD:             llvm.fence syncscope("agent") release
// AMD-NEXT:        rocdl.s.waitcnt 0
// AMD-NEXT:        gpu.barrier
// AMD-NEXT:        scf.if
// AMD-NEXT:          llvm.fence syncscope("agent") release
// AMD-NEXT:          rocdl.s.waitcnt 0
// AMD:               llvm.atomicrmw add {{.*}} syncscope("agent") monotonic
// AMD:           case 4 {
// AMD:             llvm.fence syncscope("agent") release
// AMD-NEXT:        rocdl.s.waitcnt 0
// AMD-NEXT:        gpu.barrier
// AMD:             llvm.fence syncscope("agent") release
// AMD-NEXT:        rocdl.s.waitcnt 0
// AMD:             llvm.load {{.*}} atomic syncscope("agent") acquire
"rtask.kernel"() ({
^bb0(%x: tensor<32xf32>):
  %e = tensor.empty() : tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<32xf32>) outs(%e : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  "rtask.yield"(%y) : (tensor<32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "elementwise", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 32>, registers = 1 : i64,
    source = "test", sym_name = "k_first", tasks = 1 : i64, tile = array<i64: 32>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()
"rtask.kernel"() ({
^bb0(%x: tensor<32xf32>):
  %e = tensor.empty() : tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<32xf32>) outs(%e : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = arith.negf %l : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  "rtask.yield"(%y) : (tensor<32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "elementwise", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0>, reads = [[array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 32>, registers = 1 : i64,
    source = "test", sym_name = "k_second", tasks = 1 : i64, tile = array<i64: 32>, vector_dim = 0 : i64,
    writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A product of 128 x 128 in f16, whose factors lie in memory as they are. x has lines of 64 steps (K-major), one for
// each of 128 positions; w lines of 64 positions (N-major) for each of 64 steps, two of them side by side. A box begins
// at any multiple of 16 bytes: the second dim of a tensor map is the address.
// CHECK:       gpu.module @rcompiler attributes {rcompiler.boxes = [array<i64: 0, 0, 2, 128, 3, 256, 2147483648, 128, 16, 512, 64, 1, 128>, array<i64: 0, 1, 2, 128, 3, 128, 2147483648, 256, 16, 256, 64, 1, 64>], rcompiler.shared = 131136 : i64}
// CHECK:         llvm.mlir.global external @veu_shared() {addr_space = 3 : i32, alignment = 1024 : i64
// CHECK-LABEL: func.func private @k_boxes({{.*}} attributes {no_inline}
// What others have written to shared memory is done, the counters are made, and one thread asks for the first parts: of
// four buffers. It is elected by the first warp, and the workspace has its address from a symbol: else ptxas takes what
// is asked for to differ from thread to thread, and writes a loop around each box.
// CHECK:       llvm.mlir.addressof @veu_shared : !llvm.ptr<3>
// CHECK:       gpu.shuffle idx
// CHECK:       nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NEXT:  gpu.barrier
// CHECK:       scf.if %[[FIRST:.*]] {
// CHECK-NEXT:    %[[ONE:.*]] = nvvm.elect.sync -> i1
// CHECK-NEXT:    scf.if %[[ONE]] {
// CHECK-COUNT-8: nvvm.mbarrier.init
// CHECK:         nvvm.fence.mbarrier.init
// CHECK:       gpu.barrier
// CHECK:       scf.if %[[FIRST]] {
// CHECK-NEXT:    %[[ASKS:.*]] = nvvm.elect.sync -> i1
// CHECK-NEXT:    scf.if %[[ASKS]] {
// CHECK-NEXT:      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}
// CHECK-COUNT-4: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c32768_i32
// CHECK:       }
// CHECK:       %[[SUMS:.*]] = scf.for %[[PART:.*]] = %{{.*}} to %c4_i64 {{.*}} -> (!llvm.struct<({{.*}})>)
// CHECK:         nvvm.mbarrier.try_wait
// CHECK:         scf.if
// CHECK:           nvvm.read.ptx.sreg.globaltimer
// CHECK:           scf.while
// CHECK:             nvvm.mbarrier.try_wait
// CHECK:             nvvm.read.ptx.sreg.globaltimer
// CHECK:             llvm.cmpxchg
// CHECK:             llvm.intr.trap
// All descriptors of a factor have one low word, which the threads of a warp have in common.
// CHECK:         nvvm.wgmma.fence.aligned
// CHECK-COUNT-2: gpu.shuffle idx
// CHECK-NOT:     gpu.shuffle
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <row>]
// CHECK-NEXT:    nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:    nvvm.wgmma.wait.group.sync.aligned 1
// CHECK:       nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT:  gpu.barrier
// CHECK-COUNT-8: nvvm.mbarrier.inval
// The sums may not be read earlier.
// CHECK:       llvm.inline_asm has_side_effects "", "=f,
// CHECK:       llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
// CHECK:       gpu.func @veu({{.*}}, %[[BOXES:.*]]: !llvm.ptr<1>, %{{.*}}: i64)
// CHECK:         nvvm.fence.proxy.acquire <sys>
// CHECK:         func.call @k_boxes(
// Without TMA and wgmma: mma.sync of what is copied asynchronously.
// AMPERE-NOT:     rcompiler.boxes
// AMPERE-LABEL:   func.func private @k_boxes({{.*}} attributes {no_inline}
// AMPERE:         nvvm.cp.async.shared.global
// AMPERE:         nvvm.ldmatrix
// AMPERE:         nvvm.mma.sync
// AMPERE-NOT:     nvvm.fence.proxy.acquire
"rtask.kernel"() ({
^bb0(%x: tensor<128x256xf16>, %w: tensor<256x128xf16>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x128xf32>) -> tensor<128x128xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<128x256xf16>, tensor<256x128xf16>) outs(%f : tensor<128x128xf32>) {
  ^bb0(%l: f16, %r: f16, %acc: f32):
    %p = arith.extf %l : f16 to f32
    %q = arith.extf %r : f16 to f32
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<128x128xf32>
  "rtask.yield"(%a) : (tensor<128x128xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 4, 64>, registers = 4 : i64, source = "test", sym_name = "k_boxes", tasks = 1 : i64,
    tile = array<i64: 128, 128>, vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// Rows of 9 halves begin at no multiple of 16 bytes: threads bring them.
// CHECK-NOT:   rcompiler.boxes
// CHECK-LABEL: func.func private @k_odd
// CHECK:       nvvm.mma.sync
"rtask.kernel"() ({
^bb0(%x: tensor<32x9xf16>, %w: tensor<9x32xf16>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x32xf32>) -> tensor<32x32xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<32x9xf16>, tensor<9x32xf16>) outs(%f : tensor<32x32xf32>) {
  ^bb0(%l: f16, %r: f16, %acc: f32):
    %p = arith.extf %l : f16 to f32
    %q = arith.extf %r : f16 to f32
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<32x32xf32>
  "rtask.yield"(%a) : (tensor<32x32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 4, 32>, registers = 4 : i64, source = "test", sym_name = "k_odd", tasks = 1 : i64,
    tile = array<i64: 32, 32>, vector_dim = 1 : i64, writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

#left = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#right = affine_map<(d0, d1, d2, d3) -> (d2, d1, d3)>
#out = affine_map<(d0, d1, d2, d3) -> (d0, d1)>

// Four bytes lie as one instruction of a CPU multiplies them together: no such instruction gets into the code. A warp
// multiplies 32 of them, each factor with its own sign; what lies by steps is copied as it is, and read as halves are.
// Without such a unit threads multiply them one by one.
// CHECK-LABEL: func.func private @k_bytes(
// CHECK-NOT:   llvm.call_intrinsic
// CHECK:       nvvm.cp.async.shared.global {{.*}}, 4, cache = ca
// CHECK:       nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4 : i32
// CHECK:       nvvm.mma.sync {{.*}}intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>
// CHECK-SAME:  multiplicandAPtxType = #nvvm.mma_type<u8>, multiplicandBPtxType = #nvvm.mma_type<s8>
// CHECK-SAME:  shape = #nvvm.shape<m = 16, n = 8, k = 32>
// CHECK-SAME:  (i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>
// CHECK-NOT:   llvm.call_intrinsic
// CHECK:       gpu.func @veu
// OLD-LABEL:   func.func private @k_bytes(
// OLD:         arith.extui {{.*}} : i8 to i32
// OLD:         arith.muli {{.*}} : i32
// OLD-NOT:     nvvm.mma
// OLD:         gpu.func @veu
"rtask.kernel"() ({
^bb0(%x: tensor<6x8x4xi8>, %w: tensor<8x16x4xi8>):
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<6x16xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<6x16xi32>) -> tensor<6x16xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<6x8x4xi8>, tensor<8x16x4xi8>) outs(%f : tensor<6x16xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extui %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<6x16xi32>
  "rtask.yield"(%y) : (tensor<6x16xi32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 16>, registers = 1 : i64,
    source = "test", sym_name = "k_bytes", tasks = 1 : i64, tile = array<i64: 6, 16>, vector_dim = 1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

#left = affine_map<(d0, d1, d2) -> (d0, d2)>
#right = affine_map<(d0, d1, d2) -> (d2, d1)>
#out = affine_map<(d0, d1, d2) -> (d0, d1)>

// Neighbours of the second factor are columns: threads load 16 of them and store each to the line of its column.
// CHECK-LABEL: func.func private @k_turned_bytes(
// CHECK:       llvm.load {{.*}} : !llvm.ptr<1> -> vector<16xi8>
// CHECK:       llvm.store {{.*}} : i8, !llvm.ptr<3>
// CHECK:       nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>
// CHECK-NOT:   nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>
// CHECK:       nvvm.mma.sync {{.*}}multiplicandAPtxType = #nvvm.mma_type<s8>, multiplicandBPtxType = #nvvm.mma_type<s8>
// CHECK:       gpu.func @veu
"rtask.kernel"() ({
^bb0(%x: tensor<16x64xi8>, %w: tensor<64x32xi8>):
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<16x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<16x32xi32>) -> tensor<16x32xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x64xi8>, tensor<64x32xi8>) outs(%f : tensor<16x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extsi %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x32xi32>
  "rtask.yield"(%y) : (tensor<16x32xi32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>, registers = 1 : i64,
    source = "test", sym_name = "k_turned_bytes", tasks = 1 : i64, tile = array<i64: 16, 32>, vector_dim = 1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

#left = affine_map<(d0, d1, d2) -> (d0, d2)>
#right = affine_map<(d0, d1, d2) -> (d1, d2)>
#out = affine_map<(d0, d1, d2) -> (d0, d1)>

// Both factors have their steps side by side: boxes of lines of 64 bytes come to shared memory, and warpgroups multiply 32
// steps at a time.
// CHECK:       rcompiler.boxes
// CHECK-LABEL: func.func private @k_byte_boxes(
// CHECK:       llvm.inline_asm has_side_effects "", "=r,=r,
// CHECK:       nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK-COUNT-2: nvvm.wgmma.mma_async {{.*}} <m = 64, n = 16, k = 32>, D[<s32>, <one>, <wrapped>], A[<s8>, <one>, <row>], B[<s8>, <one>, <col>]
// CHECK:       gpu.func @veu
// AMPERE-LABEL: func.func private @k_byte_boxes(
// AMPERE:      nvvm.cp.async.shared.global {{.*}}, 16, cache = cg
// AMPERE:      nvvm.mma.sync
"rtask.kernel"() ({
^bb0(%x: tensor<16x64xi8>, %w: tensor<32x64xi8>):
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<16x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<16x32xi32>) -> tensor<16x32xi32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x64xi8>, tensor<32x64xi8>) outs(%f : tensor<16x32xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %u = arith.extsi %a : i8 to i32
    %v = arith.extsi %b : i8 to i32
    %m = arith.muli %u, %v : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  } -> tensor<16x32xi32>
  "rtask.yield"(%y) : (tensor<16x32xi32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1, 1>, kind = "contraction", lanes = 32 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0, 1>, reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 32>, registers = 1 : i64,
    source = "test", sym_name = "k_byte_boxes", tasks = 1 : i64, tile = array<i64: 16, 32>, vector_dim = 1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()

// -----

// A body that the threads of a block share in: the lanes of the forall are threads of a group, and 16 groups of 16 take
// its rows in turn. The 5 lanes of the second one are a guard of what is stored.
// CHECK-LABEL: func.func private @shared
// CHECK:       %[[LANE:.*]] = arith.remui %{{.*}}, %{{.*}} : i64
// CHECK:       scf.for
// CHECK:         arith.negf
// CHECK:         llvm.store
// CHECK:       arith.minsi %[[LANE]]
// CHECK:       %[[THERE:.*]] = arith.cmpi slt, %[[LANE]]
// CHECK:       scf.if %[[THERE]]
// CHECK:         llvm.store
"rtask.kernel"() ({
^bb0(%x: tensor<64x21xf32>, %out: tensor<64x21xf32>, %task: index):
  %e = tensor.empty() : tensor<1x1xf32>
  %a = scf.forall (%i, %l) in (64, 16) shared_outs(%o = %out) -> (tensor<64x21xf32>) {
    %s = tensor.extract_slice %x[%i, %l] [1, 1] [1, 1] : tensor<64x21xf32> to tensor<1x1xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<1x1xf32>) outs(%e : tensor<1x1xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = arith.negf %u : f32
      linalg.yield %w : f32
    } -> tensor<1x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %y into %o[%i, %l] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<64x21xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  %b = scf.forall (%i, %l) in (64, 5) shared_outs(%o = %a) -> (tensor<64x21xf32>) {
    %j = affine.apply affine_map<(d) -> (d + 16)>(%l)
    %s = tensor.extract_slice %x[%i, %j] [1, 1] [1, 1] : tensor<64x21xf32> to tensor<1x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%i, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<64x21xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  "rtask.yield"(%b) : (tensor<64x21xf32>) -> ()
}) {estimated_ns = 1.0, grid = array<i64: 1, 1>, kind = "elementwise", lanes = 16 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 1, 16>, registers = 1 : i64,
    source = "by hand", sym_name = "shared", tasks = 1 : i64, tile = array<i64: 64, 21>, vector_dim = 1 : i64,
    writes = [[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]]} : () -> ()
