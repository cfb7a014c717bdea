// RUN: not rc-opt %s -p rtask-split-k 2>&1 | filecheck %s

// CHECK: rtask-split-k: the module does not say which device it is for
func.func @empty() { return }
