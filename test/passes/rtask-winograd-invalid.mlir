// RUN: not rc-opt %s -p 'rtask-winograd{device=abacus}' 2>&1 | filecheck %s --check-prefix=DEVICE
// RUN: not rc-opt %s -p 'rtask-winograd{roots=fft}' 2>&1 | filecheck %s --check-prefix=ROOTS

// DEVICE: unknown target 'abacus'
// ROOTS: rtask-winograd: option 'roots' cannot be 'fft'
func.func @empty() { return }
