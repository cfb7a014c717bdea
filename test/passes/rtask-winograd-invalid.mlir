// RUN: not rc-opt %s -p rtask-winograd 2>&1 | filecheck %s --check-prefix=DEVICE
// RUN: not rc-opt %s -p 'rtask-winograd{roots=fft}' 2>&1 | filecheck %s --check-prefix=ROOTS

// DEVICE: rtask-winograd: the module does not say which device it is for
// ROOTS: rtask-winograd: option 'roots' cannot be 'fft'
func.func @empty() { return }
