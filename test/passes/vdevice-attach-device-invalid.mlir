// RUN: not rc-opt %s -p 'vdevice-attach-device{device=abacus}' 2>&1 | filecheck %s
// RUN: not rc-opt %s -p vdevice-attach-device 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not rc-opt %s -p 'vdevice-attach-device{device=a100 precision=f8}' 2>&1 | filecheck %s --check-prefix=PRECISION
// RUN: not rc-opt %s -p 'vdevice-attach-device{device=a100},vdevice-attach-device{device=a100 precision=f16}' 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK:     unknown target 'abacus'
// NONE:      vdevice-attach-device: needs device=...
// PRECISION: option 'precision' cannot be 'f8'; choices: f32, tf32, f16, bf16
// OTHER:     the module is for device {{.*}}, target 'cuda:sm_80' and precision f32, not for
// OTHER-SAME: precision f16; begin with a module that no pass has seen
func.func @empty() { return }
