// RUN: not rc-opt %s -p rtask-split-reductions 2>&1 | filecheck %s

// CHECK: rtask-split-reductions: the module does not say which device it is for
func.func @empty() { return }
