// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-pin' --split-input-file | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-pin,vdevice-validate' --split-input-file -o /dev/null
// RUN: rc-opt %s -p 'vdevice-attach-device{device=h200},vdevice-pin,vdevice-to-gpu' --split-input-file | filecheck %s --check-prefix=GPU
// RUN: rc-opt %s -p 'vdevice-attach-device{device=cpu},vdevice-pin' --split-input-file | filecheck %s --check-prefix=CPU

#row = affine_map<(d0, d1) -> (d1)>
#weight = affine_map<(d0, d1) -> (d0, d1)>
#result = affine_map<(d0, d1) -> (d0)>

// Each EU copies its half of the weights once, in front of everything else, and all steps read it
// there: of what a task takes, only the row still comes from the second cache.
// CHECK:      "rtask.kernel"() ({
// CHECK:      }) {estimated_ns = 4.345000e+02 : f64, explanation = {limit = "compute", parts_ns = {L1 = 3.230000e+01 : f64, L2 = 4.030000e+01 : f64, compute = 4.000000e+02 : f64}}, {{.*}}pinned = array<i64: 1>, {{.*}}reason = "by hand; operands 1 pinned, 0.4 us", {{.*}}sym_name = "[[K:k_[0-9a-f]*]]"
// CHECK:      "rtask.kernel"() ({
// CHECK-NEXT: ^bb0(%[[W:.*]]: tensor<64x64xf32>):
// CHECK:        %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[W]] :
// CHECK:        "rtask.yield"(%[[COPY]])
// CHECK-NEXT: }) {estimated_ns = {{.*}}, grid = array<i64: 2, 1>, kind = "movement", lanes = 32 : i64, {{.*}}pinned = array<i64: 1>, reads = {{\[\[}}array<i64: 0, 32, 0, 32>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8, 64>, {{.*}}source = "pin", sym_name = "[[PIN:pin_[0-9a-f]*]]", tasks = 2 : i64, tile = array<i64: 32, 64>, {{.*}}writes = {{\[\[}}array<i64: 0, 32, 0, 32>, array<i64: -1, 0, 0, 0>]]}
// CHECK-NOT:  sym_name = "k"
// CHECK:      "vdevice.program"() ({
// CHECK:        "vdevice.buffer"() {bytes = 16384 : i64, kind = "pinned", offset = 0 : i64, sym_name = "w.pinned", type = tensor<64x64xf32>}
// CHECK-NEXT:   "vdevice.eu"() ({
// CHECK-NEXT:     "vdevice.run"() {buffers = [@w, @w.pinned], count = 1 : i64, eu_step = 1 : i64, first = 0 : i64, kernel = @[[PIN]], operator = "w.pinned.pin", stride = 1 : i64}
// CHECK-NEXT:     "vdevice.run"() {buffers = [@x, @w.pinned, @h1], {{.*}}kernel = @[[K]], operator = "step0"
// CHECK:          "vdevice.repeat"() ({
// CHECK-NEXT:       "vdevice.run"() {buffers = [@"h{1+i}", @w.pinned, @"h{2+i}"], {{.*}}kernel = @[[K]], operator = "step{1+i}"
// CHECK:          "vdevice.run"() {buffers = [@h6, @w.pinned, @y], {{.*}}kernel = @[[K]], operator = "step6"
// CHECK:      }) {arena = 2048 : i64, constants = 16384 : i64, device = @device, pinned = 8192 : i64, sym_name = "main_0"}
// GPU-LABEL:  func.func private @pin_
// GPU:          %[[AT:.*]] = arith.addi %{{.*}}, %{{.*}} : i64
// GPU:          llvm.getelementptr %{{.*}}[%[[AT]]] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i8
// GPU:          llvm.store %{{.*}} : {{.*}}, !llvm.ptr<3>
// GPU:        gpu.func @veu
// GPU:          llvm.getelementptr %{{.*}}[8192] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CPU-NOT:    pinned
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%h: tensor<64xf32>, %w: tensor<64x64xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#row, #weight, #result], iterator_types = ["parallel", "reduction"]} ins(%h, %w : tensor<64xf32>, tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  "rtask.yield"(%y) : (tensor<64xf32>) -> ()
}) {estimated_ns = 1000.0 : f64, explanation = {limit = "L2", parts_ns = {L2 = 900.0 : f64, compute = 400.0 : f64}}, reason = "by hand",
    grid = array<i64: 2>, kind = "contraction", lanes = 4 : i64, on_chip_bytes = 128 : i64, order = array<i64: 0>,
    reads = [[array<i64: -1, 0, 0, 0>], [array<i64: 0, 32, 0, 32>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "hand",
    sym_name = "k", tasks = 2 : i64, tile = array<i64: 32>, vector_dim = -1 : i64, writes = [[array<i64: 0, 32, 0, 32>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 256 : i64, type = tensor<64xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 256 : i64, type = tensor<64xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 0 : i64, bytes = 16384 : i64, type = tensor<64x64xf32>, value = dense<1.0> : tensor<64x64xf32>} : () -> ()
  "vdevice.repeat"() ({
    "vdevice.buffer"() {sym_name = "h{1+i}", kind = "temp", offset = 0 : i64, offset_steps = array<i64: 256>, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
    "vdevice.event"() {sym_name = "e{1+i}"} : () -> ()
  }) {count = 6 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "step0", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@x, @w, @h1]} : () -> ()
    "vdevice.signal"() {event = @e1} : () -> ()
    "vdevice.wait"() {event = @e1, count = 2 : i64} : () -> ()
    "vdevice.repeat"() ({
      "vdevice.run"() {kernel = @k, operator = "step{1+i}", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@"h{1+i}", @w, @"h{2+i}"]} : () -> ()
      "vdevice.signal"() {event = @"e{2+i}"} : () -> ()
      "vdevice.wait"() {event = @"e{2+i}", count = 2 : i64} : () -> ()
    }) {count = 5 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step6", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 1 : i64, buffers = [@h6, @w, @y]} : () -> ()
  }) {first = 0 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 2048 : i64, constants = 16384 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<64xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<64xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#row = affine_map<(d0, d1) -> (d1)>
#weight = affine_map<(d0, d1) -> (d0, d1)>
#result = affine_map<(d0, d1) -> (d0)>

// The tasks of an operator that run where the other half of the weights is read them in memory.
// CHECK:      "vdevice.eu"() ({
// CHECK-NEXT:   "vdevice.run"() {buffers = [@w, @w.pinned], {{.*}}first = 0 : i64
// CHECK:        operator = "step1"
// CHECK:        "vdevice.run"() {buffers = [@h2, @w, @h3], {{.*}}kernel = @k, operator = "step2"
// CHECK:        "vdevice.run"() {buffers = [@h3, @w.pinned, @h4]
// CHECK:      "vdevice.eu"() ({
// CHECK-NEXT:   "vdevice.run"() {buffers = [@w, @w.pinned], {{.*}}first = 1 : i64
// CHECK:        "vdevice.run"() {buffers = [@h2, @w, @h3], {{.*}}kernel = @k, operator = "step2"
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%h: tensor<64xf32>, %w: tensor<64x64xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#row, #weight, #result], iterator_types = ["parallel", "reduction"]} ins(%h, %w : tensor<64xf32>, tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  "rtask.yield"(%y) : (tensor<64xf32>) -> ()
}) {estimated_ns = 1000.0 : f64, explanation = {limit = "L2", parts_ns = {L2 = 900.0 : f64, compute = 400.0 : f64}}, reason = "by hand",
    grid = array<i64: 2>, kind = "contraction", lanes = 4 : i64, on_chip_bytes = 128 : i64, order = array<i64: 0>,
    reads = [[array<i64: -1, 0, 0, 0>], [array<i64: 0, 32, 0, 32>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "hand",
    sym_name = "k", tasks = 2 : i64, tile = array<i64: 32>, vector_dim = -1 : i64, writes = [[array<i64: 0, 32, 0, 32>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 256 : i64, type = tensor<64xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 256 : i64, type = tensor<64xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 0 : i64, bytes = 16384 : i64, type = tensor<64x64xf32>, value = dense<1.0> : tensor<64x64xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "h1", kind = "temp", offset = 256 : i64, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "h2", kind = "temp", offset = 512 : i64, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "h3", kind = "temp", offset = 768 : i64, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "h4", kind = "temp", offset = 1024 : i64, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "h5", kind = "temp", offset = 1280 : i64, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
  "vdevice.event"() {sym_name = "e1"} : () -> ()
  "vdevice.event"() {sym_name = "e2"} : () -> ()
  "vdevice.event"() {sym_name = "e3"} : () -> ()
  "vdevice.event"() {sym_name = "e4"} : () -> ()
  "vdevice.event"() {sym_name = "e5"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "step0", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @w, @h1]} : () -> ()
    "vdevice.signal"() {event = @e1} : () -> ()
    "vdevice.wait"() {event = @e1, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step1", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h1, @w, @h2]} : () -> ()
    "vdevice.signal"() {event = @e2} : () -> ()
    "vdevice.wait"() {event = @e2, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step2", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h2, @w, @h3]} : () -> ()
    "vdevice.signal"() {event = @e3} : () -> ()
    "vdevice.wait"() {event = @e3, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step3", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h3, @w, @h4]} : () -> ()
    "vdevice.signal"() {event = @e4} : () -> ()
    "vdevice.wait"() {event = @e4, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step4", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h4, @w, @h5]} : () -> ()
    "vdevice.signal"() {event = @e5} : () -> ()
    "vdevice.wait"() {event = @e5, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step5", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h5, @w, @y]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "step0", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @w, @h1]} : () -> ()
    "vdevice.signal"() {event = @e1} : () -> ()
    "vdevice.wait"() {event = @e1, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step1", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h1, @w, @h2]} : () -> ()
    "vdevice.signal"() {event = @e2} : () -> ()
    "vdevice.wait"() {event = @e2, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step2", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h2, @w, @h3]} : () -> ()
    "vdevice.signal"() {event = @e3} : () -> ()
    "vdevice.wait"() {event = @e3, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step3", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h3, @w, @h4]} : () -> ()
    "vdevice.signal"() {event = @e4} : () -> ()
    "vdevice.wait"() {event = @e4, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step4", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h4, @w, @h5]} : () -> ()
    "vdevice.signal"() {event = @e5} : () -> ()
    "vdevice.wait"() {event = @e5, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step5", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h5, @w, @y]} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 2048 : i64, constants = 16384 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<64xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<64xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}

// -----

#row = affine_map<(d0, d1) -> (d1)>
#weight = affine_map<(d0, d1) -> (d0, d1)>
#result = affine_map<(d0, d1) -> (d0)>

// Too few steps for what bringing the weights costs.
// CHECK:      sym_name = "k"
// CHECK-NOT:  pinned
"vdevice.device"() {sym_name = "device", eus = 2 : i64} : () -> ()
"rtask.kernel"() ({
^bb0(%h: tensor<64xf32>, %w: tensor<64x64xf32>):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#row, #weight, #result], iterator_types = ["parallel", "reduction"]} ins(%h, %w : tensor<64xf32>, tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  "rtask.yield"(%y) : (tensor<64xf32>) -> ()
}) {estimated_ns = 1000.0 : f64, explanation = {limit = "L2", parts_ns = {L2 = 900.0 : f64, compute = 400.0 : f64}}, reason = "by hand",
    grid = array<i64: 2>, kind = "contraction", lanes = 4 : i64, on_chip_bytes = 128 : i64, order = array<i64: 0>,
    reads = [[array<i64: -1, 0, 0, 0>], [array<i64: 0, 32, 0, 32>, array<i64: -1, 0, 0, 0>]], register_tile = array<i64: 8>, registers = 1 : i64, source = "hand",
    sym_name = "k", tasks = 2 : i64, tile = array<i64: 32>, vector_dim = -1 : i64, writes = [[array<i64: 0, 32, 0, 32>]]} : () -> ()
"vdevice.program"() ({
  "vdevice.buffer"() {sym_name = "x", kind = "input", offset = 0 : i64, bytes = 256 : i64, type = tensor<64xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "y", kind = "output", offset = 0 : i64, bytes = 256 : i64, type = tensor<64xf32>, index = 0 : i64} : () -> ()
  "vdevice.buffer"() {sym_name = "w", kind = "constant", offset = 0 : i64, bytes = 16384 : i64, type = tensor<64x64xf32>, value = dense<1.0> : tensor<64x64xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "h1", kind = "temp", offset = 256 : i64, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
  "vdevice.buffer"() {sym_name = "h2", kind = "temp", offset = 512 : i64, bytes = 256 : i64, type = tensor<64xf32>} : () -> ()
  "vdevice.event"() {sym_name = "e1"} : () -> ()
  "vdevice.event"() {sym_name = "e2"} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "step0", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @w, @h1]} : () -> ()
    "vdevice.signal"() {event = @e1} : () -> ()
    "vdevice.wait"() {event = @e1, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step1", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h1, @w, @h2]} : () -> ()
    "vdevice.signal"() {event = @e2} : () -> ()
    "vdevice.wait"() {event = @e2, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step2", first = 0 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h2, @w, @y]} : () -> ()
  }) {first = 0 : i64, last = 0 : i64} : () -> ()
  "vdevice.eu"() ({
    "vdevice.run"() {kernel = @k, operator = "step0", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@x, @w, @h1]} : () -> ()
    "vdevice.signal"() {event = @e1} : () -> ()
    "vdevice.wait"() {event = @e1, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step1", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h1, @w, @h2]} : () -> ()
    "vdevice.signal"() {event = @e2} : () -> ()
    "vdevice.wait"() {event = @e2, count = 2 : i64} : () -> ()
    "vdevice.run"() {kernel = @k, operator = "step2", first = 1 : i64, count = 1 : i64, stride = 1 : i64, eu_step = 0 : i64, buffers = [@h2, @w, @y]} : () -> ()
  }) {first = 1 : i64, last = 1 : i64} : () -> ()
}) {sym_name = "main_0", device = @device, arena = 2048 : i64, constants = 16384 : i64} : () -> ()
func.func @main() attributes {rtask.inputs = [{dtype = "float32", name = "x", type = tensor<64xf32>}], rtask.outputs = [{dtype = "float32", name = "y0", type = tensor<64xf32>}]} {
  "vdevice.launch"() {program = @main_0} : () -> ()
  return
}
