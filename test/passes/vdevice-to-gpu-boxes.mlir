// RUN: rc-opt %s -p vdevice-to-gpu --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-to-gpu{device=a100}' --split-input-file | filecheck %s --check-prefix OLD

// A product of 128 x 128 in f16, whose factors lie in memory as they are. x has lines of 64 steps (K-major), one for
// each of 128 positions; w lines of 64 positions (N-major) for each of 64 steps, two of them side by side. A box begins
// at any multiple of 16 bytes: the second dim of a tensor map is the address.
// CHECK:       gpu.module @rcompiler attributes {rcompiler.boxes = [array<i64: 0, 0, 2, 128, 3, 256, 2147483648, 128, 16, 512, 64, 1, 128>, array<i64: 0, 1, 2, 128, 3, 128, 2147483648, 256, 16, 256, 64, 1, 64>], rcompiler.shared = 131136 : i64}
// CHECK:         llvm.mlir.global external @veu_shared() {addr_space = 3 : i32, alignment = 1024 : i64
// The function is part of the kernel: warpgroups would wait for each product where a call has them.
// CHECK-LABEL: func.func private @k_boxes({{.*}} attributes {always_inline}
// What others have written to shared memory is done, the counters are made, and one thread asks for the first parts: of
// four buffers.
// CHECK:       nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}
// CHECK-NEXT:  gpu.barrier
// CHECK:       scf.if %[[FIRST:.*]] {
// CHECK-COUNT-8: nvvm.mbarrier.init
// CHECK:         nvvm.fence.mbarrier.init
// CHECK:       gpu.barrier
// CHECK:       scf.if %[[FIRST]] {
// CHECK-NEXT:    nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}
// CHECK-COUNT-4: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c32768_i32
// CHECK:       }
// CHECK:       %[[SUMS:.*]] = scf.for %[[PART:.*]] = %{{.*}} to %c4_i64 {{.*}} -> (!llvm.struct<({{.*}})>)
// CHECK:         scf.while
// CHECK:           nvvm.mbarrier.try_wait
// CHECK:         llvm.intr.trap
// CHECK:         nvvm.wgmma.fence.aligned
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
// OLD-NOT:     rcompiler.boxes
// OLD-LABEL:   func.func private @k_boxes({{.*}} attributes {no_inline}
// OLD:         nvvm.cp.async.shared.global
// OLD:         nvvm.ldmatrix
// OLD:         nvvm.mma.sync
// OLD-NOT:     nvvm.fence.proxy.acquire
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
