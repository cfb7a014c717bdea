// RUN: rc-opt %s -p 'vdevice-attach-device{device=%{inputs}/v3-2.json}' | filecheck %s
// RUN: rc-opt %s -p 'vdevice-attach-device{device=a100 precision=tf32 target=cuda:a100}' | filecheck %s --check-prefix=GPU
// RUN: rc-opt %s -p 'vdevice-attach-device{device=epyc-9555}' | filecheck %s --check-prefix=MEASURED
// RUN: rc-opt %s -p 'vdevice-attach-device{device=a100},vdevice-attach-device{device=cuda:a100}' | filecheck %s --check-prefix=AGAIN

// The module says what the record does, but not where and when that was measured.
// CHECK:      module attributes {vdevice.device = {
// CHECK-SAME: figures = {compute = {
// CHECK-SAME: eus = 2 : i64
// CHECK-SAME: kind = "cpu"
// CHECK-SAME: precision = "f32", target = "cpu:v3"}} {

// GPU:        figures = {compute = {
// GPU-SAME:   kind = "cuda"
// GPU-SAME:   precision = "tf32", target = "cuda:a100"}} {

// MEASURED-NOT: measurement =
// MEASURED-NOT: recall =
// MEASURED:     target = "cpu:v4+vnni+bf16"}} {

// Saying the same again is no harm.
// AGAIN:      precision = "f32", target = "cuda:sm_80"}} {
func.func @empty() { return }
