// RUN: rc-opt %s -p 'vdevice-attach-device{device=cuda:sm_80}' -o %t.mlir
// RUN: rc-compile %t.mlir --no-machine-code --emit=ptx | filecheck %s --check-prefixes CHECK,ANY
// RUN: rc-opt %s -p 'vdevice-attach-device{device=cuda:sm_90a}' -o %t.mlir
// RUN: rc-compile %t.mlir --no-machine-code --emit=ptx | filecheck %s --check-prefixes CHECK,SM90
// RUN: rc-opt %s -p 'vdevice-attach-device{device=rocm:gfx90a}' -o %t.mlir
// RUN: rc-compile %t.mlir --no-machine-code --emit=amdgcn | filecheck %s --check-prefixes AMD,GFX90A
// RUN: rc-opt %s -p 'vdevice-attach-device{device=rocm:gfx942}' -o %t.mlir
// RUN: rc-compile %t.mlir --no-machine-code --emit=amdgcn | filecheck %s --check-prefixes AMD,GFX942

// The second of two EUs waits for what both have computed; both count what they have released.

// CHECK:       .target sm_{{80|90a}}
// rKernels of this model do not synchronise, and they read what others write like any memory.
// CHECK:       .func k_{{first|second}}(
// CHECK-NOT:   {{(bar|barrier|fence|membar|atom|red|mbarrier)[.]}}
// CHECK-NOT:   ld.{{.*}}.nc
// CHECK:       .func give_up(
// CHECK:       atom.relaxed.gpu.global.cas.b64
// CHECK-NOT:   {{(bar|barrier|membar|red)[.]}}
// ANY:         fence.acq_rel.sys;
// SM90:        fence.release.sys;
// CHECK-NEXT:  trap;
// CHECK:       .visible .entry veu(
// CHECK-NOT:   .entry
// CHECK-NOT:   .nc
// CHECK:       brx.idx

// Signals in a row: behind a barrier, one release, and a loop of relaxed counts by one thread.
// CHECK:       bar.sync 0;
// CHECK:       @%p{{[0-9]+}} bra $L__BB{{[0-9_]+}};
// ANY:         fence.acq_rel.gpu;
// SM90:        fence.release.gpu;
// CHECK:       $L__BB{{[0-9_]+}}:
// CHECK-NOT:   fence
// CHECK:       atom.global.add.u64 %rd{{[0-9]+}}, [%rd{{[0-9]+}}], 1;

// A meeting of all blocks: a barrier of this one, a release, a count; then looks until all have come, by one thread.
// CHECK:       bar.sync 0;
// CHECK:       @%p{{[0-9]+}} bra $L__BB{{[0-9_]+}};
// ANY:         fence.acq_rel.gpu;
// SM90:        fence.release.gpu;
// CHECK-NEXT:  atom.global.add.u64 %rd{{[0-9]+}}, [%[[ALL:rd[0-9]+]]+-32], 1;
// CHECK-NEXT:  mov.u64 %[[SINCE:rd[0-9]+]], %globaltimer;
// CHECK-NEXT:  ld.acquire.gpu.global.b64 %rd{{[0-9]+}}, [%[[ALL]]+-32];
// CHECK:       ld.acquire.gpu.global.b64 %rd{{[0-9]+}}, [%[[ALL]]+-32];
// CHECK:       nanosleep.u32 20;
// CHECK-NEXT:  mov.u64 %[[NOW:rd[0-9]+]], %globaltimer;
// CHECK-NEXT:  sub.s64 %[[GONE:rd[0-9]+]], %[[NOW]], %[[SINCE]];
// CHECK-NEXT:  setp.le.s64 %p{{[0-9]+}}, %[[GONE]],
// CHECK:       call.uni give_up,

// A wait: looks by one thread, the first without a sleep. The barrier is that of the next run.
// CHECK:       mov.u64 %[[SINCE2:rd[0-9]+]], %globaltimer;
// CHECK-NEXT:  ld.acquire.gpu.global.b64 %[[COUNT:rd[0-9]+]], [%[[EVENT:rd[0-9]+]]];
// CHECK-NEXT:  setp.ge.s64 %p{{[0-9]+}}, %[[COUNT]],
// CHECK:       ld.acquire.gpu.global.b64 %[[LATER:rd[0-9]+]], [%[[EVENT]]];
// CHECK-NEXT:  setp.lt.s64 %p{{[0-9]+}}, %[[LATER]],
// CHECK:       nanosleep.u32 20;
// CHECK:       sub.s64 %rd{{[0-9]+}}, %rd{{[0-9]+}}, %[[SINCE2]];
// CHECK:       call.uni give_up,

// And nothing else.
// CHECK-NOT:   {{(atom|fence|membar|red|ld.acquire)[.]}}
// CHECK:       trap;

// The same on AMD GPUs, whose barriers leave stores in flight: every thread releases what it wrote, and waits for that,
// before the barrier of a signal. What a release does with the L2 of gfx942, which others do not share, is a write-back.
// AMD:         .amdgcn_target "amdgcn-amd-amdhsa--gfx9{{0a|42}}"
// AMD:         {{^}}k_{{first|second}}:
// AMD-NOT:     {{(s_barrier|buffer_|atomic|sc1|glc)}}
// AMD:         {{^}}give_up:
// GFX90A:      global_atomic_cmpswap_x2 {{.*}} glc
// GFX942:      global_atomic_cmpswap_x2 {{.*}} sc0
// GFX90A:      buffer_wbl2
// GFX942:      buffer_wbl2 sc0 sc1
// AMD-NEXT:    s_waitcnt vmcnt(0)
// AMD-NEXT:    s_trap 2
// AMD:         {{^}}veu:

// A meeting of all blocks.
// GFX942:      buffer_wbl2 sc1
// AMD:         s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
// AMD-NEXT:    s_barrier
// GFX942:      buffer_wbl2 sc1
// AMD:         s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
// AMD:         global_atomic_add_x2 v[[[MEETING:[0-9]+]]:{{.*}}, v{{.*}}, off offset:-32
// AMD:         s_memrealtime s[[[SINCE:[0-9]+]]:
// GFX90A-NEXT: global_load_dwordx2 {{.*}} offset:-32 glc
// GFX942-NEXT: global_load_dwordx2 {{.*}} offset:-32 sc1
// AMD-NEXT:    s_waitcnt vmcnt(0)
// GFX90A-NEXT: buffer_wbinvl1_vol
// GFX942-NEXT: buffer_inv sc1

// A signal.
// GFX942:      buffer_wbl2 sc1
// AMD:         s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
// AMD-NEXT:    s_barrier
// GFX942:      buffer_wbl2 sc1
// AMD:         s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
// AMD:         global_atomic_add_x2

// The wait of the meeting: looks again after a sleep.
// GFX90A:      global_load_dwordx2 {{.*}}, v[[[MEETING]]:{{.*}} offset:-32 glc
// GFX942:      global_load_dwordx2 {{.*}}, v[[[MEETING]]:{{.*}} offset:-32 sc1
// AMD-NEXT:    s_waitcnt vmcnt(0)
// GFX90A-NEXT: buffer_wbinvl1_vol
// GFX942-NEXT: buffer_inv sc1
// AMD:         s_sleep 1
// AMD-NEXT:    s_memrealtime s[[[NOW:[0-9]+]]:
// AMD:         s_sub_u32 s[[NOW]], s[[NOW]], s[[SINCE]]
// AMD:         s_mul_i32 s[[NOW]], s[[NOW]], 10
// AMD:         give_up@rel32

// A wait: looks, and looks again after a sleep.
// GFX90A:      global_load_dwordx2 {{.*}} glc
// GFX942:      global_load_dwordx2 {{.*}} sc1
// AMD-NEXT:    s_waitcnt vmcnt(0)
// GFX90A-NEXT: buffer_wbinvl1_vol
// GFX942-NEXT: buffer_inv sc1
// GFX90A:      global_load_dwordx2 {{.*}} glc
// GFX942:      global_load_dwordx2 {{.*}} sc1
// AMD-NEXT:    s_waitcnt vmcnt(0)
// GFX90A-NEXT: buffer_wbinvl1_vol
// GFX942-NEXT: buffer_inv sc1
// AMD:         s_sleep 1
// AMD:         give_up@rel32
// AMD-NOT:     {{(buffer_wbl2|global_atomic)}}
// AMD:         .amdhsa_kernel veu
#id = affine_map<(d0) -> (d0)>

"rtask.kernel"() ({
^bb0(%x: tensor<32xf32>):
  %e = tensor.empty() : tensor<32xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<32xf32>) outs(%e : tensor<32xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.absf %l : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  "rtask.yield"(%y) : (tensor<32xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 2>, kind = "elementwise", lanes = 16 : i64, on_chip_bytes = 96 : i64,
    order = array<i64: 0>, reads = [[array<i64: 0, 16, 0, 16>]], register_tile = array<i64: 16>, registers = 1 : i64,
    source = "test", sym_name = "k_first", tasks = 2 : i64, tile = array<i64: 16>, vector_dim = 0 : i64,
    writes = [[array<i64: 0, 16, 0, 16>]]} : () -> ()
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
"vdevice.device"() {eus = 2 : i64, sym_name = "device"} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {bytes = 128 : i64, index = 0 : i64, kind = "input", offset = 0 : i64, sym_name = "in0", type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {bytes = 128 : i64, kind = "temp", offset = 0 : i64, sym_name = "middle", type = tensor<32xf32>} : () -> ()
  "vdevice.buffer"() {bytes = 128 : i64, index = 0 : i64, kind = "output", offset = 0 : i64, sym_name = "out0", type = tensor<32xf32>} : () -> ()
  "vdevice.event"() {sym_name = "middle.done"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {buffers = [@in0, @middle], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64, kernel = @k_first, operator = "first", stride = 1 : i64} : () -> ()
    "vdevice.signal"() {event = @middle.done} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {buffers = [@in0, @middle], count = 1 : i64, eu_step = 1 : i64, first = 1 : i64, kernel = @k_first, operator = "first", stride = 1 : i64} : () -> ()
    "vdevice.signal"() {event = @middle.done} : () -> ()
    "vdevice.wait"() {count = 2 : i64, event = @middle.done} : () -> ()
    "vdevice.run"() {buffers = [@middle, @out0], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64, kernel = @k_second, operator = "second", stride = 1 : i64} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {arena = 128 : i64, arena_bound = 128 : i64, constants = 0 : i64, device = @device, sym_name = "main_0"} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<32xf32>}], rtask.outputs = [{dtype = "float32", name = "y", type = tensor<32xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
