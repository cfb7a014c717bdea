// RUN: not rc-opt %s -p rtask-batch-products 2>&1 | filecheck %s

// CHECK: rtask-batch-products: the module does not say which device it is for
func.func @empty() { return }
