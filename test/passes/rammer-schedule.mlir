// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile{candidates=1},rammer-schedule' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile{candidates=1},rammer-schedule{policy=base eus=4}' --split-input-file | filecheck %s --check-prefix=BASE
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile{candidates=1},rammer-schedule{policy=rcompiler.rammer.policy.base:schedule_base eus=4}' --split-input-file | filecheck %s --check-prefix=BASE
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile{candidates=1},rammer-schedule{policy=dynamic}' --split-input-file | filecheck %s --check-prefix=TAKEN
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile,rammer-schedule{kernels=fast}' --split-input-file | filecheck %s --check-prefix=FAST
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile,rammer-schedule{kernels=select}' --split-input-file | filecheck %s --check-prefix=SELECT
// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json},roller-tile{candidates=1},rammer-schedule{memory=apart}' --split-input-file | filecheck %s --check-prefix=APART

#id = affine_map<(d0) -> (d0)>

// Two rOperators, each cut over the EUs, which share one list of instructions; the value between them lies in the
// arena, the reshape is the same bytes. The function's signature moves to attributes of @main.
// CHECK:       "vdevice.device"() {eus = 2 : i64
// CHECK:       "vdevice.program"()
// CHECK-DAG:   "vdevice.buffer"() {bytes = 4194304 : i64, index = 0 : i64, kind = "input", offset = 0 : i64, sym_name = "in0", type = tensor<1048576xf32>}
// CHECK-DAG:   "vdevice.buffer"() {bytes = 4194304 : i64, kind = "temp", offset = 0 : i64, sym_name = "abs", type = tensor<1048576xf32>}
// CHECK-DAG:   "vdevice.buffer"() {alias_of = @abs, {{.*}}sym_name = "abs.view", type = tensor<1024x1024xf32>}
// CHECK-DAG:   "vdevice.buffer"() {bytes = 4194304 : i64, index = 0 : i64, kind = "output", offset = 0 : i64, sym_name = "root"
// CHECK:       "vdevice.run"() {buffers = [@in0, @abs]{{.*}}operator = "abs"
// CHECK:       "vdevice.run"() {buffers = [@abs.view, @root]{{.*}}operator = "root"
// CHECK:       {arena = 4194304 : i64
// CHECK:       func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<1048576xf32>}]
// CHECK-SAME:  rtask.outputs = [{dtype = "float32", name = "out0", type = tensor<1024x1024xf32>}]
// CHECK-NEXT:  "vdevice.launch"() {program = @main_0}

// Each value has bytes of its own; of one alone there is nothing to share.
// APART:       "vdevice.buffer"() {bytes = 4194304 : i64, kind = "temp", offset = 0 : i64, sym_name = "abs"
// APART:       {arena = 4194304 : i64

// One launch for each rOperator: the baseline of the paper, by its name and as any function that a text can name.
// BASE:        "vdevice.device"() {eus = 4 : i64
// BASE:        "vdevice.launch"() {program = @main_0}
// BASE-NEXT:   "vdevice.launch"() {program = @main_1}

// Queues that the EUs take: those of the second rOperator wait for what they read of the first.
// TAKEN:       "vdevice.device"() {eus = 2 : i64
// TAKEN-NOT:   "vdevice.eu"
// TAKEN:       "vdevice.queue"() ({
// TAKEN-NEXT:    "vdevice.run"() {{.*}}first = 0 : i64{{.*}}operator = "abs"
// TAKEN-NEXT:    "vdevice.signal"()
// TAKEN-NOT:   "vdevice.eu"
// TAKEN:         "vdevice.wait"()
// TAKEN:         "vdevice.run"() {{.*}}operator = "root"
// TAKEN-NOT:     "vdevice.signal"
// TAKEN:       "vdevice.launch"() {program = @main_0}
func.func @main(%x: tensor<1048576xf32> {rtask.name = "x", rtask.dtype = "float32"}) -> tensor<1024x1024xf32> {
  %a = "rtask.operator"() ({
    %e = tensor.empty() : tensor<1048576xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1048576xf32>) outs(%e : tensor<1048576xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<1048576xf32>
    "rtask.yield"(%y) : (tensor<1048576xf32>) -> ()
  }) {kind = "elementwise", sym_name = "abs"} : () -> tensor<1048576xf32>
  %v = tensor.expand_shape %a [[0, 1]] output_shape [1024, 1024] : tensor<1048576xf32> into tensor<1024x1024xf32>
  %b = "rtask.operator"() ({
    %e = tensor.empty() : tensor<1024x1024xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<1024x1024xf32>) outs(%e : tensor<1024x1024xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.sqrt %l : f32
      linalg.yield %s : f32
    } -> tensor<1024x1024xf32>
    "rtask.yield"(%y) : (tensor<1024x1024xf32>) -> ()
  }) {kind = "elementwise", sym_name = "root"} : () -> tensor<1024x1024xf32>
  return %b : tensor<1024x1024xf32>
}

// -----

// Nothing to compute, nothing to launch.
// CHECK:       "vdevice.device"()
// CHECK-NOT:   "vdevice.launch"
// CHECK:       rtask.outputs = [{dtype = "float32", name = "out0", type = tensor<4x0xf32>}]
// CHECK-NOT:   "vdevice.launch"
// BASE:        "vdevice.device"()
// BASE-NOT:    "vdevice.launch"
// TAKEN:       "vdevice.device"()
// TAKEN-NOT:   "vdevice.launch"
// TAKEN:       rtask.outputs = [{dtype = "float32", name = "out0", type = tensor<4x0xf32>}]
// TAKEN-NOT:   "vdevice.launch"
// TAKEN:       "vdevice.program"()
func.func @main(%x: tensor<4x0xf32>) -> tensor<4x0xf32> {
  %e = tensor.empty() : tensor<4x0xf32>
  return %e : tensor<4x0xf32>
}

// -----

// Twelve steps of a recurrence: what all of them do stands there once, with names that move.
// CHECK:       "vdevice.program"()
// CHECK:       "vdevice.repeat"() ({
// CHECK-NEXT:    "vdevice.buffer"() {{.*}}kind = "temp", offset = 0 : i64, sym_name = "step{{[{]}}0+i}"
// CHECK-NEXT:  }) {count = 11 : i64}
// CHECK:       "vdevice.eu"() ({
// CHECK:       "vdevice.repeat"() ({
// CHECK-NEXT:    "vdevice.run"() {buffers = [@"step{{[{]}}0+i}", @in0, @"step{{[{]}}1+i}"]{{.*}}operator = "step{{[{]}}1+i}"
// CHECK-NEXT:  }) {count = 11 : i64}
// BASE:        "vdevice.device"()
// BASE:        "vdevice.launch"() {program = @main_11}

// The queues that EUs take have no loops; the buffers and events of the program do.
// TAKEN:       "vdevice.repeat"() ({
// TAKEN-NEXT:    "vdevice.buffer"() {{.*}}sym_name = "step{{[{]}}0+i}"
// TAKEN:       "vdevice.repeat"() ({
// TAKEN-NEXT:    "vdevice.event"() {sym_name = "step{{[{]}}0+i}.done"}
// TAKEN:       "vdevice.queue"() ({
// TAKEN-NOT:   "vdevice.repeat"
// TAKEN:       }) {first = 11 : i64, last = 11 : i64}
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step0"} : () -> tensor<64xf32>
  %1 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step1"} : () -> tensor<64xf32>
  %2 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step2"} : () -> tensor<64xf32>
  %3 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%2, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step3"} : () -> tensor<64xf32>
  %4 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%3, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step4"} : () -> tensor<64xf32>
  %5 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%4, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step5"} : () -> tensor<64xf32>
  %6 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%5, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step6"} : () -> tensor<64xf32>
  %7 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%6, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step7"} : () -> tensor<64xf32>
  %8 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%7, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step8"} : () -> tensor<64xf32>
  %9 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%8, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step9"} : () -> tensor<64xf32>
  %10 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%9, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step10"} : () -> tensor<64xf32>
  %11 = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%10, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %r: f32, %o: f32):
      %s = arith.addf %l, %r : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "step11"} : () -> tensor<64xf32>
  return %11 : tensor<64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// The fastest rKernel has an rTask for each EU, which share one list. One rTask of all elements is a little less
// work, and there are two rOperators for two EUs.
// FAST:          "vdevice.run"() {{.*}}eu_step = 1 : i64{{.*}}operator = "left"
// FAST-NEXT:     "vdevice.run"() {{.*}}eu_step = 1 : i64{{.*}}operator = "right"
// FAST-NEXT:   }) {first = 0 : i64, last = 1 : i64}
// SELECT:        "vdevice.run"() {{.*}}operator = "left"
// SELECT-NEXT: }) {first = 0 : i64, last = 0 : i64}
// SELECT-NEXT: "vdevice.eu"() ({
// SELECT-NEXT:   "vdevice.run"() {{.*}}operator = "right"
// SELECT-NEXT: }) {first = 1 : i64, last = 1 : i64}
func.func @main(%x: tensor<20000xf32>, %z: tensor<20000xf32>) -> (tensor<20000xf32>, tensor<20000xf32>) {
  %left = "rtask.operator"() ({
    %e = tensor.empty() : tensor<20000xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<20000xf32>) outs(%e : tensor<20000xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<20000xf32>
    "rtask.yield"(%y) : (tensor<20000xf32>) -> ()
  }) {kind = "elementwise", sym_name = "left"} : () -> tensor<20000xf32>
  %right = "rtask.operator"() ({
    %e = tensor.empty() : tensor<20000xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%z : tensor<20000xf32>) outs(%e : tensor<20000xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<20000xf32>
    "rtask.yield"(%y) : (tensor<20000xf32>) -> ()
  }) {kind = "elementwise", sym_name = "right"} : () -> tensor<20000xf32>
  return %left, %right : tensor<20000xf32>, tensor<20000xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// A loop over steps, backward, each of which calls a function: its rOperators are there once for each step. They read
// and write the rows of the tensors where they lie.
// CHECK:       "vdevice.program"()
// CHECK-DAG:   {{.*}}index = 0 : i64, kind = "output", offset = 0 : i64, sym_name = "step.rows", type = tensor<8x1x1x16xf32>}
// CHECK-DAG:   alias_of = @step.rows, {{.*}}offset = 448 : i64, offset_steps = array<i64: -64>, sym_name = "cell.{{[{]}}0+i}"
// CHECK-DAG:   alias_of = @in0, {{.*}}offset = 448 : i64, sym_name = "in0.0.view"
// CHECK-DAG:   alias_of = @in0, {{.*}}offset = 384 : i64, offset_steps = array<i64: -64>, sym_name = "in0.{{[{]}}1+i}.view"
// CHECK:       "vdevice.eu"()
// CHECK-NEXT:    "vdevice.run"() {buffers = [@in0.0.view, @in1, @cell.0],
// CHECK-NEXT:    "vdevice.repeat"() ({
// CHECK-NEXT:      "vdevice.run"() {buffers = [@"in0.{{[{]}}1+i}.view", @"cell.{{[{]}}0+i}", @"cell.{{[{]}}1+i}"]
// CHECK-NEXT:    }) {count = 7 : i64}
// CHECK:       func.func @main
// CHECK-NOT:   func.func private
func.func @main(%x: tensor<8x1x16xf32>, %z: tensor<1x16xf32>) -> tensor<8x1x1x16xf32> {
  %y = tensor.empty() : tensor<8x1x1x16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  %r:2 = scf.for %t = %c0 to %c8 step %c1 iter_args(%h = %z, %k = %y) -> (tensor<1x16xf32>, tensor<8x1x1x16xf32>) {
    %at = arith.subi %c7, %t : index
    %row = tensor.extract_slice %x[%at, 0, 0] [1, 1, 16] [1, 1, 1] : tensor<8x1x16xf32> to tensor<1x1x16xf32>
    %n = func.call @step(%row, %h) : (tensor<1x1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32>
    %p = tensor.insert_slice %n into %k[%at, 0, 0, 0] [1, 1, 1, 16] [1, 1, 1, 1] : tensor<1x16xf32> into tensor<8x1x1x16xf32>
    scf.yield %n, %p : tensor<1x16xf32>, tensor<8x1x1x16xf32>
  }
  return %r#1 : tensor<8x1x1x16xf32>
}
func.func private @step(%row: tensor<1x1x16xf32>, %h: tensor<1x16xf32>) -> tensor<1x16xf32> {
  %x = tensor.collapse_shape %row [[0, 1], [2]] : tensor<1x1x16xf32> into tensor<1x16xf32>
  %r = "rtask.operator"() ({
    %e = tensor.empty() : tensor<1x16xf32>
    %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %h : tensor<1x16xf32>, tensor<1x16xf32>) outs(%e : tensor<1x16xf32>) {
    ^bb0(%l: f32, %q: f32, %o: f32):
      %a = arith.addf %l, %q : f32
      linalg.yield %a : f32
    } -> tensor<1x16xf32>
    "rtask.yield"(%s) : (tensor<1x16xf32>) -> ()
  }) {kind = "elementwise", sym_name = "cell"} : () -> tensor<1x16xf32>
  return %r : tensor<1x16xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Two states: of one the next value is written in the place of the last one, element by element; the other one is read
// backwards, so it has two buffers.
// CHECK:       kind = "output", offset = 0 : i64, over = 0 : i64, sym_name = "same"
// CHECK-NOT:   over
// CHECK:       rtask.outputs = [{dtype = "float32", name = "out0", state = "h", type = tensor<64xf32>},
// CHECK-SAME:  {double_buffered = "operator turned reads it while it writes", dtype = "float32", name = "out1", state = "c",
func.func @main(%h: tensor<64xf32> {rtask.state = "h"}, %c: tensor<64xf32> {rtask.state = "c"})
    -> (tensor<64xf32> {rtask.state = "h"}, tensor<64xf32> {rtask.state = "c"}) {
  %a = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%h : tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%l: f32, %o: f32):
      %s = math.absf %l : f32
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "elementwise", sym_name = "same"} : () -> tensor<64xf32>
  %b = "rtask.operator"() ({
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<64xf32>) {
    ^bb0(%o: f32):
      %last = arith.constant 63 : index
      %i = linalg.index 0 : index
      %j = arith.subi %last, %i : index
      %s = tensor.extract %c[%j] : tensor<64xf32>
      linalg.yield %s : f32
    } -> tensor<64xf32>
    "rtask.yield"(%y) : (tensor<64xf32>) -> ()
  }) {kind = "gather", sym_name = "turned"} : () -> tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}
